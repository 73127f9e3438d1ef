//! The shell around the state machine: one poll loop that serves settlements first, then
//! publishes, timers and handlers, and takes deliveries last.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::stream::Stream;
use tokio::time::Instant;
use tokio::time::Sleep;
use tracing::level_filters::LevelFilter;

use super::End;
use super::Pump;
use super::core::Core;
use super::core::Elapsed;
use super::core::Id;
use super::core::Limits;
use super::core::Step;
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
use crate::Outcome;
use crate::broker::Arrival;
use crate::broker::BoxFuture;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Returns;
use crate::delivery::Delivery;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::handler::Verdict;
use crate::registration::Requirements;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settlement::Facts;
use crate::settlement::Plan;
use crate::settlement::Reason;
use crate::settlement::attempt;
use crate::settler::Right;
use crate::stats::Health;
use tokio::task::JoinSet;

/// Deliveries taken in one poll before other tasks get their turn.
const BUDGET: usize = 64;
/// Rounds of one poll before other tasks get their turn: a handler may wake itself again and again.
const ROUNDS: usize = 16;
/// Copies that wait in memory (spec C6 `process`).
const WAITING_COPIES: usize = 100_000;
/// As good as never, for what is due beyond the clock's range.
const FAR: Elapsed = Elapsed::from_hours(30 * 365 * 24);
/// Their payload bytes.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// How far a handler came at its first poll: returned, running, refused by an argument, panicked.
type Begun = Result<Result<Poll<Verdict>, Rejection>, Box<dyn Any + Send>>;

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
    pub(super) paces: Paces,
    pub(super) phase: Phase,
    /// The window is 1 until a first delivery shows that no crash loop is at work (spec C24).
    is_narrow: bool,
    /// How wide it is meanwhile.
    narrow: u32,
    /// A delivery taken while every lane was busy: the source is looked at all the same, so that a
    /// lost connection is seen.
    pub(super) stash: Option<Delivery>,
    has_ended: bool,
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
            paces: Paces::default(),
            phase: Phase::Running,
            is_narrow: false,
            narrow: 1,
            stash: None,
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
        let in_hand = self.core.len()
            + self.waiting.len()
            + self.forming.len()
            + usize::from(self.stash.is_some());
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

    fn poll_arrivals(&mut self, cx: &mut Context<'_>, budget: &mut usize) -> bool {
        let mut progress = false;
        if !self.free.is_empty() && self.stash.is_some() && *budget > 0 {
            progress = true;
            *budget -= 1;
            // The source is heard first: what was stashed before its connection was lost is not
            // started (spec C13).
            let arrival = if self.has_ended {
                Poll::Pending
            } else {
                self.pump.source.poll_next(cx)
            };
            match arrival {
                Poll::Pending => self.unstash(),
                Poll::Ready(Arrival::Delivery(delivery)) => {
                    self.unstash();
                    self.arrived(delivery);
                }
                Poll::Ready(other) => self.heard(other),
            }
        }
        while *budget > 0 && self.stash.is_none() && !self.has_ended {
            let Poll::Ready(arrival) = self.pump.source.poll_next(cx) else {
                break;
            };
            progress = true;
            *budget -= 1;
            self.heard(arrival);
        }
        progress
    }

    fn heard(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Delivery(delivery) => self.arrived(delivery),
            Arrival::Connected { epoch } => self.connected(epoch),
            Arrival::Disconnected(error) => self.disconnected(&error),
            Arrival::Ended => self.has_ended = true,
        }
    }

    fn unstash(&mut self) {
        if let Some(delivery) = self.stash.take() {
            self.route(delivery);
        }
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

    fn connected(&mut self, epoch: u32) {
        tracing::info!(
            messaging.system = self.pump.mount.system,
            messaging.destination.name = &*self.pump.mount.address,
            ruststream.handler = &*self.pump.mount.name,
            epoch,
            "receiving"
        );
        self.pump.health.set(Health::Up);
        self.is_narrow = self.facts.cap.is_some()
            && self.facts.returns == Returns::Counted
            && !self.facts.settled;
        self.narrow = 1;
        let window = if self.is_narrow {
            self.narrow
        } else {
            self.pump.mount.policy.prefetch
        };
        self.pump.source.set_window(window);
    }

    fn disconnected(&mut self, error: &crate::broker::BrokerError) {
        tracing::warn!(
            messaging.system = self.pump.mount.system,
            messaging.destination.name = &*self.pump.mount.address,
            ruststream.handler = &*self.pump.mount.name,
            %error,
            "connection lost; what was unsettled is delivered again"
        );
        self.pump.health.set(Health::Down {
            reason: error.to_string(),
        });
        self.stuck = 0;
        self.is_narrow = false;
        self.waiting.discard_unsettled();
        self.stash.take_if(|delivery| delivery.token.is_some());
        self.forming.retain(|delivery| delivery.token.is_none());
        for id in self.core.handle_disconnected() {
            self.forget(id, Err(AckError::Stale));
        }
    }

    /// A narrow window is of what may kill the process: a delivery whose handler is done, but which
    /// waits or is left, does not keep the others away.
    pub(super) fn keep_narrow_window_open(&mut self) {
        if !self.is_narrow {
            return;
        }
        let done = usize::try_from(self.stuck)
            .unwrap_or(usize::MAX)
            .saturating_add(self.core.unsettled_after_handling());
        let window = u32::try_from(done).unwrap_or(u32::MAX).saturating_add(1);
        let window = window.min(self.pump.mount.policy.prefetch);
        if window > self.narrow {
            self.narrow = window;
            self.pump.source.set_window(window);
        }
    }

    fn arrived(&mut self, mut delivery: Delivery) {
        self.pump.counters.deliveries.add(1);
        self.number(&mut delivery);
        if self.is_narrow && !delivery.redelivered && delivery.counted.unwrap_or(0) == 0 {
            self.is_narrow = false;
            self.pump.source.set_window(self.pump.mount.policy.prefetch);
        }
        if self
            .facts
            .cap
            .is_some_and(|cap| delivery.attempt > cap.get())
        {
            self.spent_on_arrival(delivery);
        } else if self.free.is_empty() {
            self.stash = Some(delivery);
        } else {
            self.route(delivery);
        }
    }

    /// Give a delivery to a lane, or have it wait for its turn. A lane is free.
    #[inline]
    fn route(&mut self, delivery: Delivery) {
        if let Some(batch) = self.pump.mount.policy.batch {
            return self.join_batch(delivery, batch);
        }
        match self.pump.mount.policy.ordered_by {
            None => self.start(delivery, None),
            Some(key_of) => self.start_in_order(delivery, key_of),
        }
    }

    /// Count the attempt (spec C1).
    fn number(&mut self, delivery: &mut Delivery) {
        // Where the broker does not count, its flag says that it has delivered it once at least,
        // whatever number it shows beside it (spec C22).
        let flagged = u32::from(delivery.redelivered && self.facts.returns == Returns::Uncounted);
        let counted = delivery.counted.unwrap_or(0).max(flagged);
        let carried = attempt::carried(delivery.headers(), &self.pump.mount.name);
        if carried.malformed {
            self.warn_of_malformed_count();
        }
        delivery.attempt = attempt::number(carried.attempts, counted);
    }

    fn start_in_order(&mut self, delivery: Delivery, key_of: fn(&Delivery) -> u64) {
        let key = match catch_unwind(AssertUnwindSafe(|| key_of(&delivery))) {
            Ok(key) => key,
            Err(panic) => {
                let id = self.admit(delivery.settled, delivery.payload().len());
                return self.failed(
                    id,
                    delivery,
                    Reason::Panic,
                    None,
                    &super::verdict::panic_text(panic),
                );
            }
        };
        if self.is_at_work(key) || self.waiting.has(key) {
            self.waiting.push(key, delivery);
        } else {
            self.start(delivery, Some(key));
        }
    }

    fn start_waiting(&mut self) -> bool {
        let mut progress = false;
        while !self.free.is_empty() {
            let lanes = &self.lanes;
            let Some((key, delivery)) = self
                .waiting
                .next(|key| lanes.iter().any(|lane| lane.key == Some(key)))
            else {
                break;
            };
            self.start(delivery, Some(key));
            progress = true;
        }
        progress
    }

    fn is_at_work(&self, key: u64) -> bool {
        self.lanes.iter().any(|lane| lane.key == Some(key))
    }

    /// Make a delivery known to the state machine.
    pub(super) fn admit(&mut self, settled: bool, size: usize) -> Id {
        let id = self.core.insert(settled, size);
        if id as usize >= self.care.len() {
            self.care.resize_with(id as usize + 1, || None);
            self.tallies.resize(id as usize + 1, Tally::None);
        }
        id
    }

    /// Give a delivery to a free lane and poll its handler for the first time.
    ///
    /// Most handlers are done by then and say ack. When the source takes that at once, the delivery
    /// has come and gone without the state machine.
    fn start(&mut self, mut delivery: Delivery, key: Option<u64>) {
        let index = *self
            .free
            .last()
            .expect("deliveries are taken only while a lane is free");
        delivery.id = self.core.next_id();
        let span = self.span(&delivery);
        let entered = span.as_ref().map(tracing::Span::enter);
        let Lane { slot, waker, .. } = &mut self.lanes[index];
        // The delivery is not the handler's: a panic cannot take it along.
        let mut incoming = Incoming::new(std::slice::from_mut(&mut delivery), &self.pump.scope);
        let mut cx = Context::from_waker(waker);
        let begun = catch_unwind(AssertUnwindSafe(|| slot.begin(&mut incoming, &mut cx)));
        let right = incoming.right;
        drop(entered);
        match begun {
            Ok(Ok(Poll::Ready(Verdict::Done(Outcome::Ack))))
                if right.is_none() && span.is_none() && delivery.token.is_some() =>
            {
                self.pump.counters.starts.add(1);
                self.acked_at_once(delivery);
            }
            begun => {
                self.occupy(index, delivery, key, right, span);
                self.begun(index, begun);
            }
        }
    }

    /// The handler of an occupied lane was polled for the first time.
    fn begun(&mut self, index: usize, begun: Begun) {
        if !matches!(begun, Ok(Err(_))) {
            self.pump.counters.starts.add(1);
        }
        match begun {
            Ok(Ok(Poll::Ready(verdict))) => self.returned(index, verdict),
            Ok(Ok(Poll::Pending)) => self.arm_deadline(index),
            Ok(Err(rejection)) => self.rejected(index, &rejection),
            Err(panic) => self.panicked(index, panic),
        }
    }

    fn acked_at_once(&mut self, mut delivery: Delivery) {
        let (id, size) = (delivery.id, delivery.payload().len());
        let Some(token) = delivery.token.take() else {
            return;
        };
        // The broker may use the message's memory again.
        drop(delivery);
        match self.pump.source.settle(token, Disposition::Accept, id) {
            Poll::Ready(Ok(())) => self.pump.counters.acked.add(1),
            Poll::Ready(Err(error)) => self.not_acked(error),
            Poll::Pending => {
                self.admit(false, size);
                self.tallies[id as usize] = Tally::Acked;
                let plan = Plan::Settle(Disposition::Accept);
                let step = self
                    .core
                    .handle_plan(id, plan, Elapsed::ZERO, Elapsed::ZERO);
                debug_assert_eq!(
                    step,
                    Step::Settle(Disposition::Accept),
                    "it was said already"
                );
            }
        }
    }

    #[cold]
    fn not_acked(&mut self, error: AckError) {
        self.count(Tally::Acked, Err(error));
        self.not_settled(error);
    }

    /// The lane works on the delivery from now on.
    fn occupy(
        &mut self,
        index: usize,
        delivery: Delivery,
        key: Option<u64>,
        right: Option<Arc<Right>>,
        span: Option<tracing::Span>,
    ) {
        self.free.pop();
        self.admit(delivery.settled, delivery.payload().len());
        let lane = &mut self.lanes[index];
        lane.deliveries.push(delivery);
        lane.key = key;
        lane.is_busy = true;
        lane.by_hand = right;
        lane.span = span;
    }

    /// Poll the handler of a lane.
    pub(super) fn run(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let entered = lane.span.as_ref().map(tracing::Span::enter);
        let slot = &mut lane.slot;
        let mut cx = Context::from_waker(&lane.waker);
        let polled = catch_unwind(AssertUnwindSafe(|| slot.poll(&mut cx)));
        drop(entered);
        match polled {
            Ok(Poll::Pending) => self.arm_deadline(index),
            Ok(Poll::Ready(verdict)) => self.returned(index, verdict),
            Err(panic) => self.panicked(index, panic),
        }
    }

    /// The handler's time runs from its first poll; a handler that is done by then needs no timer.
    fn arm_deadline(&mut self, index: usize) {
        let Some(timeout) = self.pump.mount.policy.timeout else {
            return;
        };
        if self.lanes[index].deadline.is_some() {
            return;
        }
        let Some(id) = self.lanes[index].first_id() else {
            return;
        };
        let due = self.now().saturating_add(timeout);
        self.lanes[index].deadline = Some(due);
        self.deadlines.insert((due, id));
    }

    /// The delivery's span, if anybody wants it: one comparison when nobody does.
    #[inline]
    pub(super) fn span(&self, delivery: &Delivery) -> Option<tracing::Span> {
        if LevelFilter::current() < LevelFilter::INFO {
            return None;
        }
        self.span_if_enabled(delivery)
    }

    #[inline(never)]
    fn span_if_enabled(&self, delivery: &Delivery) -> Option<tracing::Span> {
        if !tracing::enabled!(tracing::Level::INFO) {
            return None;
        }
        let traceparent = delivery.headers().first(crate::headers::names::TRACEPARENT);
        Some(tracing::info_span!(
            "deliver",
            messaging.system = self.pump.mount.system,
            messaging.destination.name = &*self.pump.mount.address,
            ruststream.handler = &*self.pump.mount.name,
            ruststream.attempt = delivery.attempt,
            ruststream.outcome = tracing::field::Empty,
            traceparent = traceparent.and_then(crate::HeaderValue::as_str),
        ))
    }
}
