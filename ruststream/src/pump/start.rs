//! A handler's start: extraction, the first poll, and what most come to at once.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use tracing::level_filters::LevelFilter;

use super::core::Elapsed;
use super::core::Id;
use super::core::Step;
use super::lane::Lane;
use super::settle::Tally;
use super::shell::Shell;
use crate::Outcome;
use crate::delivery::Delivery;
use crate::extract::Incoming;
use crate::handler::Verdict;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;
use crate::settlement::Plan;
use crate::settler::Right;

/// What a handler's first poll came to; it may have panicked.
type Polled = Result<Poll<Verdict>, Box<dyn Any + Send>>;

/// A handler that was begun, and what is kept beside its delivery.
pub(super) struct Begun {
    lane: usize,
    how: How,
    right: Option<Arc<Right>>,
    span: Option<tracing::Span>,
}

/// How far a handler came at its first poll.
enum How {
    Returned(Verdict),
    Running,
    Panicked(Box<dyn Any + Send>),
}

impl Shell {
    /// Make a delivery known to the state machine.
    pub(super) fn admit(&mut self, settled: bool, size: usize) -> Id {
        let id = self.core.insert(settled, size);
        if id as usize >= self.care.len() {
            self.care.resize_with(id as usize + 1, || None);
            self.tallies.resize(id as usize + 1, Tally::None);
        }
        id
    }

    /// Start a delivery's handler in a free lane and poll it for the first time.
    ///
    /// Most handlers are done by then and say ack. When the source takes that at once, the delivery
    /// has come and gone without the state machine; otherwise the lane is to be
    /// [occupied](Self::occupy).
    #[must_use]
    #[expect(
        clippy::inline_always,
        reason = "a delivery is large to hand on, and most take exactly this way"
    )]
    #[inline(always)]
    pub(super) fn start(&mut self, delivery: &mut Delivery) -> Option<Begun> {
        let lane = *self
            .free
            .last()
            .expect("deliveries are taken only while a lane is free");
        delivery.id = self.core.next_id();
        if LevelFilter::current() >= LevelFilter::INFO {
            return Some(self.start_in_span(lane, delivery));
        }
        let (begun, right) = self.begin(lane, delivery);
        let how = match begun {
            Ok(Poll::Ready(Verdict::Done(outcome))) => {
                if outcome == Outcome::Ack
                    && right.is_none()
                    && let Some(token) = delivery.token.take()
                {
                    self.pump.counters.starts.add(1);
                    self.acked_at_once(token, delivery);
                    return None;
                }
                How::Returned(Verdict::Done(outcome))
            }
            Ok(Poll::Ready(verdict)) => How::Returned(verdict),
            Ok(Poll::Pending) => How::Running,
            Err(panic) => How::Panicked(panic),
        };
        Some(Begun {
            lane,
            how,
            right,
            span: None,
        })
    }

    /// [`start`](Self::start) where somebody may want to know about it.
    #[inline(never)]
    fn start_in_span(&mut self, lane: usize, delivery: &mut Delivery) -> Begun {
        let span = self.span(delivery);
        let entered = span.as_ref().map(tracing::Span::enter);
        let (begun, right) = self.begin(lane, delivery);
        drop(entered);
        let how = match begun {
            Ok(Poll::Ready(verdict)) => How::Returned(verdict),
            Ok(Poll::Pending) => How::Running,
            Err(panic) => How::Panicked(panic),
        };
        Begun {
            lane,
            how,
            right,
            span,
        }
    }

    /// Extract and poll. The delivery is not the handler's: a panic cannot take it along.
    #[expect(
        clippy::inline_always,
        reason = "a delivery is large to hand on, and most take exactly this way"
    )]
    #[inline(always)]
    fn begin(&mut self, lane: usize, delivery: &mut Delivery) -> (Polled, Option<Arc<Right>>) {
        let Lane { slot, waker, .. } = &mut self.lanes[lane];
        let mut incoming = Incoming::new(std::slice::from_mut(delivery), &self.pump.scope);
        let mut cx = Context::from_waker(waker);
        let begun = catch_unwind(AssertUnwindSafe(|| slot.begin(&mut incoming, &mut cx)));
        (begun, incoming.right)
    }

    /// Start a delivery's handler in a free lane, whatever it comes to.
    #[inline(never)]
    pub(super) fn start_in_lane(&mut self, mut delivery: Delivery, key: Option<u64>) {
        if let Some(begun) = self.start(&mut delivery) {
            self.occupy(delivery, key, begun);
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "a delivery is large to hand on, and most take exactly this way"
    )]
    #[inline(always)]
    fn acked_at_once(&mut self, token: Token, delivery: &Delivery) {
        match self
            .pump
            .source
            .settle(token, Disposition::Accept, delivery.id)
        {
            Poll::Ready(Ok(())) => self.pump.counters.acked.add(1),
            Poll::Ready(Err(error)) => self.not_acked(error),
            Poll::Pending => self.ack_is_on_its_way(delivery),
        }
    }

    #[cold]
    fn ack_is_on_its_way(&mut self, delivery: &Delivery) {
        let id = self.admit(false, delivery.payload().len());
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

    #[cold]
    fn not_acked(&mut self, error: AckError) {
        self.count(Tally::Acked, Err(error));
        self.not_settled(error);
    }

    /// The lane works on the delivery from now on.
    #[inline(never)]
    pub(super) fn occupy(&mut self, delivery: Delivery, key: Option<u64>, begun: Begun) {
        let Begun {
            lane: index,
            how,
            right,
            span,
        } = begun;
        self.free.pop();
        self.admit(delivery.settled, delivery.payload().len());
        let lane = &mut self.lanes[index];
        lane.deliveries.push(delivery);
        lane.key = key;
        lane.is_busy = true;
        lane.by_hand = right;
        lane.span = span;
        if let How::Returned(Verdict::Rejected(rejection)) = &how {
            return self.rejected(index, rejection);
        }
        self.pump.counters.starts.add(1);
        match how {
            How::Returned(verdict) => self.returned(index, verdict),
            How::Running => self.arm_deadline(index),
            How::Panicked(panic) => self.panicked(index, panic),
        }
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
