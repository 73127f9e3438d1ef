//! The payload as it arrived: bytes, text, or the whole message.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use bytestring::ByteString;

use crate::codec::EncodeError;
use crate::codec::IntoMessage;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::message::Message;
use crate::registration::Requirements;

/// The payload as it arrived: a share of it, whatever its size; an empty one is fine.
impl Extract for Bytes {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(from.delivery().payload().clone())
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Bytes");
    }
}

/// The message: payload, headers and properties, to forward or to look at.
///
/// A copy of the header list; [`Bytes`] and [`Headers`](crate::Headers) share it instead.
impl Extract for Message {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(from.delivery().message().clone())
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Message");
    }
}

/// The payload as text: a share of it, checked to be UTF-8.
///
/// A payload that is not UTF-8 is undecodable; an empty one is an empty text. The content type is
/// not read.
///
/// # Examples
///
/// ```
/// use ruststream::Text;
///
/// async fn handle(text: Text) {
///     assert!(text.starts_with("hello"));
/// }
/// # let _ = handle(Text("hello".into()));
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub ByteString);

impl Text {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text itself, to keep.
    #[must_use]
    pub fn into_inner(self) -> ByteString {
        self.0
    }
}

impl Extract for Text {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let payload = from.delivery().payload();
        match ByteString::try_from(payload.clone()) {
            Ok(text) => Ok(Self(text)),
            Err(_) => Err(not_text(payload)),
        }
    }

    fn requires(needs: &mut Requirements) {
        needs.decodes();
        needs.per_message("Text");
    }
}

impl IntoMessage for Text {
    fn into_message(self) -> Result<Message, EncodeError> {
        Ok(Message::new(self.0.into_bytes())
            .with_content_type(ByteString::from_static("text/plain; charset=utf-8")))
    }
}

#[cold]
fn not_text(payload: &[u8]) -> Rejection {
    let at = std::str::from_utf8(payload)
        .err()
        .map_or(payload.len(), |error| error.valid_up_to());
    Rejection::undecodable(format_args!("text: not UTF-8 at byte {at}"))
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Shows the length, not the payload.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::extract::testing::Fixture;

    // case: E02
    #[test]
    fn raw_bytes_may_be_empty() {
        let bytes: Bytes = Fixture::new("").take().unwrap();
        assert!(bytes.is_empty());
    }

    #[test]
    fn raw_bytes_are_a_share_of_the_payload() {
        let mut fixture = Fixture::new("payload");
        let bytes: Bytes = fixture.take().unwrap();
        assert_eq!(bytes.as_ptr(), fixture.delivery.payload().as_ptr());
    }

    // case: E02 E04
    #[test]
    fn text_is_utf8_or_refused_for_good_with_the_place() {
        let text: Text = Fixture::new("é").take().unwrap();
        assert_eq!(&*text, "é");
        assert!(Fixture::new("").take::<Text>().unwrap().is_empty());

        let payload: &[u8] = &[b'a', 0xFF, 0xFE, 0x80];
        let refused = Fixture::new(payload).take::<Text>().unwrap_err();
        assert!(refused.is_undecodable());
        assert_eq!(refused.reason(), "text: not UTF-8 at byte 1");
    }

    #[test]
    fn text_does_not_show_itself() {
        assert_eq!(format!("{:?}", Text("secret".into())), "Text(6 bytes)");
    }

    #[test]
    fn a_message_is_taken_whole() {
        let sent = Message::new("x").with_header("tenant", "a").with_id("7");
        let taken: Message = Fixture::new(sent.clone()).take().unwrap();
        assert_eq!(taken, sent);
    }

    proptest! {
        #[test]
        fn text_is_taken_just_when_it_is_utf8(payload: Vec<u8>) {
            let taken: Option<Text> = Fixture::new(payload.clone()).take().ok();
            let expected = String::from_utf8(payload).ok();
            prop_assert_eq!(taken.as_deref(), expected.as_deref());
        }
    }
}
