//! The codec by content type.

use std::ops::Deref;
use std::ops::DerefMut;

use serde::de::DeserializeOwned;

use crate::codec::json;
use crate::codec::reason::shown;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// A payload in the codec that its content type names.
///
/// | content type | codec |
/// |---|---|
/// | absent, or empty | JSON |
/// | `application/json`, `text/json`, any `…+json` | JSON |
/// | `application/cbor`, any `…+cbor` | CBOR, with the feature `cbor` |
/// | `application/msgpack`, `application/x-msgpack`, `application/vnd.msgpack`, any `…+msgpack` | `MessagePack`, with the feature `msgpack` |
/// | anything else | none: undecodable |
///
/// The case does not matter, and parameters (`; charset=UTF-8`) are not read. Undecodable means the
/// dead letter, or dropped without one; in no case is the message handed out again (spec C8).
///
/// To publish a value name its codec, as in `Json(&value)`.
///
/// # Examples
///
/// ```
/// use ruststream::Decoded;
///
/// #[derive(serde::Deserialize)]
/// struct Order { id: u64 }
///
/// async fn handle(Decoded(order): Decoded<Order>) {
///     assert_eq!(order.id, 7);
/// }
/// # let _ = handle(Decoded(Order { id: 7 }));
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "json")))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decoded<T>(pub T);

impl<T> Decoded<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: DeserializeOwned + Send> Extract for Decoded<T> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let message = from.delivery().message();
        let content_type = message.content_type().unwrap_or_default();
        match Codec::of(content_type) {
            Some(codec) => codec.decode(message.payload()).map(Self),
            None => Err(unknown(content_type)),
        }
    }

    fn requires(needs: &mut Requirements) {
        needs.decodes();
        needs.per_message("Decoded");
    }
}

impl<T> Deref for Decoded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Decoded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cold]
fn unknown(content_type: &str) -> Rejection {
    let shown = shown(content_type);
    Rejection::undecodable(format_args!("no codec for content type `{shown}`"))
}

/// What a content type asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Json,
    Cbor,
    MsgPack,
}

impl Codec {
    /// RFC 9110 section 8.3.1 for the form, RFC 6839 for the suffix.
    fn of(content_type: &str) -> Option<Self> {
        const NAMES: [(&str, Codec); 6] = [
            (json::CONTENT_TYPE, Codec::Json),
            ("text/json", Codec::Json),
            ("application/cbor", Codec::Cbor),
            ("application/msgpack", Codec::MsgPack),
            ("application/x-msgpack", Codec::MsgPack),
            ("application/vnd.msgpack", Codec::MsgPack),
        ];
        const SUFFIXES: [(&str, Codec); 3] = [
            ("json", Codec::Json),
            ("cbor", Codec::Cbor),
            ("msgpack", Codec::MsgPack),
        ];

        // What nearly every message says, or does not.
        if content_type.is_empty() || content_type == json::CONTENT_TYPE {
            return Some(Self::Json);
        }
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if essence.is_empty() {
            return Some(Self::Json);
        }
        let is = |name: &str, (known, codec): (&str, Self)| {
            name.eq_ignore_ascii_case(known).then_some(codec)
        };
        NAMES
            .into_iter()
            .find_map(|row| is(essence, row))
            .or_else(|| {
                let (kind, suffix) = essence.rsplit_once('+')?;
                // A suffix belongs to a media type, so there must be one.
                kind.contains('/').then_some(())?;
                SUFFIXES.into_iter().find_map(|row| is(suffix, row))
            })
    }

    fn decode<T: DeserializeOwned>(self, payload: &[u8]) -> Result<T, Rejection> {
        match self {
            Self::Json => json::decode(payload),
            #[cfg(feature = "cbor")]
            Self::Cbor => crate::codec::cbor::decode(payload),
            #[cfg(not(feature = "cbor"))]
            Self::Cbor => Err(without("cbor")),
            #[cfg(feature = "msgpack")]
            Self::MsgPack => crate::codec::msgpack::decode(payload),
            #[cfg(not(feature = "msgpack"))]
            Self::MsgPack => Err(without("msgpack")),
        }
    }
}

#[cfg(not(all(feature = "cbor", feature = "msgpack")))]
#[cold]
fn without(feature: &str) -> Rejection {
    Rejection::undecodable(format_args!(
        "the content type needs ruststream's feature `{feature}`"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::reason::MAX_REASON;
    use crate::extract::testing::Fixture;
    use crate::message::Message;

    fn take(content_type: &str) -> Result<u32, Rejection> {
        let message = Message::new("7").with_content_type(content_type);
        Fixture::new(message).take().map(Decoded::into_inner)
    }

    // case: E03
    #[test]
    fn the_content_type_names_the_codec_as_the_table_says() {
        use Codec::{Cbor, Json, MsgPack};
        #[rustfmt::skip]
        let rows = [
            ("", Some(Json)),
            (" ; charset=utf-8", Some(Json)),
            ("application/json", Some(Json)),
            ("application/json; charset=UTF-8", Some(Json)),
            ("application/json;charset=UTF-8", Some(Json)),
            ("Application/JSON", Some(Json)),
            (" text/json ", Some(Json)),
            ("application/vnd.shop.order+json", Some(Json)),
            ("application/cloudevents+JSON; v=1", Some(Json)),
            ("application/cbor", Some(Cbor)),
            ("application/senml+cbor", Some(Cbor)),
            ("application/x-msgpack", Some(MsgPack)),
            ("application/vnd.msgpack", Some(MsgPack)),
            ("application/thing+msgpack", Some(MsgPack)),
            ("app", None),
            ("json", None),
            ("+json", None),
            ("text/plain", None),
            ("application/jsonp", None),
            ("text/plain; as=application/json", None),
        ];
        for (content_type, codec) in rows {
            assert_eq!(Codec::of(content_type), codec, "{content_type:?}");
        }
    }

    // case: E03
    #[test]
    fn a_message_without_a_content_type_is_json() {
        let Decoded(value): Decoded<u32> = Fixture::new("7").take().unwrap();
        assert_eq!(value, 7);
        assert_eq!(take("").unwrap(), 7);
        assert_eq!(take("application/json; charset=UTF-8").unwrap(), 7);
    }

    // case: E03
    #[test]
    fn an_unknown_content_type_is_refused_for_good_and_shown_cut() {
        let refused = take("text/plain").unwrap_err();
        assert!(refused.is_undecodable());
        assert_eq!(refused.reason(), "no codec for content type `text/plain`");

        let refused = take(&"x".repeat(10_000)).unwrap_err();
        assert!(refused.is_undecodable());
        assert!(refused.reason().len() <= MAX_REASON);
    }

    #[cfg(all(feature = "cbor", feature = "msgpack"))]
    #[test]
    fn the_named_codec_decodes() {
        use crate::Cbor;
        use crate::IntoMessage;
        use crate::MsgPack;

        let value = vec!["a".to_owned()];
        for message in [
            Cbor(&value).into_message().unwrap(),
            MsgPack(&value).into_message().unwrap(),
            crate::Json(&value).into_message().unwrap(),
        ] {
            let Decoded(decoded): Decoded<Vec<String>> = Fixture::new(message).take().unwrap();
            assert_eq!(decoded, value);
        }
    }

    proptest! {
        #[test]
        fn no_content_type_panics(content_type: String, payload: Vec<u8>) {
            let message = Message::new(payload).with_content_type(content_type);
            if let Err(refused) = Fixture::new(message).take::<Decoded<u32>>() {
                prop_assert!(refused.is_undecodable());
                prop_assert!(refused.reason().len() <= MAX_REASON);
            }
        }
    }
}
