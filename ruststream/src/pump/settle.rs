//! Carrying out what the state machine says: settlements, copies, and who is told.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Poll;

use bytestring::ByteString;
use tokio::sync::oneshot;

use super::core::Failure;
use super::core::Id;
use super::core::Step;
use super::core::What;
use super::shell::Shell;
use super::verdict::discard;
use crate::address;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Publishing;
use crate::clock;
use crate::dead_letter;
use crate::dead_letter::Death;
use crate::delivery::Delivery;
use crate::message::Copy;
use crate::message::CopyKind;
use crate::message::Message;
use crate::mount::RetryTo;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settlement::Decision;
use crate::settlement::Plan;
use crate::settlement::Reason;
use crate::settler::Right;

/// A delivery in the pump's care: not in a lane any more, or settled by hand.
#[derive(Debug)]
pub(super) struct Care {
    pub(super) delivery: Delivery,
    /// What it counts as once it is over.
    pub(super) tally: Tally,
    pub(super) reason: Option<Reason>,
    /// The error's text, for the dead letter.
    pub(super) error: Option<String>,
    /// The handler's answer, on its way (spec C28).
    pub(super) answer: Option<(ByteString, Box<Message>)>,
    /// The settler that waits for a word.
    pub(super) settler: Option<oneshot::Sender<Result<(), AckError>>>,
    /// The handler has returned and left its settler somewhere.
    pub(super) right: Option<Arc<Right>>,
}

impl Care {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            tally: Tally::None,
            reason: None,
            error: None,
            answer: None,
            settler: None,
            right: None,
        }
    }

    pub(super) fn tell(&mut self, answer: Result<(), AckError>) {
        if let Some(settler) = self.settler.take() {
            // A handler that no longer waits for the answer does not need it.
            settler.send(answer).ok();
        }
    }
}

/// What a delivery counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tally {
    None,
    Acked,
    Dropped,
    Retried,
}

impl Tally {
    pub(super) fn of(plan: &Plan, is_ack: bool) -> Self {
        match plan {
            Plan::Settle(Disposition::Accept) if is_ack => Self::Acked,
            Plan::Settle(_) => Self::Dropped,
            Plan::Return { .. }
            | Plan::Publish {
                copy: CopyKind::Retry,
                ..
            }
            | Plan::Wait { .. } => Self::Retried,
            Plan::Publish { .. } | Plan::Leave | Plan::Nothing => Self::None,
        }
    }
}

impl Shell {
    /// Do what was decided for a delivery whose handler is done.
    pub(super) fn apply(
        &mut self,
        id: Id,
        mut delivery: Delivery,
        mut decision: Decision,
        is_ack: bool,
        error: Option<&str>,
    ) {
        self.repace(&delivery, &mut decision);
        let tally = Tally::of(&decision.plan, is_ack);
        let Plan::Settle(_) = decision.plan else {
            let mut care = Care::new(delivery);
            care.reason = decision.reason;
            care.error = error.map(str::to_owned);
            return self.apply_in_care(id, Box::new(care), decision, tally);
        };
        // The common case keeps nothing: the message can be let go before the broker is told.
        let step = self.core.handle_plan(
            id,
            decision.plan,
            super::core::Elapsed::ZERO,
            super::core::Elapsed::ZERO,
        );
        let token = delivery.token.take();
        match (step, token) {
            (Step::Settle(how), Some(token)) => {
                drop(delivery);
                match self.pump.source.settle(token, how, id) {
                    Poll::Ready(result) => {
                        let step = self.core.handle_settled(id, result);
                        self.count(tally, result);
                        if let Err(error) = result {
                            self.not_settled(error);
                        }
                        debug_assert!(
                            matches!(step, Step::Forget | Step::Stale),
                            "a plain settlement ends the delivery"
                        );
                    }
                    Poll::Pending => self.tallies[id as usize] = tally,
                }
            }
            (Step::Stale, _) => self.count(tally, Err(AckError::Stale)),
            _ => {}
        }
    }

