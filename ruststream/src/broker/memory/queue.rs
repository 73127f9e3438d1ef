//! One place where messages wait: a queue, a reader's share of a topic, or an MQTT session.

use std::collections::VecDeque;
use std::sync::Arc;

use bytestring::ByteString;

use super::consumer::Consumer;
use super::entry::Entry;
use super::entry::Mark;
use super::rules::Counting;
use super::session::Session;
use crate::delivery::Delivery;
use crate::settle::Token;

/// A place where messages wait, in order.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: ByteString,
    pub(super) style: Style,
    /// Invariant: not empty only while no reader has room.
    pub(super) ready: VecDeque<Entry>,
    pub(super) consumers: Vec<usize>,
    pub(super) life: Life,
    /// One reader at a time gets everything (0-9-1 single active consumer).
    pub(super) single_active: bool,
    turn: usize,
    next_order: u64,
}

/// By whose rules a queue gives messages back.
#[derive(Debug)]
pub(super) enum Style {
    /// AMQP 1.0.
    Amqp,
    /// RabbitMQ's quorum queue, with its limit of deliveries.
    Quorum {
        /// Beyond this count a message leaves.
        limit: u32,
    },
    /// RabbitMQ's classic queue.
    Classic,
    /// One subscription of an MQTT session.
    Session(Box<Session>),
}

/// How long a queue lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Made by a publish that nothing else took.
    Kept,
    /// Declared, by a reader or by hand.
    Declared,
    /// Gone with its last reader.
    Temporary,
    /// It is gone; its place may be used again.
    Gone,
}

/// Why a message goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// A failed attempt, or a lost connection.
    Failed,
    /// Given back, or the link was closed in order.
    Untouched,
}

impl Queue {
    pub(super) fn new(name: ByteString, style: Style, life: Life) -> Self {
        Self {
            name,
            style,
            ready: VecDeque::new(),
            consumers: Vec::new(),
            life,
            single_active: false,
            turn: 0,
            next_order: 0,
        }
    }

    /// The session, if it is one.
    #[inline]
    pub(super) fn session(&self) -> Option<&Session> {
        match &self.style {
            Style::Session(session) => Some(session),
            _ => None,
        }
    }

    /// The session, if it is one.
    pub(super) fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.style {
            Style::Session(session) => Some(session),
            _ => None,
        }
    }

    /// The place of the next message.
    #[inline]
    pub(super) fn next_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order += 1;
        order
    }

    /// The reader whose turn it is, of those that have room.
    #[inline]
    pub(super) fn pick(&mut self, consumers: &[Option<Consumer>]) -> Option<usize> {
        let has_room = |id: usize| {
            consumers
                .get(id)
                .and_then(Option::as_ref)
                .is_some_and(Consumer::has_room)
        };
        if let [only] = *self.consumers {
            return has_room(only).then_some(only);
        }
        self.pick_of_many(has_room)
    }

    fn pick_of_many(&mut self, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        if self.single_active {
            let first = *self.consumers.first()?;
            return has_room(first).then_some(first);
        }
        for _ in 0..self.consumers.len() {
            self.turn = (self.turn + 1) % self.consumers.len();
            let id = self.consumers[self.turn];
            if has_room(id) {
                return Some(id);
            }
        }
        None
    }

    /// Put a message back where it was.
    pub(super) fn put_back(&mut self, entry: Entry) {
        // Only what was returned before it can stand before it, so this looks at few.
        let place = self
            .ready
            .iter()
            .take_while(|other| other.order < entry.order)
            .count();
        self.ready.insert(place, entry);
    }

    /// The count that a message shows at its first delivery, unless its publisher asked for more.
    #[inline]
    pub(super) fn first_count(&self, counting: Counting) -> Option<u32> {
        match (&self.style, counting) {
            (Style::Amqp, Counting::Always | Counting::Never) => Some(0),
            _ => None,
        }
    }

    /// A delivery of `entry`.
    #[inline]
    pub(super) fn delivery(
        &self,
        entry: &Entry,
        token: Option<Token>,
        counting: Counting,
    ) -> Delivery {
        let (count, redelivered) = self.shown(entry, counting);
        Delivery::new(Arc::clone(&entry.native), token)
            .with_count(count)
            .with_redelivered(redelivered)
            .with_retained(entry.is(Mark::Retained))
    }

    /// What a delivery of `entry` says: the count, where there is one, and the flag.
    #[inline]
    pub(super) fn shown(&self, entry: &Entry, counting: Counting) -> (Option<u32>, bool) {
        let redelivered = entry.is(Mark::Redelivered);
        match self.style {
            Style::Amqp => match counting {
                // Like a server that never sets `first-acquirer`: the count says it all.
                Counting::Plain => {
                    let count = entry.is(Mark::Header).then_some(entry.count);
                    (count, entry.count > 0)
                }
                Counting::Always => (Some(entry.count), redelivered),
                Counting::Never => (Some(0), redelivered),
            },
            // `x-delivery-count` is left out of the first delivery.
            Style::Quorum { .. } => ((entry.count > 0).then_some(entry.count), redelivered),
            Style::Classic | Style::Session(_) => (None, redelivered),
        }
    }

    /// Note on an entry that it comes back, and say whether it still may (spec C26).
    pub(super) fn age(&self, entry: &mut Entry, back: Back, counts: bool) -> bool {
        entry.mark(Mark::Redelivered);
        match self.style {
            Style::Amqp => {
                if back == Back::Failed && counts {
                    entry.raise_count();
                }
                true
            }
            Style::Quorum { limit } => {
                entry.count = entry.count.saturating_add(1);
                entry.count <= limit
            }
            Style::Classic | Style::Session(_) => true,
        }
    }
}
