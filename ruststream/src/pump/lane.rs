//! A lane: one unit of concurrency, with the deliveries its handler works on.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Wake;
use std::task::Waker;

use futures_util::task::AtomicWaker;

use crate::batch::Ledger;
use crate::delivery::Delivery;
use crate::handler::Slot;
use crate::settler::Right;

use super::core::Elapsed;
use super::verdict::discard;

/// One unit of concurrency.
pub(super) struct Lane {
    pub(super) slot: Box<dyn Slot>,
    /// What the handler works on: one delivery, or a batch. They never leave, so nothing that
    /// happens to the handler loses them.
    pub(super) deliveries: Vec<Delivery>,
    /// Set while the handler has a settler that has not spoken.
    pub(super) by_hand: Option<Arc<Right>>,
    /// Its settler was dropped unused while the handler runs on.
    pub(super) is_unused: bool,
    /// The outcomes of a batch.
    pub(super) ledger: Arc<Ledger>,
    pub(super) deadline: Option<Elapsed>,
    /// The key that `ordered_by` gave, while the lane is busy.
    pub(super) key: Option<u64>,
    pub(super) span: Option<tracing::Span>,
    pub(super) waker: Waker,
    pub(super) is_busy: bool,
}

impl Lane {
    pub(super) fn new(slot: Box<dyn Slot>, index: usize, ready: &Arc<Ready>) -> Self {
        Self {
            slot,
            deliveries: Vec::with_capacity(1),
            by_hand: None,
            is_unused: false,
            ledger: Arc::default(),
            deadline: None,
            key: None,
            span: None,
            waker: lane_waker(index, ready),
            is_busy: false,
        }
    }

    /// Drop the running handler, which may panic.
    pub(super) fn drop_future(&mut self) -> Result<(), ()> {
        let slot = &mut self.slot;
        catch_unwind(AssertUnwindSafe(|| slot.clear())).map_err(discard)
    }
}

/// Two handlers that panic while they are dropped together would abort the process.
impl Drop for Lane {
    fn drop(&mut self) {
        if self.is_busy {
            // Nobody is left to be told.
            self.drop_future().ok();
        }
    }
}

/// Which lanes were woken, a bit each.
#[derive(Debug)]
pub(super) struct Ready {
    lanes: Box<[AtomicU64]>,
    pump: AtomicWaker,
}

impl Ready {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            pump: AtomicWaker::new(),
        }
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.pump.register(waker);
    }

    /// Take the bits of the `word`-th 64 lanes.
    pub(super) fn take(&self, word: usize) -> u64 {
        match self.lanes.get(word) {
            Some(bits) if bits.load(Ordering::Relaxed) != 0 => bits.swap(0, Ordering::Acquire),
            _ => 0,
        }
    }

    pub(super) fn words(&self) -> usize {
        self.lanes.len()
    }
}

/// The waker of the `index`-th lane: sets its bit and wakes whoever polls the lanes.
pub(super) fn lane_waker(index: usize, ready: &Arc<Ready>) -> Waker {
    Waker::from(Arc::new(LaneWaker {
        index,
        ready: Arc::clone(ready),
    }))
}

struct LaneWaker {
    index: usize,
    ready: Arc<Ready>,
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.lanes[self.index / 64].fetch_or(1 << (self.index % 64), Ordering::Release);
        self.ready.pump.wake();
    }
}
