//! The pump's state machine: what happens to a delivery between its handler's outcome and its last
//! settlement. Pure: time is an argument, I/O is what the shell does with each [`Step`].
//!
//! ```text
//!            insert            handle_plan
//!  arrival ─────────> Running ─────────────┬──────────────> Settling ──────────────┐
//!                                          ├─> Paused ──────^   ^                  │
//!                                          │      └────┐        │ confirmed        v
//!                                          ├───────────┴─> Publishing <─┐       (gone)
//!                                          ├─> Waiting ────^   │ failed │          ^
//!                                          │  (hold)           └─> Retrying        │
//!                                          └─> SettlingFirst ─> Waiting (process) ─┘
//! ```
//!
//! Three rules hold in every state, and the search in the tests walks all of them: a delivery is
//! settled at most once and only while its connection lives; a settlement that stands for a copy
//! follows the copy's confirmation; nothing is forgotten that neither the broker nor a confirmed
//! copy has.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::Published;
use crate::message::CopyKind;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settlement::Plan;

/// A delivery's number in the pump, reused once it is gone.
pub(crate) type Id = u32;

/// Time since the pump started.
pub(crate) type Elapsed = Duration;

/// What the shell does next for one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a step that is not taken loses a delivery"]
pub(crate) enum Step {
    /// Nothing for now; a timer or an answer goes on.
    None,
    /// Settle it and report to `handle_settled`.
    Settle(Disposition),
    /// Publish and report to `handle_published`.
    Publish {
        /// What.
        what: What,
        /// Without diagnostic headers, because the broker refused it with them (spec C5).
        bare: bool,
    },
    /// Leave it unsettled for good; it is gone from the pump.
    Leave,
    /// It is gone from the pump; whatever was to be said has been said.
    Forget,
    /// It is gone from the pump: its connection was lost, the broker delivers it again (spec C13).
    Stale,
}

/// What is published for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A copy of it.
    Copy(CopyKind),
    /// The handler's answer (spec C28).
    Answer,
}

/// How a publish failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Failure {
    /// It may succeed later.
    Passing,
    /// It never will, as it is.
    Permanent,
}

/// Bounds of what may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    /// Deliveries held unsettled while they wait: half the window (spec C6 `hold`).
    pub(crate) held: usize,
    /// Copies waiting in memory (spec C6 `process`).
    pub(crate) waiting: usize,
    /// Their payload bytes.
    pub(crate) waiting_bytes: usize,
    /// Whether a dead letter is declared: the last resort of a refused retry copy (spec C5).
    pub(crate) dead_letter: bool,
}

/// The state machine of one pump.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Core {
    entries: Vec<Option<Entry>>,
    free: Vec<Id>,
    timers: BTreeSet<(Elapsed, Id)>,
    limits: Limits,
    held: usize,
    waiting: usize,
    waiting_bytes: usize,
    /// Set by a stop: when waiting copies leave at the latest.
    flush_at: Option<Elapsed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    stage: Stage,
    right: Right,
    size: usize,
}

/// Whether the delivery can still be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Right {
    /// It is unsettled and its connection lives.
    Unsettled,
    /// It was settled: on arrival, or before its copy waits.
    Settled,
    /// Its connection is gone: the broker has the message and delivers it again.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Its handler has it.
    Running,
    /// An immediate retry is held back (spec C12).
    Paused(Work),
    /// A copy or an answer is on its way to the broker.
    Publishing(Work),
    /// The publish failed and is tried again.
    Retrying(Work),
    /// A delayed copy waits.
    Waiting(Work),
    /// The original is settled first; then the copy waits until then.
    SettlingFirst(Elapsed),
    /// The last word is on its way.
    Settling,
}

/// What is done when a pause is over, and what after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Return,
    Publish {
        what: What,
        bare: bool,
        tries: u32,
        then: Option<Disposition>,
    },
}

