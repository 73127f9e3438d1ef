//! What the network drivers share: where a server is, how it is reached, and when to try again.
//!
//! Nothing here knows a protocol. A driver parses its URL into an [`Endpoint`], takes its own
//! parameters out of the [`Query`], dials, and asks [`Reconnect`] how long to wait when that fails.

mod dial;
mod endpoint;
mod query;
mod reconnect;
mod secret;
#[cfg(test)]
mod testing;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "tls_off.rs"]
mod tls;
#[cfg(feature = "websocket")]
mod websocket;

pub(crate) use self::dial::Stream;
pub(crate) use self::dial::dial;
pub(crate) use self::dial::explain;
pub(crate) use self::dial::is_tls_record;
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::endpoint::Scheme;
pub(crate) use self::reconnect::Reconnect;
pub(crate) use self::secret::Secret;
#[cfg(feature = "rustls")]
pub use self::tls::Tls;
#[cfg(not(feature = "rustls"))]
pub(crate) use self::tls::Tls;
