//! One arrival of a message.

use std::sync::Arc;

use bytes::Bytes;

use crate::headers::HeaderMap;
use crate::message::Message;
use crate::message::Native;
use crate::settle::Token;

/// One arrival of a message: the message, what the broker says about its deliveries, and the right
/// to settle it.
#[derive(Debug)]
pub struct Delivery {
    pub(crate) native: Arc<Native>,
    pub(crate) token: Option<Token>,
    /// The number of this attempt, from 1 (spec C1). The pump fills it in.
    pub(crate) attempt: u32,
    /// What the broker itself counts for this message, where it counts (spec C1).
    pub(crate) counted: Option<u32>,
    pub(crate) redelivered: bool,
    /// Settled when it arrived: there is nothing left to say.
    pub(crate) settled: bool,
    pub(crate) retained: bool,
    /// What the pump knows it by.
    pub(crate) id: u32,
}

impl Delivery {
    /// A delivery of `native`, settled by `token`; without one it was settled on arrival.
    #[must_use]
    pub fn new(native: Arc<Native>, token: Option<Token>) -> Self {
        let settled = token.is_none();
        Self {
            native,
            token,
            attempt: 1,
            counted: None,
            redelivered: false,
            settled,
            retained: false,
            id: 0,
        }
    }

    /// Say what the broker counts: deliveries of this message before this one.
    #[must_use]
    pub fn with_count(mut self, counted: Option<u32>) -> Self {
        self.counted = counted;
        self
    }

    /// Say that the broker has delivered it before.
    #[must_use]
    pub fn with_redelivered(mut self, redelivered: bool) -> Self {
        self.redelivered = redelivered;
        self
    }

    /// Say that it is a retained message, sent because of the subscription (MQTT).
    #[must_use]
    pub fn with_retained(mut self, retained: bool) -> Self {
        self.retained = retained;
        self
    }

    /// The same arrival without the right to settle it.
    pub(crate) fn view(&self) -> Self {
        Self {
            native: Arc::clone(&self.native),
            token: None,
            ..*self
        }
    }

    /// Take the right to settle it, to use a source without a pump. In a handler's hands it is not
    /// there any more.
    pub fn take_token(&mut self) -> Option<Token> {
        self.token.take()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        self.native.message().payload()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.native.message().headers()
    }

    /// The message: payload, headers and properties.
    #[must_use]
    pub fn message(&self) -> &Message {
        self.native.message()
    }

    /// The address, topic or queue of the *first* delivery: a copy remembers where its original
    /// came from (spec C27).
    #[must_use]
    pub fn address(&self) -> &str {
        match self.headers().first(crate::headers::names::TOPIC) {
            Some(crate::headers::HeaderValue::Text(first)) => first,
            _ => self.native.address(),
        }
    }

    /// The number of this attempt: 1 for the first (spec C1).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The broker's delivery count plus one, or `None` where it does not count (spec A31, A33).
    #[must_use]
    pub fn redelivery_count(&self) -> Option<u32> {
        self.counted.map(|count| count.saturating_add(1))
    }

    /// Whether the broker says that it has delivered the message before.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        self.redelivered
    }

    /// Whether it is a retained message that came with the subscription (MQTT).
    #[must_use]
    pub fn is_retained(&self) -> bool {
        self.retained
    }
}
