//! What a handler came to: from a verdict, an error, a panic or a timeout to a decision (spec C8).

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use super::core::Elapsed;
use super::core::Id;
use super::lane::Lane;
use super::settle::Care;
use super::settle::Tally;
use super::shell::Shell;
use crate::Outcome;
use crate::delivery::Delivery;
use crate::extract::Rejection;
use crate::extract::RejectionKind;
use crate::handler::Verdict;
use crate::message::Message;
use crate::publisher;
use crate::settlement::Decision;
use crate::settlement::Facts;
use crate::settlement::Reason;
use crate::settlement::decide;
use crate::settlement::failure;
use crate::settlement::spent;
use crate::settler::Right;

/// What a lane worked on.
pub(super) struct Released {
    pub(super) delivery: Delivery,
    /// Its settler has not spoken.
    pub(super) right: Option<Arc<Right>>,
    /// Its settler was dropped unused while the handler ran on.
    pub(super) is_unused: bool,
    pub(super) deadline: Option<Elapsed>,
}

/// A failed attempt, before the policy has its say.
pub(super) struct Trouble<'a> {
    reason: Reason,
    /// What the error itself says should become of the delivery.
    own: Option<Outcome>,
    text: &'a str,
}

impl Shell {
    /// The handler of a lane returned.
    pub(super) fn returned(&mut self, index: usize, verdict: Verdict) {
        if let Verdict::Rejected(rejection) = &verdict {
            return self.rejected(index, rejection);
        }
        if self.pump.mount.policy.batch.is_some() {
            return self.batch_returned(index, &verdict);
        }
        let Some(Released {
            mut delivery,
            right,
            is_unused,
            deadline,
        }) = self.release(index)
        else {
            return;
        };
        let id = delivery.id;
        match (verdict, right) {
            (Verdict::Failed(failed), None) => {
                self.failed(id, delivery, Reason::Error, failed.outcome, &failed.text);
            }
            (Verdict::Failed(failed), Some(right)) => match self.take_back(id, &right) {
                Some(claim) => {
                    delivery.token = claim.0;
                    self.failed(id, delivery, Reason::Error, failed.outcome, &failed.text);
                }
                None => self.wait_for_settler(delivery, right, None),
            },
            (Verdict::Rejected(rejection), _) => self.refused_by_argument(id, delivery, &rejection),
            (Verdict::Done(_) | Verdict::Answer(_), None) if is_unused => {
                self.left_without_outcome(id, delivery);
            }
            (Verdict::Done(outcome), None) => self.done(id, delivery, outcome),
            (Verdict::Answer(message), None) => self.answered(id, delivery, *message),
            (Verdict::Done(_) | Verdict::Answer(_), Some(right)) => {
                self.wait_for_settler(delivery, right, deadline);
            }
        }
    }

    /// An argument refused the delivery; the handler has not started.
    pub(super) fn rejected(&mut self, index: usize, rejection: &Rejection) {
        if self.pump.mount.policy.batch.is_some() {
            return self.batch_rejected(index, rejection);
        }
        let Some(Released {
            mut delivery,
            right,
            ..
        }) = self.release(index)
        else {
            return;
        };
        if let Some(right) = right {
            delivery.token = self
                .take_back(delivery.id, &right)
                .and_then(|claim| claim.0);
        }
        self.refused_by_argument(delivery.id, delivery, rejection);
    }

    pub(super) fn refused_by_argument(
        &mut self,
        id: Id,
        delivery: Delivery,
        rejection: &Rejection,
    ) {
        match rejection.kind() {
            RejectionKind::Undecodable => self.undecodable(id, delivery, rejection.reason()),
            RejectionKind::Failed => {
                self.failed(id, delivery, Reason::Error, None, rejection.reason());
            }
        }
    }

    /// The handler, or an extractor of its, panicked.
    pub(super) fn panicked(&mut self, index: usize, panic: Box<dyn Any + Send>) {
        self.interrupted(index, Reason::Panic, &panic_text(panic));
    }

    /// The handler of a delivery is out of time.
    pub(super) fn timed_out(&mut self, id: Id) {
        let timeout = self.pump.mount.policy.timeout.unwrap_or_default();
        let text = format!("the handler did not finish within {timeout:?}");
        if let Some(index) = self
            .lanes
            .iter()
            .position(|lane| lane.is_busy && lane.first_id() == Some(id))
        {
            return self.interrupted(index, Reason::Timeout, &text);
        }
        // The handler has returned and left its settler somewhere.
        let Some(Some(care)) = self.care.get_mut(id as usize) else {
            return;
        };
        let Some(claim) = care.right.take().and_then(|right| right.claim()) else {
            return;
        };
        if let Some(mut care) = self.care[id as usize].take() {
            care.delivery.token = claim.0;
            self.failed(id, care.delivery, Reason::Timeout, None, &text);
        }
    }

    /// The handler ends without a verdict: its future is dropped, its delivery is a failed attempt.
    fn interrupted(&mut self, index: usize, reason: Reason, text: &str) {
        // The right is taken back before the future is dropped: its settler must not speak any more.
        let claim = self.lanes[index]
            .by_hand
            .as_ref()
            .and_then(|right| right.claim());
        self.drop_future(index);
        if self.pump.mount.policy.batch.is_some() {
            return self.batch_interrupted(index, reason, text);
        }
        let Some(Released {
            mut delivery,
            right,
            ..
        }) = self.release(index)
        else {
            return;
        };
        let id = delivery.id;
        if let Some(right) = right {
            match claim.or_else(|| self.take_back(id, &right)) {
                Some(claim) => delivery.token = claim.0,
                None => return self.wait_for_settler(delivery, right, None),
            }
        }
        self.failed(id, delivery, reason, None, text);
    }

