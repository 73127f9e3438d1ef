//! One message in one queue, and what the broker remembers of its deliveries.

use std::sync::Arc;
use std::time::Duration;

use crate::message::Message;
use crate::message::Native;

/// A point in time, counted from the broker's start. The core is told what time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    /// A time that does not come.
    pub(super) const NEVER: Self = Self(u64::MAX);

    /// This long after the broker's start.
    pub(super) fn after_start(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// This much later.
    pub(super) fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(Self::after_start(more).0))
    }

    /// How long from `now` until then; zero when it has passed.
    pub(super) fn until(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

/// What an entry is marked with.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Mark {
    /// The delivery carries a header section, so that its count shows (AMQP 1.0).
    Header = 1,
    /// It has been delivered before.
    Redelivered = 2,
    /// It is delivered as a retained message (MQTT).
    Retained = 4,
    /// Other queues hold the same native message: it is not recycled.
    Shared = 8,
    /// `QoS` 0: outside the window, settled on arrival, never kept.
    Unconfirmed = 16,
}

/// A message in a queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) native: Arc<Native>,
    /// Its place in the queue; kept when it is returned.
    pub(super) order: u64,
    /// When it is no longer worth delivering.
    pub(super) expires: Moment,
    /// The failed deliveries that the broker counted.
    pub(super) count: u32,
    marks: u8,
}

impl Entry {
    /// An entry of a message that was just published.
    #[inline]
    pub(super) fn new(native: Arc<Native>, expires: Moment) -> Self {
        let marks = if has_header(native.message()) {
            Mark::Header as u8
        } else {
            0
        };
        Self {
            native,
            order: 0,
            expires,
            count: 0,
            marks,
        }
    }

    /// An entry of a [plain](Message::is_plain) message: it has no header section and never expires.
    #[inline]
    pub(super) fn plain(native: Arc<Native>, order: u64) -> Self {
        Self {
            native,
            order,
            expires: Moment::NEVER,
            count: 0,
            marks: 0,
        }
    }

    #[inline]
    pub(super) fn is(&self, mark: Mark) -> bool {
        self.marks & mark as u8 != 0
    }

    /// Whether there is nothing to tell about it: not delivered before, not marked in any way.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.marks == 0 && self.count == 0
    }

    #[inline]
    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks |= mark as u8;
    }

    pub(super) fn with_mark(mut self, mark: Mark) -> Self {
        self.mark(mark);
        self
    }

    /// Count one more failed delivery; from then on the count shows (spec A5).
    pub(super) fn raise_count(&mut self) {
        self.count = self.count.saturating_add(1);
        self.mark(Mark::Header);
    }
}

/// Whether the publisher asked for something that AMQP 1.0 says in the header section (spec A32).
fn has_header(message: &Message) -> bool {
    message.durable().is_some() || message.priority().is_some() || message.time_to_live().is_some()
}
