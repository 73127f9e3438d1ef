//! Message handlers as plain functions.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[allow(
    unused_extern_crates,
    reason = "generated code names the crate from outside, in its own tests too"
)]
extern crate self as ruststream;

pub mod address;
pub mod broker;
mod check;
pub mod delivery;
pub mod duration;
pub mod extract;
mod failure;
mod finish;
pub mod handler;
pub mod headers;
pub mod message;
mod mount;
mod outcome;
pub mod policy;
mod pump;
pub mod registration;
pub mod settle;
pub mod settlement;
pub mod state;
pub mod stats;
mod text;

pub use delivery::Delivery;
pub use extract::Extract;
pub use failure::Failure;
pub use finish::Reply;
pub use headers::HeaderValue;
pub use message::Message;
pub use outcome::IntoOutcome;
pub use outcome::Outcome;
pub use settle::AckError;
pub use settle::Settle;

pub use bytes::Bytes;
pub use bytestring::ByteString;

#[cfg(feature = "macros")]
pub use ruststream_macros::Failure;
#[cfg(feature = "macros")]
pub use ruststream_macros::subscriber;

#[doc(hidden)]
pub mod __private;