impl Core {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            timers: BTreeSet::new(),
            limits,
            held: 0,
            waiting: 0,
            waiting_bytes: 0,
            flush_at: None,
        }
    }

    /// The id that the next [`insert`](Self::insert) gives.
    pub(crate) fn next_id(&self) -> Id {
        match self.free.last() {
            Some(id) => *id,
            None => Id::try_from(self.entries.len()).unwrap_or(Id::MAX),
        }
    }

    /// A delivery of `size` payload bytes goes to its handler.
    pub(crate) fn insert(&mut self, settled: bool, size: usize) -> Id {
        let right = if settled {
            Right::Settled
        } else {
            Right::Unsettled
        };
        let entry = Some(Entry {
            stage: Stage::Running,
            right,
            size,
        });
        if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            return id;
        }
        self.entries.push(entry);
        Id::try_from(self.entries.len() - 1).expect("a window is far below 2^32 deliveries")
    }

    /// The handler came to an outcome; `pace` is the pause of an immediate retry of this attempt.
    pub(crate) fn handle_plan(&mut self, id: Id, plan: Plan, pace: Duration, now: Elapsed) -> Step {
        let Some(entry) = self.entry(id) else {
            return Step::Forget;
        };
        if entry.right == Right::Stale {
            return self.stale(id);
        }
        match plan {
            Plan::Settle(how) => self.settle(id, how),
            Plan::Return { pause } => self.pause(id, pause, Work::Return, now),
            Plan::Publish { copy, pause, then } => {
                self.pause(id, pause, Work::copy(copy, then), now)
            }
            Plan::Wait {
                delay,
                before,
                after,
            } => self.wait(id, delay, before, after, pace, now),
            Plan::Leave => self.gone(id, Step::Leave),
            Plan::Nothing => self.gone(id, Step::Forget),
        }
    }

    /// The handler returned an answer, to be published before the delivery is accepted (spec C28).
    pub(crate) fn handle_answer(&mut self, id: Id, now: Elapsed) -> Step {
        let Some(entry) = self.entry(id) else {
            return Step::Forget;
        };
        if entry.right == Right::Stale {
            return self.stale(id);
        }
        let then = (entry.right == Right::Unsettled).then_some(Disposition::Accept);
        let work = Work::Publish {
            what: What::Answer,
            bare: false,
            tries: 0,
            then,
        };
        self.pause(id, Duration::ZERO, work, now)
    }

    /// A publish ended. `pace` as in [`handle_plan`](Self::handle_plan).
    pub(crate) fn handle_published(
        &mut self,
        id: Id,
        result: Result<Published, Failure>,
        now: Elapsed,
    ) -> Step {
        let Some(Entry {
            stage:
                Stage::Publishing(Work::Publish {
                    what,
                    bare,
                    tries,
                    then,
                }),
            right,
            ..
        }) = self.entry(id)
        else {
            return Step::None;
        };
        if right == Right::Stale {
            return self.stale(id);
        }
        match (result, then) {
            (Ok(_), Some(how)) => self.settle(id, how),
            (Ok(_), None) => self.gone(id, Step::Forget),
            (Err(Failure::Passing), _) => {
                let work = Work::Publish {
                    what,
                    bare,
                    tries: tries.saturating_add(1),
                    then,
                };
                self.sleep(id, Stage::Retrying(work), now + self.backoff(tries))
            }
            (Err(Failure::Permanent), _) => self.refused(id, what, bare, tries, then, now),
        }
    }

    /// A settlement ended.
    pub(crate) fn handle_settled(&mut self, id: Id, result: Result<(), AckError>) -> Step {
        let Some(entry) = self.entry(id) else {
            return Step::None;
        };
        match (entry.stage, result) {
            // Nothing was said to the broker, so it has the message: a copy would double it.
            (Stage::Settling | Stage::SettlingFirst(_), Err(AckError::Stale)) => self.stale(id),
            (Stage::Settling, _) => self.gone(id, Step::Forget),
            // Otherwise it may have been taken: only the copy keeps the message.
            (Stage::SettlingFirst(due), _) => {
                if let Some(entry) = &mut self.entries[id as usize] {
                    entry.right = Right::Settled;
                }
                self.sleep(id, Stage::Waiting(Work::copy(CopyKind::Retry, None)), due)
            }
            _ => Step::None,
        }
    }

    /// The connection is gone: returns the deliveries that are gone with it. The broker has them.
    pub(crate) fn handle_disconnected(&mut self) -> Vec<Id> {
        let mut gone = Vec::new();
        for (id, entry) in (0..).zip(&mut self.entries) {
            let Some(entry) = entry else { continue };
            if entry.right != Right::Unsettled {
                continue;
            }
            entry.right = Right::Stale;
            if matches!(
                entry.stage,
                Stage::Paused(_) | Stage::Retrying(_) | Stage::Waiting(_)
            ) {
                gone.push(id);
            }
        }
        for id in &gone {
            self.remove(*id);
        }
        gone
    }

    /// The application stops: pauses end now, waiting copies leave at `flush_at` at the latest
    /// (spec C7). Returns how many of them leave early for it.
    pub(crate) fn handle_stop(&mut self, now: Elapsed, flush_at: Elapsed) -> u64 {
        self.flush_at = Some(flush_at);
        let latest = flush_at.max(now);
        let mut early = 0;
        let timers = std::mem::take(&mut self.timers);
        for (due, id) in timers {
            let due = match self.entry(id).map(|entry| entry.stage) {
                Some(Stage::Paused(_)) => now,
                Some(Stage::Waiting(_)) => {
                    early += u64::from(latest < due);
                    due.min(latest)
                }
                // Its pause may be longer than the drain, and this may be its last chance.
                Some(Stage::Retrying(_)) => due.min(latest),
                _ => due,
            };
            self.timers.insert((due, id));
        }
        // Those wait as soon as they are settled.
        for entry in self.entries.iter_mut().flatten() {
            if let Stage::SettlingFirst(due) = &mut entry.stage {
                early += u64::from(latest < *due);
                *due = latest.min(*due);
            }
        }
        early
    }

    /// The shell took a delivery back from its handler without an outcome, or returned it unhandled.
    pub(crate) fn handle_abandoned(&mut self, id: Id) {
        self.remove(id);
    }

    /// The next timer that is due by `now`.
    pub(crate) fn poll_timer(&mut self, now: Elapsed) -> Option<(Id, Step)> {
        let &(due, id) = self.timers.first()?;
        if due > now {
            return None;
        }
        self.timers.pop_first();
        let step = match self.entry(id)?.stage {
            Stage::Paused(work) | Stage::Retrying(work) => self.work(id, work),
            Stage::Waiting(work) => {
                self.waits_no_more(id);
                self.work(id, work)
            }
            _ => Step::None,
        };
        Some((id, step))
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Elapsed> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Whether no delivery and no copy is in the pump's hands.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// How many deliveries and copies are in the pump's hands.
    #[cfg(feature = "testing")]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Deliveries that the broker has and delivers again if the process ends now.
    pub(crate) fn unsettled(&self) -> usize {
        let is_unsettled = |entry: &&Entry| entry.right == Right::Unsettled;
        self.entries.iter().flatten().filter(is_unsettled).count()
    }

    /// Deliveries whose handlers are done and which the broker still counts as unsettled.
    pub(crate) fn unsettled_after_handling(&self) -> usize {
        let is_done =
            |entry: &&Entry| entry.right == Right::Unsettled && entry.stage != Stage::Running;
        self.entries.iter().flatten().filter(is_done).count()
    }

    /// Whether a word to the broker is on its way for this delivery: it is seen through.
    pub(crate) fn is_being_settled(&self) -> bool {
        self.entries.iter().flatten().any(|entry| {
            matches!(
                entry.stage,
                Stage::Settling | Stage::SettlingFirst(_) | Stage::Publishing(_)
            )
        })
    }

    /// Copies whose original is settled and which nobody has yet: lost if the process ends now.
    pub(crate) fn copies_at_risk(&self) -> usize {
        let at_risk = |entry: &&Entry| {
            entry.right == Right::Settled
                && matches!(
                    entry.stage,
                    Stage::Paused(_)
                        | Stage::Publishing(_)
                        | Stage::Retrying(_)
                        | Stage::Waiting(_)
                )
        };
        self.entries.iter().flatten().filter(at_risk).count()
    }

    fn entry(&self, id: Id) -> Option<Entry> {
        self.entries.get(id as usize).copied().flatten()
    }

    fn set(&mut self, id: Id, stage: Stage) {
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            entry.stage = stage;
        }
    }

    fn settle(&mut self, id: Id, how: Disposition) -> Step {
        if self
            .entry(id)
            .is_some_and(|entry| entry.right == Right::Settled)
        {
            return self.gone(id, Step::Forget);
        }
        self.set(id, Stage::Settling);
        Step::Settle(how)
    }

    fn pause(&mut self, id: Id, pause: Duration, work: Work, now: Elapsed) -> Step {
        if pause.is_zero() || self.flush_at.is_some() {
            return self.work(id, work);
        }
        self.sleep(id, Stage::Paused(work), now + pause)
    }

    fn wait(
        &mut self,
        id: Id,
        delay: Duration,
        before: Option<Disposition>,
        after: Option<Disposition>,
        pace: Duration,
        now: Elapsed,
    ) -> Step {
        let Some(entry) = self.entry(id) else {
            return Step::Forget;
        };
        let due = now.saturating_add(delay);
        let due = self
            .flush_at
            .map_or(due, |flush_at| due.min(flush_at.max(now)));
        let has_room = self.waiting < self.limits.waiting
            && self.waiting_bytes.saturating_add(entry.size) <= self.limits.waiting_bytes;
        match (before, after) {
            (Some(how), _) if has_room => {
                self.wait_in_memory(entry.size);
                self.set(id, Stage::SettlingFirst(due));
                Step::Settle(how)
            }
            (None, None) if has_room => {
                self.wait_in_memory(entry.size);
                self.sleep(id, Stage::Waiting(Work::copy(CopyKind::Retry, None)), due)
            }
            // Settled on arrival and no room: it leaves early rather than not at all.
            (None, None) => self.work(id, Work::copy(CopyKind::Retry, None)),
            _ if self.held < self.limits.held => {
                self.held += 1;
                self.sleep(
                    id,
                    Stage::Waiting(Work::copy(CopyKind::Retry, Some(Disposition::Accept))),
                    due,
                )
            }
            _ => self.pause(
                id,
                pace,
                Work::copy(CopyKind::Retry, Some(Disposition::Accept)),
                now,
            ),
        }
    }

    fn wait_in_memory(&mut self, size: usize) {
        self.waiting += 1;
        self.waiting_bytes += size;
    }

    fn work(&mut self, id: Id, work: Work) -> Step {
        match work {
            Work::Return => self.settle(id, Disposition::Return),
            Work::Publish { what, bare, .. } => {
                self.set(id, Stage::Publishing(work));
                Step::Publish { what, bare }
            }
        }
    }

    /// The broker will never take it as it is (spec C5): once without diagnostic headers, then a
    /// retry copy as a dead letter, then the original stays where it is.
    fn refused(
        &mut self,
        id: Id,
        what: What,
        bare: bool,
        tries: u32,
        then: Option<Disposition>,
        now: Elapsed,
    ) -> Step {
        if !bare && what != What::Answer {
            return self.work(
                id,
                Work::Publish {
                    what,
                    bare: true,
                    tries,
                    then,
                },
            );
        }
        if what == What::Copy(CopyKind::Retry) && self.limits.dead_letter {
            return self.work(id, Work::copy(CopyKind::DeadLetter, then));
        }
        if self
            .entry(id)
            .is_some_and(|entry| entry.right == Right::Unsettled)
        {
            return self.gone(id, Step::Leave);
        }
        // Nobody else has it: it is kept and tried again, slowly.
        let work = Work::Publish {
            what,
            bare,
            tries: u32::MAX,
            then,
        };
        self.sleep(id, Stage::Retrying(work), now + self.backoff(u32::MAX))
    }

    /// The pause before a failed publish is tried again; a stop leaves no time for long ones.
    fn backoff(&self, tries: u32) -> Duration {
        let longest = if self.flush_at.is_some() {
            LONGEST_WHILE_STOPPING
        } else {
            LONGEST
        };
        FIRST.saturating_mul(1 << tries.min(10)).min(longest)
    }

    fn sleep(&mut self, id: Id, stage: Stage, until: Elapsed) -> Step {
        self.set(id, stage);
        self.timers.insert((until, id));
        Step::None
    }

    fn stale(&mut self, id: Id) -> Step {
        self.gone(id, Step::Stale)
    }

    fn gone(&mut self, id: Id, last: Step) -> Step {
        self.remove(id);
        last
    }

    fn remove(&mut self, id: Id) {
        let Some(entry) = self.entry(id) else { return };
        match entry.stage {
            Stage::Waiting(_) | Stage::SettlingFirst(_) => self.waits_no_more(id),
            _ => {}
        }
        if matches!(
            entry.stage,
            Stage::Paused(_) | Stage::Retrying(_) | Stage::Waiting(_)
        ) {
            self.timers.retain(|(_, other)| *other != id);
        }
        self.entries[id as usize] = None;
        self.free.push(id);
    }

    fn waits_no_more(&mut self, id: Id) {
        let Some(entry) = self.entry(id) else { return };
        if matches!(
            entry.stage,
            Stage::Waiting(Work::Publish { then: Some(_), .. })
        ) {
            self.held -= 1;
        } else {
            self.waiting -= 1;
            self.waiting_bytes -= entry.size;
        }
    }
}

impl Work {
    fn copy(kind: CopyKind, then: Option<Disposition>) -> Self {
        Self::Publish {
            what: What::Copy(kind),
            bare: false,
            tries: 0,
            then,
        }
    }
}

/// The first pause of a failed publish; it doubles.
const FIRST: Duration = Duration::from_millis(100);
/// Its longest.
const LONGEST: Duration = Duration::from_secs(30);
/// Its longest during a stop.
const LONGEST_WHILE_STOPPING: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "search.rs"]
mod search;
