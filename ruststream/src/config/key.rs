//! Every key of a mount point: the one table behind attribute, file, environment and builder.

use std::time::Duration;

use figment::value::Value;

use super::kind;
use crate::policy::BatchOptions;
use crate::registration::AmqpOptions;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::registration::RabbitmqOptions;
use crate::registration::Registration;

/// What one source says of a mount point: nothing, or a value, for each key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlay {
    pub(crate) address: Option<&'static str>,
    pub(crate) enabled: Option<bool>,
    pub(crate) options: Options,
}

impl Overlay {
    /// Nothing said.
    pub(crate) const NONE: Self = Self {
        address: None,
        enabled: None,
        options: Options::NONE,
    };

    /// What the attribute says.
    pub(crate) fn declared(registration: &Registration) -> Self {
        Self {
            address: Some(registration.address),
            enabled: None,
            options: registration.options,
        }
    }
}

/// One key.
pub(crate) struct Key {
    /// Its name, with its group: `max_attempts`, `mqtt.qos`.
    pub(crate) name: &'static str,
    /// The value, if there is one.
    pub(crate) show: fn(&Overlay) -> Option<String>,
    /// Read a value from a file or variable. The error says what is allowed.
    pub(crate) set: fn(&mut Overlay, &Value) -> Result<(), &'static str>,
    /// Take the value over, if there is one.
    pub(crate) copy: fn(&Overlay, &mut Overlay) -> bool,
}

/// The position of the key of this name.
pub(crate) fn position(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}

/// Whether `name` is a group of keys, as `mqtt` is.
pub(crate) fn is_group(name: &str) -> bool {
    KEYS.iter()
        .filter_map(|key| key.name.split_once('.'))
        .any(|(group, _)| group == name)
}

/// A key whose value is `Some` when it is set.
macro_rules! key {
    ($name:literal, $kind:expr, $($field:ident).+) => {
        Key {
            name: $name,
            show: |from| from.$($field).+.as_ref().map($kind.show),
            set: |to, value| {
                to.$($field).+ = Some(($kind.read)(value).ok_or($kind.allowed)?);
                Ok(())
            },
            copy: |from, to| {
                if from.$($field).+.is_some() {
                    to.$($field).+ = from.$($field).+;
                }
                from.$($field).+.is_some()
            },
        }
    };
}

/// A key in one of the protocols' groups.
macro_rules! in_group {
    ($name:literal, $kind:expr, $group:ident: $type:ident . $field:ident) => {
        Key {
            name: $name,
            show: |from| from.options.$group?.$field.as_ref().map($kind.show),
            set: |to, value| {
                let value = ($kind.read)(value).ok_or($kind.allowed)?;
                to.options.$group.get_or_insert($type::NONE).$field = Some(value);
                Ok(())
            },
            copy: |from, to| {
                let Some(value) = from.options.$group.and_then(|group| group.$field) else {
                    return false;
                };
                to.options.$group.get_or_insert($type::NONE).$field = Some(value);
                true
            },
        }
    };
}

/// A flag that is off unless it is said.
macro_rules! flag {
    ($name:literal, $field:ident) => {
        Key {
            name: $name,
            show: |from| from.options.$field.then(|| "true".to_owned()),
            set: |to, value| {
                to.options.$field = (kind::FLAG.read)(value).ok_or(kind::FLAG.allowed)?;
                Ok(())
            },
            copy: |from, to| {
                to.options.$field |= from.options.$field;
                from.options.$field
            },
        }
    };
}

/// A function, which only code can name.
macro_rules! function {
    ($name:literal, $field:ident) => {
        Key {
            name: $name,
            show: |from| from.options.$field.map(|_| "a function".to_owned()),
            set: |_, _| Err(A_FUNCTION),
            copy: |from, to| {
                if from.options.$field.is_some() {
                    to.options.$field = from.options.$field;
                }
                from.options.$field.is_some()
            },
        }
    };
}

