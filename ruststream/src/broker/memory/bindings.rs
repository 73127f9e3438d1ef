//! RabbitMQ's exchanges and bindings, as far as handlers need them.

use bytestring::ByteString;

use super::matching::pattern_matches;

/// A binding of an exchange to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) exchange: ByteString,
    pub(super) kind: Kind,
    pub(super) key: ByteString,
    pub(super) queue: usize,
}

/// A kind of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The key is the routing key.
    Direct,
    /// Every message.
    Fanout,
    /// The key is a pattern.
    Topic,
}

impl Kind {
    /// The kind of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "direct" => Some(Self::Direct),
            "fanout" => Some(Self::Fanout),
            "topic" => Some(Self::Topic),
            _ => None,
        }
    }
}

impl Binding {
    /// Whether a publish to `to` takes this way. `to` is `exchange/key`, a routing key of
    /// `amq.topic`, or the name of a fanout exchange.
    pub(super) fn takes(&self, to: &str) -> bool {
        let key = match to.strip_prefix(&*self.exchange) {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        key.is_some_and(|key| self.matches(key))
            || (self.exchange == DEFAULT_TOPIC_EXCHANGE && self.matches(to))
    }

    fn matches(&self, key: &str) -> bool {
        match self.kind {
            Kind::Direct => self.key == key,
            Kind::Fanout => true,
            Kind::Topic => pattern_matches(&self.key, key),
        }
    }
}

/// The topic exchange that every server has.
pub(super) const DEFAULT_TOPIC_EXCHANGE: &str = "amq.topic";
