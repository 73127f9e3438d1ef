//! One reader of one queue: its window, what it holds unsettled, and its connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytestring::ByteString;

use super::ahead::Signal;
use super::entry::Entry;
use super::entry::Mark;
use crate::message::Native;

/// The state of a reader's connection.
///
/// ```text
///            poll                poll              cut
/// Connecting ────> Opening ──────────────> Open ───────> Lost ──┐
///     ^           (no credit yet, so that        poll            │
///     │            a window can be set)                          │
///     └──────────────────────────────────────────────────────────┘
/// any ── stop ──> Stopped ── close ──> Closed
/// ```
#[derive(Debug)]
pub(super) enum Phase {
    /// Not connected; the next poll connects, unless that is refused.
    Connecting,
    /// It was told that it is connected; it gets its credit with the next poll.
    Opening,
    /// It receives.
    Open,
    /// The connection was lost and it was not told yet.
    Lost(String),
    /// It no longer receives, and may settle.
    Stopped,
    /// It has left.
    Closed,
}

/// How a reader's deliveries are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settling {
    /// By its word.
    ByReader,
    /// When they are sent, as far as the window allows (AMQP 1.0 settled sends).
    OnArrival,
    /// When they are sent, whatever the window says (0-9-1 automatic acknowledgement; spec R15).
    Automatic,
}

/// A reader of a queue.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) queue: usize,
    pub(super) mount: ByteString,
    phase: Phase,
    /// The most that may be in flight now: nothing while it is not open.
    limit: u32,
    /// The connection that is, or the next one while there is none: what was lost is void at once.
    pub(super) epoch: u32,
    /// Tells its source that it must not act by itself.
    pub(super) signal: Arc<Signal>,
    window: u32,
    pub(super) settling: Settling,
    /// What the window counts: assigned and not settled.
    pub(super) in_flight: u32,
    /// Left unsettled for good (spec C15).
    pub(super) stuck: u32,
    pub(super) waiting: Option<Waker>,
    /// Woken when held settlements arrive.
    pub(super) settling_waker: Option<Waker>,
    /// How often it has connected.
    pub(super) connects: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    inbox: VecDeque<u32>,
}

#[derive(Debug)]
struct Slot {
    entry: Option<Entry>,
    /// Raised when the slot is emptied, so that no key fits twice.
    generation: u32,
}

impl Consumer {
    pub(super) fn new(queue: usize, mount: ByteString, window: u32, settling: Settling) -> Self {
        Self {
            queue,
            mount,
            phase: Phase::Connecting,
            limit: 0,
            epoch: 1,
            signal: Arc::default(),
            window,
            settling,
            in_flight: 0,
            stuck: 0,
            waiting: None,
            settling_waker: None,
            connects: 0,
            slots: Vec::new(),
            free: Vec::new(),
            inbox: VecDeque::new(),
        }
    }

