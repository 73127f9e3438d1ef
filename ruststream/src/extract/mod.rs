//! What a handler may take as arguments.
//!
//! An argument is anything that is [`Extract`]: a payload in a codec, a header, the attempt, shared
//! state. Extraction is synchronous, happens in the handler's slot just before it runs, and owns
//! what it takes (usually a share of the message, never a copy of it).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::broker::Sink;
use crate::delivery::Delivery;
use crate::registration::Requirements;
use crate::state::StateMap;

pub use attempt::Attempt;
pub use rejection::Rejection;
pub(crate) use rejection::RejectionKind;
pub use shared::State;

mod attempt;
mod raw;
mod rejection;
mod shared;

/// A handler argument.
///
/// Several of one kind may be taken, in any order. To write an own extractor implement
/// [`extract`](Extract::extract), and [`requires`](Extract::requires) when it needs state that
/// [`App::check`](crate::App::check) should ask for, or belongs to one message.
///
/// # Examples
///
/// An extractor of one's own, made of two others. What it refuses to take is never retried:
///
/// ```
/// use ruststream::Extract;
/// use ruststream::Json;
/// use ruststream::extract::Incoming;
/// use ruststream::extract::Rejection;
/// use ruststream::registration::Requirements;
///
/// struct Signed<T>(T);
///
/// impl<T: serde::de::DeserializeOwned + Send> Extract for Signed<T> {
///     fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
///         if from.delivery().headers().first("signature").is_none() {
///             return Err(Rejection::undecodable("header `signature` is missing"));
///         }
///         let Json(value) = Json::extract(from)?;
///         Ok(Self(value))
///     }
///
///     fn requires(needs: &mut Requirements) {
///         Json::<T>::requires(needs);
///     }
/// }
/// ```
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
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.scope.state.get()
    }
}

/// What a mount point offers its extractors besides the delivery.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) state: StateMap,
    /// The sink of the mount point's own broker.
    pub(crate) sink: Arc<dyn Sink>,
    /// Cancelled when the application begins to stop.
    pub(crate) shutdown: CancellationToken,
}

#[cfg(test)]
pub(crate) mod testing;
