//! Watching the embedded broker from outside, and making things go wrong. For tests.
//!
//! An [`Observer`] stands where an operator's console stands: it sees queues and what was said on
//! the wire, it cuts connections and refuses publishes. An application has no use for it.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use bytestring::ByteString;
use tokio_util::sync::CancellationToken;

use super::Memory;
use super::Shared;
use super::consumer::Settling;
use super::entry::Entry;
use super::entry::Mark;
pub use super::events::Event;
pub use super::events::EventKind;
use super::faults::Refusal;
use super::publish::Publisher;
use super::state::Place;
use super::state::State;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::message::Message;

/// Watches one embedded broker and injects faults. A clone is the same observer.
///
/// `queue` is the name of a queue, or of a mount point that reads a topic or a filter: then it
/// means what waits for that mount point. `mount` is a mount point's name.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
    publisher: Publisher,
}

/// A message that waits in a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// Where it was published.
    pub address: ByteString,
    /// Payload, headers and properties.
    pub message: Message,
    /// The failed deliveries that the broker counted.
    pub count: u32,
    /// Whether it was delivered before.
    pub redelivered: bool,
}

/// How a publish is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refuse {
    /// It may succeed later.
    Transient,
    /// It never will.
    Permanent,
}

impl Memory {
    /// An observer of this broker. From the first one on, the broker writes down what happens.
    #[must_use]
    pub fn observe(&self) -> Observer {
        self.shared.with(|state| {
            state.log.get_or_insert_default();
            state.watch_sources();
        });
        Observer {
            shared: Arc::clone(&self.shared),
            publisher: self.publisher,
        }
    }
}

/// What is there.
impl Observer {
    /// How many messages wait in `queue`, those that are with a reader left out.
    #[must_use]
    pub fn queue_depth(&self, queue: &str) -> usize {
        self.with(|state| {
            let found = state.find_queues(queue);
            found.iter().map(|at| state.queues[*at].ready.len()).sum()
        })
    }

    /// How many messages of `queue` are with its readers and not settled, prefetched ones included.
    #[must_use]
    pub fn unsettled(&self, queue: &str) -> usize {
        self.with(|state| {
            let found = state.find_queues(queue);
            state
                .consumers
                .iter()
                .flatten()
                .filter(|consumer| found.contains(&consumer.queue))
                .filter(|consumer| consumer.settling == Settling::ByReader)
                .flat_map(super::consumer::Consumer::held)
                .filter(|entry| !entry.is(Mark::Unconfirmed))
                .count()
        })
    }

    /// How many deliveries the readers of `mount` left unsettled for good.
    #[must_use]
    pub fn stuck(&self, mount: &str) -> u32 {
        self.with(|state| {
            let readers = state.readers(mount);
            readers.map(|(_, consumer)| consumer.stuck).sum()
        })
    }

    /// How often the readers of `mount` have connected.
    #[must_use]
    pub fn connects(&self, mount: &str) -> u32 {
        self.with(|state| {
            let readers = state.readers(mount);
            readers.map(|(_, consumer)| consumer.connects).sum()
        })
    }

    /// The messages that wait in `queue`, in order. They stay there.
    #[must_use]
    pub fn messages(&self, queue: &str) -> Vec<Waiting> {
        self.with(|state| {
            let found = state.find_queues(queue);
            found
                .iter()
                .flat_map(|at| state.queues[*at].ready.iter().map(waiting))
                .collect()
        })
    }

    /// Take the first message that waits in `queue`, as another reader would.
    #[must_use]
    pub fn take(&self, queue: &str) -> Option<Waiting> {
        self.with(|state| {
            let found = state.find_queues(queue);
            found
                .iter()
                .find_map(|at| state.queues[*at].ready.pop_front())
                .map(|entry| waiting(&entry))
        })
    }

    /// The message that `topic` keeps for later subscribers (MQTT).
    #[must_use]
    pub fn retained(&self, topic: &str) -> Option<Message> {
        self.with(|state| {
            let (native, _) = state.retained.get(topic)?;
            Some(native.message().clone())
        })
    }

    /// What happened, the oldest first; the last 65,536 events are kept.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.with(|state| {
            let log = state.log.as_ref();
            log.map(|log| log.events().cloned().collect())
                .unwrap_or_default()
        })
    }

    /// What happened to messages at the readers of `mount`, the oldest first.
    #[must_use]
    pub fn events_of(&self, mount: &str) -> Vec<EventKind> {
        self.with(|state| {
            let events = state.log.iter().flat_map(|log| log.events());
            events
                .filter(|event| event.mount == mount)
                .map(|event| event.kind.clone())
                .collect()
        })
    }

    /// Forget what happened so far.
    pub fn clear_events(&self) {
        self.with(|state| {
            if let Some(log) = &mut state.log {
                log.clear();
            }
        });
    }

    /// Wait until `holds`, which is asked again after everything that happens at the broker.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        std::future::poll_fn(|cx| {
            // Before asking, so that what happens meanwhile is not missed.
            self.with(|state| {
                if let Some(log) = &mut state.log {
                    log.wake_on_next(cx.waker());
                }
            });
            if holds(self) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// What an independent client does.
