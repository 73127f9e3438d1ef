//! Where a publish goes. Pure.
//!
//! There is one namespace: a publish to `x` goes to every MQTT session whose filter matches `x`, to
//! every subscriber of topic `x`, to what RabbitMQ bindings name, and to the queue `x`.

use std::sync::Arc;

use bytestring::ByteString;

use super::consumer::Consumer;
use super::entry::Entry;
use super::entry::Mark;
use super::entry::Moment;
use super::events::EventKind;
use super::pool::Pool;
use super::queue::Life;
use super::queue::Queue;
use super::queue::Style;
use super::routes::Group;
use super::rules::Rules;
use super::state::Place;
use super::state::State;
use super::state::Wakes;
use crate::address;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::message::Message;
use crate::message::Native;

/// Who publishes, and by whose rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publisher {
    pub(super) rules: Option<Rules>,
    /// Whose connection it is, for `no_local`.
    pub(super) client: u32,
    /// The quality of service of its publishes under MQTT's rules.
    pub(super) qos: u8,
}

/// What a message needs on its straight way to a reader.
pub(super) struct Straight<'a> {
    order: u64,
    consumer: &'a mut Consumer,
    pool: &'a mut Pool,
    wakes: &'a mut Wakes,
}

impl Straight<'_> {
    /// Assign the message. It is written where it stays: one that is handed on is copied each time.
    #[expect(
        clippy::inline_always,
        reason = "a message is large to hand on, and nothing else puts one"
    )]
    #[inline(always)]
    pub(super) fn put(self, to: ByteString, message: Message) {
        let place = self.consumer.place();
        *place = Some(Entry::plain(self.pool.take(to, message), self.order));
        self.consumer.in_flight += 1;
        if self.consumer.waiting.is_some() {
            self.wakes.take(&mut self.consumer.waiting);
        }
    }
}

impl State {
    /// Publish a message.
    #[inline]
    pub(super) fn publish(
        &mut self,
        to: ByteString,
        message: Message,
        publisher: Publisher,
        now: Moment,
    ) -> Result<Published, PublishError> {
        if self.faults.is_some() {
            self.refuse(&to, &message)?;
        }
        if !self.questions.is_empty()
            && let Some(question) = self.questions.remove(&to)
        {
            // Whoever asked may have stopped waiting.
            question.send(message).ok();
            return Ok(Published::Confirmed);
        }
        let expires = message
            .time_to_live()
            .map_or(Moment::NEVER, |time| now.plus(time));
        if self.timed {
            self.reap(now);
        }
        let at = match self.routes.find(&to) {
            Some(at) => at,
            None => self.find_route(&to),
        };
        if let Some(only) = self.routes.get(at).only {
            self.check_room(only)?;
            let native = self.pool.take(to, message);
            if self.log.is_some() {
                self.note(EventKind::Published { queues: 1 }, None, &native);
            }
            self.offer(only, Entry::new(native, expires));
            return Ok(Published::Confirmed);
        }
        self.publish_to_many(at, to, message, expires, publisher)
    }

