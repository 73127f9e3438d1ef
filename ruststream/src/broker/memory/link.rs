//! A reader's connection: up, lost, stopped, closed. Pure.

use std::task::Poll;
use std::task::Waker;

use super::consumer::Consumer;
use super::consumer::Phase;
use super::consumer::Settling;
use super::entry::Mark;
use super::entry::Moment;
use super::events::EventKind;
use super::queue::Back;
use super::queue::Life;
use super::queue::Style;
use super::state::State;
use crate::broker::Arrival;
use crate::broker::BrokerError;
use crate::delivery::Delivery;
use crate::settle::Token;

/// Whether what is taken back was on the wire already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    NotYet,
    Over,
}

impl State {
    /// The next thing that a reader is told; `waker` is kept when there is nothing.
    #[inline]
    pub(super) fn poll(&mut self, reader: usize, now: Moment, waker: &Waker) -> Poll<Arrival> {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return Poll::Ready(Arrival::Ended);
        };
        match consumer.phase() {
            Phase::Open => {}
            Phase::Opening => {
                consumer.set_phase(Phase::Open);
                let at = consumer.queue;
                self.dispatch(at, now);
            }
            _ => return self.poll_link(reader, now, waker),
        }
        match self.hand_out(reader, now) {
            Some(delivery) => Poll::Ready(Arrival::Delivery(delivery)),
            None => self.wait(reader, waker),
        }
    }

    /// What the reader is told of its connection, and nothing else.
    pub(super) fn poll_link(&mut self, reader: usize, now: Moment, waker: &Waker) -> Poll<Arrival> {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return Poll::Ready(Arrival::Ended);
        };
        match consumer.phase() {
            Phase::Open | Phase::Opening => self.wait(reader, waker),
            Phase::Connecting => self.connect(reader, now, waker),
            Phase::Lost(why) => {
                let why = why.clone();
                consumer.set_phase(Phase::Connecting);
                Poll::Ready(Arrival::Disconnected(BrokerError::transient(why)))
            }
            Phase::Stopped | Phase::Closed => Poll::Ready(Arrival::Ended),
        }
    }

    #[inline]
    fn hand_out(&mut self, reader: usize, now: Moment) -> Option<Delivery> {
        let consumer = self.consumers[reader].as_mut()?;
        let at = consumer.queue;
        let epoch = consumer.epoch;
        let by_reader = consumer.settling == Settling::ByReader;
        let (key, entry) = consumer.next()?;
        let settled = !by_reader || entry.is(Mark::Unconfirmed);
        let token = (!settled).then_some(Token { epoch, key });
        let delivery = self.queues[at].delivery(entry, token, self.counting);
        if settled && let Some(entry) = consumer.take(key) {
            self.recycle(entry);
            self.dispatch(at, now);
        }
        if self.log.is_some() {
            let kind = EventKind::Delivered {
                count: delivery.counted,
                redelivered: delivery.redelivered,
                settled,
            };
            self.note(kind, Some(reader), &delivery.native);
        }
        Some(delivery)
    }

    #[cold]
    fn connect(&mut self, reader: usize, now: Moment, waker: &Waker) -> Poll<Arrival> {
        let Some(consumer) = self.consumers[reader].as_ref() else {
            return Poll::Ready(Arrival::Ended);
        };
        if self.is_offline(&consumer.mount) || !self.open_session(reader, now) {
            return self.wait(reader, waker);
        }
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return Poll::Ready(Arrival::Ended);
        };
        consumer.set_phase(Phase::Opening);
        consumer.connects += 1;
        let epoch = consumer.epoch;
        self.note_reader(EventKind::Connected { epoch }, reader);
        self.send_retained(reader);
        Poll::Ready(Arrival::Connected { epoch })
    }

    fn wait(&mut self, reader: usize, waker: &Waker) -> Poll<Arrival> {
        if let Some(consumer) = self.consumers[reader].as_mut() {
            match &mut consumer.waiting {
                Some(known) if known.will_wake(waker) => {}
                // Dropping a waker may run a task's destructor, so that too waits for the lock.
                Some(known) => {
                    let old = std::mem::replace(known, waker.clone());
                    self.wakes.add(old);
                }
                None => consumer.waiting = Some(waker.clone()),
            }
        }
        Poll::Pending
    }

    /// The reader's connection is lost: what it held goes back, and its tokens are void.
    pub(super) fn lose(&mut self, reader: usize, why: &str, now: Moment) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        match consumer.phase() {
            Phase::Open | Phase::Opening => consumer.set_phase(Phase::Lost(why.to_owned())),
            Phase::Stopped => {}
            Phase::Connecting | Phase::Lost(_) | Phase::Closed => return,
        }
        let at = consumer.queue;
        self.void(reader, Back::Failed, now);
        self.note_reader(EventKind::Disconnected, reader);
        self.end_connection(at, reader, now);
        self.wake(reader);
    }

    /// Take everything from a reader, as a broker does when the connection is gone.
    fn void(&mut self, reader: usize, back: Back, now: Moment) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        consumer.epoch = consumer.epoch.wrapping_add(1);
        consumer.signal.raise();
        let at = consumer.queue;
        let settled = consumer.settling != Settling::ByReader;
        // From the last to the first, so that each finds its place at the front.
        for entry in consumer.take_all().into_iter().rev() {
            if settled || entry.is(Mark::Unconfirmed) {
                // It counts as delivered since it was sent (spec R11, A30).
                self.note(
                    EventKind::Discarded { reason: "lost" },
                    Some(reader),
                    &entry.native,
                );
                self.recycle(entry);
            } else {
                self.note(EventKind::Requeued, Some(reader), &entry.native);
                self.put_back(at, entry, back);
            }
        }
        self.dispatch(at, now);
    }

    /// Stop receiving: what was never handed out goes back; what was handed out may be settled.
    pub(super) fn stop(&mut self, reader: usize, now: Moment) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        if matches!(consumer.phase(), Phase::Stopped | Phase::Closed) {
            return;
        }
        consumer.set_phase(Phase::Stopped);
        let at = consumer.queue;
        self.take_back_until(reader, Sent::Over, Consumer::is_handed_out);
        self.unsubscribe_shared(at, now);
        self.dispatch(at, now);
        self.wake(reader);
    }

    /// Change the window. What was assigned beyond it and not handed out goes back.
    pub(super) fn set_window(&mut self, reader: usize, window: u32, now: Moment) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        let at = consumer.queue;
        consumer.set_window(window);
        if consumer.settling != Settling::Automatic && consumer.in_flight > window {
            self.take_back_until(reader, Sent::NotYet, |consumer| {
                consumer.in_flight <= consumer.window()
            });
        }
        self.dispatch(at, now);
    }

    /// Take back what was assigned last and not handed out, until `enough`.
    fn take_back_until(&mut self, reader: usize, sent: Sent, enough: impl Fn(&Consumer) -> bool) {
        while let Some(consumer) = self.consumers[reader].as_mut() {
            if enough(consumer) {
                return;
            }
            let at = consumer.queue;
            let by_reader = consumer.settling == Settling::ByReader;
            let Some(entry) = consumer.take_back() else {
                return;
            };
            if entry.is(Mark::Unconfirmed) || (sent == Sent::Over && !by_reader) {
                let kind = EventKind::Discarded { reason: "lost" };
                self.note(kind, Some(reader), &entry.native);
                self.recycle(entry);
            } else if sent == Sent::NotYet || matches!(self.queues[at].style, Style::Amqp) {
                self.queues[at].put_back(entry);
            } else {
                // Only AMQP 1.0 can give back without a trace (released).
                self.put_back(at, entry, Back::Untouched);
            }
        }
    }

    /// Leave in order: what is still unsettled goes back, uncounted where the protocol can.
    pub(super) fn close(&mut self, reader: usize, now: Moment) {
        self.depart(reader, Back::Untouched, now);
    }

    /// The reader is gone without a word, as after a crash; then its place is free.
    pub(super) fn forget(&mut self, reader: usize, now: Moment) {
        self.depart(reader, Back::Failed, now);
        if let Some(place) = self.consumers.get_mut(reader) {
            *place = None;
        }
    }

    fn depart(&mut self, reader: usize, back: Back, now: Moment) {
        let Some(consumer) = self.consumers[reader].as_mut() else {
            return;
        };
        if matches!(consumer.phase(), Phase::Closed) {
            return;
        }
        consumer.set_phase(Phase::Closed);
        let at = consumer.queue;
        if let Some(waker) = consumer.waiting.take() {
            self.wakes.add(waker);
        }
        self.queues[at].consumers.retain(|known| *known != reader);
        self.void(reader, back, now);
        self.note_reader(EventKind::Disconnected, reader);
        self.end_connection(at, reader, now);
        if self.queues[at].life == Life::Temporary && self.queues[at].consumers.is_empty() {
            self.remove(at, "lost");
        }
    }

    /// Remove a queue with what is in it.
    pub(super) fn remove(&mut self, at: usize, reason: &'static str) {
        let queue = &mut self.queues[at];
        queue.life = Life::Gone;
        for entry in std::mem::take(&mut queue.ready) {
            self.note(EventKind::Discarded { reason }, None, &entry.native);
        }
        self.places.retain(|_, place| *place != at);
        self.bindings.retain(|binding| binding.queue != at);
        self.routes.change();
    }

    /// Whether the window is full of what is left unsettled for good and comes only when the
    /// session resumes (spec C15).
    pub(super) fn is_stuck(&self, reader: usize) -> bool {
        self.consumers[reader].as_ref().is_some_and(|consumer| {
            consumer.stuck > 0
                && consumer.stuck >= consumer.window()
                && matches!(consumer.phase(), Phase::Open)
                && self.queues[consumer.queue].session().is_some()
        })
    }

    /// Wake the reader, which has settlements on their way.
    #[cfg(feature = "testing")]
    pub(super) fn wake_settling(&mut self, reader: usize) {
        if let Some(consumer) = self.consumers[reader].as_mut()
            && let Some(waker) = consumer.settling_waker.take()
        {
            self.wakes.add(waker);
        }
    }

    pub(super) fn wake(&mut self, reader: usize) {
        if let Some(consumer) = self.consumers[reader].as_mut()
            && let Some(waker) = consumer.waiting.take()
        {
            self.wakes.add(waker);
        }
    }
}
