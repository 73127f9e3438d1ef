//! The shell around the state machine: one poll loop that serves settlements first, then
//! publishes, timers and handlers, and takes deliveries last.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::stream::Stream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio::time::Sleep;

use super::End;
use super::Pump;
use super::core::Core;
use super::core::Elapsed;
use super::core::Id;
use super::core::Limits;
use super::core::What;
use super::lane::Lane;
use super::lane::Ready;
use super::notice::Notices;
use super::order::Waiting;
use super::repace::Paces;
use super::settle::Care;
use super::settle::Tally;
use super::stop::Phase;
use super::worker;
use crate::broker::BoxFuture;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::delivery::Delivery;
use crate::registration::Requirements;
use crate::settlement::Facts;

/// Deliveries taken in one poll before other tasks get their turn.
const BUDGET: usize = 64;
/// Rounds of one poll before other tasks get their turn: a handler may wake itself again and again.
const ROUNDS: usize = 16;
/// Copies that wait in memory (spec C6 `process`).
const WAITING_COPIES: usize = 100_000;
/// Their payload bytes.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// As good as never, for what is due beyond the clock's range.
const FAR: Elapsed = Elapsed::from_hours(30 * 365 * 24);

/// A publish on its way, and the delivery it is for.
pub(super) type Outgoing = BoxFuture<'static, (Id, What, Result<Published, PublishError>)>;

pub(super) struct Shell {
    pub(super) pump: Pump,
    pub(super) core: Core,
    /// What is the same for every delivery.
    pub(super) facts: Facts,
    /// By id: what is kept of a delivery that is not in a lane any more.
    pub(super) care: Vec<Option<Box<Care>>>,
    /// By id: what a settlement on its way counts as.
    pub(super) tallies: Vec<Tally>,
    pub(super) lanes: Vec<Lane>,
    pub(super) free: Vec<usize>,
    pub(super) ready: Arc<Ready>,
    pub(super) waiting: Waiting,
    /// A batch that waits for more items, and until when.
    pub(super) forming: Vec<Delivery>,
    pub(super) forming_until: Option<Elapsed>,
    pub(super) publishes: FuturesUnordered<Outgoing>,
    /// When handlers are out of time.
    pub(super) deadlines: BTreeSet<(Elapsed, Id)>,
    pub(super) notices: Notices,
    /// The span of the handler that ended last, until its outcome is recorded.
    pub(super) ended: Option<tracing::Span>,
    pub(super) paces: Paces,
    pub(super) phase: Phase,
    /// The window is 1 until a first delivery shows that no crash loop is at work (spec C24).
    pub(super) is_narrow: bool,
    /// How wide it is meanwhile.
    pub(super) narrow: u32,
    /// More than a free lane decides when a delivery starts: `batch` and `ordered_by`.
    pub(super) is_routed: bool,
    pub(super) has_ended: bool,
    /// Deliveries left unsettled for good on this connection, or whose settlement it did not take
    /// (spec C15).
    pub(super) stuck: u64,
    pub(super) unfinished: usize,
    /// The tasks behind the lanes, with more than one worker. They end with the pump.
    _workers: JoinSet<()>,
    started: Instant,
    timer: Pin<Box<Sleep>>,
    armed: Option<Elapsed>,
}

