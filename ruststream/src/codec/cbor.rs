//! CBOR (RFC 8949), by `ciborium`.

use ciborium::de::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::EncodeError;
use crate::codec::reason::refusal;
use crate::codec::reason::without_values;
use crate::codec::wrapper;
use crate::extract::Rejection;

wrapper! {
    /// A payload in CBOR (RFC 8949).
    ///
    /// One item and nothing after it, decoded whatever the content type says;
    /// [`Decoded`](crate::Decoded) goes by it. An empty payload is undecodable, once (spec C8).
    ///
    /// # Examples
    ///
    /// ```
    /// use ruststream::Cbor;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Reading { celsius: f32 }
    ///
    /// async fn handle(Cbor(reading): Cbor<Reading>) {
    ///     assert!(reading.celsius < 90.0);
    /// }
    /// # let _ = handle(Cbor(Reading { celsius: 7.0 }));
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "cbor")))]
    Cbor, "Cbor", CONTENT_TYPE
}

pub(crate) const CONTENT_TYPE: &str = "application/cbor";

/// Nesting beyond this is refused: it costs stack, and half of it would be a strange message.
const MAX_DEPTH: usize = 128;

pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Rejection> {
    let mut rest = payload;
    let value = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH)
        .map_err(|error| refused(payload, error))?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(trailing(payload.len() - rest.len()))
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut payload = Vec::new();
    match ciborium::into_writer(value, &mut payload) {
        Ok(()) => Ok(payload),
        Err(error) => Err(EncodeError::new("cbor", error)),
    }
}

#[cold]
fn refused<E>(payload: &[u8], error: Error<E>) -> Rejection {
    if payload.is_empty() {
        return Rejection::undecodable("cbor: the payload is empty");
    }
    let (what, at) = match error {
        Error::Io(_) => ("the payload ends too early".to_owned(), None),
        Error::Syntax(at) => ("not CBOR".to_owned(), Some(at)),
        Error::Semantic(at, message) => (without_values(&message), at),
        Error::RecursionLimitExceeded => (format!("nested deeper than {MAX_DEPTH}"), None),
    };
    let place = at.map(|at| format!(" at byte {at}")).unwrap_or_default();
    refusal("cbor", what, &place)
}

#[cold]
fn trailing(at: usize) -> Rejection {
    refusal(
        "cbor",
        "trailing bytes".to_owned(),
        &format!(" at byte {at}"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::IntoMessage;
    use crate::codec::reason::MAX_REASON;
    use crate::extract::testing::Fixture;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Order {
        id: u32,
        note: String,
        raw: Vec<u8>,
    }

    fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
        encode(value).unwrap()
    }

    fn reason(payload: Vec<u8>) -> String {
        let refused = Fixture::new(payload).take::<Cbor<Order>>().unwrap_err();
        assert!(refused.is_undecodable());
        refused.reason().to_owned()
    }

    #[test]
    fn what_is_published_is_what_arrives() {
        let sent = Cbor(Order {
            id: 7,
            note: "é".into(),
            raw: vec![0, 255],
        });
        let message = (&sent).into_message().unwrap();
        assert_eq!(message.content_type(), Some("application/cbor"));
        assert_eq!(Fixture::new(message).take::<Cbor<Order>>().unwrap(), sent);
    }

    // case: E02
    #[test]
    fn what_does_not_decode_is_refused_for_good_with_what_and_where() {
        let secret = BTreeMap::from([("id", "secret")]);
        let mut twice = encoded(&Order {
            id: 7,
            note: String::new(),
            raw: vec![],
        });
        let length = twice.len();
        twice.push(0);
        let missing = BTreeMap::from([("id", 7)]);
        #[rustfmt::skip]
        let rows = [
            (vec![], "cbor: the payload is empty".to_owned()),
            (vec![0xA1], "cbor: the payload ends too early".to_owned()),
            (vec![0x1C], "cbor: not CBOR at byte 0".to_owned()),
            (vec![0x81; 5000], "cbor: invalid type: sequence, expected map".to_owned()),
            (encoded(&missing), "cbor: missing field `note`".to_owned()),
            (twice, format!("cbor: trailing bytes at byte {length}")),
        ];
        for (payload, expected) in rows {
            assert_eq!(reason(payload), expected);
        }
        assert!(!reason(encoded(&secret)).contains("secret"));
    }

    #[test]
    fn deep_nesting_is_refused_rather_than_followed() {
        let payload = vec![0x81; 1_000_000];
        let refused = Fixture::new(payload)
            .take::<Cbor<ciborium::Value>>()
            .unwrap_err();
        assert_eq!(refused.reason(), "cbor: nested deeper than 128");
    }

    #[test]
    fn a_length_that_the_payload_does_not_have_costs_nothing() {
        // A byte string, a text and an array that claim 2^63 items.
        for kind in [0x5B, 0x7B, 0x9B] {
            let payload = vec![kind, 0x7F, 255, 255, 255, 255, 255, 255, 255];
            assert!(
                Fixture::new(payload.clone())
                    .take::<Cbor<Vec<u8>>>()
                    .is_err()
            );
            assert!(
                Fixture::new(payload.clone())
                    .take::<Cbor<String>>()
                    .is_err()
            );
            assert!(
                Fixture::new(payload)
                    .take::<Cbor<ciborium::Value>>()
                    .is_err()
            );
        }
    }

    proptest! {
        #[test]
        fn no_payload_panics(payload: Vec<u8>) {
            for refused in [
                Fixture::new(payload.clone()).take::<Cbor<Order>>().err(),
                Fixture::new(payload).take::<Cbor<ciborium::Value>>().err(),
            ].into_iter().flatten() {
                prop_assert!(refused.is_undecodable());
                prop_assert!(refused.reason().len() <= MAX_REASON);
            }
        }
    }
}
