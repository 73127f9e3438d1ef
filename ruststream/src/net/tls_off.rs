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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_scheme_names_the_feature() {
        let mut query = Query::new(String::new(), Vec::new());
        let error = Tls::from_query(true, &mut query).expect_err("there is none");
        assert!(error.to_string().contains("`rustls`"), "{error}");
        assert!(Tls::from_query(false, &mut query).is_ok_and(|tls| tls.is_none()));
        query.finish().expect("nothing was given");
    }
}
