//! What a broker driver is: it translates, and decides nothing.
//!
//! A driver turns its protocol's deliveries into [`Delivery`], and [`Disposition`]s and copies into
//! its protocol's words. Everything else (attempts, caps, delays, dead letters) is decided before
//! it is asked.

#[cfg(feature = "memory")]
#[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
pub mod memory;
#[cfg(feature = "mqtt")]
#[cfg_attr(docsrs, doc(cfg(feature = "mqtt")))]
pub mod mqtt;
#[cfg(any(feature = "memory", feature = "mqtt"))]
mod mqtt_rules;
mod table;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use bytestring::ByteString;

use crate::delivery::Delivery;
use crate::message::Copy;
use crate::message::Message;
use crate::policy::Delay;
use crate::registration::AmqpOptions;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::registration::RabbitmqOptions;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Settle;
use crate::settle::Token;

pub use table::from_env;
pub use table::from_url;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A broker, by name in an application.
pub trait Broker: Send + Sync + fmt::Debug {
    /// Its `messaging.system`: `memory`, `amqp`, `mqtt`, `rabbitmq`.
    fn system(&self) -> &'static str;

    /// Where it is, without credentials, for logs and errors.
    fn location(&self) -> String;

    /// What it can do for a subscription. Nothing is connected.
    ///
    /// # Errors
    ///
    /// What it cannot serve, with the cure: a filter on a protocol without filters, an option out of range.
    fn capabilities(&self, subscription: &Subscription) -> Result<Capabilities, BrokerError>;

    /// The form in which two names of one place compare equal (spec C20).
    fn canonical(&self, form: Form, address: &str) -> String {
        let _ = form;
        address.to_owned()
    }

    /// All that will be subscribed, told before the first [`subscribe`](Broker::subscribe): a driver
    /// that serves several mount points over one connection must know them all before it connects,
    /// because a server hands out at once what waits for any of them. Nothing is connected.
    fn prepare(&self, subscriptions: &[Subscription]) {
        let _ = subscriptions;
    }

    /// Subscribe. A driver reconnects and subscribes again by itself (spec C14): a server that cannot
    /// be reached is no error, the source says [`Disconnected`](Arrival::Disconnected).
    ///
    /// # Errors
    ///
    /// A permanent refusal.
    fn subscribe(
        &self,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, BrokerError>>;

    /// Where messages are published.
    fn sink(&self) -> Arc<dyn Sink>;

    /// Close what is shared, after the sources have ended.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// A shared broker is a broker, as [`from_env`] gives it.
impl<B: Broker + ?Sized> Broker for Arc<B> {
    fn system(&self) -> &'static str {
        (**self).system()
    }

    fn location(&self) -> String {
        (**self).location()
    }

    fn capabilities(&self, subscription: &Subscription) -> Result<Capabilities, BrokerError> {
        (**self).capabilities(subscription)
    }

    fn canonical(&self, form: Form, address: &str) -> String {
        (**self).canonical(form, address)
    }

    fn prepare(&self, subscriptions: &[Subscription]) {
        (**self).prepare(subscriptions);
    }

    fn subscribe(
        &self,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, BrokerError>> {
        (**self).subscribe(subscription)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        (**self).sink()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        (**self).close()
    }
}

/// What a mount point subscribes to.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The application's name.
    pub app: ByteString,
    /// The mount point's name, unique in the application.
    pub mount: ByteString,
    /// The form of the address.
    pub form: Form,
    /// The effective address, queue, topic or filter.
    pub address: ByteString,
    /// The most unsettled deliveries at once (spec C15).
    pub window: u32,
    /// When deliveries are settled.
    pub settle: Settle,
    /// Options for AMQP 1.0.
    pub amqp: Option<AmqpOptions>,
    /// Options for MQTT.
    pub mqtt: Option<MqttOptions>,
    /// Options for AMQP 0-9-1.
    pub rabbitmq: Option<RabbitmqOptions>,
}

/// What a broker can do for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a protocol, none a state"
)]
pub struct Capabilities {
    /// What becomes of a returned delivery.
    pub returns: Returns,
    /// Whether the broker can be told that a delivery failed for good (AMQP); MQTT only knows acknowledgements.
    pub rejects: bool,
    /// Whether deliveries that were never started can be given back uncounted (AMQP 1.0 released).
    pub releases: bool,
    /// The broker's own limit of deliveries, beyond which it drops or dead-letters (spec C26).
    pub delivery_limit: Option<u32>,
    /// Whether deliveries are settled when they arrive (at-most-once, QoS 0).
    pub settled: bool,
    /// Whether the broker delays messages by its own means (spec C6 `broker`).
    pub delays: bool,
    /// Whether the broker is known to keep rejected messages somewhere (spec C6 `process`).
    pub keeps_rejected: bool,
    /// Whether each reader gets every message (topic), or each message goes to one (queue).
    pub fan_out: bool,
}

impl Capabilities {
    /// Whether `delay` can be had from this broker or from the runtime.
    #[must_use]
    pub fn can_delay(&self, delay: Delay) -> bool {
        match delay {
            Delay::Process => true,
            Delay::Hold => !self.settled,
            Delay::Broker => self.delays,
            Delay::Journal => false,
        }
    }
}