/// In the order in which they are shown.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key!("address", kind::TEXT, address),
    key!("enabled", kind::FLAG, enabled),
    key!("broker", kind::TEXT, options.broker),
    key!("max_attempts", kind::COUNT, options.max_attempts),
    key!("dead_letter", kind::TEXT, options.dead_letter),
    key!("dead_letter_headers", kind::FLAG, options.dead_letter_headers),
    RETRY_TOPIC,
    RETRY_TOPIC_WITH,
    key!("backoff", kind::BACKOFF, options.backoff),
    key!("delay", kind::DELAY, options.delay),
    key!("on_error", kind::ON_FAILURE, options.on_error),
    key!("on_panic", kind::ON_FAILURE, options.on_panic),
    key!("on_timeout", kind::ON_FAILURE, options.on_timeout),
    key!("on_decode", kind::ON_DECODE, options.on_decode),
    key!("timeout", kind::PERIOD, options.timeout),
    key!("settle", kind::SETTLE, options.settle),
    key!("concurrency", kind::COUNT, options.concurrency),
    key!("workers", kind::COUNT, options.workers),
    function!("ordered_by", ordered_by),
    key!("prefetch", kind::COUNT, options.prefetch),
    BATCH_SIZE,
    BATCH_WAIT,
    key!("reply_to", kind::TEXT, options.reply_to),
    flag!("replies", replies),
    flag!("reads_dead_letters", reads_dead_letters),
    flag!("retry_topic_elsewhere", retry_topic_elsewhere),
    flag!("competes", competes),
    in_group!("amqp.durable", kind::FLAG, amqp: AmqpOptions.durable),
    in_group!("amqp.selector", kind::TEXT, amqp: AmqpOptions.selector),
    in_group!("amqp.subscription", kind::TEXT, amqp: AmqpOptions.subscription),
    in_group!("amqp.shared_subscription", kind::FLAG, amqp: AmqpOptions.shared_subscription),
    in_group!("mqtt.qos", kind::UP_TO_TWO, mqtt: MqttOptions.qos),
    in_group!("mqtt.shared", kind::TEXT, mqtt: MqttOptions.shared),
    in_group!("mqtt.no_local", kind::FLAG, mqtt: MqttOptions.no_local),
    in_group!("mqtt.retain_handling", kind::UP_TO_TWO, mqtt: MqttOptions.retain_handling),
    in_group!("mqtt.retain_as_published", kind::FLAG, mqtt: MqttOptions.retain_as_published),
    in_group!("mqtt.connection", kind::TEXT, mqtt: MqttOptions.connection),
    in_group!("mqtt.client_id", kind::TEXT, mqtt: MqttOptions.client_id),
    in_group!("mqtt.session_expiry", kind::WAIT, mqtt: MqttOptions.session_expiry),
    in_group!("mqtt.ack_order", kind::ACK_ORDER, mqtt: MqttOptions.ack_order),
    in_group!("mqtt.dead_letter_retain", kind::FLAG, mqtt: MqttOptions.dead_letter_retain),
    in_group!("mqtt.dead_letter_unread", kind::UNREAD, mqtt: MqttOptions.dead_letter_unread),
    in_group!("rabbitmq.queue_type", kind::QUEUE_TYPE, rabbitmq: RabbitmqOptions.queue_type),
    in_group!("rabbitmq.exchange", kind::TEXT, rabbitmq: RabbitmqOptions.exchange),
    in_group!("rabbitmq.exchange_type", kind::TEXT, rabbitmq: RabbitmqOptions.exchange_type),
    in_group!("rabbitmq.routing_key", kind::TEXT, rabbitmq: RabbitmqOptions.routing_key),
    in_group!("rabbitmq.declare", kind::FLAG, rabbitmq: RabbitmqOptions.declare),
    in_group!("rabbitmq.passive", kind::FLAG, rabbitmq: RabbitmqOptions.passive),
    in_group!("rabbitmq.durable", kind::FLAG, rabbitmq: RabbitmqOptions.durable),
    in_group!("rabbitmq.exclusive", kind::FLAG, rabbitmq: RabbitmqOptions.exclusive),
    in_group!("rabbitmq.delivery_limit", kind::COUNT, rabbitmq: RabbitmqOptions.delivery_limit),
    in_group!("rabbitmq.priority", kind::NUMBER, rabbitmq: RabbitmqOptions.priority),
    in_group!("rabbitmq.single_active", kind::FLAG, rabbitmq: RabbitmqOptions.single_active),
    in_group!("rabbitmq.arguments", kind::TABLE, rabbitmq: RabbitmqOptions.arguments),
];

/// A named topic takes the place of a function that names one: a delivery has one retry topic.
const RETRY_TOPIC: Key = Key {
    name: "retry_topic",
    show: |from| from.options.retry_topic.as_ref().map(kind::TEXT.show),
    set: |to, value| {
        to.options.retry_topic = Some((kind::TEXT.read)(value).ok_or(kind::TEXT.allowed)?);
        to.options.retry_topic_with = None;
        Ok(())
    },
    copy: |from, to| {
        if from.options.retry_topic.is_some() {
            to.options.retry_topic = from.options.retry_topic;
            to.options.retry_topic_with = None;
        }
        from.options.retry_topic.is_some()
    },
};

