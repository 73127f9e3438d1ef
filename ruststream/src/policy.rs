//! The words of a handler's policy, shared by the attribute, the configuration and the runtime.

use std::time::Duration;

/// The delay of retries that come from failures: exponential between two bounds with full jitter,
/// or constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub first: Duration,
    /// The longest; equal to `first` for a constant delay.
    pub max: Duration,
}

impl Backoff {
    /// The upper bound of the delay after `attempt` (from 1): `first`, doubled for each attempt
    /// after it, never more than `max`.
    #[must_use]
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }
}

/// What an `Err`, a panic or a timeout means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// A failed attempt: again, below the cap.
    Retry,
    /// Dropped.
    Drop,
    /// To the dead letter at once.
    DeadLetter,
}

/// What an undecodable payload means; never a retry, since it can never succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDecode {
    /// Dropped.
    Drop,
    /// To the dead letter.
    DeadLetter,
}

/// How `retry_after` waits (spec C6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delay {
    /// In the process: the original is settled, the copy waits in memory. A crash loses it.
    #[default]
    Process,
    /// In a journal on disk. Survives a crash.
    Journal,
    /// On the broker: the original stays unsettled. Survives a crash, fills half the window at most.
    Hold,
    /// By the broker's own means, where it has any.
    Broker,
}

/// Batching: how many, and how long to wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// The most items in a batch.
    pub size: u32,
    /// How long the first item waits for others.
    pub wait: Duration,
}
