//! Stands for [`Tls`] where the feature `rustls` is off: there is none.

use super::query::Query;
use crate::broker::BrokerError;

/// Never made.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

impl Tls {
    /// What the feature would take from the parameters of a URL.
    ///
    /// # Errors
    ///
    /// The scheme is encrypted: this build cannot.
    pub(crate) fn from_query(encrypted: bool, _: &mut Query) -> Result<Option<Self>, BrokerError> {
        if encrypted {
            return Err(unavailable());
        }
        Ok(None)
    }
}

/// Why there is none, and the cure.
pub(super) fn unavailable() -> BrokerError {
    BrokerError::permanent("TLS is not compiled in: it needs the feature `rustls` of ruststream")
}