    /// The state of its connection.
    #[inline]
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Change the state of its connection.
    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.set_window(self.window);
    }

    /// The window that was asked for.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Change the window.
    pub(super) fn set_window(&mut self, window: u32) {
        self.window = window;
        self.limit = match (&self.phase, self.settling) {
            (Phase::Open, Settling::Automatic) => AUTOMATIC_BUFFER,
            (Phase::Open, Settling::ByReader | Settling::OnArrival) => window,
            _ => 0,
        };
    }

    /// Whether one more delivery fits into the window.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// Whether it takes what the window does not count (`QoS` 0).
    pub(super) fn takes_unconfirmed(&self) -> bool {
        self.inbox.len() < UNCONFIRMED_BUFFER
            && matches!(self.phase, Phase::Open | Phase::Opening | Phase::Connecting)
    }

    /// Assign a delivery. It is unsettled from here on (spec A18).
    pub(super) fn assign(&mut self, entry: Entry) {
        if !entry.is(Mark::Unconfirmed) {
            self.in_flight += 1;
        }
        *self.place() = Some(entry);
    }

    /// The place for one more delivery, which is the last to be handed out.
    #[expect(
        clippy::inline_always,
        reason = "its reference is what makes an entry be written where it stays"
    )]
    #[inline(always)]
    pub(super) fn place(&mut self) -> &mut Option<Entry> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(),
        };
        self.inbox.push_back(slot);
        &mut self.slots[slot as usize].entry
    }

    #[cold]
    fn add_slot(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer slots than a u32 counts");
        self.slots.push(Slot {
            entry: None,
            generation: 0,
        });
        slot
    }

    /// The next assigned delivery to hand out, and the key that settles it.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, &Entry)> {
        let slot = self.inbox.pop_front()?;
        let Slot { entry, generation } = self.slots.get(slot as usize)?;
        Some((key(slot, *generation), entry.as_ref()?))
    }

    /// The next assigned deliveries, so many at most, the last of them first.
    #[inline]
    pub(super) fn take_ahead(&mut self, most: usize, mut each: impl FnMut(u64, &Entry)) {
        let count = self.inbox.len().min(most);
        for slot in self.inbox.drain(..count).rev() {
            if let Some(Slot { entry, generation }) = self.slots.get(slot as usize)
                && let Some(entry) = entry
            {
                each(key(slot, *generation), entry);
            }
        }
    }

    /// The delivery of this key was not handed out after all: it is the next one.
    pub(super) fn untake(&mut self, key: u64) {
        if self.holds(key) {
            self.inbox.push_front(parts(key).0);
        }
    }

    /// Whether the delivery of this key is still there to be settled.
    pub(super) fn holds(&self, key: u64) -> bool {
        let (slot, generation) = parts(key);
        self.slots
            .get(slot as usize)
            .is_some_and(|known| known.generation == generation && known.entry.is_some())
    }

    /// Take the delivery of this key out, once.
    #[inline]
    pub(super) fn take(&mut self, key: u64) -> Option<Entry> {
        let (at, generation) = parts(key);
        let slot = self.slots.get_mut(at as usize)?;
        if slot.generation != generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
        if !entry.is(Mark::Unconfirmed) {
            self.in_flight -= 1;
        }
        Some(entry)
    }

    /// [`take`](Self::take), for the native message alone if no other queue has it.
    #[inline]
    pub(super) fn take_native(&mut self, key: u64) -> Option<Arc<Native>> {
        let (at, generation) = parts(key);
        let slot = self.slots.get_mut(at as usize)?;
        let entry = slot.entry.as_ref()?;
        if slot.generation != generation {
            return None;
        }
        if !entry.is(Mark::Unconfirmed) {
            self.in_flight -= 1;
        }
        let is_shared = entry.is(Mark::Shared);
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
        let native = slot.entry.take()?.native;
        (!is_shared).then_some(native)
    }

    /// Take out what was assigned last and never handed out.
    pub(super) fn take_back(&mut self) -> Option<Entry> {
        let slot = self.inbox.pop_back()?;
        self.empty(slot)
    }

    /// Take everything out that is assigned, and void every key.
    pub(super) fn take_all(&mut self) -> Vec<Entry> {
        self.inbox.clear();
        self.stuck = 0;
        let mut all: Vec<Entry> = (0..)
            .take(self.slots.len())
            .filter_map(|slot| self.empty(slot))
            .collect();
        all.sort_unstable_by_key(|entry| entry.order);
        all
    }

    /// Whether everything it holds was handed out.
    pub(super) fn is_handed_out(&self) -> bool {
        self.inbox.is_empty()
    }

    /// What it holds: handed out or not.
    #[cfg(feature = "testing")]
    pub(super) fn held(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref())
    }

    fn empty(&mut self, at: u32) -> Option<Entry> {
        let generation = self.slots.get(at as usize)?.generation;
        self.take(key(at, generation))
    }
}

/// What settles a delivery: its slot and the slot's generation.
#[inline]
fn key(slot: u32, generation: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(slot)
}

/// The slot and the generation in a key.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a key is two numbers of 32 bits, taken apart here"
)]
fn parts(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}

/// What a reader with automatic acknowledgement buffers at most (spec R16, C33).
pub(super) const AUTOMATIC_BUFFER: u32 = 1024;

/// What is buffered at most for a reader at `QoS` 0, beside its window; beyond that it is dropped.
const UNCONFIRMED_BUFFER: usize = 65_536;
