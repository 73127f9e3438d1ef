//! Message handlers as plain functions.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod address;
pub mod app;
pub mod batch;
pub mod broker;
mod clock;
pub mod codec;
pub mod config;
mod dead_letter;
pub mod delivery;
pub mod describe;
pub mod error;
pub mod extract;
mod failure;
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
pub mod state;
pub mod stats;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;

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

#[cfg(feature = "macros")]
pub use ruststream_macros::Failure;
#[cfg(feature = "macros")]
pub use ruststream_macros::subscriber;

#[doc(hidden)]
pub mod __private;
