//! The message's id.

use bytestring::ByteString;

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::headers::HeaderValue;
use crate::headers::names;
use crate::registration::Requirements;

/// The message's id, where it has one: its own, or the one it got with its first copy (spec C27).
///
/// The same for every copy of a message, so duplicates can be recognised by it. A first delivery of a
/// message that was published without an id has none.
///
/// # Examples
///
/// ```
/// use ruststream::MessageId;
///
/// async fn handle(id: MessageId) {
///     match id.as_str() {
///         Some(id) => assert_eq!(id, "7"),
///         None => { /* it cannot be recognised when it comes again */ }
///     }
/// }
/// # let _ = handle(MessageId::new("7"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageId(Option<ByteString>);

impl MessageId {
    /// An id, for calling a handler in a test; the default is none.
    #[must_use]
    pub fn new(id: impl Into<ByteString>) -> Self {
        Self(Some(id.into()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text itself, to keep.
    #[must_use]
    pub fn into_inner(self) -> Option<ByteString> {
        self.0
    }
}

impl Extract for MessageId {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let message = from.delivery().message();
        if let Some(id) = message.id() {
            return Ok(Self(Some(ByteString::from(id))));
        }
        Ok(Self(match message.headers().first(names::ID) {
            Some(HeaderValue::Text(id)) => Some(id.clone()),
            _ => None,
        }))
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("MessageId");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;
    use crate::message::Message;

    // spec: C27
    #[test]
    fn the_id_is_the_messages_own_or_the_one_its_copy_got() {
        let given = || Message::new("").with_header(names::ID, "given");
        #[rustfmt::skip]
        let rows = [
            (Message::new(""), None),
            (Message::new("").with_id("own"), Some("own")),
            (given(), Some("given")),
            (given().with_id("own"), Some("own")),
            (Message::new("").with_header(names::ID, 7_u8), None),
        ];
        for (message, expected) in rows {
            let id: MessageId = Fixture::new(message).take().unwrap();
            assert_eq!(id.as_str(), expected);
        }
    }
}