    /// As [`apply`](Self::apply), for a delivery that is kept until it is over.
    pub(super) fn apply_in_care(
        &mut self,
        id: Id,
        mut care: Box<Care>,
        decision: Decision,
        tally: Tally,
    ) {
        care.tally = tally;
        let pace = crate::settlement::pace::pause(care.delivery.attempt);
        self.care[id as usize] = Some(care);
        let now = self.now();
        let step = self.core.handle_plan(id, decision.plan, pace, now);
        self.carry_out(id, step);
        // A settler that asked for a delay is answered when the delay has begun.
        if let Plan::Wait { delay, .. } = decision.plan {
            self.note_wait(delay);
            if let Some(care) = &mut self.care[id as usize] {
                care.tell(Ok(()));
            }
        }
        self.keep_narrow_window_open();
    }

    /// Take steps until the delivery is gone or something must be waited for.
    pub(super) fn carry_out(&mut self, id: Id, mut step: Step) {
        loop {
            step = match step {
                Step::None => return,
                Step::Settle(how) => match self.settle(id, how) {
                    Some(next) => next,
                    None => return,
                },
                Step::Publish { what, bare } => match self.publish(id, what, bare) {
                    Some(next) => next,
                    None => return,
                },
                Step::Leave => return self.leave(id),
                Step::Forget => return self.forget(id, Ok(())),
                Step::Stale => return self.forget(id, Err(AckError::Stale)),
            }
        }
    }

    fn settle(&mut self, id: Id, how: Disposition) -> Option<Step> {
        let token = self.care[id as usize]
            .as_mut()
            .and_then(|care| care.delivery.token.take());
        let Some(token) = token else {
            return Some(self.core.handle_settled(id, Err(AckError::Stale)));
        };
        match self.pump.source.settle(token, how, id) {
            Poll::Ready(result) => {
                self.note_settlement(id, result);
                Some(self.core.handle_settled(id, result))
            }
            Poll::Pending => None,
        }
    }

    /// The source answered a settlement.
    pub(super) fn settled(&mut self, id: Id, result: Result<(), AckError>) {
        let tally = std::mem::replace(&mut self.tallies[id as usize], Tally::None);
        self.count(tally, result);
        self.note_settlement(id, result);
        let step = self.core.handle_settled(id, result);
        self.carry_out(id, step);
    }

    fn note_settlement(&mut self, id: Id, result: Result<(), AckError>) {
        let Err(error) = result else { return };
        if let Some(Some(care)) = self.care.get_mut(id as usize) {
            care.tell(Err(error));
            care.tally = Tally::None;
        }
        self.not_settled(error);
    }

    /// A settlement was not taken. Unless its connection is gone, the delivery keeps its place in the
    /// window.
    pub(super) fn not_settled(&mut self, error: AckError) {
        if error == AckError::Stale {
            return;
        }
        self.stuck += 1;
        self.warn_of_failed_settlement(error);
        self.warn_of_stuck_deliveries();
        self.keep_narrow_window_open();
    }

    /// Publish a copy or an answer: the next step, or `None` while it is on its way.
    fn publish(&mut self, id: Id, what: What, bare: bool) -> Option<Step> {
        let publishing = match self.outgoing(id, what, bare) {
            Ok(publishing) => publishing,
            Err(error) => Publishing::Done(Err(error)),
        };
        match publishing {
            Publishing::Done(result) => Some(self.published_step(id, what, result)),
            Publishing::Pending(publish) => {
                self.publishes
                    .push(Box::pin(async move { (id, what, publish.await) }));
                None
            }
        }
    }

    /// A publish ended.
    pub(super) fn published(
        &mut self,
        id: Id,
        what: What,
        result: Result<Published, PublishError>,
    ) {
        let step = self.published_step(id, what, result);
        self.carry_out(id, step);
    }

    fn published_step(
        &mut self,
        id: Id,
        what: What,
        result: Result<Published, PublishError>,
    ) -> Step {
        let result = match result {
            // Somebody must read a retry copy; a dead letter may wait for nobody (spec C25).
            Ok(Published::Unread)
                if what == What::Copy(CopyKind::Retry) || self.pump.mount.policy.keep_unread =>
            {
                Err(PublishError::transient("nobody subscribes to it"))
            }
            result => result,
        };
        let result = match result {
            Ok(published) => {
                self.count_published(what, published);
                Ok(published)
            }
            Err(error) => {
                self.pump.counters.failed_copies.add(1);
                self.warn_of_failed_publish(id, what, &error);
                Err(if error.is_transient() {
                    Failure::Passing
                } else {
                    Failure::Permanent
                })
            }
        };
        let now = self.now();
        self.core.handle_published(id, result, now)
    }

