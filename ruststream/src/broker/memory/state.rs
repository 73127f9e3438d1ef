//! The broker's whole state, and how messages move through it. Pure: no clock, no I/O, no async.
//!
//! A message is always in exactly one of these places: ready in a queue, assigned to a reader
//! (`consumer.rs`), or gone for a reason that the log names.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use bytestring::ByteString;
use tokio::sync::oneshot;

use super::bindings::Binding;
use super::consumer::Consumer;
use super::consumer::Phase;
use super::entry::Entry;
use super::entry::Mark;
use super::entry::Moment;
use super::events::Event;
use super::events::EventKind;
use super::events::Log;
use super::faults::Faults;
use super::pool::Pool;
use super::queue::Back;
use super::queue::Queue;
use super::queue::Style;
use super::routes::Routes;
use super::rules::Counting;
use crate::message::Message;
use crate::message::Native;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;

/// Everything that the broker knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queues: Vec<Queue>,
    pub(super) places: HashMap<Place, usize>,
    pub(super) consumers: Vec<Option<Consumer>>,
    pub(super) pool: Pool,
    pub(super) routes: Routes,
    pub(super) bindings: Vec<Binding>,
    pub(super) retained: HashMap<ByteString, (Arc<Native>, Moment)>,
    /// Where a queue's rejected messages go.
    pub(super) policies: HashMap<ByteString, ByteString>,
    pub(super) counting: Counting,
    /// The most messages that wait in one queue.
    pub(super) most: usize,
    /// Whether time matters: something expires. Until then nobody reads the clock.
    pub(super) timed: bool,
    /// Questions that wait for their answer, by the address that the answer goes to.
    pub(super) questions: HashMap<ByteString, oneshot::Sender<Message>>,
    pub(super) wakes: Wakes,
    pub(super) faults: Option<Box<Faults>>,
    pub(super) log: Option<Box<Log>>,
}

/// What a queue is found by. Users name only the first kind, so that nothing collides with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// A queue.
    Queue(ByteString),
    /// A subscription of a topic: the subscription's name, and the topic.
    Topic(ByteString, ByteString),
    /// A subscription of an MQTT session: client id, shared group, filter.
    Session(ByteString, Option<ByteString>, ByteString),
}

