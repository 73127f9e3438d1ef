//! What a program says of a mount point over attribute and configuration.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytestring::ByteString;

use crate::config::key::KEYS;
use crate::config::key::Overlay;
use crate::config::kind::keep;
use crate::delivery::Delivery;
use crate::policy::Backoff;
use crate::policy::BatchOptions;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::AmqpOptions;
use crate::registration::MqttOptions;
use crate::registration::RabbitmqOptions;
use crate::settle::Settle;

/// A mount point's own values, given in [`App::mount_with`](crate::App::mount_with). Each method is
/// the attribute's key of its name; what is not said here stays as attribute and configuration say.
#[derive(Clone)]
#[must_use = "return it from the closure"]
pub struct Mount {
    pub(crate) name: Option<ByteString>,
    pub(crate) overlay: Overlay,
}

macro_rules! values {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, value: $type) -> Self {
            self.overlay.options.$name = Some(value);
            self
        }
    )* };
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, value: impl AsRef<str>) -> Self {
            self.overlay.options.$name = Some(keep(value.as_ref()));
            self
        }
    )* };
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self) -> Self {
            self.overlay.options.$name = true;
            self
        }
    )* };
}

impl Mount {
    pub(crate) fn new() -> Self {
        Self {
            name: None,
            overlay: Overlay::NONE,
        }
    }

    /// The mount point's name, unique in the application; the handler's by default.
    pub fn name(mut self, name: impl Into<ByteString>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The address, queue, topic or filter, in the form that the attribute has. No prefix goes
    /// before it.
    pub fn address(mut self, address: impl AsRef<str>) -> Self {
        self.overlay.address = Some(keep(address.as_ref()));
        self
    }

    /// Where copies of each delivery go.
    pub fn retry_topic_with(mut self, with: fn(&Delivery) -> Cow<'_, str>) -> Self {
        self.overlay.options.retry_topic_with = Some(with);
        self
    }

    /// First deliveries of one key stay in order.
    pub fn ordered_by(mut self, key: fn(&Delivery) -> u64) -> Self {
        self.overlay.options.ordered_by = Some(key);
        self
    }

    /// No diagnostic headers on dead letters (spec C10).
    pub fn without_dead_letter_headers(mut self) -> Self {
        self.overlay.options.dead_letter_headers = Some(false);
        self
    }

    texts! {
        /// Where retry copies go.
        retry_topic;
        /// Where spent deliveries go.
        dead_letter;
        /// Where a returned value is published.
        reply_to;
        /// The broker's name in the application.
        broker;
    }

    values! {
        /// The cap: the most attempts, the first delivery included.
        max_attempts: u32;
        /// The delay of retries that come from failures.
        backoff: Backoff;
        /// What an `Err` means that does not say so itself.
        on_error: OnFailure;
        /// What a panic means.
        on_panic: OnFailure;
        /// What a timeout means.
        on_timeout: OnFailure;
        /// What an undecodable payload means.
        on_decode: OnDecode;
        /// The longest run of the handler.
        timeout: Duration;
        /// How a delayed retry waits.
        delay: Delay;
        /// When a delivery is settled.
        settle: Settle;
        /// How many deliveries are handled at once.
        concurrency: u32;
        /// Over how many tasks they are spread.
        workers: u32;
        /// The window: the most unsettled deliveries.
        prefetch: u32;
        /// How a batch fills.
        batch: BatchOptions;
        /// Options for AMQP 1.0; those that are `Some` win.
        amqp: AmqpOptions;
        /// Options for MQTT; those that are `Some` win.
        mqtt: MqttOptions;
        /// Options for RabbitMQ; those that are `Some` win.
        rabbitmq: RabbitmqOptions;
    }

    flags! {
        /// Its answers go to the reply address of the delivery, where that has one (spec C28).
        replies;
        /// It may read what other handlers dead-letter (spec C20).
        reads_dead_letters;
        /// Its retry topic is read by another program (spec C20).
        retry_topic_elsewhere;
        /// It shares its queue with another handler (spec C34).
        competes;
    }
}

/// Shows what was said.
impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        if let Some(name) = &self.name {
            map.entry(&"name", name);
        }
        for key in KEYS {
            if let Some(value) = (key.show)(&self.overlay) {
                map.entry(&key.name, &format_args!("{value}"));
            }
        }
        map.finish()
    }
}