/// What becomes of a delivery that is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Returns {
    /// It comes again and the broker counts (AMQP 1.0, quorum queues).
    Counted,
    /// It comes again, flagged at most (RabbitMQ classic queues; spec C22).
    Uncounted,
    /// It cannot be returned: left alone it comes when the session resumes (MQTT).
    OnResume,
}

/// The deliveries of one mount point, and the way to settle them. Owned by its pump.
pub trait Source: Send {
    /// The next thing that happens. `Pending` wakes the task like any future; after
    /// [`Arrival::Ended`] it is not called again.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival>;

    /// What happens to the connection, and nothing else: never a delivery. The pump asks this while it
    /// has no room for deliveries, so that a lost connection is known whatever its handlers do.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<Arrival>;

    /// Say what becomes of a delivery. `Ready` when that is done at once; otherwise the answer comes
    /// from [`poll_settled`](Source::poll_settled) under `ticket`.
    ///
    /// # Errors
    ///
    /// [`AckError::Stale`] for a token of an earlier epoch (spec C13): nothing is sent.
    fn settle(&mut self, token: Token, how: Disposition, ticket: u32)
    -> Poll<Result<(), AckError>>;

    /// The next answer to a settlement that was not done at once.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)>;

    /// Say that a delivery is left unsettled for good, as long as the connection lives (spec C15).
    fn leave(&mut self, token: Token);

    /// Set the window: the most unsettled deliveries at once (spec C15, C24).
    fn set_window(&mut self, window: u32);

    /// Stop receiving. What is buffered and was never handed out goes back to the broker; what it
    /// would not get back is still handed out. Then [`poll_next`](Source::poll_next) yields
    /// [`Arrival::Ended`], for which a stop waits. Settling goes on.
    fn stop(&mut self);

    /// Flush what was said and leave, after the last settlement.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// What a source yields.
#[derive(Debug)]
#[non_exhaustive]
pub enum Arrival {
    /// A message arrived.
    Delivery(Delivery),
    /// The connection or link is up; deliveries that follow are of this epoch.
    Connected {
        /// The new epoch.
        epoch: u32,
    },
    /// The connection or link is gone: tokens of its epoch are void. The driver reconnects.
    Disconnected(BrokerError),
    /// Messages that came and are not handed out.
    Discarded {
        /// How many.
        messages: u64,
        /// Why.
        why: Discard,
    },
    /// No more deliveries will come: it was stopped.
    Ended,
}

/// Why a source does not hand out what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Discard {
    /// Its bounded buffer was full of messages that the broker does not keep (MQTT `QoS` 0): the
    /// newest are lost.
    Overflow,
    /// No mount point asked for it: the session has subscriptions of an earlier version (spec C17).
    /// It was acknowledged.
    Unmatched,
}

/// Where messages are published.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Publish `message` to `to`, which is not empty, and have the broker confirm it.
    ///
    /// An address that its protocol does not publish to is refused here with a permanent error, and
    /// nothing is sent: a wildcard would make an MQTT server end the connection.
    fn publish(&self, to: ByteString, message: Message) -> Publishing;

    /// Publish a copy, built from the native message (spec C11), and have the broker confirm it.
    fn publish_copy(&self, copy: Copy) -> Publishing;

    /// Publish a question and wait for its answer. The answer is asked for where the driver listens,
    /// and told from others by the correlation id that the driver gives the question.
    fn request(
        &self,
        to: ByteString,
        message: Message,
    ) -> BoxFuture<'static, Result<Message, PublishError>> {
        let _ = (to, message);
        Box::pin(std::future::ready(Err(PublishError::permanent(
            "this broker has no requests",
        ))))
    }
}

/// A publish on its way: done at once, or a future.
#[must_use = "a publish is confirmed only when it is awaited"]
pub enum Publishing {
    /// It is done.
    Done(Result<Published, PublishError>),
    /// It is on its way. Dropping the future does not take the message back.
    Pending(BoxFuture<'static, Result<Published, PublishError>>),
}

impl fmt::Debug for Publishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(result) => f.debug_tuple("Done").field(result).finish(),
            Self::Pending(_) => f.debug_tuple("Pending").finish(),
        }
    }
}

/// What the broker said to a publish that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Published {
    /// It has it.
    Confirmed,
    /// It took it, and nobody reads it (MQTT reason code 0x10; spec C25). A retry copy or a user's
    /// publish may call that a failure.
    Unread,
}

/// Why a publish failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.0.reason)]
pub struct PublishError(Box<Unpublished>);

/// Boxed: every publish has room for one, and few have one.
#[derive(Clone, Debug)]
struct Unpublished {
    transient: bool,
    reason: String,
}

impl PublishError {
    /// It may succeed later: the connection broke, the broker is busy.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self(Box::new(Unpublished {
            transient: true,
            reason: reason.into(),
        }))
    }

    /// It will never succeed as it is: too large, refused, no such place.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self(Box::new(Unpublished {
            transient: false,
            reason: reason.into(),
        }))
    }

    /// Whether it may succeed later (spec C5).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }

    /// Why, in the broker's words where it gave any.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
}

/// Why a broker cannot serve.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct BrokerError {
    /// Whether it may heal by itself.
    pub transient: bool,
    /// Why, and what to do.
    pub reason: String,
}

impl BrokerError {
    /// It may heal by itself.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self {
            transient: true,
            reason: reason.into(),
        }
    }

    /// Someone must act.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self {
            transient: false,
            reason: reason.into(),
        }
    }

    /// Whether it may heal by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }
}
