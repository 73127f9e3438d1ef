//! A message: payload, headers and the properties that every protocol has a word for.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;

use crate::headers::HeaderMap;
use crate::headers::HeaderValue;

/// A message to publish.
///
/// # Examples
///
/// ```
/// use ruststream::Message;
///
/// let message = Message::new("hello").with_content_type("text/plain").with_header("tenant", "a");
/// assert_eq!(message.payload().as_ref(), b"hello");
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Message {
    payload: Bytes,
    headers: HeaderMap,
    content_type: Option<ByteString>,
    rare: Option<Box<Rare>>,
}

/// What few messages have; boxed so that a message stays small.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rare {
    id: Option<ByteString>,
    correlation_id: Option<Bytes>,
    reply_to: Option<ByteString>,
    content_encoding: Option<ByteString>,
    kind: Option<ByteString>,
    subject: Option<ByteString>,
    group_id: Option<ByteString>,
    app_id: Option<ByteString>,
    user_id: Option<Bytes>,
    time_to_live: Option<Duration>,
    priority: Option<u8>,
    durable: Option<bool>,
    retain: bool,
    text_payload: bool,
    timestamp: Option<i64>,
}

macro_rules! property {
    ($($(#[$doc:meta])* $name:ident, $with:ident: $type:ty => $view:ty;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<&$view> {
            self.rare.as_ref()?.$name.as_ref().map(AsRef::as_ref)
        }

        $(#[$doc])*
        #[must_use]
        pub fn $with(mut self, value: impl Into<$type>) -> Self {
            self.rare().$name = Some(value.into());
            self
        }
    )* };
}

macro_rules! plain_property {
    ($($(#[$doc:meta])* $name:ident, $with:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<$type> {
            self.rare.as_ref()?.$name
        }

        $(#[$doc])*
        #[must_use]
        pub fn $with(mut self, value: $type) -> Self {
            self.rare().$name = Some(value);
            self
        }
    )* };
}

impl Message {
    /// A message with this payload and nothing else.
    #[must_use]
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            ..Self::default()
        }
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The headers, to change.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    /// Add a header at the end.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<ByteString>,
        value: impl Into<HeaderValue>,
    ) -> Self {
        self.headers.append(name, value);
        self
    }

    /// The media type of the payload, as in `application/json`.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// Say what the payload is, as in `application/json`.
    #[must_use]
    pub fn with_content_type(mut self, value: impl Into<ByteString>) -> Self {
        self.content_type = Some(value.into());
        self
    }

    /// The message's id.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.rare.as_ref()?.id.as_deref()
    }

    /// Give it an id.
    #[must_use]
    pub fn with_id(mut self, value: impl Into<ByteString>) -> Self {
        self.rare().id = Some(value.into());
        self
    }

    /// What ties an answer to its question. Bytes, because MQTT has bytes here.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&Bytes> {
        self.rare.as_ref()?.correlation_id.as_ref()
    }

    /// Tie it to a question or an answer.
    #[must_use]
    pub fn with_correlation_id(mut self, value: impl Into<Bytes>) -> Self {
        self.rare().correlation_id = Some(value.into());
        self
    }

    /// Where an answer should go.
    #[must_use]
    pub fn reply_to(&self) -> Option<&str> {
        self.rare.as_ref()?.reply_to.as_deref()
    }

    /// Say where an answer should go.
    #[must_use]
    pub fn with_reply_to(mut self, value: impl Into<ByteString>) -> Self {
        self.rare().reply_to = Some(value.into());
        self
    }

    property! {
        /// The encoding of the payload, as in `gzip`.
        content_encoding, with_content_encoding: ByteString => str;
        /// The application's name for this kind of message (0-9-1 `type`).
        kind, with_kind: ByteString => str;
        /// What it is about (AMQP 1.0 `subject`).
        subject, with_subject: ByteString => str;
        /// The group it belongs to (AMQP 1.0 `group-id`).
        group_id, with_group_id: ByteString => str;
        /// The application that published it (0-9-1 `app-id`).
        app_id, with_app_id: ByteString => str;
        /// The user that published it; brokers check it.
        user_id, with_user_id: Bytes => [u8];
    }

    plain_property! {
        /// How long it is worth keeping.
        time_to_live, with_time_to_live: Duration;
        /// Its priority, higher first; what a broker does with it differs.
        priority, with_priority: u8;
        /// Whether it should survive a restart of the broker.
        durable, with_durable: bool;
        /// When it was made, in milliseconds since 1970-01-01T00:00:00Z.
        timestamp, with_timestamp: i64;
    }

    /// Whether the broker should keep it for later subscribers (MQTT `retain`).
    #[must_use]
    pub fn is_retained(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.retain)
    }

    /// Have the broker keep it for later subscribers (MQTT `retain`).
    #[must_use]
    pub fn retained(mut self) -> Self {
        self.rare().retain = true;
        self
    }

    /// Whether the payload is declared as UTF-8 text (MQTT payload format indicator).
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.text_payload)
    }

    /// Declare the payload as UTF-8 text (MQTT payload format indicator).
    #[must_use]
    pub fn marked_as_text(mut self) -> Self {
        self.rare().text_payload = true;
        self
    }

    /// Whether it has none of the properties that few messages have.
    #[cfg(feature = "memory")]
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.rare.is_none()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// Shows sizes and names, never payload or header text.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .field("headers", &self.headers)
            .field("content_type", &self.content_type)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