    fn outgoing(&mut self, id: Id, what: What, bare: bool) -> Result<Publishing, PublishError> {
        let Some(care) = self.care[id as usize].as_ref() else {
            return Err(PublishError::permanent("the delivery is gone"));
        };
        match what {
            What::Answer => match &care.answer {
                Some((to, message)) => Ok(self.pump.sink.publish(to.clone(), (**message).clone())),
                None => Err(PublishError::permanent("there is no answer")),
            },
            What::Copy(kind) => Ok(self.pump.sink.publish_copy(self.copy(care, kind, bare)?)),
        }
    }

    fn copy(&self, care: &Care, kind: CopyKind, bare: bool) -> Result<Copy, PublishError> {
        let mount = &self.pump.mount;
        match kind {
            CopyKind::Retry => {
                let to = self.retry_target(&care.delivery)?;
                Ok(dead_letter::retry_copy(
                    &care.delivery,
                    &mount.name,
                    to,
                    bare,
                ))
            }
            CopyKind::DeadLetter => {
                let Some(to) = mount.policy.dead_letter.clone() else {
                    return Err(PublishError::permanent("no dead letter is declared"));
                };
                let death = (mount.policy.dead_letter_headers && !bare).then(|| Death {
                    reason: care.reason.unwrap_or(Reason::MaxAttempts),
                    error: care.error.as_deref(),
                    handler: &mount.name,
                    at: clock::now_rfc3339(),
                });
                let mut copy = dead_letter::dead_letter(&care.delivery, to, death.as_ref());
                copy.retain = mount.policy.retain_dead_letters;
                Ok(copy)
            }
        }
    }

    fn retry_target(&self, delivery: &Delivery) -> Result<ByteString, PublishError> {
        match &self.pump.mount.policy.retry_to {
            RetryTo::Own => Ok(self.pump.mount.address.clone()),
            RetryTo::Topic(topic) => Ok(topic.clone()),
            RetryTo::With(topic_of) => {
                let topic = catch_unwind(AssertUnwindSafe(|| topic_of(delivery).into_owned()))
                    .map_err(|panic| {
                        discard(panic);
                        PublishError::permanent("`retry_topic_with` panicked")
                    })?;
                // A driver may take what its protocol cannot publish to (spec M40).
                address::topic(&topic).map_err(|error| {
                    PublishError::permanent(format!(
                        "`retry_topic_with` returned no topic: {error}"
                    ))
                })?;
                Ok(ByteString::from(topic))
            }
        }
    }

    fn leave(&mut self, id: Id) {
        let Some(mut care) = self.care[id as usize].take() else {
            return;
        };
        if let Some(token) = care.delivery.token.take() {
            self.pump.source.leave(token);
            self.pump.counters.stuck.add(1);
            self.stuck += 1;
            self.warn_of_stuck_deliveries();
        }
        care.tell(Err(AckError::Refused));
    }

    /// The delivery is over.
    pub(super) fn forget(&mut self, id: Id, result: Result<(), AckError>) {
        let Some(mut care) = self.care.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        self.count(care.tally, result);
        care.tell(result);
    }

    pub(super) fn count(&mut self, tally: Tally, result: Result<(), AckError>) {
        let counters = &self.pump.counters;
        match (result, tally) {
            (Err(AckError::Stale), _) => counters.stale.add(1),
            (Err(_), _) | (Ok(()), Tally::None) => {}
            (Ok(()), Tally::Acked) => counters.acked.add(1),
            (Ok(()), Tally::Dropped) => counters.dropped.add(1),
            (Ok(()), Tally::Retried) => counters.retried.add(1),
        }
    }

    fn count_published(&mut self, what: What, published: Published) {
        let counters = &self.pump.counters;
        match what {
            What::Answer => {}
            What::Copy(CopyKind::Retry) => counters.copies.add(1),
            What::Copy(CopyKind::DeadLetter) => {
                counters.dead_lettered.add(1);
                if published == Published::Unread {
                    counters.unread_dead_letters.add(1);
                    self.warn_of_unread_dead_letter();
                }
            }
        }
    }
}
