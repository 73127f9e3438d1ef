//! What `#[subscriber]` leaves behind: constant data and function pointers.

use std::any::TypeId;
use std::borrow::Cow;
use std::time::Duration;

use crate::delivery::Delivery;
use crate::handler::Slot;
use crate::policy::Backoff;
use crate::policy::BatchOptions;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::settle::Settle;

/// One handler, as its attribute declares it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The handler's name: its path within its module, or the attribute's `name`.
    pub name: &'static str,
    /// The module it stands in.
    pub module: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The form of its address.
    pub form: Form,
    /// The address, queue, topic or filter.
    pub address: &'static str,
    /// Every other key.
    pub options: Options,
    /// Makes one slot.
    pub slot: fn() -> Box<dyn Slot>,
    /// The type of the function item, by which `App::mount` finds the registration.
    pub function: fn() -> TypeId,
    /// What its arguments need.
    pub requires: fn(&mut Requirements),
    /// Whether it returns a `Result`.
    pub fails: bool,
}

impl Registration {
    /// Used by the macro.
    #[doc(hidden)]
    #[must_use]
    #[expect(
        clippy::too_many_arguments,
        clippy::large_types_passed_by_value,
        reason = "evaluated at compile time, by generated code, with every part of the attribute"
    )]
    pub const fn new(
        name: &'static str,
        (module, file, line): (&'static str, &'static str, u32),
        form: Form,
        address: &'static str,
        options: Options,
        slot: fn() -> Box<dyn Slot>,
        function: fn() -> TypeId,
        requires: fn(&mut Requirements),
        fails: bool,
    ) -> Self {
        Self {
            name,
            module,
            file,
            line,
            form,
            address,
            options,
            slot,
            function,
            requires,
            fails,
        }
    }
}

inventory::collect!(Registration);

/// How the attribute names where messages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// `address`: sent as it is.
    Address,
    /// `queue`: each message to one of the readers.
    Queue,
    /// `topic`: each message to every reader.
    Topic,
    /// `filter`: an MQTT topic filter.
    Filter,
}

impl Form {
    /// The attribute's key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Filter => "filter",
        }
    }
}

/// Every key of the attribute but the address, as declared: `None` where nothing is.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    clippy::struct_excessive_bools,
    reason = "each field is the key of its name, documented at `subscriber`"
)]
pub struct Options {
    pub retry_topic: Option<&'static str>,
    pub retry_topic_with: Option<fn(&Delivery) -> Cow<'_, str>>,
    pub max_attempts: Option<u32>,
    pub dead_letter: Option<&'static str>,
    pub reads_dead_letters: bool,
    pub retry_topic_elsewhere: bool,
    pub competes: bool,
    pub dead_letter_headers: Option<bool>,
    pub backoff: Option<Backoff>,
    pub on_error: Option<OnFailure>,
    pub on_panic: Option<OnFailure>,
    pub on_timeout: Option<OnFailure>,
    pub on_decode: Option<OnDecode>,
    pub timeout: Option<Duration>,
    pub delay: Option<Delay>,
    pub settle: Option<Settle>,
    pub concurrency: Option<u32>,
    pub workers: Option<u32>,
    pub ordered_by: Option<fn(&Delivery) -> u64>,
    pub prefetch: Option<u32>,
    pub batch: Option<BatchOptions>,
    pub reply_to: Option<&'static str>,
    pub replies: bool,
    pub broker: Option<&'static str>,
    pub group: Option<&'static str>,
    pub amqp: Option<AmqpOptions>,
    pub mqtt: Option<MqttOptions>,
    pub rabbitmq: Option<RabbitmqOptions>,
}

impl Options {
    /// Nothing declared.
    pub const NONE: Self = Self {
        retry_topic: None,
        retry_topic_with: None,
        max_attempts: None,
        dead_letter: None,
        reads_dead_letters: false,
        retry_topic_elsewhere: false,
        competes: false,
        dead_letter_headers: None,
        backoff: None,
        on_error: None,
        on_panic: None,
        on_timeout: None,
        on_decode: None,
        timeout: None,
        delay: None,
        settle: None,
        concurrency: None,
        workers: None,
        ordered_by: None,
        prefetch: None,
        batch: None,
        reply_to: None,
        replies: false,
        broker: None,
        group: None,
        amqp: None,
        mqtt: None,
        rabbitmq: None,
    };
}

