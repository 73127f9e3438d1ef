//! Message handlers as plain functions.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[allow(
    unused_extern_crates,
    reason = "generated code names the crate from outside, in its own tests too"
)]
extern crate self as ruststream;

pub mod address;
pub mod app;
pub mod batch;
pub mod broker;
mod check;
mod clock;
pub mod codec;
pub mod config;
mod dead_letter;
pub mod delivery;
pub mod describe;
pub mod duration;
pub mod error;
pub mod extract;
mod failure;
mod finish;
pub mod handler;
pub mod headers;
pub mod message;
pub mod mount;
mod outcome;
pub mod policy;
mod publisher;
mod pump;
pub mod registration;
pub mod registry;
pub mod settle;
pub mod settlement;
mod settler;
mod state;
pub mod stats;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
mod text;

pub use app::App;
pub use batch::Batch;
pub use broker::PublishError;
#[cfg(feature = "cbor")]
pub use codec::Cbor;
#[cfg(feature = "json")]
pub use codec::Decoded;
pub use codec::IntoMessage;
#[cfg(feature = "json")]
pub use codec::Json;
#[cfg(feature = "msgpack")]
pub use codec::MsgPack;
pub use delivery::Delivery;
pub use error::Error;
pub use extract::Address;
pub use extract::Attempt;
pub use extract::DeadLetter;
pub use extract::Extract;
pub use extract::Header;
pub use extract::Headers;
pub use extract::MessageId;
pub use extract::Shutdown;
pub use extract::State;
pub use extract::Text;
pub use extract::Topic;
pub use failure::Failure;
pub use headers::HeaderValue;
pub use message::Message;
pub use outcome::IntoOutcome;
pub use outcome::Outcome;
pub use publisher::Publish;
pub use publisher::Publisher;
pub use registry::Registry;
pub use settle::AckError;
pub use settle::Settle;
pub use settler::Settler;

pub use bytes::Bytes;
pub use bytestring::ByteString;

/// # Examples
///
/// ```
/// use std::fmt;
///
/// use ruststream::Failure;
/// use ruststream::Outcome;
///
/// #[derive(Debug, Failure)]
/// enum FulfilError {
///     #[failure(retry_after = "5s")]
///     OutOfStock,
///     #[failure(dead_letter)]
///     UnknownProduct(u32),
/// }
///
/// impl fmt::Display for FulfilError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "{self:?}")
///     }
/// }
///
/// assert_eq!(FulfilError::UnknownProduct(7).outcome(), Outcome::DeadLetter);
/// ```
///
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use ruststream_macros::Failure;
/// # Examples
///
/// ```
/// use ruststream::Bytes;
/// use ruststream::Outcome;
/// use ruststream::extract::Attempt;
/// use ruststream::subscriber;
///
/// #[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
/// async fn fulfil(order: Bytes, attempt: Attempt) -> Result<(), std::str::Utf8Error> {
///     let order = std::str::from_utf8(&order)?;
///     println!("{attempt:?}: {order}");
///     Ok(())
/// }
///
/// #[subscriber(filter = "devices/+/state", retry_topic = "devices/retry/state", mqtt(qos = 1, shared = "workers"))]
/// async fn record(state: Bytes) -> Outcome {
///     if state.is_empty() { Outcome::Drop } else { Outcome::Ack }
/// }
/// ```
///
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use ruststream_macros::subscriber;

#[doc(hidden)]
pub mod __private;
