//! The kinds of value that keys take: how each is read from a file or variable, and shown.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use figment::value::Value;

use crate::duration;
use crate::policy::Backoff;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::AckOrder;
use crate::registration::QueueType;
use crate::registration::Unread;
use crate::settle::Settle;

/// A kind of value. Variables are always text, so every kind can be read from text too.
pub(crate) struct Kind<T> {
    /// What is allowed, as it follows "expected".
    pub(crate) allowed: &'static str,
    pub(crate) read: fn(&Value) -> Option<T>,
    pub(crate) show: fn(&T) -> String,
}

/// Any whole number.
pub(crate) const NUMBER: Kind<i32> = Kind {
    allowed: "a whole number",
    read: |value| whole(value)?.try_into().ok(),
    show: ToString::to_string,
};

/// A whole number from 1.
pub(crate) const COUNT: Kind<u32> = Kind {
    allowed: "a whole number from 1 to 4294967295",
    read: |value| u32::try_from(whole(value)?).ok().filter(|count| *count > 0),
    show: ToString::to_string,
};

/// MQTT's quality of service, or its retain handling.
pub(crate) const UP_TO_TWO: Kind<u8> = Kind {
    allowed: "0, 1 or 2",
    read: |value| u8::try_from(whole(value)?).ok().filter(|level| *level <= 2),
    show: ToString::to_string,
};

/// A truth value.
pub(crate) const FLAG: Kind<bool> = Kind {
    allowed: "true or false",
    read: |value| match value {
        Value::Bool(_, flag) => Some(*flag),
        Value::String(_, text) => text.trim().parse().ok(),
        _ => None,
    },
    show: ToString::to_string,
};

/// Text that is not empty: what a key means by it is checked where the grammar is.
pub(crate) const TEXT: Kind<&'static str> = Kind {
    allowed: "text, not empty",
    read: |value| match value {
        Value::String(_, text) if !text.is_empty() => Some(keep(text)),
        _ => None,
    },
    show: |text| format!("\"{text}\""),
};

/// A span of time that is not zero.
pub(crate) const PERIOD: Kind<Duration> = Kind {
    allowed: "a time above zero, as in \"500ms\" or \"1m30s\"",
    read: |value| WAIT_READ(value).filter(|period| !period.is_zero()),
    show: show_period,
};

/// A span of time.
pub(crate) const WAIT: Kind<Duration> = Kind {
    allowed: "a time, as in \"0s\", \"500ms\" or \"1m30s\"",
    read: WAIT_READ,
    show: show_period,
};

/// Two spans of time, or one.
pub(crate) const BACKOFF: Kind<Backoff> = Kind {
    allowed: "two times above zero, the lower first, as in \"100ms..30s\", or one, as in \"5s\"",
    read: |value| duration::parse_backoff(text(value)?).ok(),
    show: |backoff| {
        if backoff.first == backoff.max {
            show_period(&backoff.first)
        } else {
            format!(
                "{}..{}",
                show_period(&backoff.first),
                show_period(&backoff.max)
            )
        }
    },
};

/// A table of text by text.
pub(crate) const TABLE: Kind<&'static [(&'static str, &'static str)]> = Kind {
    allowed: "a table of text values",
    read: |value| {
        let pairs = value.as_dict()?.iter().map(|(name, value)| {
            let text = match value {
                Value::String(_, text) => text.clone(),
                Value::Bool(_, flag) => flag.to_string(),
                Value::Num(_, number) => number.to_i128()?.to_string(),
                _ => return None,
            };
            Some((keep(name), keep(&text)))
        });
        Some(keep_pairs(pairs.collect::<Option<_>>()?))
    },
    show: |pairs| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{name} = \"{value}\""))
            .collect();
        format!("{{ {} }}", pairs.join(", "))
    },
};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $allowed:literal { $($word:literal => $value:expr),+ $(,)? })+) => { $(
        $(#[$doc])*
        pub(crate) const $name: Kind<$type> = Kind {
            allowed: $allowed,
            read: |value| match text(value)? {
                $($word => Some($value),)+
                _ => None,
            },
            show: |value| {
                let known: &[(&str, $type)] = &[$(($word, $value)),+];
                known
                    .iter()
                    .find(|(_, known)| known == value)
                    .map_or_else(String::new, |(word, _)| (*word).to_owned())
            },
        };
    )+ };
}