/// `amqp(…)`: read by the AMQP 1.0 driver only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is the key of its name, documented at `subscriber`"
)]
pub struct AmqpOptions {
    pub durable: Option<bool>,
    pub selector: Option<&'static str>,
    pub subscription: Option<&'static str>,
    pub shared_subscription: Option<bool>,
}

impl AmqpOptions {
    /// Nothing declared.
    pub const NONE: Self = Self {
        durable: None,
        selector: None,
        subscription: None,
        shared_subscription: None,
    };
}

/// `mqtt(…)`: read by the MQTT driver and by the embedded broker under MQTT's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is the key of its name, documented at `subscriber`"
)]
pub struct MqttOptions {
    /// 0, 1 or 2; 1 by default.
    pub qos: Option<u8>,
    pub shared: Option<&'static str>,
    pub no_local: Option<bool>,
    /// 0, 1 or 2 (MQTT 5 section 3.8.3.1).
    pub retain_handling: Option<u8>,
    pub retain_as_published: Option<bool>,
    pub connection: Option<&'static str>,
    pub client_id: Option<&'static str>,
    pub session_expiry: Option<Duration>,
    pub ack_order: Option<AckOrder>,
    pub dead_letter_retain: Option<bool>,
    pub dead_letter_unread: Option<Unread>,
}

impl MqttOptions {
    /// Nothing declared.
    pub const NONE: Self = Self {
        qos: None,
        shared: None,
        no_local: None,
        retain_handling: None,
        retain_as_published: None,
        connection: None,
        client_id: None,
        session_expiry: None,
        ack_order: None,
        dead_letter_retain: None,
        dead_letter_unread: None,
    };
}

/// The order in which MQTT acknowledgements leave (spec C16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckOrder {
    /// In the order of arrival (MQTT 5 section 4.6). The default.
    Arrival,
    /// As handlers finish.
    Completion,
}

/// What a dead letter that nobody reads means on MQTT (spec C25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unread {
    /// It is accepted, counted and warned of. The default.
    Accept,
    /// It is a failed publish: the original is kept.
    Keep,
}

/// `rabbitmq(…)`: read by the AMQP 0-9-1 driver and by the embedded broker under its rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is the key of its name, documented at `subscriber`"
)]
pub struct RabbitmqOptions {
    pub queue_type: Option<QueueType>,
    pub exchange: Option<&'static str>,
    pub exchange_type: Option<&'static str>,
    pub routing_key: Option<&'static str>,
    pub declare: Option<bool>,
    pub passive: Option<bool>,
    pub durable: Option<bool>,
    pub exclusive: Option<bool>,
    pub delivery_limit: Option<u32>,
    pub priority: Option<i32>,
    pub single_active: Option<bool>,
    pub arguments: Option<&'static [(&'static str, &'static str)]>,
}

impl RabbitmqOptions {
    /// Nothing declared.
    pub const NONE: Self = Self {
        queue_type: None,
        exchange: None,
        exchange_type: None,
        routing_key: None,
        declare: None,
        passive: None,
        durable: None,
        exclusive: None,
        delivery_limit: None,
        priority: None,
        single_active: None,
        arguments: None,
    };
}

/// RabbitMQ's kinds of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated; counts deliveries.
    Quorum,
    /// Not replicated; only flags redeliveries.
    Classic,
    /// A log.
    Stream,
}

/// What the arguments of a handler need, collected before anything is connected.
#[derive(Debug, Default)]
pub struct Requirements {
    pub(crate) states: Vec<(TypeId, &'static str)>,
    pub(crate) decodes: bool,
    pub(crate) settles: bool,
    pub(crate) batch: bool,
    pub(crate) per_message: Vec<&'static str>,
}

impl Requirements {
    /// It takes shared state of type `T`.
    pub fn state<T: 'static>(&mut self) {
        self.states
            .push((TypeId::of::<T>(), std::any::type_name::<T>()));
    }

    /// It decodes a payload, which can fail.
    pub fn decodes(&mut self) {
        self.decodes = true;
    }

    /// It settles by hand.
    pub fn settles(&mut self) {
        self.settles = true;
    }

    /// It takes a batch.
    pub fn batch(&mut self) {
        self.batch = true;
    }

    /// It belongs to one message, so a batch handler cannot take it.
    pub fn per_message(&mut self, name: &'static str) {
        self.per_message.push(name);
    }
}
