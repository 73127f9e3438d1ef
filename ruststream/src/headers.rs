//! The headers of a message: an ordered list in which names may repeat.
//!
//! MQTT calls them user properties, AMQP 1.0 application properties, RabbitMQ headers. Order and
//! repeats survive, because MQTT has both (MQTT 5 section 3.3.2.3.7).

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use thin_vec::ThinVec;

/// The value of a header.
///
/// A view: widths that a protocol distinguishes (AMQP's `int` and `long`) are kept by the native
/// message that copies are built from (spec C11), not here.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum HeaderValue {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A floating point number.
    Float(f64),
    /// Text.
    Text(ByteString),
    /// Bytes that are not known to be text.
    Binary(Bytes),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// A list.
    List(Vec<HeaderValue>),
    /// A table.
    Map(Vec<(ByteString, HeaderValue)>),
}

impl HeaderValue {
    /// The text, if it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Shows numbers and kinds; text and bytes only by length, since headers carry credentials too.
impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) | Self::Timestamp(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => write!(f, "text({} bytes)", value.len()),
            Self::Binary(value) => write!(f, "binary({} bytes)", value.len()),
            Self::List(value) => write!(f, "list({})", value.len()),
            Self::Map(value) => write!(f, "map({})", value.len()),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident as $into:ty;)*) => { $(
        impl From<$type> for HeaderValue {
            fn from(value: $type) -> Self {
                Self::$variant(<$into>::from(value))
            }
        }
    )* };
}

from! {
    bool => Bool as bool;
    i8 => Int as i64; i16 => Int as i64; i32 => Int as i64; i64 => Int as i64;
    u8 => UInt as u64; u16 => UInt as u64; u32 => UInt as u64; u64 => UInt as u64;
    f32 => Float as f64; f64 => Float as f64;
    String => Text as ByteString; ByteString => Text as ByteString;
    Bytes => Binary as Bytes;
}

impl From<&'static str> for HeaderValue {
    fn from(value: &'static str) -> Self {
        Self::Text(ByteString::from_static(value))
    }
}

/// An ordered list of headers; names may repeat and are compared as they are.
///
/// Thin, so that a message without headers is small and costs one comparison to drop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderMap(ThinVec<(ByteString, HeaderValue)>);

impl HeaderMap {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(ThinVec::new())
    }

    /// The number of headers, repeats counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value under `name`.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&HeaderValue> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Every value under `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a HeaderValue> + 'a {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// All headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HeaderValue)> + '_ {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Add one at the end, beside any of the same name.
    pub fn append(&mut self, name: impl Into<ByteString>, value: impl Into<HeaderValue>) {
        self.0.push((name.into(), value.into()));
    }

    /// Replace every header of this name, whatever its case, by one at the end.
    pub fn set(&mut self, name: impl Into<ByteString>, value: impl Into<HeaderValue>) {
        let name = name.into();
        self.remove(&name);
        self.0.push((name, value.into()));
    }

    /// Remove every header of this name, whatever its case.
    pub fn remove(&mut self, name: &str) {
        self.0
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }
}

impl<'a> IntoIterator for &'a HeaderMap {
    type Item = &'a (ByteString, HeaderValue);
    type IntoIter = std::slice::Iter<'a, (ByteString, HeaderValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<(ByteString, HeaderValue)> for HeaderMap {
    fn from_iter<I: IntoIterator<Item = (ByteString, HeaderValue)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// Names of the headers that the framework writes. Stable across versions.
pub mod names {
    /// The attempt that failed, on a retry copy (spec C2).
    pub const RETRY_COUNT: &str = "x-ruststream-retry-count";
    /// The handler whose attempts the count counts (spec C1).
    pub const HANDLER: &str = "x-ruststream-handler";
    /// An id given to a message without one, with its first copy (spec C27).
    pub const ID: &str = "x-ruststream-id";
    /// The topic or address of the first delivery (spec C27).
    pub const TOPIC: &str = "x-ruststream-topic";
    /// The exchange of the first delivery, AMQP 0-9-1 (spec C27).
    pub const EXCHANGE: &str = "x-ruststream-exchange";
    /// The routing key of the first delivery, AMQP 0-9-1 (spec C27).
    pub const ROUTING_KEY: &str = "x-ruststream-routing-key";
    /// Why a message was dead-lettered (spec C10).
    pub const DEAD_REASON: &str = "x-ruststream-dead-reason";
    /// The error's text, at most 1 KiB (spec C10).
    pub const DEAD_ERROR: &str = "x-ruststream-dead-error";
    /// How many attempts there were (spec C10).
    pub const DEAD_ATTEMPTS: &str = "x-ruststream-dead-attempts";
    /// Where it was delivered (spec C10).
    pub const DEAD_ADDRESS: &str = "x-ruststream-dead-address";
    /// Whose handler gave up (spec C10).
    pub const DEAD_HANDLER: &str = "x-ruststream-dead-handler";
    /// When, as RFC 3339 (spec C10).
    pub const DEAD_AT: &str = "x-ruststream-dead-at";
    /// W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
}