    pub(super) fn drop_future(&mut self, index: usize) {
        if self.lanes[index].drop_future().is_err() {
            tracing::error!(
                ruststream.handler = &*self.pump.mount.name,
                "a handler panicked while it was dropped"
            );
        }
    }

    /// Free a lane; returns what it worked on, unless a settler has taken that over.
    fn release(&mut self, index: usize) -> Option<Released> {
        let lane = &mut self.lanes[index];
        let right = lane.by_hand.take();
        let is_unused = std::mem::take(&mut lane.is_unused);
        let delivery = lane.deliveries.pop();
        let deadline = self.free_lane(index, delivery.as_ref());
        Some(Released {
            delivery: delivery?,
            right,
            is_unused,
            deadline,
        })
    }

    /// Free a lane that worked on `first`; returns the deadline that is void now.
    pub(super) fn free_lane(&mut self, index: usize, first: Option<&Delivery>) -> Option<Elapsed> {
        let lane = &mut self.lanes[index];
        lane.is_busy = false;
        lane.key = None;
        self.ended = lane.span.take();
        lane.by_hand = None;
        lane.is_unused = false;
        self.free.push(index);
        let deadline = lane.deadline.take()?;
        self.deadlines.remove(&(deadline, first?.id));
        Some(deadline)
    }

    pub(super) fn done(&mut self, id: Id, delivery: Delivery, outcome: Outcome) {
        let decision = decide(outcome, None, &self.facts_of(&delivery));
        self.note_decision(&delivery, outcome, &decision, None);
        self.apply(id, delivery, decision, outcome == Outcome::Ack, None);
    }

    /// A failed attempt goes through the same decision as a retry (spec C8).
    pub(super) fn failed(
        &mut self,
        id: Id,
        delivery: Delivery,
        reason: Reason,
        own: Option<Outcome>,
        text: &str,
    ) {
        let trouble = Trouble { reason, own, text };
        let (outcome, decision) = self.decide_failed(&delivery, &trouble);
        self.note_decision(&delivery, outcome, &decision, Some(text));
        self.apply(id, delivery, decision, outcome == Outcome::Ack, Some(text));
    }

    fn decide_failed(&mut self, delivery: &Delivery, trouble: &Trouble<'_>) -> (Outcome, Decision) {
        self.pump.counters.failures.add(1);
        let policy = &self.pump.mount.policy;
        let (own, on) = match trouble.reason {
            Reason::Panic => (None, policy.on_panic),
            Reason::Timeout => (None, policy.on_timeout),
            _ => (trouble.own, policy.on_error),
        };
        let outcome =
            failure::outcome(own, on, policy.backoff, delivery.attempt, fastrand::u32(..));
        let decision = decide(outcome, Some(trouble.reason), &self.facts_of(delivery));
        tracing::debug!(
            ruststream.handler = &*self.pump.mount.name,
            ruststream.attempt = delivery.attempt,
            reason = trouble.reason.as_str(),
            error = trouble.text,
            "attempt failed"
        );
        (outcome, decision)
    }

    /// A payload that can never be decoded is never retried (spec C8).
    fn undecodable(&mut self, id: Id, delivery: Delivery, text: &str) {
        self.pump.counters.undecodable.add(1);
        let outcome = failure::undecodable(self.pump.mount.policy.on_decode);
        let decision = decide(outcome, Some(Reason::Decode), &self.facts_of(&delivery));
        self.warn_of_undecodable(&delivery, text, outcome);
        self.apply(id, delivery, decision, false, Some(text));
    }

    /// Its attempts were spent before it arrived: it is not started again (spec C23).
    pub(super) fn spent_on_arrival(&mut self, mut delivery: Delivery) {
        let id = self.admit(delivery.settled, delivery.payload().len());
        delivery.id = id;
        let decision = spent(&self.facts_of(&delivery), Reason::MaxAttempts);
        self.note_decision(&delivery, Outcome::Retry, &decision, None);
        self.apply(id, delivery, decision, false, None);
    }

    fn answered(&mut self, id: Id, delivery: Delivery, message: Message) {
        let policy = &self.pump.mount.policy;
        let to = publisher::answer_to(policy.reply_to.as_ref(), policy.replies, &delivery);
        let Ok((to, message)) = publisher::answer(to, &delivery, message) else {
            self.warn_of_missing_reply_address();
            return self.done(id, delivery, Outcome::Ack);
        };
        let mut care = Care::new(delivery);
        care.tally = Tally::Acked;
        care.answer = Some((to, Box::new(message)));
        self.care[id as usize] = Some(Box::new(care));
        let now = self.now();
        let step = self.core.handle_answer(id, now);
        self.carry_out(id, step);
    }

    pub(super) fn facts_of(&self, delivery: &Delivery) -> Facts {
        Facts {
            attempt: delivery.attempt,
            counted: delivery.counted,
            settled: delivery.settled,
            ..self.facts
        }
    }
}

/// What a panic said, where it said text.
pub(super) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text
        .unwrap_or("the handler panicked with a value that is not text")
        .to_owned();
    discard(panic);
    text
}

/// Drop the value of a panic, which may be one that panics when it is dropped.
pub(super) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // It could go on like this: better a few bytes for ever than a pump that dies.
        Box::leak(another);
    }
}

impl Lane {
    /// The id of the delivery its handler works on; of a batch, the first.
    pub(super) fn first_id(&self) -> Option<Id> {
        self.deliveries.first().map(|delivery| delivery.id)
    }
}
