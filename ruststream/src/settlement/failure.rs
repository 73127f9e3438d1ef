//! What a failed attempt means (spec C8).

use std::time::Duration;

use super::Reason;
use crate::Outcome;
use crate::policy::Backoff;
use crate::policy::OnDecode;
use crate::policy::OnFailure;

/// The outcome of an error, a panic or a timeout under the mount point's policy.
///
/// `own` is what the error itself says (its `Failure` impl): it goes before the policy. `jitter` in
/// `0..=u32::MAX` places a backed-off retry between nothing and the backoff's ceiling.
#[must_use]
pub fn outcome(
    own: Option<Outcome>,
    policy: OnFailure,
    backoff: Option<Backoff>,
    attempt: u32,
    jitter: u32,
) -> Outcome {
    let outcome = own.unwrap_or(match policy {
        OnFailure::Retry => Outcome::Retry,
        OnFailure::Drop => Outcome::Drop,
        OnFailure::DeadLetter => Outcome::DeadLetter,
    });
    match (outcome, backoff) {
        (Outcome::Retry, Some(backoff)) => Outcome::RetryAfter(delay(&backoff, attempt, jitter)),
        (outcome, _) => outcome,
    }
}

/// The outcome of a payload that cannot be decoded: never a retry.
#[must_use]
pub fn undecodable(policy: OnDecode) -> Outcome {
    match policy {
        OnDecode::Drop => Outcome::Drop,
        OnDecode::DeadLetter => Outcome::DeadLetter,
    }
}

/// A constant backoff is exact; an exponential one is spread evenly below its ceiling ("full
/// jitter"), so that what failed together does not come back together.
fn delay(backoff: &Backoff, attempt: u32, jitter: u32) -> Duration {
    if backoff.first == backoff.max {
        return backoff.first;
    }
    let ceiling = backoff.ceiling(attempt);
    let millis = u64::try_from(ceiling.as_millis()).unwrap_or(u64::MAX);
    let spread = u128::from(millis) * u128::from(jitter) / u128::from(u32::MAX);
    Duration::from_millis(u64::try_from(spread).unwrap_or(millis))
}

impl Reason {
    /// Whether it stands for an attempt that failed, as against a decision of the handler.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Panic | Self::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPONENTIAL: Backoff = Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_secs(2),
    };

    // spec: C8
    #[test]
    fn an_errors_own_word_goes_before_the_policy() {
        assert_eq!(
            outcome(Some(Outcome::Drop), OnFailure::Retry, None, 1, 0),
            Outcome::Drop
        );
        assert_eq!(outcome(None, OnFailure::Retry, None, 1, 0), Outcome::Retry);
        assert_eq!(outcome(None, OnFailure::Drop, None, 1, 0), Outcome::Drop);
        assert_eq!(
            outcome(None, OnFailure::DeadLetter, None, 1, 0),
            Outcome::DeadLetter
        );
    }

    // spec: C8
    #[test]
    fn a_backoff_delays_failed_attempts_by_its_ceiling_at_most() {
        let after =
            |attempt, jitter| outcome(None, OnFailure::Retry, Some(EXPONENTIAL), attempt, jitter);
        assert_eq!(
            after(1, u32::MAX),
            Outcome::RetryAfter(Duration::from_millis(100))
        );
        assert_eq!(
            after(2, u32::MAX),
            Outcome::RetryAfter(Duration::from_millis(200))
        );
        assert_eq!(
            after(6, u32::MAX),
            Outcome::RetryAfter(Duration::from_secs(2))
        );
        assert_eq!(
            after(u32::MAX, u32::MAX),
            Outcome::RetryAfter(Duration::from_secs(2))
        );
        assert_eq!(after(2, 0), Outcome::RetryAfter(Duration::ZERO));
        let constant = Backoff {
            first: Duration::from_secs(5),
            max: Duration::from_secs(5),
        };
        assert_eq!(
            outcome(None, OnFailure::Retry, Some(constant), 3, 0),
            Outcome::RetryAfter(Duration::from_secs(5))
        );
    }

    // spec: C8
    #[test]
    fn an_undecodable_payload_is_never_retried() {
        assert_eq!(undecodable(OnDecode::Drop), Outcome::Drop);
        assert_eq!(undecodable(OnDecode::DeadLetter), Outcome::DeadLetter);
    }
}
