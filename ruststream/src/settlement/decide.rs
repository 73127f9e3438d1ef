//! From an outcome to a plan, by the tables of the specification.

use std::time::Duration;

use super::Decision;
use super::Facts;
use super::Plan;
use super::Reason;
use super::pace;
use crate::Outcome;
use crate::broker::Returns;
use crate::message::CopyKind;
use crate::policy::Delay;
use crate::settle::Disposition;

/// What is done with a delivery whose handler came to `outcome`.
///
/// `cause` is set when the outcome stands for a failure; it becomes the reason of a dead letter.
#[must_use]
pub fn decide(outcome: Outcome, cause: Option<Reason>, facts: &Facts) -> Decision {
    match outcome {
        Outcome::Ack if facts.settled => refused(Plan::Nothing),
        Outcome::Ack => expressed(Plan::Settle(Disposition::Accept)),
        Outcome::Drop => give_up(facts, cause),
        Outcome::DeadLetter if facts.dead_letter => {
            dead_letter(facts, cause.unwrap_or(Reason::Outcome))
        }
        Outcome::DeadLetter => give_up(facts, Some(cause.unwrap_or(Reason::Outcome))),
        Outcome::Retry | Outcome::RetryAfter(_) if is_last(facts) => {
            spent(facts, cause.unwrap_or(Reason::MaxAttempts))
        }
        Outcome::RetryAfter(delay) if !delay.is_zero() => wait(delay, facts),
        Outcome::RetryAfter(_) => copy_now(facts),
        Outcome::Retry => retry(facts),
    }
}

/// What is done with a delivery whose attempts are spent: after its last attempt, or on arrival
/// (spec C23).
#[must_use]
pub fn spent(facts: &Facts, reason: Reason) -> Decision {
    if facts.dead_letter {
        return dead_letter(facts, reason);
    }
    // The cap is kept by giving up, so nothing was refused even where nothing can be said.
    Decision {
        refused: false,
        ..give_up(facts, Some(reason))
    }
}

fn is_last(facts: &Facts) -> bool {
    facts.cap.is_some_and(|cap| facts.attempt >= cap.get())
}

fn retry(facts: &Facts) -> Decision {
    let capped = facts.cap.is_some();
    if facts.settled {
        // A count of 0 on a settled delivery is no count (spec C18).
        return match facts.counted {
            None | Some(0) if capped => copy_now(facts),
            _ => refused(Plan::Nothing),
        };
    }
    match facts.returns {
        Returns::OnResume | Returns::Uncounted if capped => copy_now(facts),
        Returns::OnResume => refused(Plan::Leave),
        Returns::Counted if capped && facts.counted.is_none() => copy_now(facts),
        Returns::Counted if is_near_the_brokers_limit(facts) => copy_now(facts),
        Returns::Counted | Returns::Uncounted => expressed(Plan::Return {
            pause: pace::pause(facts.attempt),
        }),
    }
}

/// One delivery is kept in reserve, so that a crash at the limit does not cost the message.
fn is_near_the_brokers_limit(facts: &Facts) -> bool {
    match (facts.counted, facts.limit) {
        (Some(counted), Some(limit)) => counted.saturating_add(1) >= limit,
        _ => false,
    }
}

fn copy_now(facts: &Facts) -> Decision {
    expressed(Plan::Publish {
        copy: CopyKind::Retry,
        pause: pace::pause(facts.attempt),
        then: accept(facts),
    })
}

fn wait(delay: Duration, facts: &Facts) -> Decision {
    let (before, after) = match facts.delay {
        _ if facts.settled => (None, None),
        Delay::Process => (Some(final_word(facts)), None),
        Delay::Hold | Delay::Journal | Delay::Broker => (None, Some(Disposition::Accept)),
    };
    expressed(Plan::Wait {
        delay,
        before,
        after,
    })
}

fn dead_letter(facts: &Facts, reason: Reason) -> Decision {
    let plan = Plan::Publish {
        copy: CopyKind::DeadLetter,
        pause: Duration::ZERO,
        then: accept(facts),
    };
    Decision {
        plan,
        refused: false,
        reason: Some(reason),
    }
}

fn give_up(facts: &Facts, reason: Option<Reason>) -> Decision {
    if facts.settled {
        return Decision {
            plan: Plan::Nothing,
            refused: true,
            reason,
        };
    }
    Decision {
        plan: Plan::Settle(final_word(facts)),
        refused: false,
        reason,
    }
}

/// How the broker is told that nothing more will come of a delivery.
fn final_word(facts: &Facts) -> Disposition {
    if facts.rejects {
        Disposition::Reject
    } else {
        Disposition::Accept
    }
}

fn accept(facts: &Facts) -> Option<Disposition> {
    (!facts.settled).then_some(Disposition::Accept)
}

fn expressed(plan: Plan) -> Decision {
    Decision {
        plan,
        refused: false,
        reason: None,
    }
}

fn refused(plan: Plan) -> Decision {
    Decision {
        plan,
        refused: true,
        reason: None,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