words! {
    /// What a failed attempt means.
    ON_FAILURE: OnFailure, "`retry`, `drop` or `dead_letter`" {
        "retry" => OnFailure::Retry, "drop" => OnFailure::Drop, "dead_letter" => OnFailure::DeadLetter,
    }
    /// What an undecodable payload means.
    ON_DECODE: OnDecode, "`drop` or `dead_letter`; an undecodable payload is never retried" {
        "drop" => OnDecode::Drop, "dead_letter" => OnDecode::DeadLetter,
    }
    /// How a delayed retry waits.
    DELAY: Delay, "`process`, `journal`, `hold` or `broker`" {
        "process" => Delay::Process, "journal" => Delay::Journal, "hold" => Delay::Hold, "broker" => Delay::Broker,
    }
    /// When a delivery is settled.
    SETTLE: Settle, "`at_least_once` or `at_most_once`" {
        "at_least_once" => Settle::AtLeastOnce, "at_most_once" => Settle::AtMostOnce,
    }
    /// The order of MQTT acknowledgements.
    ACK_ORDER: AckOrder, "`arrival` or `completion`" {
        "arrival" => AckOrder::Arrival, "completion" => AckOrder::Completion,
    }
    /// What a dead letter without a reader means.
    UNREAD: Unread, "`accept` or `keep`" {
        "accept" => Unread::Accept, "keep" => Unread::Keep,
    }
    /// RabbitMQ's kinds of queue.
    QUEUE_TYPE: QueueType, "`quorum`, `classic` or `stream`" {
        "quorum" => QueueType::Quorum, "classic" => QueueType::Classic, "stream" => QueueType::Stream,
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Num(_, number) => number
            .to_i128()
            .or_else(|| number.to_u128().and_then(|number| number.try_into().ok())),
        Value::String(_, text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(_, text) => Some(text.trim()),
        _ => None,
    }
}

const WAIT_READ: fn(&Value) -> Option<Duration> = |value| duration::parse(text(value)?).ok();

/// A duration as attributes and files have it: units from the largest to the smallest.
pub(crate) fn show_period(period: &Duration) -> String {
    let mut rest = period.as_micros();
    let parts = UNITS.map(|(unit, micros)| {
        let count = rest / micros;
        rest %= micros;
        if count == 0 {
            String::new()
        } else {
            format!("{count}{unit}")
        }
    });
    let shown = parts.concat();
    if shown.is_empty() {
        "0s".to_owned()
    } else {
        shown
    }
}

const UNITS: [(&str, u128); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Text from outside in the form that attributes have. It is kept for the life of the process, each
/// different text once, so checking a configuration again and again takes no more memory.
pub(crate) fn keep(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text: &'static str = String::leak(text.to_owned());
    kept.insert(text);
    text
}

type Pairs = Vec<(&'static str, &'static str)>;

fn keep_pairs(pairs: Pairs) -> &'static [(&'static str, &'static str)] {
    static KEPT: Mutex<BTreeMap<Pairs, &'static [(&'static str, &'static str)]>> =
        Mutex::new(BTreeMap::new());
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(pairs)
        .or_insert_with_key(|pairs| Vec::leak(pairs.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_kept_once() {
        assert!(std::ptr::eq(keep("kept once"), keep("kept once")));
    }

    #[test]
    fn each_kind_reads_what_it_shows() {
        fn round<T: PartialEq + std::fmt::Debug>(kind: &Kind<T>, value: T) {
            let shown = (kind.show)(&value);
            let read = (kind.read)(&Value::from(shown.trim_matches('"')));
            assert_eq!(read, Some(value), "{shown}");
        }
        round(&COUNT, 7);
        round(&NUMBER, -3);
        round(&UP_TO_TWO, 2);
        round(&FLAG, false);
        round(&TEXT, "a/b");
        round(&PERIOD, Duration::from_millis(1500));
        round(&WAIT, Duration::ZERO);
        round(&WAIT, Duration::from_micros(90_061_001_002));
        let (first, max) = (Duration::from_millis(100), Duration::from_secs(30));
        round(&BACKOFF, Backoff { first, max });
        round(&BACKOFF, Backoff { first, max: first });
        round(&DELAY, Delay::Hold);
        round(&SETTLE, Settle::AtMostOnce);
        round(&ON_FAILURE, OnFailure::DeadLetter);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let refused = |ok: bool, what: &str| assert!(!ok, "{what}");
        for text in [
            "0",
            "-1",
            "4294967296",
            "1.5",
            "",
            "many",
            "99999999999999999999999999",
        ] {
            refused((COUNT.read)(&Value::from(text)).is_some(), text);
        }
        for text in ["0s", "5", "", "-1s", "30s..1s", "0s..1s", "1s..", "..1s"] {
            refused((BACKOFF.read)(&Value::from(text)).is_some(), text);
        }
        refused((UP_TO_TWO.read)(&Value::from(3)).is_some(), "qos 3");
        refused((TEXT.read)(&Value::from("")).is_some(), "empty text");
        refused((TEXT.read)(&Value::from(5)).is_some(), "a number");
        refused(
            (COUNT.read)(&Value::from(u128::MAX)).is_some(),
            "a huge number",
        );
    }
}
