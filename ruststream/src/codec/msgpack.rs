//! `MessagePack`, by `rmp-serde`.

use rmp_serde::Deserializer;
use rmp_serde::decode::Error;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::EncodeError;
use crate::codec::reason::refusal;
use crate::codec::reason::without_values;
use crate::codec::wrapper;
use crate::extract::Rejection;

wrapper! {
    /// A payload in `MessagePack`.
    ///
    /// Structures are published as maps by field name; maps and arrays are both decoded. One value
    /// and nothing after it, decoded whatever the content type says; [`Decoded`](crate::Decoded) goes
    /// by it. An empty payload is undecodable, once (spec C8).
    ///
    /// # Examples
    ///
    /// ```
    /// use ruststream::MsgPack;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Reading { celsius: f32 }
    ///
    /// async fn handle(MsgPack(reading): MsgPack<Reading>) {
    ///     assert!(reading.celsius < 90.0);
    /// }
    /// # let _ = handle(MsgPack(Reading { celsius: 7.0 }));
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "msgpack")))]
    MsgPack, "MsgPack", CONTENT_TYPE
}

pub(crate) const CONTENT_TYPE: &str = "application/msgpack";

/// Nesting beyond this is refused: it costs stack, and half of it would be a strange message.
const MAX_DEPTH: usize = 128;

pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Rejection> {
    let mut decoder = Deserializer::from_read_ref(payload);
    decoder.set_max_depth(MAX_DEPTH);
    let value = T::deserialize(&mut decoder).map_err(|error| refused(payload, error))?;
    // The decoder does not say where it stands, but only at the end is there no next marker.
    match u8::deserialize(&mut decoder) {
        Err(Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(trailing()),
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    rmp_serde::to_vec_named(value).map_err(|error| EncodeError::new("msgpack", error))
}

#[cold]
fn refused(payload: &[u8], error: Error) -> Rejection {
    if payload.is_empty() {
        return Rejection::undecodable("msgpack: the payload is empty");
    }
    let what = match error {
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => {
            "the payload ends too early".to_owned()
        }
        Error::TypeMismatch(_) => "a value has another type than expected".to_owned(),
        Error::Uncategorized(message) | Error::Syntax(message) => without_values(&message),
        Error::Utf8Error(_) => "a string is not UTF-8".to_owned(),
        Error::DepthLimitExceeded => format!("nested deeper than {MAX_DEPTH}"),
        // About lengths and ranges: numbers, nothing of the payload.
        error @ (Error::OutOfRange | Error::LengthMismatch(_)) => error.to_string(),
    };
    refusal("msgpack", what, "")
}

#[cold]
fn trailing() -> Rejection {
    Rejection::undecodable("msgpack: trailing bytes after the value")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

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

    /// Arrays in arrays, or anything else.
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only the shape is decoded")]
    enum Nested {
        List(Vec<Nested>),
        Text(String),
        Number(f64),
    }

    fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
        encode(value).unwrap()
    }

    fn reason(payload: Vec<u8>) -> String {
        let refused = Fixture::new(payload).take::<MsgPack<Order>>().unwrap_err();
        assert!(refused.is_undecodable());
        refused.reason().to_owned()
    }

    #[test]
    fn what_is_published_is_what_arrives() {
        let sent = MsgPack(Order {
            id: 7,
            note: "é".into(),
            raw: vec![0, 255],
        });
        let message = (&sent).into_message().unwrap();
        assert_eq!(message.content_type(), Some("application/msgpack"));
        assert_eq!(
            Fixture::new(message).take::<MsgPack<Order>>().unwrap(),
            sent
        );
    }

    #[test]
    fn structures_that_came_as_arrays_are_decoded_too() {
        let compact = rmp_serde::to_vec(&(7, "note", vec![1_u8])).unwrap();
        let MsgPack(order): MsgPack<Order> = Fixture::new(compact).take().unwrap();
        assert_eq!(order.id, 7);
    }

    // case: E02
    #[test]
    fn what_does_not_decode_is_refused_for_good_with_what_went_wrong() {
        let mut twice = encoded(&Order {
            id: 7,
            note: String::new(),
            raw: vec![],
        });
        twice.push(0xC0);
        #[rustfmt::skip]
        let rows = [
            (vec![], "msgpack: the payload is empty"),
            (vec![0x81], "msgpack: the payload ends too early"),
            (encoded(&BTreeMap::from([("id", 7)])), "msgpack: missing field `note`"),
            (encoded(&BTreeMap::from([("id", "secret")])), "msgpack: a value has another type than expected"),
            (twice, "msgpack: trailing bytes after the value"),
        ];
        for (payload, expected) in rows {
            assert_eq!(reason(payload), expected);
        }
    }

    #[test]
    fn deep_nesting_is_refused_rather_than_followed() {
        let payload = vec![0x91; 1_000_000];
        let refused = Fixture::new(payload).take::<MsgPack<Nested>>().unwrap_err();
        assert_eq!(refused.reason(), "msgpack: nested deeper than 128");
    }

    #[test]
    fn a_length_that_the_payload_does_not_have_costs_nothing() {
        // bin 32, str 32 and array 32 that claim 2^32 - 1 items.
        for kind in [0xC6, 0xDB, 0xDD] {
            let payload = vec![kind, 255, 255, 255, 255];
            assert!(
                Fixture::new(payload.clone())
                    .take::<MsgPack<Vec<u8>>>()
                    .is_err()
            );
            assert!(Fixture::new(payload).take::<MsgPack<String>>().is_err());
        }
    }

    proptest! {
        #[test]
        fn no_payload_panics(payload: Vec<u8>) {
            for refused in [
                Fixture::new(payload.clone()).take::<MsgPack<Order>>().err(),
                Fixture::new(payload).take::<MsgPack<Nested>>().err(),
            ].into_iter().flatten() {
                prop_assert!(refused.is_undecodable());
                prop_assert!(refused.reason().len() <= MAX_REASON);
            }
        }
    }
}
