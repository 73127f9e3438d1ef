//! One subscription of an MQTT session, and what becomes of it as connections come and go. Pure.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;

use super::entry::Entry;
use super::entry::Mark;
use super::entry::Moment;
use super::events::EventKind;
use super::state::State;
use crate::address;

/// What an MQTT session knows of one of its subscriptions.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) filter: ByteString,
    /// The shared group it is in.
    pub(super) group: Option<ByteString>,
    /// The most it is served with.
    pub(super) qos: u8,
    /// Whose publishes it does not want.
    pub(super) not_from: Option<u32>,
    pub(super) retain_as_published: bool,
    pub(super) retain_handling: u8,
    /// How long it is kept without a connection; for ever without one.
    pub(super) expiry: Option<Duration>,
    /// When it ends, while it has no connection.
    pub(super) ends: Moment,
    /// Whether messages are still put into it: a stop unsubscribes a shared filter (spec C29).
    pub(super) subscribed: bool,
    /// Whether it was there before its present connection.
    pub(super) age: Age,
    /// The reader that has its connection; one that it was taken from waits.
    pub(super) owner: Option<usize>,
}

/// Whether a session is new to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// It never had a connection.
    Unborn,
    /// It began with its present or last connection.
    New,
    /// It was there before.
    Resumed,
}

impl Session {
    /// Whether retained messages are sent with the subscription that is made now (MQTT 5 section
    /// 3.8.3.1; never for a shared one, section 4.8.2).
    pub(super) fn wants_retained(&self) -> bool {
        self.group.is_none()
            && match self.retain_handling {
                0 => true,
                1 => self.age != Age::Resumed,
                _ => false,
            }
    }
}

impl State {
    /// Connect a reader to its session, if it reads one. A new reader takes the session over; one
    /// that it was taken from waits until it is free.
    pub(super) fn open_session(&mut self, reader: usize, now: Moment) -> bool {
        self.reap(now);
        let Some(consumer) = self.consumers[reader].as_ref() else {
            return false;
        };
        let is_new = consumer.connects == 0;
        let Some(session) = self.queues[consumer.queue].session_mut() else {
            return true;
        };
        match session.owner {
            Some(owner) if owner != reader && !is_new => return false,
            owner => {
                session.owner = Some(reader);
                session.age = match session.age {
                    Age::Unborn => Age::New,
                    Age::New | Age::Resumed => Age::Resumed,
                };
                session.ends = Moment::NEVER;
                if let Some(owner) = owner.filter(|owner| *owner != reader) {
                    self.lose(owner, TAKEN_OVER, now);
                }
            }
        }
        true
    }

    /// A reader's connection to its session is gone: from now on the session's time runs.
    pub(super) fn end_connection(&mut self, at: usize, reader: usize, now: Moment) {
        let has_left = !self.queues[at].consumers.contains(&reader);
        let is_empty = self.queues[at].ready.is_empty();
        let Some(session) = self.queues[at].session_mut() else {
            return;
        };
        if session.owner == Some(reader) {
            session.owner = None;
            if let Some(expiry) = session.expiry {
                session.ends = now.plus(expiry);
            }
        }
        // Nobody comes back for a place in a group that was given up (spec C29).
        let is_over = has_left && is_empty && !session.subscribed;
        let others = self.queues[at].consumers.clone();
        if is_over && others.is_empty() {
            self.remove(at, "session_ended");
        }
        for other in others {
            self.wake(other);
        }
        self.reap(now);
    }

    /// End the sessions whose time is over.
    pub(super) fn reap(&mut self, now: Moment) {
        if !self.timed {
            return;
        }
        for at in 0..self.queues.len() {
            let queue = &mut self.queues[at];
            if queue.session().is_some_and(|session| session.ends <= now) {
                self.end_session(at);
            }
        }
    }

    /// End a session: what it kept is gone. A reader that comes back begins a new one.
    pub(super) fn end_session(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        let Some(session) = queue.session_mut() else {
            return;
        };
        session.age = Age::Unborn;
        session.ends = Moment::NEVER;
        if queue.consumers.is_empty() {
            self.remove(at, "session_ended");
            return;
        }
        for entry in std::mem::take(&mut queue.ready) {
            let kind = EventKind::Discarded {
                reason: "session_ended",
            };
            self.note(kind, None, &entry.native);
        }
    }

    /// Leave a shared group: its other members get what waits here (MQTT 5 section 4.8.2).
    pub(super) fn unsubscribe_shared(&mut self, at: usize, now: Moment) {
        let Some(session) = self.queues[at].session_mut() else {
            return;
        };
        let Some(group) = session.group.clone() else {
            return;
        };
        session.subscribed = false;
        let filter = session.filter.clone();
        self.routes.change();
        let members: Vec<usize> = (0..self.queues.len())
            .filter(|other| *other != at && self.is_member(*other, &group, &filter))
            .collect();
        if members.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.queues[at].ready);
        for (turn, entry) in waiting.into_iter().enumerate() {
            // For the other member it is a first delivery.
            let is_shared = entry.is(Mark::Shared);
            let mut fresh = Entry::new(entry.native, entry.expires);
            if is_shared {
                fresh.mark(Mark::Shared);
            }
            self.offer(members[turn % members.len()], fresh);
        }
        for member in members {
            self.dispatch(member, now);
        }
    }

    /// Whether a queue is the session of a member of this group.
    pub(super) fn is_member(&self, at: usize, group: &str, filter: &str) -> bool {
        self.queues[at].session().is_some_and(|session| {
            session.subscribed
                && session.filter == filter
                && session.group.as_deref() == Some(group)
        })
    }

    /// Send the retained messages that come with a subscription.
    pub(super) fn send_retained(&mut self, reader: usize) {
        let Some(consumer) = self.consumers[reader].as_ref() else {
            return;
        };
        let at = consumer.queue;
        let Some(session) = self.queues[at].session() else {
            return;
        };
        if self.retained.is_empty() || !session.wants_retained() {
            return;
        }
        let mut found: Vec<_> = self
            .retained
            .iter()
            .filter(|(topic, _)| address::matches(&session.filter, topic))
            .map(|(_, (native, expires))| (Arc::clone(native), *expires))
            .collect();
        found.sort_by(|(one, _), (other, _)| one.address().cmp(other.address()));
        for (native, expires) in found {
            let entry = Entry::new(native, expires)
                .with_mark(Mark::Shared)
                .with_mark(Mark::Retained);
            self.enter_session(at, entry, 2);
        }
    }

    /// Put a message that was published at `qos` into a session.
    pub(super) fn enter_session(&mut self, at: usize, entry: Entry, qos: u8) {
        let Some(session) = self.queues[at].session() else {
            return;
        };
        if session.qos.min(qos) > 0 {
            self.offer(at, entry);
            return;
        }
        let reader = session.owner.or(self.queues[at].consumers.first().copied());
        let is_there = reader
            .and_then(|reader| self.consumers[reader].as_ref())
            .is_some_and(super::consumer::Consumer::takes_unconfirmed);
        match reader {
            Some(reader) if is_there => {
                self.assign(reader, entry.with_mark(Mark::Unconfirmed));
            }
            _ => {
                let kind = EventKind::Discarded { reason: "offline" };
                self.note(kind, None, &entry.native);
                self.recycle(entry);
            }
        }
    }
}

/// What a reader is told whose client id another connection uses (MQTT 5 section 3.1.4).
const TAKEN_OVER: &str =
    "session taken over: another client uses the id, give one of them a `client_id` of its own";
