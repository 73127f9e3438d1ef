//! What a handler may take as arguments.
//!
//! An argument is anything that is [`Extract`]: a payload in a codec, a header, the attempt, shared
//! state. Extraction is synchronous, happens in the handler's slot just before it runs, and owns
//! what it takes (usually a share of the message, never a copy of it).

use std::borrow::Cow;
use std::fmt;

use crate::delivery::Delivery;
use crate::registration::Requirements;

/// A handler argument.
///
/// Several of one kind may be taken, in any order. To write an own extractor implement
/// [`extract`](Extract::extract), and [`requires`](Extract::requires) when it needs state that
/// [`App::check`](crate::App::check) should ask for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `#[subscriber]` handler argument",
    label = "does not implement `Extract`",
    note = "wrap a payload in a codec, as in `Json<{Self}>`, and shared state as in `State<{Self}>`"
)]
pub trait Extract: Sized + Send {
    /// Take it from a delivery.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] is an undecodable delivery or a failed attempt, as it says.
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection>;

    /// Tell what it needs, so that a missing piece is found at start-up. Nothing by default.
    fn requires(needs: &mut Requirements) {
        let _ = needs;
    }
}

/// What extraction takes from: the delivery (or, in a batch, deliveries) and the mount point around it.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub(crate) deliveries: &'a mut [Delivery],
    pub(crate) scope: &'a Scope,
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(deliveries: &'a mut [Delivery], scope: &'a Scope) -> Self {
        Self { deliveries, scope }
    }

    /// The delivery; of a batch, its first.
    #[must_use]
    pub fn delivery(&self) -> &Delivery {
        &self.deliveries[0]
    }

    /// Shared state of type `T`, if the application has it.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<std::sync::Arc<T>> {
        self.scope.state.get()
    }
}

/// What a mount point offers its extractors besides the delivery.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) state: crate::state::StateMap,
    pub(crate) sink: std::sync::Arc<dyn crate::broker::Sink>,
    /// Cancelled when the application begins to stop.
    pub(crate) shutdown: tokio_util::sync::CancellationToken,
}

/// Why a delivery could not be given to its handler.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub(crate) kind: RejectionKind,
    pub(crate) reason: Cow<'static, str>,
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
    #[must_use]
    #[cold]
    pub fn undecodable(reason: impl fmt::Display) -> Self {
        Self {
            kind: RejectionKind::Undecodable,
            reason: Cow::Owned(reason.to_string()),
        }
    }

    /// It cannot be taken now: a failed attempt, like an `Err` of the handler.
    #[must_use]
    #[cold]
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self {
            kind: RejectionKind::Failed,
            reason: Cow::Owned(reason.to_string()),
        }
    }

    /// The reason, as it appears on a dead letter.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
