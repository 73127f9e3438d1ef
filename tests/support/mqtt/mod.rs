//! MQTT 5 by hand, for observing a server, or being one, packet by packet.
//!
//! Nothing here is shared with the driver or with the client library below it, so that a mistake of
//! theirs is not made twice. Encoding is not checked against the protocol on purpose: a test may say
//! what no honest peer would.

mod client;
mod connection;
pub mod packet;
mod peer;

pub use client::Client;
pub use connection::Connection;
pub use peer::Peer;
