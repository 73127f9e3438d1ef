//! What a source does without the broker's lock: it hands out deliveries that it took in one go, and
//! collects what was accepted until the next time it has the lock.
//!
//! Nothing is ever waited for: what was collected is said with the next delivery that is taken, with
//! any other word, and before the pump sleeps. Windows stay exact, because a delivery is counted
//! when it is assigned and until the broker has heard that it was accepted. A connection that is
//! lost between the two leaves what a network leaves: the broker delivers the message again.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use super::consumer::Settling;
use super::entry::Moment;
use super::state::State;
use crate::delivery::Delivery;
use crate::settle::Disposition;
use crate::settle::Token;

/// Raised under the lock whenever a source may no longer act without it: its connection is gone, or
/// somebody watches from now on. What is raised is only ever compared.
#[derive(Debug, Default)]
pub(super) struct Signal(AtomicU32);

impl Signal {
    pub(super) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    #[inline]
    fn value(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// What one source has taken and collected.
#[derive(Debug)]
pub(super) struct Ahead {
    signal: Arc<Signal>,
    /// The signal's value, and the connection, for which the rest was taken; none while the source
    /// has to ask the broker each time.
    valid: Option<Valid>,
    /// The last one first, so that the next one is popped.
    deliveries: Vec<Delivery>,
    /// The keys of what was accepted, of the same connection.
    accepted: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Valid {
    signal: u32,
    epoch: u32,
}

impl Ahead {
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self {
            signal,
            valid: None,
            deliveries: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// The next delivery that was taken.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Delivery> {
        let valid = self.valid?;
        if valid.signal != self.signal.value() {
            return None;
        }
        self.deliveries.pop()
    }

    /// Collect a delivery that was accepted. False when the broker has to be told at once.
    #[inline]
    pub(super) fn accept(&mut self, token: &Token) -> bool {
        let is_collected = self
            .valid
            .is_some_and(|valid| valid.epoch == token.epoch && valid.signal == self.signal.value())
            && self.accepted.len() < COLLECTED;
        if is_collected {
            self.accepted.push(token.key);
        }
        is_collected
    }

    #[inline]
    pub(super) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Tell the broker what was accepted.
    #[inline]
    pub(super) fn tell(&mut self, state: &mut State, reader: usize, now: Moment) {
        if let Some(Valid { epoch, .. }) = self.valid
            && !self.accepted.is_empty()
        {
            state.accept_all(reader, epoch, &self.accepted, now);
            self.accepted.clear();
        }
    }

    /// Tell the broker what was accepted, and give back what was taken and not handed out.
    pub(super) fn give_back(&mut self, state: &mut State, reader: usize, now: Moment) {
        self.tell(state, reader, now);
        self.valid = None;
        // From the last to the first, so that the first is in front again.
        for delivery in self.deliveries.drain(..) {
            if let Some(consumer) = state.consumers[reader].as_mut()
                && let Some(token) = &delivery.token
                && token.epoch == consumer.epoch
            {
                consumer.untake(token.key);
            }
        }
    }

    /// Take what waits at the broker, unless it has to see each delivery go.
    #[inline]
    pub(super) fn take(&mut self, state: &mut State, reader: usize) {
        self.valid = state
            .take_ahead(reader, &mut self.deliveries)
            .map(|epoch| Valid {
                signal: self.signal.value(),
                epoch,
            });
    }
}

impl State {
    /// Take what waits for a reader, the last first; the connection it is of. Nothing while somebody
    /// watches, while faults are asked for, or where a delivery is settled as it goes.
    #[inline]
    fn take_ahead(&mut self, reader: usize, into: &mut Vec<Delivery>) -> Option<u32> {
        let consumer = self.consumers[reader].as_mut()?;
        let queue = &self.queues[consumer.queue];
        if self.log.is_some()
            || self.faults.is_some()
            || consumer.settling != Settling::ByReader
            || queue.session().is_some()
        {
            return None;
        }
        let epoch = consumer.epoch;
        let counting = self.counting;
        let first_count = queue.first_count(counting);
        consumer.take_ahead(TAKEN, |key, entry| {
            let token = Some(Token { epoch, key });
            into.push(if entry.is_fresh() {
                Delivery::new(Arc::clone(&entry.native), token).with_count(first_count)
            } else {
                queue.delivery(entry, token, counting)
            });
        });
        Some(epoch)
    }

    /// Several deliveries were accepted.
    fn accept_all(&mut self, reader: usize, epoch: u32, keys: &[u64], now: Moment) {
        if self.log.is_some() || self.faults.is_some() {
            for key in keys {
                let token = Token { epoch, key: *key };
                // It was said before anybody watched: there is nobody to answer to.
                self.settle(reader, &token, Disposition::Accept, now).ok();
            }
            return;
        }
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        if consumer.epoch != epoch {
            // The connection was lost before the word arrived: they are delivered again.
            return;
        }
        for key in keys {
            if let Some(native) = consumer.take_native(*key) {
                self.pool.give(native);
            }
        }
        let at = consumer.queue;
        if !self.queues[at].ready.is_empty() {
            self.dispatch(at, now);
        }
    }

    /// From now on sources ask for each delivery and say each word by itself.
    #[cfg(feature = "testing")]
    pub(super) fn watch_sources(&self) {
        for consumer in self.consumers.iter().flatten() {
            consumer.signal.raise();
        }
    }
}

/// Deliveries taken in one go, beside the one that was asked for.
const TAKEN: usize = 32;

/// Words collected at most.
const COLLECTED: usize = 64;
