//! The embedded broker: a real broker in the process, by the rules of AMQP 1.0, MQTT 5 or RabbitMQ.
//!
//! Use it to run an application without a server, for messages between the parts of one process,
//! and to test handlers. Messages live as long as the [`Memory`] they are in: they survive
//! subscriptions, applications and restarts of an application on the same handle, not the process.
//!
//! # Which rules
//!
//! A subscription follows the rules that its form asks for (`filter` or `mqtt(…)`: MQTT;
//! `rabbitmq(…)`: RabbitMQ; everything else: AMQP 1.0), or those of the broker's kind:
//!
//! | constructor | URL | rules |
//! |---|---|---|
//! | [`Memory::new`] | `memory://` | of the subscription's form |
//! | [`Memory::amqp`] | `memory+amqp://` | AMQP 1.0 |
//! | [`Memory::mqtt`] | `memory+mqtt://` | MQTT 5 |
//! | [`Memory::rabbitmq`] | `memory+rabbitmq://` | RabbitMQ |
//!
//! # Where a publish goes
//!
//! There is one namespace. A publish to `x` goes to every MQTT session whose filter matches `x`, to
//! every subscriber of topic `x`, to the queues that RabbitMQ bindings name, and to the queue `x`.
//! If nothing takes it, it is kept in queue `x`, so that dead letters can be looked at later; under
//! MQTT's rules it is gone and the publisher is told (reason code 0x10), under RabbitMQ's it is
//! unroutable and the publish fails. A queue that exists only because a publish was kept collects
//! no more than what nothing else takes.
//!
//! # Bounds
//!
//! A queue holds [a million messages](Memory::with_queue_length) unless told otherwise; a full one
//! refuses publishes with a transient error.

mod ahead;
mod bindings;
mod consumer;
mod entry;
#[cfg_attr(
    not(feature = "testing"),
    expect(
        unreachable_pub,
        reason = "`observe` shows them, with the feature `testing`"
    )
)]
mod events;
mod faults;
mod link;
mod matching;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod observe;
mod pool;
mod publish;
mod queue;
mod routes;
mod rules;
mod session;
mod sink;
mod source;
mod state;
mod subscribe;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use bytestring::ByteString;

pub use rules::Rules;

use self::entry::Moment;
use self::publish::Publisher;
use self::queue::Style;
use self::rules::Counting;
use self::sink::MemorySink;
use self::source::MemorySource;
use self::state::State;
use crate::broker::BoxFuture;
use crate::broker::Broker;
use crate::broker::BrokerError;
use crate::broker::Capabilities;
use crate::broker::Sink;
use crate::broker::Source;
use crate::broker::Subscription;
use crate::registration::Form;

/// The embedded broker. A clone is the same broker.
///
/// # Examples
///
/// ```
/// use ruststream::broker::memory::Memory;
///
/// let broker = Memory::amqp().with_dead_letter_policy("orders", "orders.dead");
/// ```
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    name: Option<Arc<str>>,
    publisher: Publisher,
}

/// The state behind every handle, source and sink of one broker.
struct Shared {
    state: Mutex<State>,
    origin: tokio::time::Instant,
    clients: AtomicU32,
}

impl Memory {
    /// A broker whose rules follow each subscription's form.
    #[must_use]
    pub fn new() -> Self {
        Self::with_rules(None)
    }

    /// A broker by the rules of AMQP 1.0.
    #[must_use]
    pub fn amqp() -> Self {
        Self::with_rules(Some(Rules::Amqp))
    }

    /// A broker by the rules of MQTT 5.
    #[must_use]
    pub fn mqtt() -> Self {
        Self::with_rules(Some(Rules::Mqtt))
    }

    /// A broker by the rules of RabbitMQ.
    #[must_use]
    pub fn rabbitmq() -> Self {
        Self::with_rules(Some(Rules::Rabbitmq))
    }

