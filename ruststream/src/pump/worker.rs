//! `workers`: lanes spread over tasks, for handlers that keep more than one core busy.
//!
//! The pump keeps the deliveries and decides; a worker has the handlers' slots and polls them. Each
//! lane has a desk between the two, which holds one thing at a time: a job, or what it came to.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use tokio::task::JoinSet;

use super::lane::Ready;
use super::lane::lane_waker;
use super::verdict::discard;
use crate::batch::Ledger;
use crate::delivery::Delivery;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::extract::Scope;
use crate::handler::Slot;
use crate::handler::Verdict;
use crate::settler::Right;

/// The slots of a mount point: its handlers' own, or stand-ins for those that workers have.
pub(super) fn slots(
    make: fn() -> Box<dyn Slot>,
    lanes: usize,
    workers: usize,
    settles_by_hand: bool,
    scope: &Scope,
    tasks: &mut JoinSet<()>,
) -> Vec<Box<dyn Slot>> {
    if workers < 2 {
        return (0..lanes).map(|_| make()).collect();
    }
    let mut slots: Vec<Box<dyn Slot>> = Vec::new();
    for worker in 0..workers.min(lanes) {
        let count = (lanes - worker).div_ceil(workers);
        let ready = Arc::new(Ready::new(count));
        let mut desks = Vec::new();
        for index in 0..count {
            let waker = lane_waker(index, &ready);
            let desk = Arc::new(Desk {
                state: Mutex::new(State::default()),
                worker: waker.clone(),
            });
            slots.push(Box::new(Remote {
                desk: Arc::clone(&desk),
                settles_by_hand,
            }));
            desks.push(Bench {
                desk,
                slot: make(),
                waker,
                is_running: false,
            });
        }
        tasks.spawn(
            Worker {
                benches: desks,
                ready,
                scope: scope.clone(),
            }
            .run(),
        );
    }
    slots
}

/// Between the pump and a worker, for one lane.
struct Desk {
    state: Mutex<State>,
    worker: Waker,
}

#[derive(Default)]
struct State {
    /// The running handler, if any, is to be dropped first.
    clear: bool,
    job: Option<Job>,
    done: Option<Done>,
    pump: Option<Waker>,
}

/// What a handler is started with. The right to settle stays with the pump, or with the settler.
struct Job {
    deliveries: Vec<Delivery>,
    right: Option<Arc<Right>>,
    ledger: Option<Arc<Ledger>>,
}

enum Done {
    Returned(Verdict),
    Rejected(Rejection),
    Panicked(Box<dyn Any + Send>),
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, done: Done) {
        let mut state = self.state();
        if state.clear {
            drop(state);
            if let Done::Panicked(panic) = done {
                discard(panic);
            }
            return;
        }
        state.done = Some(done);
        let pump = state.pump.take();
        drop(state);
        if let Some(pump) = pump {
            pump.wake();
        }
    }
}

/// The pump's side: a slot whose handler runs elsewhere.
struct Remote {
    desk: Arc<Desk>,
    settles_by_hand: bool,
}

impl Slot for Remote {
    fn start(&mut self, from: &mut Incoming<'_>) -> Result<(), Rejection> {
        let right = self.settles_by_hand.then(|| from.settle_by_hand());
        let job = Job {
            deliveries: from.deliveries.iter().map(Delivery::view).collect(),
            right,
            ledger: from.ledger.cloned(),
        };
        let mut state = self.desk.state();
        state.job = Some(job);
        state.done = None;
        drop(state);
        self.desk.worker.wake_by_ref();
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Verdict> {
        let mut state = self.desk.state();
        let done = state.done.take();
        if done.is_none() {
            state.pump = Some(cx.waker().clone());
        }
        drop(state);
        match done {
            None => Poll::Pending,
            Some(Done::Returned(verdict)) => Poll::Ready(verdict),
            Some(Done::Rejected(rejection)) => Poll::Ready(Verdict::Rejected(rejection)),
            // The pump's guard takes it like a panic of its own task.
            Some(Done::Panicked(panic)) => resume_unwind(panic),
        }
    }

    fn clear(&mut self) {
        let mut state = self.desk.state();
        state.clear = true;
        state.job = None;
        state.done = None;
        drop(state);
        self.desk.worker.wake_by_ref();
    }
}

/// The worker's side: some lanes' slots, in a task of their own.
struct Worker {
    benches: Vec<Bench>,
    ready: Arc<Ready>,
    scope: Scope,
}

struct Bench {
    desk: Arc<Desk>,
    slot: Box<dyn Slot>,
    waker: Waker,
    is_running: bool,
}

impl Worker {
    /// Run until the pump ends the task.
    async fn run(mut self) {
        std::future::poll_fn(|cx| {
            self.ready.register(cx.waker());
            for word in 0..self.ready.words() {
                let mut bits = self.ready.take(word);
                while bits != 0 {
                    let index = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    self.benches[index].work(&self.scope);
                }
            }
            Poll::<()>::Pending
        })
        .await;
    }
}

impl Bench {
    fn work(&mut self, scope: &Scope) {
        let (clear, job) = {
            let mut state = self.desk.state();
            (std::mem::take(&mut state.clear), state.job.take())
        };
        if clear {
            self.drop_future();
        }
        let job_done = job.and_then(|job| self.start(job, scope));
        let done = job_done.or_else(|| self.poll());
        if let Some(done) = done {
            if matches!(done, Done::Panicked(_)) {
                self.drop_future();
            }
            self.is_running = false;
            self.desk.finish(done);
        }
    }

    fn start(&mut self, mut job: Job, scope: &Scope) -> Option<Done> {
        let mut incoming = Incoming::new(&mut job.deliveries, scope);
        incoming.right = job.right.take();
        incoming.ledger = job.ledger.as_ref();
        let slot = &mut self.slot;
        match catch_unwind(AssertUnwindSafe(|| slot.start(&mut incoming))) {
            Ok(Ok(())) => {
                self.is_running = true;
                None
            }
            Ok(Err(rejection)) => Some(Done::Rejected(rejection)),
            Err(panic) => Some(Done::Panicked(panic)),
        }
    }

    fn poll(&mut self) -> Option<Done> {
        if !self.is_running {
            return None;
        }
        let slot = &mut self.slot;
        let mut cx = Context::from_waker(&self.waker);
        match catch_unwind(AssertUnwindSafe(|| slot.poll(&mut cx))) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(verdict)) => Some(Done::Returned(verdict)),
            Err(panic) => Some(Done::Panicked(panic)),
        }
    }

    fn drop_future(&mut self) {
        self.is_running = false;
        let slot = &mut self.slot;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| slot.clear())) {
            discard(panic);
            tracing::error!("a handler panicked while it was dropped");
        }
    }
}

/// Two handlers that panic while they are dropped together would abort the process.
impl Drop for Bench {
    fn drop(&mut self) {
        if self.is_running {
            self.drop_future();
        }
    }
}
