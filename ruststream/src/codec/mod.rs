//! Payloads in a codec: one newtype per codec, taken by handlers and published by them.
//!
//! As an argument `Json<T>` decodes the payload; [`IntoMessage`] makes a message of it. A payload
//! that does not decode goes to the dead letter or is dropped, and is never retried (spec C8): it
//! would never get better.

use std::borrow::Cow;
use std::fmt;

use crate::message::Message;

#[cfg(feature = "cbor")]
pub use cbor::Cbor;
#[cfg(feature = "json")]
pub use decoded::Decoded;
#[cfg(feature = "json")]
pub use json::Json;
#[cfg(feature = "msgpack")]
pub use msgpack::MsgPack;

#[cfg(feature = "cbor")]
mod cbor;
#[cfg(feature = "json")]
mod decoded;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "msgpack")]
mod msgpack;
pub(crate) mod reason;

/// What can be published: a [`Message`], raw bytes, text, or a value in a codec.
///
/// # Examples
///
/// ```
/// use ruststream::IntoMessage;
/// use ruststream::Json;
///
/// let message = Json([1, 2, 3]).into_message()?.with_header("tenant", "a");
/// assert_eq!(message.content_type(), Some("application/json"));
/// assert_eq!(message.payload().as_ref(), b"[1,2,3]");
/// # Ok::<(), ruststream::codec::EncodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published",
    label = "not a message",
    note = "wrap a value in a codec, as in `Json(&value)`; raw payloads are `Bytes`, `Vec<u8>`, `String` or `Message`"
)]
pub trait IntoMessage {
    /// The message.
    ///
    /// # Errors
    ///
    /// The codec cannot express the value.
    fn into_message(self) -> Result<Message, EncodeError>;
}

/// A value could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    codec: &'static str,
    reason: Cow<'static, str>,
}

impl EncodeError {
    /// `codec` cannot express the value. For codecs of one's own.
    #[must_use]
    #[cold]
    pub fn new(codec: &'static str, reason: impl fmt::Display) -> Self {
        let reason = Cow::Owned(reason::capped(reason.to_string()));
        Self { codec, reason }
    }

    /// The codec's name, as in `json`.
    #[must_use]
    pub fn codec(&self) -> &'static str {
        self.codec
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codec, reason } = self;
        write!(f, "{codec}: the value cannot be encoded: {reason}")
    }
}

impl std::error::Error for EncodeError {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        impl IntoMessage for $type {
            fn into_message(self) -> Result<Message, EncodeError> {
                Ok(Message::from(self))
            }
        }
    )* };
}

plain!(
    Message,
    &'static str,
    &'static [u8],
    String,
    Vec<u8>,
    bytes::Bytes
);

/// What every codec's newtype has in common. The codec's module brings `decode` and `encode`.
#[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
macro_rules! wrapper {
    ($(#[$doc:meta])* $name:ident, $label:literal, $content_type:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<T>(pub T);

        impl<T> $name<T> {
            /// The value.
            pub fn into_inner(self) -> T {
                self.0
            }
        }

        impl<T: serde::de::DeserializeOwned + Send> crate::extract::Extract for $name<T> {
            fn extract(
                from: &mut crate::extract::Incoming<'_>,
            ) -> Result<Self, crate::extract::Rejection> {
                // A `match`, because `map` is one more call to be compiled for each payload.
                match decode(from.delivery().payload()) {
                    Ok(value) => Ok(Self(value)),
                    Err(rejection) => Err(rejection),
                }
            }

            fn requires(needs: &mut crate::registration::Requirements) {
                needs.decodes();
                needs.per_message($label);
            }
        }

        impl<T: serde::Serialize> crate::codec::IntoMessage for $name<T> {
            fn into_message(self) -> Result<crate::message::Message, crate::codec::EncodeError> {
                crate::codec::IntoMessage::into_message(&self)
            }
        }

        impl<T: serde::Serialize> crate::codec::IntoMessage for &$name<T> {
            fn into_message(self) -> Result<crate::message::Message, crate::codec::EncodeError> {
                let payload = encode(&self.0)?;
                Ok(crate::message::Message::new(payload)
                    .with_content_type(bytestring::ByteString::from_static($content_type)))
            }
        }

        impl<T> std::ops::Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> std::ops::DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }

        impl<T> From<T> for $name<T> {
            fn from(value: T) -> Self {
                Self(value)
            }
        }
    };
}

#[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
pub(crate) use wrapper;
