//! Where the message was first delivered.

use std::fmt;
use std::ops::Deref;

use bytestring::ByteString;

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::headers::HeaderValue;
use crate::headers::names;
use crate::registration::Requirements;

/// The address, topic or queue of the first delivery: a copy remembers where its original came from
/// (spec C27). [`Topic`](crate::Topic) is another name for it.
///
/// # Examples
///
/// ```
/// use ruststream::Topic;
///
/// /// Reads `devices/+/telemetry`.
/// async fn record(topic: Topic) {
///     assert_eq!(topic.level(1), Some("thermostat"));
/// }
/// # let _ = record(Topic::new("devices/thermostat/telemetry"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(ByteString);

impl Address {
    /// An address, for calling a handler in a test.
    #[must_use]
    pub fn new(address: impl Into<ByteString>) -> Self {
        Self(address.into())
    }

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

    /// The part between slashes at `index`, from 0: what a `+` of the filter stood for.
    #[must_use]
    pub fn level(&self, index: usize) -> Option<&str> {
        self.0.split('/').nth(index)
    }
}

impl Extract for Address {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let native = &from.delivery().native;
        // As `Delivery::address`, with a share instead of a view.
        Ok(Self(match native.message().headers().first(names::TOPIC) {
            Some(HeaderValue::Text(first)) => first.clone(),
            _ => native.address().clone(),
        }))
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Address");
    }
}

impl Deref for Address {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;
    use crate::message::Message;

    // spec: C27
    #[test]
    fn a_copy_gives_the_address_of_the_first_delivery() {
        #[rustfmt::skip]
        let rows: [(Option<HeaderValue>, &str); 4] = [
            (None, "orders"),
            (Some("first".into()), "first"),
            (Some(7_u8.into()), "orders"),
            (Some(HeaderValue::Null), "orders"),
        ];
        for (header, expected) in rows {
            let mut message = Message::new("");
            if let Some(header) = header {
                message = message.with_header(names::TOPIC, header);
            }
            let mut fixture = Fixture::new(message);
            let address: Address = fixture.take().unwrap();
            assert_eq!(address.as_str(), expected);
            assert_eq!(address.as_str(), fixture.delivery.address());
        }
    }

    #[test]
    fn levels_are_counted_from_zero() {
        let address = Address::new("a//c");
        let levels = [0, 1, 2, 3].map(|index| address.level(index));
        assert_eq!(levels, [Some("a"), Some(""), Some("c"), None]);
    }
}
