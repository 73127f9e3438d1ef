//! The rules of one declaration on its effective values. What needs the broker's names, other
//! handlers or defaults is checked with the mount point.

use super::Problem;
use super::at_least_one;
use super::at_most_two;
use super::name;
use super::share_name;
use super::source;
use super::target;
use crate::policy::Backoff;
use crate::policy::Delay;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::settle::Settle;

/// Everything that is wrong with the values of one handler: those of the attribute, or the effective
/// ones. `is_mqtt` says that its broker follows MQTT's rules.
pub(crate) fn problems(
    form: Form,
    address: &'static str,
    is_mqtt: bool,
    options: &Options,
) -> Vec<Problem<'static>> {
    let declared = Declared {
        form,
        address,
        is_mqtt,
        options,
    };
    let mut found = Vec::new();
    declared.check_addresses(&mut found);
    declared.check_numbers(&mut found);
    declared.check_protocol(&mut found);
    found
}

impl Declared<'static> {
    /// What an attribute, or an attribute with configuration over it, declares.
    pub(crate) fn of(form: Form, address: &'static str, is_mqtt: bool, options: &Options) -> Self {
        Self {
            form,
            address,
            is_mqtt,
            retry_topic: options.retry_topic,
            has_retry_topic_with: options.retry_topic_with.is_some(),
            max_attempts: options.max_attempts,
            dead_letter: options.dead_letter,
            backoff: options.backoff,
            on_error: options.on_error,
            on_panic: options.on_panic,
            on_timeout: options.on_timeout,
            on_decode: options.on_decode,
            timeout: options.timeout,
            delay: options.delay,
            settle: options.settle,
            concurrency: options.concurrency,
            workers: options.workers,
            prefetch: options.prefetch,
            batch: options.batch,
            reply_to: options.reply_to,
            broker: options.broker,
            group: options.group,
            // A protocol's options are read by its broker only.
            mqtt: options.mqtt.filter(|_| is_mqtt),
        }
    }
}

type Found = Vec<Problem<'static>>;

impl Declared<'_> {
    fn check_addresses(&self, found: &mut Found) {
        let mqtt = self.is_mqtt;
        found.extend(source(self.form, mqtt, self.address).err());
        if let Some(value) = self.options.dead_letter {
            found.extend(target("dead_letter", mqtt, value).err());
        }
        if let Some(value) = self.options.retry_topic {
            found.extend(target("retry_topic", mqtt, value).err());
        }
        if let Some(value) = self.options.reply_to {
            found.extend(target("reply_to", mqtt, value).err());
        }
        if self.form == Form::Filter && !self.retries_somewhere() {
            found.push(rule("retry_topic", FILTER_WITHOUT_RETRY_TOPIC));
        }
        if self.options.retry_topic.is_some() && self.options.retry_topic_with.is_some() {
            found.push(rule("retry_topic", RETRY_TOPIC_TWICE));
        }
        if self.retries_somewhere() && !matches!(self.form, Form::Filter | Form::Topic) {
            found.push(rule("retry_topic", RETRY_TOPIC_OF_QUEUE));
        }
    }

    fn check_numbers(&self, found: &mut Found) {
        let size = self.options.batch.map(|batch| batch.size);
        let numbers = [
            ("max_attempts", self.options.max_attempts),
            ("prefetch", self.options.prefetch),
            ("concurrency", self.options.concurrency),
            ("workers", self.options.workers),
            ("size", size),
        ];
        for (key, value) in numbers {
            found.extend(value.and_then(|value| at_least_one(key, value).err()));
        }
        if self
            .options
            .timeout
            .is_some_and(|timeout| timeout.is_zero())
        {
            found.push(rule("timeout", ZERO_TIMEOUT));
        }
        if let Some(Backoff { first, max }) = self.options.backoff
            && (first.is_zero() || first > max)
        {
            found.push(rule("backoff", BAD_BACKOFF));
        }
        for (key, value) in [
            ("broker", self.options.broker),
            ("group", self.options.group),
        ] {
            found.extend(value.and_then(|value| name(key, value).err()));
        }
    }

    fn check_protocol(&self, found: &mut Found) {
        if self.is_mqtt && self.form == Form::Queue {
            found.push(rule("queue", MQTT_HAS_NO_QUEUES));
        }
        if self.is_mqtt && self.options.settle == Some(Settle::AtMostOnce) {
            found.push(rule("settle", MQTT_SETTLES_BY_QOS));
        }
        if self.options.delay == Some(Delay::Hold) && self.settles_on_arrival() {
            found.push(rule("delay", HOLD_WITHOUT_TOKEN));
        }
        let Some(mqtt) = self.options.mqtt else {
            return;
        };
        if let Some(qos) = mqtt.qos {
            found.extend(at_most_two("qos", u32::from(qos)).err());
        }
        if let Some(handling) = mqtt.retain_handling {
            found.extend(at_most_two("retain_handling", u32::from(handling)).err());
        }
        if let Some(shared) = mqtt.shared {
            found.extend(share_name(shared).err());
        }
        if mqtt.no_local == Some(true) {
            if mqtt.shared.is_some() {
                found.push(rule("no_local", NO_LOCAL_SHARED));
            }
            if self.makes_copies() {
                found.push(rule("no_local", NO_LOCAL_COPIES));
            }
        }
    }

    fn retries_somewhere(&self) -> bool {
        self.options.retry_topic.is_some() || self.options.retry_topic_with.is_some()
    }

    fn settles_on_arrival(&self) -> bool {
        let qos = self.options.mqtt.and_then(|mqtt| mqtt.qos);
        self.options.settle == Some(Settle::AtMostOnce) || qos == Some(0)
    }

    fn makes_copies(&self) -> bool {
        self.options.max_attempts.is_some()
            || self.options.dead_letter.is_some()
            || self.options.backoff.is_some()
            || self.retries_somewhere()
    }
}

const fn rule(key: &'static str, text: &'static str) -> Problem<'static> {
    Problem::Rule { key, text }
}

const FILTER_WITHOUT_RETRY_TOPIC: &str = "a `filter` needs a `retry_topic`: a filter cannot be published to, so a copy of a delivery has nowhere to go; \
     add `retry_topic = \"devices/retry/state\"`, or `retry_topic_with = path` to a `fn(&Delivery) -> Cow<'_, str>`";
const RETRY_TOPIC_TWICE: &str =
    "`retry_topic` and `retry_topic_with` both say where retries go: keep one of them";
const RETRY_TOPIC_OF_QUEUE: &str =
    "retries of a queue go back to it, so `retry_topic` is for `topic` and `filter`: remove it";
const ZERO_TIMEOUT: &str = "`timeout` must be longer than zero: leave it out for no limit";
const BAD_BACKOFF: &str =
    "`backoff` goes from a delay above zero to one that is not shorter, as in `100ms..30s`";
const HOLD_WITHOUT_TOKEN: &str = "`delay = hold` keeps the delivery unsettled, but this one is settled on arrival: \
     use `delay = process` or `delay = journal`";
const MQTT_HAS_NO_QUEUES: &str = "MQTT has no queues: use `topic` or `filter`, and `mqtt(shared = \"workers\")` to share its messages";
const MQTT_SETTLES_BY_QOS: &str = "`settle` is not for MQTT: `mqtt(qos = 0)` is at most once";
const NO_LOCAL_SHARED: &str = "MQTT does not allow `no_local` on a shared subscription (MQTT 5 section 3.8.3.1): remove one of them";
const NO_LOCAL_COPIES: &str = "with `no_local` the broker would keep this handler's own retry copies from it: \
     remove `no_local`, or everything that makes copies";
