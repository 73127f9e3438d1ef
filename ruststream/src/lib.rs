//! Message handlers as plain async functions.
//!
//! [`#[subscriber]`](macro@subscriber) on an `async fn` registers it at compile time. At start-up an
//! [`App`] collects the registrations into mount points (handler, policy, broker), checks all of
//! them, and runs one settlement pump for each: it receives deliveries, runs the handler, and turns
//! its [`Outcome`] into what the broker's protocol can say. What the protocol cannot say, it does
//! with published copies, each confirmed before its original is settled.
//!
//! # Examples
//!
//! ```no_run
//! use ruststream::App;
//! use ruststream::Json;
//! use ruststream::subscriber;
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! #[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
//! async fn fulfil(order: Json<Order>) -> Result<(), String> {
//!     println!("order {}", order.id);
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), ruststream::Error> {
//!     App::new("shop").broker(ruststream::broker::from_env()?).run().await
//! }
//! ```
//!
//! # Where things are
//!
//! | for | see |
//! |---|---|
//! | every key of the attribute | [`subscriber`](macro@subscriber) |
//! | what a handler may take | [`extract`], [`codec`], [`Batch`], [`Settler`] |
//! | what it may return | [`Outcome`], [`Failure`](trait@Failure), [`IntoOutcome`] |
//! | publishing | [`Publisher`], [`Message`] |
//! | brokers, and how to write a driver | [`broker`], [`broker::memory`] |
//! | configuration by file and environment | [`config`] |
//! | how deliveries are settled, as a pure function | [`settlement`] |
//! | tests in virtual time | [`testing`] |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `macros` (default) | `#[subscriber]`, `#[derive(Failure)]` |
//! | `json` (default), `cbor`, `msgpack` | codecs |
//! | `memory` (default) | the embedded broker |
//! | `mqtt` | the driver for MQTT 5 |
//! | `rustls` | TLS for it |
//! | `websocket` | MQTT over websockets |
//! | `testing` | `TestApp`, faults and observation on the embedded broker, the conformance suite |
//! | `full` | all of them |
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
#[cfg(feature = "mqtt")]
mod net;
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
pub use extract::Retained;
pub use extract::Shutdown;
pub use extract::State;
pub use extract::Text;
pub use extract::Topic;
pub use failure::Failure;
pub use headers::HeaderValue;
pub use message::Message;
#[cfg(all(feature = "rustls", feature = "mqtt"))]
#[cfg_attr(docsrs, doc(cfg(feature = "rustls")))]
pub use net::Tls;
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

/// Derives [`Failure`](trait@Failure): what each variant of an error means for its delivery.
///
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
/// Registers an async function as a message handler.
///
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

/// The README's program is compiled like any example.
#[cfg(all(doctest, feature = "macros", feature = "memory", feature = "json"))]
#[doc = include_str!("../../README.md")]
struct Readme;
