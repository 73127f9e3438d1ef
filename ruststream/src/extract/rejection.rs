//! Why a delivery could not be given to its handler.

use std::fmt;

/// Why a delivery could not be given to its handler.
///
/// # Examples
///
/// ```
/// use ruststream::extract::Rejection;
///
/// let refused = Rejection::undecodable("header `tenant` is missing");
/// assert_eq!(refused.reason(), "header `tenant` is missing");
/// ```
#[derive(Clone, Debug)]
pub struct Rejection(Box<Refusal>);

/// Boxed: every extractor's result has room for one, and few have one.
#[derive(Clone, Debug)]
struct Refusal {
    kind: RejectionKind,
    reason: String,
}

/// What a rejection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionKind {
    /// Nobody can ever take it: the decode path (spec C8).
    Undecodable,
    /// This attempt failed: the failure path (spec C8).
    Failed,
}

impl Rejection {
    /// The payload can never be taken by this handler: never retried (spec C8).
    ///
    /// The reason goes to logs and dead letters: say what is wrong and where, not what was sent.
    #[must_use]
    #[cold]
    pub fn undecodable(reason: impl fmt::Display) -> Self {
        Self(Box::new(Refusal {
            kind: RejectionKind::Undecodable,
            reason: reason.to_string(),
        }))
    }

    /// It cannot be taken now: a failed attempt, like an `Err` of the handler.
    #[must_use]
    #[cold]
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self(Box::new(Refusal {
            kind: RejectionKind::Failed,
            reason: reason.to_string(),
        }))
    }

    /// The reason, as it appears on a dead letter.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(crate) fn kind(&self) -> RejectionKind {
        self.0.kind
    }

    /// Whether nobody can ever take it; else it is a failed attempt.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.kind() == RejectionKind::Undecodable
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.reason)
    }
}

impl std::error::Error for Rejection {}
