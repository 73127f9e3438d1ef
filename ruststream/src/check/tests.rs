use std::time::Duration;

use super::*;
use crate::policy::Backoff;
use crate::policy::Delay;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::settle::Settle;

#[test]
#[rustfmt::skip]
// spec: C20 C21
// case: C12
fn a_dead_letter_must_not_come_back() {
    let rows = [
        (Form::Address, "orders", "orders",         false),
        (Form::Address, "orders", "orders.dead",    true),
        (Form::Queue,   "jobs",   "/queues/jobs",   false),
        (Form::Filter,  "a/+",    "a/dead",         false),
        (Form::Filter,  "a/+",    "dead/a",         true),
        (Form::Filter,  "#",      "$dead/a",        true),
    ];
    for (form, own, dead, allowed) in rows {
        let mqtt = form == Form::Filter;
        assert_eq!(dead_letter(form, mqtt, own, dead).is_ok(), allowed, "{own} {dead}");
    }
}

#[test]
fn a_message_names_key_value_and_cure() {
    let problem = source(Form::Address, false, "devices/+/state").unwrap_err();
    assert_eq!(problem.key(), "address");
    assert_eq!(
        problem.to_string(),
        "`address = \"devices/+/state\"` has wildcards, but `address` is exact: \
         write `filter = \"devices/+/state\"` to read every topic it matches"
    );
    let problem = dead_letter(Form::Queue, false, "jobs", "queue://jobs").unwrap_err();
    assert_eq!(
        problem.to_string(),
        "`dead_letter = \"queue://jobs\"` is this handler's own queue, so dead letters would come \
         straight back: name another one, as in `dead_letter = \"jobs.dead\"`"
    );
}

#[test]
// spec: C21
fn nothing_is_published_to_a_wildcard() {
    for key in ["retry_topic", "dead_letter", "reply_to"] {
        for value in ["dead/+", "dead/#"] {
            let problem = target(key, false, value).unwrap_err();
            assert_eq!(problem, Problem::PublishWildcard { key, value });
        }
        assert!(
            target(key, true, "a+b").is_err(),
            "MQTT knows no other use of `+`"
        );
        assert!(
            target(key, false, "a+b").is_ok(),
            "an AMQP address may have a `+`"
        );
    }
}

/// The keys of what is wrong.
fn keys(form: Form, address: &'static str, is_mqtt: bool, options: &Options) -> Vec<&'static str> {
    let problems = Declared::of(form, address, is_mqtt, options).problems();
    problems.iter().map(Problem::key).collect()
}

#[test]
// spec: C21 M41
fn effective_values_are_held_against_the_same_rules() {
    let mqtt = |mqtt| Options {
        mqtt: Some(mqtt),
        ..Options::NONE
    };
    let retried = Options {
        retry_topic: Some("a/retry"),
        ..Options::NONE
    };
    let none = Options::NONE;
    #[rustfmt::skip]
    let rows: &[(Form, &str, bool, Options, &[&str])] = &[
        (Form::Address, "orders", false, none,    &[]),
        (Form::Address, "",       false, none,    &["address"]),
        (Form::Filter,  "a/+",    true,  none,    &["retry_topic"]),
        (Form::Filter,  "a/+",    true,  retried, &[]),
        (Form::Filter,  "a/#/b",  true,  retried, &["filter"]),
        (Form::Queue,   "a",      false, retried, &["retry_topic"]),
        (Form::Queue,   "a",      true,  none,    &["queue"]),
        (Form::Topic,   "a",      true,  Options { settle: Some(Settle::AtMostOnce), ..none }, &["settle"]),
        (Form::Queue,   "a",      false, Options { settle: Some(Settle::AtMostOnce), delay: Some(Delay::Hold), ..none }, &["delay"]),
        (Form::Topic,   "a",      true,  Options { dead_letter: Some("dead/+"), reply_to: Some("b+"), ..none }, &["dead_letter", "reply_to"]),
        (Form::Queue,   "a",      false, Options { max_attempts: Some(0), prefetch: Some(0), concurrency: Some(0), workers: Some(0), ..none },
            &["max_attempts", "prefetch", "concurrency", "workers"]),
        (Form::Queue,   "a",      false, Options { timeout: Some(Duration::ZERO), group: Some(""), ..none }, &["timeout", "group"]),
        (Form::Queue,   "a",      false, Options { backoff: Some(Backoff { first: Duration::MAX, max: Duration::ZERO }), ..none }, &["backoff"]),
        (Form::Topic,   "a",      true,  mqtt(MqttOptions { qos: Some(3), retain_handling: Some(3), ..MqttOptions::NONE }), &["qos", "retain_handling"]),
        (Form::Topic,   "a",      true,  mqtt(MqttOptions { shared: Some("a/b"), no_local: Some(true), ..MqttOptions::NONE }), &["shared", "no_local"]),
        (Form::Topic,   "a",      true,  Options { max_attempts: Some(3), ..mqtt(MqttOptions { no_local: Some(true), ..MqttOptions::NONE }) }, &["no_local"]),
        (Form::Topic,   "a",      true,  Options { delay: Some(Delay::Hold), ..mqtt(MqttOptions { qos: Some(0), ..MqttOptions::NONE }) }, &["delay"]),
    ];
    for (form, address, is_mqtt, options, expected) in rows {
        assert_eq!(
            keys(*form, address, *is_mqtt, options),
            *expected,
            "{form:?} {address} {options:?}"
        );
    }
}
