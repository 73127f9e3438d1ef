//! What a handler may take as arguments.
//!
//! An argument is anything that is [`Extract`]: a payload in a codec, a header, the attempt, shared
//! state. Extraction is synchronous, happens in the handler's slot just before it runs, and owns
//! what it takes (usually a share of the message, never a copy of it).
//!
//! | argument | what it is |
//! |---|---|
//! | [`Json<T>`](crate::Json), [`Cbor<T>`](crate::Cbor), [`MsgPack<T>`](crate::MsgPack) | the payload in one codec |
//! | [`Decoded<T>`](crate::Decoded) | the payload, by its content type |
//! | [`Text`], [`Bytes`](crate::Bytes), [`Message`](crate::Message) | the payload as it is; the whole message |
//! | [`Headers`], [`Header<N>`](Header), `Option<Header<N>>` | all headers; one by its declared name |
//! | [`Attempt`], [`Address`] (also [`Topic`]), [`MessageId`] | which attempt, from where, which message |
//! | [`DeadLetter`] | why a message was dead-lettered |
//! | [`State<T>`](State) | what the application shares |
//! | [`Retained`] | whether an MQTT server had kept it for later subscribers |
//! | [`Publisher`](crate::Publisher), [`Settler`](crate::Settler), [`Shutdown`] | publishing, settling by hand, the stop |
//! | [`Batch<T>`](crate::Batch) | many at once, with `batch(…)` in the attribute |
//! | `Result<E, Rejection>` | any of these, with its refusal left to the handler |

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::batch::Ledger;
use crate::broker::Sink;
use crate::delivery::Delivery;
use crate::publisher::Brokers;
use crate::registration::Requirements;
use crate::settler::Posts;
use crate::settler::Right;
use crate::state::StateMap;

pub use address::Address;
#[doc(inline)]
pub use address::Address as Topic;
pub use attempt::Attempt;
pub use combined::ExtractOptional;
pub(crate) use combined::absorb;
pub use dead_letter::DeadLetter;
pub use header::FromHeader;
pub use header::Header;
pub use header::HeaderName;
pub use header::Headers;
pub use header::InvalidHeader;
pub use message_id::MessageId;
pub use raw::Text;
pub use rejection::Rejection;
pub(crate) use rejection::RejectionKind;
pub use retained::Retained;
pub use shared::State;
pub use shutdown::Shutdown;

mod address;
mod attempt;
mod combined;
mod dead_letter;
mod header;
mod message_id;
mod raw;
mod rejection;
mod retained;
mod shared;
mod shutdown;

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
    note = "wrap a payload in a codec, as in `Json<{Self}>` (text is `Text`, raw bytes are `Bytes`), and shared state as in `State<{Self}>`"
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
    /// Set when an argument takes the right to settle.
    pub(crate) right: Option<Arc<Right>>,
    /// Where the outcomes of a batch's items go; `None` for a single delivery.
    pub(crate) ledger: Option<&'a Arc<Ledger>>,
}

impl<'a> Incoming<'a> {
    /// One delivery.
    pub(crate) fn new(deliveries: &'a mut [Delivery], scope: &'a Scope) -> Self {
        Self {
            deliveries,
            scope,
            right: None,
            ledger: None,
        }
    }

    /// A batch, whose items answer to `ledger`, which was [`reset`](Ledger::reset) for it.
    pub(crate) fn batch(
        deliveries: &'a mut [Delivery],
        scope: &'a Scope,
        ledger: &'a Arc<Ledger>,
    ) -> Self {
        Self {
            deliveries,
            scope,
            right: None,
            ledger: Some(ledger),
        }
    }

    /// Whether it is a batch, which a handler takes as [`Batch`](crate::Batch).
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.ledger.is_some()
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

    /// Take the right to settle out of the delivery; the pump keeps a share to take it back.
    pub(crate) fn settle_by_hand(&mut self) -> Arc<Right> {
        let right = self.right.get_or_insert_with(|| {
            let delivery = &mut self.deliveries[0];
            let posts = Arc::clone(&self.scope.posts);
            Arc::new(Right::new(delivery.id, delivery.token.take(), posts))
        });
        Arc::clone(right)
    }
}

/// What a mount point offers its extractors besides the delivery.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) state: StateMap,
    /// The sink of the mount point's own broker.
    pub(crate) sink: Arc<dyn Sink>,
    /// Every named broker of the application.
    pub(crate) brokers: Brokers,
    /// Cancelled when the application begins to stop.
    pub(crate) shutdown: CancellationToken,
    /// Where settlers speak to the pump.
    pub(crate) posts: Arc<Posts>,
}

impl Scope {
    pub(crate) fn new(
        state: StateMap,
        sink: Arc<dyn Sink>,
        brokers: Brokers,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            state,
            sink,
            brokers,
            shutdown,
            posts: Arc::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