/// A function takes the place of a named topic in the same way.
const RETRY_TOPIC_WITH: Key = Key {
    name: "retry_topic_with",
    show: |from| {
        from.options
            .retry_topic_with
            .map(|_| "a function".to_owned())
    },
    set: |_, _| Err(A_FUNCTION),
    copy: |from, to| {
        if from.options.retry_topic_with.is_some() {
            to.options.retry_topic_with = from.options.retry_topic_with;
            // One source that gives both contradicts itself, which the grammar says.
            to.options.retry_topic = from.options.retry_topic;
        }
        from.options.retry_topic_with.is_some()
    },
};

const A_FUNCTION: &str =
    "nothing here: it is a function, which only the attribute or `mount_with` can name";

/// A batch that only has a size does not wait.
const BATCH_SIZE: Key = Key {
    name: "batch.size",
    show: |from| from.options.batch.map(|batch| batch.size.to_string()),
    set: |to, value| {
        let size = (kind::COUNT.read)(value).ok_or(kind::COUNT.allowed)?;
        to.options.batch.get_or_insert(NO_BATCH).size = size;
        Ok(())
    },
    copy: |from, to| {
        let Some(batch) = from.options.batch else {
            return false;
        };
        to.options.batch.get_or_insert(NO_BATCH).size = batch.size;
        true
    },
};

/// A batch that only has a wait has one item.
const BATCH_WAIT: Key = Key {
    name: "batch.wait",
    show: |from| {
        from.options
            .batch
            .as_ref()
            .map(|batch| (kind::WAIT.show)(&batch.wait))
    },
    set: |to, value| {
        let wait = (kind::WAIT.read)(value).ok_or(kind::WAIT.allowed)?;
        to.options.batch.get_or_insert(NO_BATCH).wait = wait;
        Ok(())
    },
    copy: |from, to| {
        let Some(batch) = from.options.batch else {
            return false;
        };
        to.options.batch.get_or_insert(NO_BATCH).wait = batch.wait;
        true
    },
};

const NO_BATCH: BatchOptions = BatchOptions {
    size: 1,
    wait: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_are_unique_and_found() {
        for (at, key) in KEYS.iter().enumerate() {
            assert_eq!(position(key.name), Some(at), "{}", key.name);
        }
        assert!(is_group("mqtt") && is_group("batch") && !is_group("address"));
    }

    #[test]
    fn a_later_retry_topic_takes_the_place_of_an_earlier_function_and_the_reverse() {
        let named = Options {
            retry_topic: Some("again"),
            ..Options::NONE
        };
        let computed = Options {
            retry_topic_with: Some(|delivery| delivery.address().into()),
            ..Options::NONE
        };
        let over = |first: Options, second: Options| {
            let mut to = Overlay::NONE;
            for options in [first, second] {
                let from = Overlay {
                    options,
                    ..Overlay::NONE
                };
                for key in KEYS {
                    (key.copy)(&from, &mut to);
                }
            }
            let Options {
                retry_topic,
                retry_topic_with,
                ..
            } = to.options;
            (retry_topic.is_some(), retry_topic_with.is_some())
        };
        assert_eq!(over(named, computed), (false, true));
        assert_eq!(over(computed, named), (true, false));
    }

    #[test]
    fn what_is_set_is_shown_and_copied() {
        let samples = [
            "7",
            "2",
            "true",
            "1s",
            "retry",
            "drop",
            "process",
            "arrival",
            "accept",
            "quorum",
            "at_most_once",
        ];
        for key in KEYS {
            let mut from = Overlay::NONE;
            let read = samples
                .iter()
                .any(|sample| (key.set)(&mut from, &Value::from(*sample)).is_ok());
            if !read {
                assert!(
                    ["retry_topic_with", "ordered_by", "rabbitmq.arguments"].contains(&key.name),
                    "{}",
                    key.name
                );
                continue;
            }
            let mut to = Overlay::NONE;
            assert!((key.copy)(&from, &mut to), "{}", key.name);
            assert!((key.show)(&from).is_some(), "{}", key.name);
            assert_eq!((key.show)(&to), (key.show)(&from), "{}", key.name);
            assert!(!(key.copy)(&Overlay::NONE, &mut to), "{}", key.name);
        }
    }
}