impl Observer {
    /// Publish, as a client of its own.
    ///
    /// # Errors
    ///
    /// As a [`Sink`](crate::broker::Sink) does; a held confirmation is not waited for.
    pub fn publish(
        &self,
        to: impl Into<ByteString>,
        message: impl Into<Message>,
    ) -> Result<Published, PublishError> {
        let (to, message) = (to.into(), message.into());
        self.with(|state| {
            state.timed |= message.time_to_live().is_some();
            let now = self.shared.now_if_timed(state);
            state.publish(to, message, self.publisher, now)
        })
    }
}

/// What goes wrong.
impl Observer {
    /// Cut the connections of `mount`; they connect again unless they are [kept
    /// offline](Self::keep_offline). Unsettled deliveries go back to the queue, counted, or stay in
    /// the session.
    pub fn cut(&self, mount: &str) {
        self.with(|state| {
            let now = self.shared.now_if_timed(state);
            for reader in state.reader_ids(mount) {
                state.lose(reader, "the connection was cut", now);
            }
        });
    }

    /// Cut the connections of `mount`, and let it not connect until it is [let
    /// online](Self::let_online).
    pub fn keep_offline(&self, mount: &str) {
        self.with(|state| {
            let offline = &mut state.faults_mut().offline;
            offline.insert(ByteString::from(mount));
        });
        self.cut(mount);
    }

    /// Let `mount` connect again.
    pub fn let_online(&self, mount: &str) {
        self.with(|state| {
            state.faults_mut().offline.remove(mount);
            for reader in state.reader_ids(mount) {
                state.wake(reader);
            }
        });
    }

    /// End the MQTT sessions of `mount`, as when they expire: what they kept is gone.
    pub fn end_session(&self, mount: &str) {
        self.with(|state| {
            for at in state.find_queues(mount) {
                state.end_session(at);
            }
        });
    }

    /// Refuse publishes to `address`: so many, or all of them without a number.
    pub fn refuse_publishes(&self, address: &str, how: Refuse, times: Option<u32>) {
        let refusal = Refusal {
            times,
            transient: how == Refuse::Transient,
        };
        self.with(|state| {
            let refusals = &mut state.faults_mut().refusals;
            refusals.insert(ByteString::from(address), refusal);
        });
    }

    /// Take publishes to `address` again.
    pub fn take_publishes(&self, address: &str) {
        self.with(|state| state.faults_mut().refusals.remove(address));
    }

    /// Take publishes to `address` and confirm none until they are
    /// [released](Self::release_confirmations).
    pub fn hold_confirmations(&self, address: &str) {
        self.with(|state| {
            let held = &mut state.faults_mut().held;
            held.entry(ByteString::from(address)).or_default();
        });
    }

    /// Confirm what was held, and what comes from now on.
    pub fn release_confirmations(&self, address: &str) {
        let gate: Option<CancellationToken> =
            self.with(|state| state.faults_mut().held.remove(address));
        if let Some(gate) = gate {
            gate.cancel();
        }
    }

    /// Let the next so many settlements of `mount` fail with [`AckError::Refused`]; their deliveries
    /// stay unsettled.
    ///
    /// [`AckError::Refused`]: crate::AckError::Refused
    pub fn fail_settlements(&self, mount: &str, times: u32) {
        self.with(|state| {
            let settlements = &mut state.faults_mut().settlements;
            settlements.insert(ByteString::from(mount), times);
        });
    }

    /// Answer no settlement of `mount` until they are [released](Self::release_settlements): they
    /// are on their way, as on a slow network.
    pub fn hold_settlements(&self, mount: &str) {
        self.with(|state| {
            let held = &mut state.faults_mut().held_settlements;
            held.insert(ByteString::from(mount));
        });
    }

    /// Let the settlements that were held arrive, in order.
    pub fn release_settlements(&self, mount: &str) {
        self.with(|state| {
            state.faults_mut().held_settlements.remove(mount);
            for reader in state.reader_ids(mount) {
                state.wake_settling(reader);
            }
        });
    }

    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.expire(now);
            work(state)
        })
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl State {
    /// The queue of this name, or what waits for the mount point of this name.
    fn find_queues(&self, name: &str) -> Vec<usize> {
        if let Some(at) = self.places.get(&Place::Queue(ByteString::from(name))) {
            return vec![*at];
        }
        let mut found: Vec<usize> = self
            .places
            .values()
            .copied()
            .filter(|at| self.queues[*at].name == name)
            .chain(self.readers(name).map(|(_, consumer)| consumer.queue))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn readers<'a>(
        &'a self,
        mount: &'a str,
    ) -> impl Iterator<Item = (usize, &'a super::consumer::Consumer)> + 'a {
        self.consumers
            .iter()
            .enumerate()
            .filter_map(|(reader, consumer)| Some((reader, consumer.as_ref()?)))
            .filter(move |(_, consumer)| consumer.mount == mount)
    }

    fn reader_ids(&self, mount: &str) -> Vec<usize> {
        self.readers(mount).map(|(reader, _)| reader).collect()
    }
}

fn waiting(entry: &Entry) -> Waiting {
    Waiting {
        address: entry.native.address().clone(),
        message: entry.native.message().clone(),
        count: entry.count,
        redelivered: entry.is(Mark::Redelivered),
    }
}