macro_rules! into_message {
    ($($type:ty),*) => { $(
        impl From<$type> for Message {
            fn from(payload: $type) -> Self {
                Self::new(payload)
            }
        }
    )* };
}

into_message!(&'static str, &'static [u8], String, Vec<u8>, Bytes);

/// A message as it arrived: the common view, and the driver's own message for faithful copies.
pub struct Native {
    /// Where it was published, as the broker says: a topic, a queue, an address.
    pub(crate) address: ByteString,
    /// What every protocol has a word for.
    pub(crate) message: Message,
    /// The driver's message, which a copy is built from (spec C11).
    pub(crate) source: Option<Box<dyn Any + Send + Sync>>,
}

impl Native {
    /// A message that arrived on `address`.
    #[must_use]
    pub fn new(address: impl Into<ByteString>, message: Message) -> Self {
        Self {
            address: address.into(),
            message,
            source: None,
        }
    }

    /// Keep the driver's own message beside the common view.
    #[must_use]
    pub fn with_source(mut self, source: impl Any + Send + Sync) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Where it arrived.
    #[must_use]
    pub fn address(&self) -> &ByteString {
        &self.address
    }

    /// The common view.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The driver's own message.
    #[must_use]
    pub fn source<T: Any>(&self) -> Option<&T> {
        self.source.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native")
            .field("address", &self.address)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// A copy that the runtime publishes from a delivery: a retry, or a dead letter.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The message it is a copy of.
    pub original: Arc<Native>,
    /// Where it goes, exactly as declared.
    pub to: ByteString,
    /// What it is.
    pub kind: CopyKind,
    /// The framework's headers: each replaces every header of its name, whatever the case.
    pub set: HeaderMap,
    /// Headers to leave out, whatever the case.
    pub without: &'static [&'static str],
    /// Whether the broker keeps it for later subscribers: `mqtt(dead_letter_retain)`.
    pub retain: bool,
}

/// Which copy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// It comes back to a handler.
    Retry,
    /// It is parked: expiry is dropped too (spec C11).
    DeadLetter,
}

impl Copy {
    /// The common view of the copy: the original's message with the framework's headers, without
    /// what is never copied (`retain`, and for a dead letter the expiry; spec C11).
    #[must_use]
    pub fn message(&self) -> Message {
        let mut message = self.original.message.clone();
        if let Some(rare) = &mut message.rare {
            rare.retain = false;
            if self.kind == CopyKind::DeadLetter {
                rare.time_to_live = None;
            }
        }
        if self.retain {
            message = message.retained();
        }
        for name in self.without {
            message.headers.remove(name);
        }
        for (name, value) in &self.set {
            message.headers.set(name.clone(), value.clone());
        }
        message
    }
}
