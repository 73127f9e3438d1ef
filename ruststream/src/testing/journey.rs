//! What became of one message.

use std::collections::BTreeSet;

use bytestring::ByteString;

use super::Event;
use super::EventKind;
use super::TestApp;
use super::Unsettled;
use crate::Message;
use crate::stats::Stats;

/// What became of one message and its copies.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Journey {
    /// How it ended.
    pub fate: Fate,
    /// How often a handler was started with it, as far as the application counts.
    pub starts: u64,
    /// What the broker saw of it, in order.
    pub events: Vec<EventKind>,
}

/// How a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// A handler acked it.
    Handled,
    /// It was given up: by its handler, at the cap without a dead letter, or undecodable.
    Dropped,
    /// It was parked, by the declared dead letter or by the broker's own policy.
    DeadLettered {
        /// Where.
        to: ByteString,
    },
    /// Its handler left it without an outcome, or asked for what the protocol cannot do.
    Left,
    /// It waits at an address that no handler of the application reads.
    Waiting {
        /// Where.
        at: ByteString,
    },
    /// It, or its dead letter, is gone, since nobody reads the address (MQTT).
    Unread {
        /// Where it was published.
        to: ByteString,
    },
    /// The broker refused it.
    Refused {
        /// Why.
        reason: String,
    },
    /// It was still going on when the wait reached its limit.
    Unfinished(Unsettled),
}

impl TestApp {
    /// Publish a message as an independent client, let time pass until all is settled (a day at
    /// most), and tell what became of it.
    ///
    /// A message is recognised by its payload, so that should be its own, and nothing else should be
    /// going on.
    pub async fn send(&self, to: impl Into<ByteString>, message: impl Into<Message>) -> Journey {
        let to = to.into();
        let message = message.into();
        let payload = message.payload().clone();
        let seen = self.observer().events().len();
        let before = self.totals();
        let published = self.observer().publish(to.clone(), message);
        let settled = match published {
            Ok(_) => self.settled().await,
            Err(error) => {
                return Journey {
                    fate: Fate::Refused {
                        reason: error.reason().to_owned(),
                    },
                    starts: 0,
                    events: vec![EventKind::Refused],
                };
            }
        };
        let mut events = self.observer().events().split_off(seen);
        events.retain(|event| event.payload == payload);
        let after = self.totals();
        let fate = match settled {
            Err(unsettled) => Fate::Unfinished(unsettled),
            Ok(()) => self.fate(&to, &events, &payload, &Change::between(&before, &after)),
        };
        Journey {
            fate,
            starts: after.starts - before.starts,
            events: events.into_iter().map(|event| event.kind).collect(),
        }
    }

    fn fate(&self, to: &ByteString, events: &[Event], payload: &[u8], change: &Change) -> Fate {
        let was_delivered = events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Delivered { .. }));
        let places: BTreeSet<&ByteString> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Published { .. } => Some(&event.address),
                EventKind::DeadLettered { to, .. } => Some(to),
                _ => None,
            })
            .collect();
        let waits = |place: &str| {
            let waiting = self.messages(place);
            waiting.iter().any(|message| message.payload() == payload)
        };
        if let Some(place) = places.into_iter().find(|place| waits(place)) {
            let place = place.clone();
            return if was_delivered && place != *to {
                Fate::DeadLettered { to: place }
            } else {
                Fate::Waiting { at: place }
            };
        }
        if let Some(event) = events.iter().rfind(|event| event.kind == EventKind::Unread) {
            return Fate::Unread {
                to: event.address.clone(),
            };
        }
        if change.was_left {
            return Fate::Left;
        }
        let was_rejected = events
            .iter()
            .rfind(|event| matches!(event.kind, EventKind::Accepted | EventKind::Rejected))
            .is_some_and(|event| event.kind == EventKind::Rejected);
        // MQTT has one word for handled and given up.
        if was_rejected || change.was_dropped {
            Fate::Dropped
        } else {
            Fate::Handled
        }
    }
}

/// What the application counted meanwhile.
struct Change {
    was_dropped: bool,
    was_left: bool,
}

impl Change {
    fn between(before: &Stats, after: &Stats) -> Self {
        Self {
            was_dropped: after.dropped > before.dropped,
            was_left: after.stuck > before.stuck,
        }
    }
}
