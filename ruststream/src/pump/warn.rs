//! What a mount point's owner is told, once a minute for each kind (spec C32, C5, C15).

use super::core::Id;
use super::core::What;
use super::shell::Shell;
use crate::AckError;
use crate::Outcome;
use crate::broker::PublishError;
use crate::delivery::Delivery;
use crate::message::CopyKind;
use crate::mount::RetryTo;
use crate::settlement::Decision;
use crate::settlement::Plan;
use crate::settlement::Reason;

/// A warning about a mount point, at most once a minute, with how often it happened.
macro_rules! warn {
    ($shell:expr, $notice:ident, $level:ident, { $($field:tt)* }, $message:literal) => {
        let now = $shell.now();
        if let Some(times) = $shell.notices.$notice.due(now) {
            let mount = &$shell.pump.mount;
            tracing::$level!(
                messaging.system = mount.system,
                messaging.destination.name = &*mount.address,
                ruststream.handler = &*mount.name,
                $($field)*
                times,
                $message
            );
        }
    };
}

impl Shell {
    /// Say what has to be said of a decision, and record it on the delivery's span.
    pub(super) fn note_decision(
        &mut self,
        delivery: &Delivery,
        outcome: Outcome,
        decision: &Decision,
        error: Option<&str>,
    ) {
        if decision.refused && outcome != Outcome::Ack {
            self.pump.counters.unsupported.add(1);
            warn!(self, refused, warn, { ruststream.outcome = outcome.as_str(), },
                "the protocol cannot express this outcome for the delivery; declare `max_attempts` or `dead_letter` to have retries as copies");
        }
        if outcome == Outcome::DeadLetter && !self.facts.dead_letter {
            warn!(
                self,
                no_dead_letter,
                warn,
                {},
                "a delivery was to be dead-lettered, but no `dead_letter` is declared: it was dropped"
            );
        }
        let fate = fate(outcome, decision);
        let reason = decision.reason.map(Reason::as_str);
        match decision.plan {
            Plan::Publish {
                copy: CopyKind::DeadLetter,
                ..
            } => {
                let dead_letter = self
                    .pump
                    .mount
                    .policy
                    .dead_letter
                    .as_deref()
                    .unwrap_or_default()
                    .to_owned();
                warn!(self, dead_lettered, warn, { ruststream.attempt = delivery.attempt, reason, error, dead_letter, },
                    "a delivery goes to the dead letter");
            }
            Plan::Settle(_) | Plan::Nothing if reason.is_some() => {
                if decision.plan == Plan::Nothing {
                    self.pump.counters.dropped.add(1);
                }
                warn!(self, given_up, warn, { ruststream.attempt = delivery.attempt, reason, error, },
                    "a delivery was given up; declare `dead_letter` to keep such messages");
            }
            _ => {}
        }
        if let Some(span) = self.ended.take() {
            span.record("ruststream.outcome", fate);
        }
        tracing::debug!(
            ruststream.handler = &*self.pump.mount.name,
            ruststream.attempt = delivery.attempt,
            ruststream.outcome = fate,
            reason,
            error,
            "handled"
        );
    }

    pub(super) fn warn_of_missing_outcome(&mut self) {
        warn!(
            self,
            unanswered,
            warn,
            {},
            "a delivery got no outcome (its `Settler` was dropped unused, or its batch abandoned): it stays unsettled and fills the window until the connection ends"
        );
    }

    pub(super) fn warn_of_malformed_count(&mut self) {
        warn!(
            self,
            malformed_count,
            warn,
            {},
            "a retry-count header is not a count and was ignored"
        );
    }

    pub(super) fn warn_of_undecodable(
        &mut self,
        delivery: &Delivery,
        error: &str,
        outcome: Outcome,
    ) {
        warn!(self, undecodable, warn, { ruststream.attempt = delivery.attempt, ruststream.outcome = outcome.as_str(), error, },
            "a payload could not be decoded");
    }

    pub(super) fn warn_of_missing_reply_address(&mut self) {
        warn!(
            self,
            no_reply_address,
            warn,
            {},
            "an answer had nowhere to go: the delivery names no reply address; declare `reply_to`"
        );
    }

    pub(super) fn warn_of_failed_settlement(&mut self, error: AckError) {
        warn!(self, failed_settlement, warn, { %error, },
            "a settlement was not taken; the broker may deliver the message again");
    }

    pub(super) fn warn_of_unread_dead_letter(&mut self) {
        let dead_letter = self
            .pump
            .mount
            .policy
            .dead_letter
            .as_deref()
            .unwrap_or_default()
            .to_owned();
        warn!(self, unread, warn, { dead_letter, },
            "nobody reads the dead letter, so the broker kept nothing; add a persistent reader, or `mqtt(dead_letter_retain)`");
    }

    pub(super) fn warn_of_stuck_deliveries(&mut self) {
        let window = self.pump.mount.policy.prefetch;
        if self.stuck * 10 < u64::from(window) * 8 {
            return;
        }
        let stuck = self.stuck;
        warn!(self, stuck, warn, { stuck, window, },
            "deliveries left unsettled fill the window; nothing more arrives once they do, until the connection is made anew");
    }

    pub(super) fn warn_of_overflow(&mut self) {
        warn!(
            self,
            overflow,
            warn,
            {},
            "messages that the broker does not keep came faster than they are handled, and the newest were lost; raise `concurrency`, or subscribe with a `qos` above 0"
        );
    }

    pub(super) fn warn_of_unmatched(&mut self) {
        warn!(
            self,
            unmatched,
            warn,
            {},
            "messages came that no handler asked for: the session has subscriptions of an earlier version; they were acknowledged, and stop when that session ends"
        );
    }

    pub(super) fn warn_of_failed_publish(&mut self, id: Id, what: What, error: &PublishError) {
        let policy = &self.pump.mount.policy;
        let care = self.care.get(id as usize).and_then(Option::as_ref);
        let to = match (what, &policy.retry_to) {
            (What::Answer, _) => care
                .and_then(|care| care.answer.as_ref())
                .map_or_else(String::new, |(to, _)| to.to_string()),
            (What::Copy(CopyKind::DeadLetter), _) => {
                policy.dead_letter.as_deref().unwrap_or_default().to_owned()
            }
            (What::Copy(CopyKind::Retry), RetryTo::Own) => self.pump.mount.address.to_string(),
            (What::Copy(CopyKind::Retry), RetryTo::Topic(topic)) => topic.to_string(),
            (What::Copy(CopyKind::Retry), RetryTo::With(_)) => {
                "as `retry_topic_with` says".to_owned()
            }
        };
        let what = match what {
            What::Answer => "answer",
            What::Copy(CopyKind::Retry) => "retry copy",
            What::Copy(CopyKind::DeadLetter) => "dead letter",
        };
        let is_transient = error.is_transient();
        warn!(self, failed_publish, error, { what, to, is_transient, %error, },
            "a publish failed and is tried again; what it was for is kept until then");
    }
}

/// What becomes of a delivery, in one word.
fn fate(outcome: Outcome, decision: &Decision) -> &'static str {
    match decision.plan {
        Plan::Publish {
            copy: CopyKind::DeadLetter,
            ..
        } => Outcome::DeadLetter.as_str(),
        Plan::Settle(_) | Plan::Nothing if decision.reason.is_some() => Outcome::Drop.as_str(),
        _ => outcome.as_str(),
    }
}
