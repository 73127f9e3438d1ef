//! What [`decide`](super::decide) is told, and what it says.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::broker::Returns;
use crate::message::CopyKind;
use crate::policy::Delay;
use crate::settle::Disposition;

/// What is known of one delivery and its mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The number of this attempt, from 1 (spec C1).
    pub attempt: u32,
    /// What the broker itself counts for this delivery, where it does.
    pub counted: Option<u32>,
    /// The effective cap: a dead letter without a cap is a cap of 1 (spec A53).
    pub cap: Option<NonZeroU32>,
    /// Whether a dead letter is declared.
    pub dead_letter: bool,
    /// Whether the delivery was settled when it arrived (at-most-once, QoS 0).
    pub settled: bool,
    /// What becomes of a returned delivery.
    pub returns: Returns,
    /// Whether the broker can be told that a delivery failed for good.
    pub rejects: bool,
    /// The broker's own limit of deliveries (spec C26).
    pub limit: Option<u32>,
    /// How `retry_after` waits.
    pub delay: Delay,
}

/// What is done with a delivery. At most one copy and one settlement, in this order or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plan {
    /// Settle it so.
    Settle(Disposition),
    /// Return it to the broker, after a pause (spec C12).
    Return {
        /// How long it is held back.
        pause: Duration,
    },
    /// After a pause publish a copy, have it confirmed, and only then settle (spec C4).
    Publish {
        /// Which copy.
        copy: CopyKind,
        /// How long it is held back (spec C12); zero for a dead letter.
        pause: Duration,
        /// What is said once the copy is safe; nothing where the delivery was settled on arrival.
        then: Option<Disposition>,
    },
    /// Publish a retry copy after a delay (spec C6).
    Wait {
        /// How long.
        delay: Duration,
        /// Said at once: the copy then exists only in this process (`process`).
        before: Option<Disposition>,
        /// Said once the copy is safe: until then the broker has the original (`hold`).
        after: Option<Disposition>,
    },
    /// Leave it unsettled for good: the protocol cannot return it (spec M18).
    Leave,
    /// Do nothing: it was settled on arrival.
    Nothing,
}

/// A plan, and what has to be told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What is done.
    pub plan: Plan,
    /// Whether the outcome cannot be expressed (`AckError::Unsupported`).
    pub refused: bool,
    /// Why a dead letter is one, or why the delivery is given up.
    pub reason: Option<Reason>,
}

/// Why a delivery died (spec C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Its attempts are spent.
    MaxAttempts,
    /// The handler said so.
    Outcome,
    /// It cannot be decoded.
    Decode,
    /// The handler panicked.
    Panic,
    /// The handler took too long.
    Timeout,
    /// The handler returned an error.
    Error,
}

impl Reason {
    /// The word in `x-ruststream-dead-reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max_attempts",
            Self::Outcome => "outcome",
            Self::Decode => "decode",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}