/// Who is to be woken, and what is to be dropped, once the lock is free.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    one: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakes {
    pub(super) fn add(&mut self, waker: Waker) {
        if self.one.is_none() {
            self.one = Some(waker);
        } else {
            self.more.push(waker);
        }
    }

    /// Add the one that waits, which then waits no more.
    #[cold]
    pub(super) fn take(&mut self, waiting: &mut Option<Waker>) {
        if let Some(waker) = waiting.take() {
            self.add(waker);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none()
    }

    pub(super) fn wake(self) {
        for waker in self.one.into_iter().chain(self.more) {
            waker.wake();
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            queues: Vec::new(),
            places: HashMap::new(),
            consumers: Vec::new(),
            pool: Pool::default(),
            routes: Routes::default(),
            bindings: Vec::new(),
            retained: HashMap::new(),
            policies: HashMap::new(),
            counting: Counting::default(),
            most: MOST,
            timed: false,
            questions: HashMap::new(),
            wakes: Wakes::default(),
            faults: None,
            log: None,
        }
    }

    /// Put a message into a queue: to the reader whose turn it is, or behind those that wait.
    #[inline]
    pub(super) fn offer(&mut self, at: usize, mut entry: Entry) {
        let queue = &mut self.queues[at];
        entry.order = queue.next_order();
        if !queue.ready.is_empty() {
            queue.ready.push_back(entry);
            return;
        }
        match queue.pick(&self.consumers) {
            Some(reader) => self.assign(reader, entry),
            None => queue.ready.push_back(entry),
        }
    }

    /// Hand out what waits in a queue, as far as its readers have room.
    pub(super) fn dispatch(&mut self, at: usize, now: Moment) {
        loop {
            let queue = &mut self.queues[at];
            if queue.ready.is_empty() {
                return;
            }
            let Some(reader) = queue.pick(&self.consumers) else {
                return;
            };
            let Some(mut entry) = queue.ready.pop_front() else {
                return;
            };
            if entry.expires <= now {
                self.part(at, entry, "expired");
            } else {
                self.tell_what_is_left(at, &mut entry, now);
                self.assign(reader, entry);
            }
        }
    }

    /// Assign a message to a reader, and have it woken if it waits.
    #[inline]
    pub(super) fn assign(&mut self, reader: usize, entry: Entry) {
        if let Some(consumer) = self.consumers[reader].as_mut() {
            consumer.assign(entry);
            if consumer.waiting.is_some() {
                self.wake(reader);
            }
        }
    }

    /// Settle a delivery by its reader's word.
    #[inline]
    pub(super) fn settle(
        &mut self,
        reader: usize,
        token: &Token,
        how: Disposition,
        now: Moment,
    ) -> Result<(), AckError> {
        if self.faults.is_some() && self.fails_settlement(reader) {
            self.leave(reader, token);
            return Err(AckError::Refused);
        }
        let consumer = self.consumers[reader].as_mut().ok_or(AckError::Closed)?;
        if token.epoch != consumer.epoch || matches!(consumer.phase(), Phase::Closed) {
            self.note_reader(EventKind::Stale, reader);
            return Err(AckError::Stale);
        }
        let at = consumer.queue;
        let by_acknowledgement = matches!(self.queues[at].style, Style::Session(_));
        if by_acknowledgement && matches!(how, Disposition::Return | Disposition::Release) {
            // MQTT has no word for it: it stays unacknowledged (spec M14, M16, M18).
            self.leave(reader, token);
            return Err(AckError::Unsupported);
        }
        let Some(entry) = consumer.take(token.key) else {
            self.note_reader(EventKind::Stale, reader);
            return Err(AckError::Stale);
        };
        match how {
            Disposition::Accept => {
                if self.log.is_some() {
                    self.note(EventKind::Accepted, Some(reader), &entry.native);
                }
                self.recycle(entry);
            }
            Disposition::Reject => {
                self.note(EventKind::Rejected, Some(reader), &entry.native);
                if by_acknowledgement {
                    self.recycle(entry);
                } else {
                    self.part(at, entry, "rejected");
                }
            }
            Disposition::Return => {
                self.note(EventKind::Returned, Some(reader), &entry.native);
                self.put_back(at, entry, Back::Failed);
            }
            Disposition::Release => {
                self.note(EventKind::Released, Some(reader), &entry.native);
                self.put_back(at, entry, Back::Untouched);
            }
        }
        if !self.queues[at].ready.is_empty() {
            self.dispatch(at, now);
        }
        Ok(())
    }

    /// Leave a delivery unsettled for good: it keeps its place in the window (spec M18, M20).
    pub(super) fn leave(&mut self, reader: usize, token: &Token) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        if token.epoch == consumer.epoch && consumer.holds(token.key) {
            consumer.stuck += 1;
            self.note_reader(EventKind::Left, reader);
        }
    }

    /// Put a message back where it was, or let it go when it was delivered too often.
    pub(super) fn put_back(&mut self, at: usize, mut entry: Entry, back: Back) {
        let counts = self.counting != Counting::Never;
        let queue = &mut self.queues[at];
        if queue.age(&mut entry, back, counts) {
            queue.put_back(entry);
        } else {
            self.part(at, entry, "delivery_limit");
        }
    }

    /// A message leaves its queue unhandled: to the queue's dead letters, or away.
    pub(super) fn part(&mut self, at: usize, entry: Entry, reason: &'static str) {
        let target = match self.queues[at].style {
            Style::Session(_) => None,
            _ => self.policies.get(&self.queues[at].name).cloned(),
        };
        match target {
            Some(to) => {
                let kind = EventKind::DeadLettered {
                    to: to.clone(),
                    reason,
                };
                self.note(kind, None, &entry.native);
                let message = entry.native.message().clone();
                self.park(to, message);
            }
            None => self.note(EventKind::Discarded { reason }, None, &entry.native),
        }
        self.recycle(entry);
    }

    /// Move a dead letter of the broker's own policy. Its expiry stays behind.
    fn park(&mut self, to: ByteString, message: Message) {
        let at = self.queue_or_keep(&to);
        let native = self.pool.take(to, message);
        self.offer(at, Entry::new(native, Moment::NEVER));
    }

    /// Say in the message what is left of its time, as MQTT does (MQTT 5 section 3.3.2.3.3).
    fn tell_what_is_left(&self, at: usize, entry: &mut Entry, now: Moment) {
        if entry.expires == Moment::NEVER || self.queues[at].session().is_none() {
            return;
        }
        let left = entry.expires.until(now);
        if let Some(native) = Arc::get_mut(&mut entry.native) {
            native.message = std::mem::take(&mut native.message).with_time_to_live(left);
        } else {
            let message = entry.native.message().clone().with_time_to_live(left);
            entry.native = Arc::new(Native::new(entry.native.address().clone(), message));
        }
    }

    /// Let go of everything that waits and is no longer worth delivering.
    #[cfg(feature = "testing")]
    pub(super) fn expire(&mut self, now: Moment) {
        if !self.timed {
            return;
        }
        self.reap(now);
        for at in 0..self.queues.len() {
            let ready = &mut self.queues[at].ready;
            let expired: Vec<usize> = (0..ready.len())
                .rev()
                .filter(|place| ready[*place].expires <= now)
                .collect();
            for place in expired {
                if let Some(entry) = self.queues[at].ready.remove(place) {
                    self.part(at, entry, "expired");
                }
            }
        }
    }

    /// Keep a settled message for the next publish, unless others hold it.
    #[inline]
    pub(super) fn recycle(&mut self, entry: Entry) {
        if !entry.is(Mark::Shared) {
            self.pool.give(entry.native);
        }
    }

    /// Write down what happened to a message.
    pub(super) fn note(&mut self, kind: EventKind, reader: Option<usize>, native: &Native) {
        if self.log.is_some() {
            self.write(Event {
                kind,
                mount: reader
                    .and_then(|reader| self.consumers.get(reader)?.as_ref())
                    .map(|consumer| consumer.mount.clone())
                    .unwrap_or_default(),
                address: native.address().clone(),
                payload: native.message().payload().clone(),
            });
        }
    }

    /// Write down what happened to a reader.
    pub(super) fn note_reader(&mut self, kind: EventKind, reader: usize) {
        if self.log.is_some()
            && let Some(consumer) = self.consumers.get(reader).and_then(Option::as_ref)
        {
            self.write(Event {
                kind,
                mount: consumer.mount.clone(),
                address: self.queues[consumer.queue].name.clone(),
                payload: bytes::Bytes::new(),
            });
        }
    }

    #[cold]
    fn write(&mut self, event: Event) {
        if let Some(log) = &mut self.log {
            log.push(event);
            for waker in log.take_waiting() {
                self.wakes.add(waker);
            }
        }
    }
}

/// The most messages that wait in one queue, unless told otherwise.
pub(super) const MOST: usize = 1_000_000;
