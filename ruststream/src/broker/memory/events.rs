//! What happened at the broker, in order, for those who watch.

use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;

use bytes::Bytes;
use bytestring::ByteString;

/// One thing that happened at the embedded broker.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The mount point whose reader it happened to; empty for a publish.
    pub mount: ByteString,
    /// Where the message was published; for a connection, what is read.
    pub address: ByteString,
    /// The message's payload; empty for a connection.
    pub payload: Bytes,
}

/// Shows the payload by its size only.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("kind", &self.kind)
            .field("mount", &self.mount)
            .field("address", &self.address)
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .finish()
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A reader's connection is up.
    Connected {
        /// Its epoch.
        epoch: u32,
    },
    /// A reader's connection was lost, or it left.
    Disconnected,
    /// A message was published.
    Published {
        /// How many queues and sessions took it.
        queues: usize,
    },
    /// A message was published that nobody reads, and is gone (MQTT reason code 0x10).
    Unread,
    /// A publish was refused.
    Refused,
    /// A message was handed to a reader.
    Delivered {
        /// The count that the reader saw.
        count: Option<u32>,
        /// The flag that the reader saw.
        redelivered: bool,
        /// Whether it was settled on arrival.
        settled: bool,
    },
    /// The reader said: handled (accepted, PUBACK, `basic.ack`).
    Accepted,
    /// The reader said: not handled, will not be (rejected, `basic.reject`).
    Rejected,
    /// The reader said: a failed attempt (modified with delivery-failed, `basic.reject` with requeue).
    Returned,
    /// The reader said: never started (released).
    Released,
    /// The reader leaves it unsettled for good.
    Left,
    /// A settlement was refused: it belonged to an earlier connection.
    Stale,
    /// The broker put an unsettled message back because its reader is gone.
    Requeued,
    /// The broker moved a message by its own policy.
    DeadLettered {
        /// Where to.
        to: ByteString,
        /// `rejected`, `expired` or `delivery_limit`.
        reason: &'static str,
    },
    /// The broker discarded a message.
    Discarded {
        /// `rejected`, `expired`, `delivery_limit`, `lost`, `offline`, `overflow` or `session_ended`.
        reason: &'static str,
    },
}

/// The last events.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: VecDeque<Event>,
    waiting: Vec<Waker>,
}

impl Log {
    pub(super) fn push(&mut self, event: Event) {
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Those who wait for something to happen.
    pub(super) fn take_waiting(&mut self) -> std::vec::Drain<'_, Waker> {
        self.waiting.drain(..)
    }

    #[cfg(feature = "testing")]
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    #[cfg(feature = "testing")]
    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Wake this one at the next event.
    #[cfg(feature = "testing")]
    pub(super) fn wake_on_next(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }
}

/// How many events are kept.
const KEPT: usize = 65_536;
