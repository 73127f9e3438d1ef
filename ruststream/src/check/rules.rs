//! The rules between the keys of one declaration.

use std::time::Duration;

use super::Problem;
use super::at_least_one;
use super::at_most_two;
use super::dead_letter;
use super::name;
use super::retry_topic;
use super::share_name;
use super::source;
use super::target;
use crate::policy::Backoff;
use crate::policy::BatchOptions;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::settle::Settle;

/// The values of one handler, from the attribute alone or after configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared<'a> {
    pub(crate) form: Form,
    pub(crate) address: &'a str,
    /// Whether the broker follows MQTT's rules, as far as that is known.
    pub(crate) is_mqtt: bool,
    pub(crate) retry_topic: Option<&'a str>,
    pub(crate) has_retry_topic_with: bool,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) dead_letter: Option<&'a str>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) on_error: Option<OnFailure>,
    pub(crate) on_panic: Option<OnFailure>,
    pub(crate) on_timeout: Option<OnFailure>,
    pub(crate) on_decode: Option<OnDecode>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) delay: Option<Delay>,
    pub(crate) settle: Option<Settle>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) workers: Option<u32>,
    pub(crate) prefetch: Option<u32>,
    pub(crate) batch: Option<BatchOptions>,
    pub(crate) reply_to: Option<&'a str>,
    pub(crate) replies: bool,
    pub(crate) broker: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) mqtt: Option<MqttOptions>,
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
            replies: options.replies,
            broker: options.broker,
            group: options.group,
            // A protocol's options are read by its broker only.
            mqtt: options.mqtt.filter(|_| is_mqtt),
        }
    }
}

impl<'a> Declared<'a> {
    /// Everything that is wrong with it.
    pub(crate) fn problems(&self) -> Vec<Problem<'a>> {
        let mut found = Vec::new();
        self.check_addresses(&mut found);
        self.check_numbers(&mut found);
        self.check_failures(&mut found);
        self.check_protocol(&mut found);
        found
    }

    fn check_addresses(&self, found: &mut Vec<Problem<'a>>) {
        let mqtt = self.is_mqtt;
        found.extend(source(self.form, mqtt, self.address).err());
        if let Some(value) = self.dead_letter {
            found.extend(dead_letter(self.form, mqtt, self.address, value).err());
        }
        if let Some(value) = self.retry_topic {
            found.extend(retry_topic(mqtt, self.dead_letter, value).err());
        }
        if let Some(value) = self.reply_to {
            found.extend(target("reply_to", mqtt, value).err());
        }
        if self.form == Form::Filter && !self.retries_somewhere() {
            found.push(rule("retry_topic", FILTER_WITHOUT_RETRY_TOPIC));
        }
        if self.retry_topic.is_some() && self.has_retry_topic_with {
            found.push(rule("retry_topic", RETRY_TOPIC_TWICE));
        }
        if self.retries_somewhere() && !matches!(self.form, Form::Filter | Form::Topic) {
            found.push(rule("retry_topic", RETRY_TOPIC_OF_QUEUE));
        }
    }

    fn check_numbers(&self, found: &mut Vec<Problem<'a>>) {
        let size = self.batch.map(|batch| batch.size);
        let numbers = [
            ("max_attempts", self.max_attempts),
            ("prefetch", self.prefetch),
            ("concurrency", self.concurrency),
            ("workers", self.workers),
            ("size", size),
        ];
        for (key, value) in numbers {
            found.extend(value.and_then(|value| at_least_one(key, value).err()));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            found.push(rule("timeout", ZERO_TIMEOUT));
        }
        if let Some(Backoff { first, max }) = self.backoff
            && (first.is_zero() || first > max)
        {
            found.push(rule("backoff", BAD_BACKOFF));
        }
        for (key, value) in [("broker", self.broker), ("group", self.group)] {
            found.extend(value.and_then(|value| name(key, value).err()));
        }
    }

    fn check_failures(&self, found: &mut Vec<Problem<'a>>) {
        if self.dead_letter.is_none() {
            let to_dead_letter = Some(OnFailure::DeadLetter);
            let uses = [
                (self.on_error == to_dead_letter, "on_error"),
                (self.on_panic == to_dead_letter, "on_panic"),
                (self.on_timeout == to_dead_letter, "on_timeout"),
                (self.on_decode == Some(OnDecode::DeadLetter), "on_decode"),
            ];
            for (_, key) in uses.into_iter().filter(|(used, _)| *used) {
                found.push(rule(key, NO_DEAD_LETTER));
            }
        }
        if self.on_timeout.is_some() && self.timeout.is_none() {
            found.push(rule("on_timeout", NO_TIMEOUT));
        }
        if self.delay == Some(Delay::Hold) && self.settles_on_arrival() {
            found.push(rule("delay", HOLD_WITHOUT_TOKEN));
        }
        if self.batch.is_some() && (self.reply_to.is_some() || self.replies) {
            found.push(rule("reply_to", BATCH_HAS_NO_ANSWER));
        }
    }

    fn check_protocol(&self, found: &mut Vec<Problem<'a>>) {
        if self.is_mqtt && self.form == Form::Queue {
            found.push(rule("queue", MQTT_HAS_NO_QUEUES));
        }
        if self.is_mqtt && self.settle == Some(Settle::AtMostOnce) {
            found.push(rule("settle", MQTT_SETTLES_BY_QOS));
        }
        let Some(mqtt) = self.mqtt else { return };
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
        self.retry_topic.is_some() || self.has_retry_topic_with
    }

    fn settles_on_arrival(&self) -> bool {
        let qos = self.mqtt.and_then(|mqtt| mqtt.qos);
        self.settle == Some(Settle::AtMostOnce) || qos == Some(0)
    }

    fn makes_copies(&self) -> bool {
        self.max_attempts.is_some()
            || self.dead_letter.is_some()
            || self.backoff.is_some()
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
const NO_DEAD_LETTER: &str =
    "there is no dead letter to go to: add `dead_letter = \"…\"`, or choose another word";
const NO_TIMEOUT: &str = "`on_timeout` without a `timeout` never happens: add `timeout = \"30s\"`";
const HOLD_WITHOUT_TOKEN: &str = "`delay = hold` keeps the delivery unsettled, but this one is settled on arrival: \
     use `delay = process` or `delay = journal`";
const BATCH_HAS_NO_ANSWER: &str =
    "a batch has no single answer: remove `reply_to` and publish with a `Publisher`";
const MQTT_HAS_NO_QUEUES: &str = "MQTT has no queues: use `topic` or `filter`, and `mqtt(shared = \"workers\")` to share its messages";
const MQTT_SETTLES_BY_QOS: &str = "`settle` is not for MQTT: `mqtt(qos = 0)` is at most once";
const NO_LOCAL_SHARED: &str = "MQTT does not allow `no_local` on a shared subscription (MQTT 5 section 3.8.3.1): remove one of them";
const NO_LOCAL_COPIES: &str = "with `no_local` the broker would keep this handler's own retry copies from it: \
     remove `no_local`, or everything that makes copies";