    /// The process's broker of this name: asked for twice, it is the same. It lives as long as the
    /// process.
    #[must_use]
    pub fn named(name: &str, rules: Option<Rules>) -> Self {
        static NAMED: Mutex<Option<HashMap<String, Arc<Shared>>>> = Mutex::new(None);
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = named
            .get_or_insert_default()
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Shared::new()));
        Self {
            name: Some(Arc::from(name)),
            ..Self::on(Arc::clone(shared), rules)
        }
    }

    fn with_rules(rules: Option<Rules>) -> Self {
        Self::on(Arc::new(Shared::new()), rules)
    }

    fn on(shared: Arc<Shared>, rules: Option<Rules>) -> Self {
        let publisher = Publisher {
            rules,
            client: shared.clients.fetch_add(1, Ordering::Relaxed),
            qos: 1,
        };
        Self {
            shared,
            name: None,
            publisher,
        }
    }

    /// Another client of the same broker: for a subscription that is `no_local`, what one handle
    /// and its clones publish is local, what another client publishes is not.
    #[must_use]
    pub fn client(&self) -> Self {
        Self {
            name: self.name.clone(),
            ..Self::on(Arc::clone(&self.shared), self.publisher.rules)
        }
    }

    /// Publish at this quality of service under MQTT's rules: 0, 1 or 2; 1 by default. A
    /// subscription gets the lower of its own and this.
    #[must_use]
    pub fn with_publish_qos(mut self, qos: u8) -> Self {
        self.publisher.qos = qos.min(2);
        self
    }

    /// Count deliveries as RabbitMQ 4 does on AMQP 1.0: everything has a count from the start.
    #[must_use]
    pub fn always_counting(self) -> Self {
        self.shared.with(|state| state.counting = Counting::Always);
        self
    }

    /// Do not count deliveries, as RabbitMQ 4 on classic queues over AMQP 1.0: the count is there
    /// and stays 0 (spec C22).
    #[must_use]
    pub fn never_counting(self) -> Self {
        self.shared.with(|state| state.counting = Counting::Never);
        self
    }

    /// Move what is rejected from `queue`, expires there or is delivered there too often to
    /// `target`, as a dead-letter policy of the broker does. Under MQTT's rules there is no such thing.
    #[must_use]
    pub fn with_dead_letter_policy(
        self,
        queue: impl Into<ByteString>,
        target: impl Into<ByteString>,
    ) -> Self {
        let (queue, target) = (queue.into(), target.into());
        self.shared.with(|state| {
            state.policies.insert(queue, target);
        });
        self
    }

    /// Hold at most this many waiting messages per queue; a full queue refuses publishes with a
    /// transient error. A million by default.
    #[must_use]
    pub fn with_queue_length(self, most: usize) -> Self {
        self.shared.with(|state| state.most = most);
        self
    }

    /// Declare a queue, as an operator would. Under RabbitMQ's rules it is a quorum queue.
    pub fn declare(&self, queue: impl Into<ByteString>) {
        let style = match self.publisher.rules {
            Some(Rules::Rabbitmq) => Style::Quorum {
                limit: rules::DELIVERY_LIMIT,
            },
            _ => Style::Amqp,
        };
        let queue = queue.into();
        self.shared.with(|state| state.declare(queue, style));
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("name", &self.name)
            .field("rules", &self.publisher.rules)
            .finish_non_exhaustive()
    }
}

impl Broker for Memory {
    fn system(&self) -> &'static str {
        "memory"
    }

    fn location(&self) -> String {
        let scheme = match self.publisher.rules {
            None => "memory",
            Some(Rules::Amqp) => "memory+amqp",
            Some(Rules::Mqtt) => "memory+mqtt",
            Some(Rules::Rabbitmq) => "memory+rabbitmq",
        };
        format!("{scheme}://{}", self.name.as_deref().unwrap_or_default())
    }

    fn capabilities(&self, subscription: &Subscription) -> Result<Capabilities, BrokerError> {
        self.shared.with(|state| {
            let keeps_rejected = state.policies.contains_key(&subscription.address);
            rules::capabilities(
                self.publisher.rules,
                state.counting,
                keeps_rejected,
                subscription,
            )
        })
    }

    fn canonical(&self, form: Form, address: &str) -> String {
        let _ = form;
        address.to_owned()
    }

    fn subscribe(
        &self,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, BrokerError>> {
        let Self {
            shared, publisher, ..
        } = self.clone();
        Box::pin(async move {
            let now = shared.now();
            let (reader, signal) = shared.with(|state| {
                state.subscribe(&subscription, publisher.rules, publisher.client, now)
            })?;
            let source: Box<dyn Source> = Box::new(MemorySource::new(shared, reader, signal));
            Ok(source)
        })
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(MemorySink::new(Arc::clone(&self.shared), self.publisher))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Shared {
    fn new() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the broker's shell tells its core what time it is"
        )]
        let origin = tokio::time::Instant::now();
        Self {
            state: Mutex::new(State::new()),
            origin,
            clients: AtomicU32::new(0),
        }
    }

    /// What time it is.
    #[expect(
        clippy::disallowed_methods,
        reason = "the broker's shell tells its core what time it is"
    )]
    fn now(&self) -> Moment {
        Moment::after_start(tokio::time::Instant::now().saturating_duration_since(self.origin))
    }

    /// The time, if anything asks for it: most messages never expire.
    #[inline]
    fn now_if_timed(&self, state: &State) -> Moment {
        if state.timed {
            self.now()
        } else {
            Moment::default()
        }
    }

    /// Do something with the state, then wake whom it concerns, without the lock.
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = work(&mut state);
        Self::unlock(state);
        result
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Free the lock, then wake whom it concerns.
    #[inline]
    fn unlock(state: MutexGuard<'_, State>) {
        if !state.wakes.is_empty() {
            Self::unlock_and_wake(state);
        }
    }

    #[inline(never)]
    fn unlock_and_wake(mut state: MutexGuard<'_, State>) {
        let wakes = std::mem::take(&mut state.wakes);
        drop(state);
        wakes.wake();
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
