//! JSON, by `serde_json`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::codec::EncodeError;
use crate::codec::reason::refusal;
use crate::codec::reason::without_values;
use crate::codec::wrapper;
use crate::extract::Rejection;

wrapper! {
    /// A payload in JSON.
    ///
    /// Decoded whatever the content type says; [`Decoded`](crate::Decoded) goes by it. An empty
    /// payload is undecodable, once (spec C8).
    ///
    /// # Examples
    ///
    /// ```
    /// use ruststream::Json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Order { id: u64 }
    ///
    /// async fn handle(Json(order): Json<Order>) {
    ///     assert_eq!(order.id, 7);
    /// }
    /// # let _ = handle(Json(Order { id: 7 }));
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "json")))]
    Json, "Json", CONTENT_TYPE
}

pub(crate) const CONTENT_TYPE: &str = "application/json";

pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Rejection> {
    // A `match`, because `map_err` is one more call to be compiled for each payload.
    match serde_json::from_slice(payload) {
        Ok(value) => Ok(value),
        Err(error) => Err(refused(payload, &error)),
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    serde_json::to_vec(value).map_err(|error| EncodeError::new("json", error))
}

#[cold]
fn refused(payload: &[u8], error: &serde_json::Error) -> Rejection {
    if payload.is_empty() {
        return Rejection::undecodable("json: the payload is empty");
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let what = match error.classify() {
        Category::Data => without_values(message),
        // About the grammar: nothing of the payload is in them.
        Category::Syntax | Category::Eof | Category::Io => message.to_owned(),
    };
    refusal("json", what, &place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::IntoMessage;
    use crate::codec::reason::MAX_REASON;
    use crate::extract::testing::Fixture;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        id: u32,
    }

    fn reason(payload: &'static str) -> String {
        let refused = Fixture::new(payload).take::<Json<Order>>().unwrap_err();
        assert!(refused.is_undecodable());
        refused.reason().to_owned()
    }

    #[test]
    fn a_payload_is_decoded() {
        let Json(order): Json<Order> = Fixture::new(r#"{"id":7}"#).take().unwrap();
        assert_eq!(order, Order { id: 7 });
    }

    // case: E02 E04 E06
    #[test]
    fn what_does_not_decode_is_refused_for_good_with_what_and_where() {
        #[rustfmt::skip]
        let rows = [
            ("", "json: the payload is empty"),
            ("not json", "json: expected ident at line 1 column 2"),
            ("{}", "json: missing field `id` at line 1 column 2"),
            (r#"{"id":"secret"}"#, "json: invalid type: string, expected u32 at line 1 column 14"),
            (r#"{"id":-1}"#, "json: invalid value: integer, expected u32 at line 1 column 8"),
            (r#"{"id":7} x"#, "json: trailing characters at line 1 column 10"),
            (r#"{"secret":7}"#, "json: unknown field, expected `id` at line 1 column 9"),
        ];
        for (payload, expected) in rows {
            assert_eq!(reason(payload), expected);
        }
    }

    // case: E04
    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        let payload: &[u8] = &[0xFF, 0xFE, 0x80];
        let refused = Fixture::new(payload).take::<Json<Order>>().unwrap_err();
        assert!(refused.is_undecodable());
    }

    #[test]
    fn deep_nesting_is_refused_rather_than_followed() {
        let payload = "[".repeat(1_000_000);
        assert!(
            Fixture::new(payload)
                .take::<Json<serde_json::Value>>()
                .is_err()
        );
    }

    #[test]
    fn a_value_that_json_cannot_express_is_an_error() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = Json(map).into_message().unwrap_err();
        assert_eq!(error.codec(), "json");
    }

    #[test]
    fn a_message_says_that_it_is_json() {
        let message = (&Json(Order { id: 7 })).into_message().unwrap();
        assert_eq!(message.payload().as_ref(), br#"{"id":7}"#);
        assert_eq!(message.content_type(), Some("application/json"));
    }

    proptest! {
        #[test]
        fn no_payload_panics_or_shows_itself(payload: Vec<u8>) {
            if let Err(refused) = Fixture::new(payload).take::<Json<Order>>() {
                prop_assert!(refused.is_undecodable());
                prop_assert!(refused.reason().len() <= MAX_REASON);
            }
        }

        #[test]
        fn text_where_a_number_belongs_is_never_quoted(text in "[a-z]{12,300}") {
            let payload = format!(r#"{{"id":"{text}"}}"#);
            let refused = Fixture::new(payload).take::<Json<Order>>().unwrap_err();
            prop_assert!(!refused.reason().contains(&text));
        }
    }
}
