//! What a handler says about a delivery.

use std::time::Duration;

/// What should become of a delivery.
///
/// What each one is on the wire depends on the protocol; the README has the table.
///
/// # Examples
///
/// ```
/// use ruststream::Outcome;
/// use std::time::Duration;
///
/// let busy = Outcome::retry_after(Duration::from_secs(5));
/// assert_eq!(busy, Outcome::RetryAfter(Duration::from_secs(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done: the broker forgets the message.
    Ack,
    /// Not wanted: the broker's own dead-letter policy takes it, where there is one. The declared
    /// dead letter is never used (spec C9).
    Drop,
    /// Again, at once. From the second attempt on it is paced (spec C12).
    Retry,
    /// Again, after this long. Zero is an immediate retry.
    RetryAfter(Duration),
    /// To the declared dead letter now, whatever the attempt. Without one it is
    /// [`Drop`](Outcome::Drop) with a warning.
    DeadLetter,
}

impl Outcome {
    /// Done.
    #[must_use]
    pub const fn ack() -> Self {
        Self::Ack
    }

    /// Not wanted.
    #[must_use]
    pub const fn drop() -> Self {
        Self::Drop
    }

    /// Again, at once.
    #[must_use]
    pub const fn retry() -> Self {
        Self::Retry
    }

    /// Again, after `delay`.
    #[must_use]
    pub const fn retry_after(delay: Duration) -> Self {
        Self::RetryAfter(delay)
    }

    /// To the declared dead letter now.
    #[must_use]
    pub const fn dead_letter() -> Self {
        Self::DeadLetter
    }

    /// The name of this outcome in logs and metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Drop => "drop",
            Self::Retry => "retry",
            Self::RetryAfter(_) => "retry_after",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// What a handler may return when it succeeds: `()` (which is [`Outcome::Ack`]) or [`Outcome`].
///
/// A handler may return a `Result` of these; what its error means is said by
/// [`Failure`](crate::Failure), `on_error` or `max_attempts`. With `reply_to` it may return
/// any value that can be serialized.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `()`, `Outcome`, or a `Result` of one of them; to publish a value as the answer, add `reply_to = \"…\"` or `replies` to the attribute"
)]
pub trait IntoOutcome {
    /// The outcome it stands for.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Ack
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}
