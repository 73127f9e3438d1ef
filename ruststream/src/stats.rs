//! What a mount point counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Running totals of one mount point. Its pump is the only writer.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            /// What is in the pump's hands now: deliveries it works on, copies that wait.
            #[cfg(feature = "testing")]
            pub(crate) in_hand: Counter,
        }

        /// The totals of one mount point since it started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.value(),)* }
            }
        }
    };
}

counters! {
    /// Deliveries that arrived.
    deliveries,
    /// Handlers started.
    starts,
    /// Deliveries settled as handled.
    acked,
    /// Deliveries given up without a dead letter.
    dropped,
    /// Retries: returned to the broker, or published as a copy.
    retried,
    /// Retry copies published.
    copies,
    /// Dead letters published.
    dead_lettered,
    /// Dead letters that nobody read, MQTT (spec C25).
    unread_dead_letters,
    /// Failed attempts: errors, panics and timeouts.
    failures,
    /// Payloads that could not be decoded.
    undecodable,
    /// Copies and dead letters that could not be published, each try counted.
    failed_copies,
    /// Settlements refused because the connection had changed (spec C13).
    stale,
    /// Settlements that the protocol cannot express (spec C32).
    unsupported,
    /// Deliveries left unsettled for good, as long as the connection lives (spec C15).
    stuck,
    /// Waiting copies published early because of a stop (spec C7).
    flushed,
    /// Messages discarded because a bounded buffer was full.
    overflowed,
    /// Messages acknowledged and discarded because no handler asked for them, MQTT (spec C17).
    unmatched,
}

/// A total that one task writes and anyone reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// One more. Only the owner may call it: a load and a store, no locked instruction.
    pub(crate) fn add(&self, more: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// It is this many now.
    #[cfg(feature = "testing")]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a mount point's pump last said of its connection.
#[derive(Debug, Default)]
pub(crate) struct HealthCell(std::sync::Mutex<Health>);

impl HealthCell {
    pub(crate) fn set(&self, health: Health) {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = health;
    }

    pub(crate) fn value(&self) -> Health {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// Whether a mount point receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It has not connected yet.
    #[default]
    Starting,
    /// It receives.
    Up,
    /// It does not; it is tried again.
    Down {
        /// Why.
        reason: String,
    },
    /// It has stopped.
    Stopped,
}