    /// Whether a plain message needs nothing but its queue: nobody watches, nothing expires, nothing
    /// is made to go wrong.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.timed && self.log.is_none() && self.faults.is_none() && self.questions.is_empty()
    }

    /// The straight way for a plain message to `to`: from one publisher to the only reader of the
    /// only queue, which waits for it.
    #[inline]
    pub(super) fn straight(&mut self, to: &str) -> Option<Straight<'_>> {
        let queue = &mut self.queues[self.routes.only(to)?];
        let [reader] = *queue.consumers else {
            return None;
        };
        let consumer = self.consumers.get_mut(reader)?.as_mut()?;
        (queue.ready.is_empty() && consumer.has_room()).then_some(Straight {
            order: queue.next_order(),
            consumer,
            pool: &mut self.pool,
            wakes: &mut self.wakes,
        })
    }

    /// Refuse a publish that is to be refused.
    #[cold]
    fn refuse(&mut self, to: &ByteString, message: &Message) -> Result<(), PublishError> {
        match self.refusal(to) {
            Some(error) => {
                self.note_unpublished(EventKind::Refused, to, message);
                Err(error)
            }
            None => Ok(()),
        }
    }

    fn publish_to_many(
        &mut self,
        route: usize,
        to: ByteString,
        message: Message,
        expires: Moment,
        publisher: Publisher,
    ) -> Result<Published, PublishError> {
        let mqtt = publisher.rules == Some(Rules::Mqtt);
        if mqtt && (to.is_empty() || to.contains(['+', '#'])) {
            return Err(PublishError::permanent(format!(
                "`{to}` cannot be published to: a topic must not be empty nor have a wildcard"
            )));
        }
        let retains = message.is_retained() && matches!(publisher.rules, None | Some(Rules::Mqtt));
        let mut targets = self.routes.get(route).queues.clone();
        targets.extend(
            (0..self.routes.get(route).groups.len()).map(|group| self.member(route, group)),
        );
        targets.retain(|at| {
            self.queues[*at]
                .session()
                .is_none_or(|session| session.not_from != Some(publisher.client))
        });
        for at in &targets {
            self.check_room(*at)?;
        }
        if targets.is_empty() && !retains {
            return self.publish_to_none(to, message, expires, publisher);
        }
        let native = self.pool.take(to, message);
        if retains {
            self.retain(&native, expires);
        }
        if targets.is_empty() {
            self.note(EventKind::Unread, None, &native);
            return Ok(Published::Unread);
        }
        let queues = targets.len();
        self.note(EventKind::Published { queues }, None, &native);
        for at in targets {
            let mut entry = Entry::new(Arc::clone(&native), expires).with_mark(Mark::Shared);
            match self.queues[at].session() {
                Some(session) => {
                    if session.retain_as_published && native.message().is_retained() {
                        entry.mark(Mark::Retained);
                    }
                    self.enter_session(at, entry, publisher.qos);
                }
                None => self.offer(at, entry),
            }
        }
        Ok(Published::Confirmed)
    }

    /// Nobody reads it, and there is no queue.
    fn publish_to_none(
        &mut self,
        to: ByteString,
        message: Message,
        expires: Moment,
        publisher: Publisher,
    ) -> Result<Published, PublishError> {
        match publisher.rules {
            Some(Rules::Mqtt) => {
                self.note_unpublished(EventKind::Unread, &to, &message);
                Ok(Published::Unread)
            }
            Some(Rules::Rabbitmq) => {
                let error = PublishError::permanent(format!(
                    "unroutable: there is no queue `{to}` and no binding takes it, declare one or subscribe to it first"
                ));
                self.note_unpublished(EventKind::Refused, &to, &message);
                Err(error)
            }
            Some(Rules::Amqp) | None => {
                let at = self.queue_or_keep(&to);
                let native = self.pool.take(to, message);
                self.note(EventKind::Published { queues: 1 }, None, &native);
                self.offer(at, Entry::new(native, expires));
                Ok(Published::Confirmed)
            }
        }
    }

    /// Write down what did not become a message anywhere.
    #[cold]
    fn note_unpublished(&mut self, kind: EventKind, to: &ByteString, message: &Message) {
        let native = Native::new(to.clone(), message.clone());
        self.note(kind, None, &native);
    }

    #[inline]
    fn check_room(&self, at: usize) -> Result<(), PublishError> {
        let queue = &self.queues[at];
        if queue.ready.len() < self.most {
            Ok(())
        } else {
            Err(full(&queue.name, self.most))
        }
    }

    fn retain(&mut self, native: &Arc<Native>, expires: Moment) {
        if native.message().payload().is_empty() {
            self.retained.remove(native.address());
        } else {
            self.retained
                .insert(native.address().clone(), (Arc::clone(native), expires));
        }
    }

    /// The member of a shared group whose turn it is: of those connected, if any is.
    fn member(&mut self, route: usize, group: usize) -> usize {
        let group = &mut self.routes.get_mut(route).groups[group];
        let count = group.members.len();
        group.turn = (group.turn + 1) % count;
        (0..count)
            .map(|step| group.members[(group.turn + step) % count])
            .find(|member| {
                self.queues[*member]
                    .session()
                    .is_some_and(|session| session.owner.is_some())
            })
            .unwrap_or(group.members[group.turn])
    }

    /// Find out where `to` goes, and remember it.
    fn find_route(&mut self, to: &ByteString) -> usize {
        let mut queues = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        for (place, at) in &self.places {
            match place {
                Place::Topic(_, topic) if topic == to => queues.push(*at),
                Place::Session(_, None, filter) if address::matches(filter, to) => queues.push(*at),
                Place::Session(_, Some(name), filter) if address::matches(filter, to) => {
                    if !self.is_member(*at, name, filter) {
                        continue;
                    }
                    match groups
                        .iter_mut()
                        .find(|group| group.name == *name && group.filter == *filter)
                    {
                        Some(group) => group.members.push(*at),
                        None => groups.push(Group {
                            name: name.clone(),
                            filter: filter.clone(),
                            members: vec![*at],
                            turn: 0,
                        }),
                    }
                }
                _ => {}
            }
        }
        for binding in self.bindings.iter().filter(|binding| binding.takes(to)) {
            queues.push(binding.queue);
        }
        if let Some(at) = self.places.get(&Place::Queue(to.clone())) {
            // A queue that only parks what nobody took does not collect what others take.
            let only_kept = self.queues[*at].life == Life::Kept;
            if !only_kept || (queues.is_empty() && groups.is_empty()) {
                queues.push(*at);
            }
        }
        // The map has no order; readers are served in the order in which they came.
        queues.sort_unstable();
        queues.dedup();
        for group in &mut groups {
            group.members.sort_unstable();
        }
        let only = match (&*queues, &*groups) {
            ([only], []) if self.queues[*only].session().is_none() => Some(*only),
            _ => None,
        };
        self.routes.insert(to.clone(), queues, groups, only)
    }

    /// The queue of this name, made to keep what nobody takes if there is none.
    pub(super) fn queue_or_keep(&mut self, name: &ByteString) -> usize {
        match self.places.get(&Place::Queue(name.clone())) {
            Some(at) => *at,
            None => self.add_queue(
                Place::Queue(name.clone()),
                Queue::new(name.clone(), Style::Amqp, Life::Kept),
            ),
        }
    }

    /// Add a queue.
    pub(super) fn add_queue(&mut self, place: Place, queue: Queue) -> usize {
        self.routes.change();
        let at = if let Some(at) = self
            .queues
            .iter()
            .position(|known| known.life == Life::Gone)
        {
            self.queues[at] = queue;
            at
        } else {
            self.queues.push(queue);
            self.queues.len() - 1
        };
        self.places.insert(place, at);
        at
    }
}

#[cold]
fn full(queue: &str, most: usize) -> PublishError {
    PublishError::transient(format!("queue full: `{queue}` holds {most} messages"))
}