impl Shell {
    #[expect(
        clippy::disallowed_methods,
        reason = "the pump's shell owns the clock and the timer"
    )]
    pub(super) fn new(pump: Pump) -> Self {
        let policy = &pump.mount.policy;
        let capabilities = pump.mount.capabilities;
        let is_routed = policy.batch.is_some() || policy.ordered_by.is_some();
        let lanes = usize::try_from(policy.concurrency).unwrap_or(1).max(1);
        let ready = Arc::new(Ready::new(lanes));
        let limits = Limits {
            held: usize::try_from(policy.prefetch / 2).unwrap_or(0),
            waiting: WAITING_COPIES,
            waiting_bytes: WAITING_BYTES,
            dead_letter: policy.dead_letter.is_some(),
        };
        let facts = Facts {
            attempt: 1,
            counted: None,
            cap: policy.max_attempts,
            dead_letter: policy.dead_letter.is_some(),
            settled: capabilities.settled,
            returns: capabilities.returns,
            rejects: capabilities.rejects,
            limit: capabilities.delivery_limit,
            delay: policy.delay,
        };
        let mut requirements = Requirements::default();
        (pump.mount.registration.requires)(&mut requirements);
        let mut workers = JoinSet::new();
        let slots = worker::slots(
            pump.mount.registration.slot,
            lanes,
            usize::try_from(policy.workers).unwrap_or(1),
            requirements.settles,
            &pump.scope,
            &mut workers,
        );
        Self {
            core: Core::new(limits),
            facts,
            care: Vec::new(),
            tallies: Vec::new(),
            lanes: (0..)
                .zip(slots)
                .map(|(index, slot)| Lane::new(slot, index, &ready))
                .collect(),
            free: (0..lanes).rev().collect(),
            ready,
            waiting: Waiting::default(),
            forming: Vec::new(),
            forming_until: None,
            publishes: FuturesUnordered::new(),
            deadlines: BTreeSet::new(),
            notices: Notices::default(),
            ended: None,
            paces: Paces::default(),
            phase: Phase::Running,
            is_narrow: false,
            narrow: 1,
            is_routed,
            has_ended: false,
            stuck: 0,
            unfinished: 0,
            _workers: workers,
            started: Instant::now(),
            timer: Box::pin(tokio::time::sleep(Elapsed::ZERO)),
            armed: None,
            pump,
        }
    }

    /// Time since the pump started.
    pub(super) fn now(&self) -> Elapsed {
        self.started.elapsed()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.ready.register(cx.waker());
        self.pump.scope.posts.register(cx.waker());
        let mut budget = BUDGET;
        let mut rounds = ROUNDS;
        loop {
            let mut progress = self.poll_settled(cx);
            progress |= self.poll_posts();
            progress |= self.poll_publishes(cx);
            progress |= self.poll_lanes();
            progress |= self.poll_arrivals(cx, &mut budget);
            rounds = rounds.saturating_sub(1);
            if budget == 0 || (progress && rounds == 0) {
                // Time passes for a pump that is never idle, too.
                if let Some(end) = self.poll_drained(cx) {
                    return Poll::Ready(end);
                }
                self.poll_timers(cx);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if progress {
                continue;
            }
            if let Some(end) = self.poll_drained(cx) {
                return Poll::Ready(end);
            }
            if !self.poll_timers(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Tell those who wait for the end of everything how much is left.
    #[cfg(feature = "testing")]
    pub(super) fn tell_in_hand(&self) {
        let in_hand = self.core.len() + self.waiting.len() + self.forming.len();
        self.pump.counters.in_hand.set(in_hand as u64);
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Poll::Ready((id, result)) = self.pump.source.poll_settled(cx) {
            self.settled(id, result);
            progress = true;
        }
        progress
    }

    fn poll_posts(&mut self) -> bool {
        let mut progress = false;
        while let Some(post) = self.pump.scope.posts.pop() {
            self.posted(post);
            progress = true;
        }
        progress
    }

    fn poll_publishes(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while !self.publishes.is_empty() {
            let Poll::Ready(Some((id, what, result))) = Pin::new(&mut self.publishes).poll_next(cx)
            else {
                break;
            };
            self.published(id, what, result);
            progress = true;
        }
        progress
    }

    fn poll_lanes(&mut self) -> bool {
        let mut progress = false;
        for word in 0..self.ready.words() {
            let mut bits = self.ready.take(word);
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.lanes[index].is_busy {
                    self.run(index);
                    progress = true;
                }
            }
        }
        if !self.waiting.is_empty() {
            progress |= self.start_waiting();
        }
        if !self.forming.is_empty() && self.is_draining() {
            progress |= self.start_forming();
        }
        progress
    }

    /// Take what is due, then arm the timer for what is next. Whether anything was due.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(next) = self.next_timer() else {
            return false;
        };
        let now = self.now();
        if next > now {
            if self.armed != Some(next) {
                self.armed = Some(next);
                let far = || self.started + FAR;
                let at = self.started.checked_add(next).unwrap_or_else(far);
                self.timer.as_mut().reset(at);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.armed = None;
        }
        let now = self.now().max(next);
        while let Some((id, step)) = self.core.poll_timer(now) {
            self.carry_out(id, step);
        }
        while let Some(&(due, id)) = self.deadlines.first() {
            if due > now {
                break;
            }
            self.deadlines.pop_first();
            self.timed_out(id);
        }
        if self.forming_until.is_some_and(|until| until <= now) {
            self.start_forming();
        }
        true
    }

    fn next_timer(&self) -> Option<Elapsed> {
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        // A batch that is due and finds no free lane starts when one is freed, not by a timer.
        let batch = self.forming_until.filter(|_| !self.free.is_empty());
        [
            self.core.next_timer(),
            deadline,
            batch,
            self.phase.next_timer(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
