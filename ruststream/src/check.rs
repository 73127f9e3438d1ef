//! The rules of a handler's declaration. Pure and `const`: `#[subscriber]` runs them while the user's
//! crate is compiled, [`App::check`](crate::App::check) runs the same ones on the effective values.
//!
//! Each function takes plain values and answers with a [`Problem`], whose text names the key, the
//! value and the cure. What needs more than one handler is not decided here.

use std::fmt;

use crate::address;
use crate::address::AddressError;
use crate::duration;
use crate::duration::DurationError;
use crate::registration::Form;
use crate::text::Text;

pub(crate) use rules::Declared;

mod rules;

/// The value of `address`, `queue`, `topic` or `filter`. `mqtt` says that MQTT's rules hold.
pub(crate) const fn source(form: Form, mqtt: bool, value: &str) -> Result<(), Problem<'_>> {
    let key = form.as_str();
    let grammar = match form {
        Form::Filter => address::filter(value),
        _ if mqtt => address::topic(value),
        _ => address::address(value),
    };
    match grammar {
        Err(AddressError::Wildcard { .. }) => Err(Problem::NotExact { key, value }),
        Err(error) => Err(Problem::Address { key, value, error }),
        Ok(())
            if matches!(form, Form::Address | Form::Topic) && address::looks_like_filter(value) =>
        {
            Err(Problem::NotExact { key, value })
        }
        Ok(()) => Ok(()),
    }
}

/// Where something is published: `retry_topic`, `dead_letter`, `reply_to`.
pub(crate) const fn target<'a>(
    key: &'static str,
    mqtt: bool,
    value: &'a str,
) -> Result<(), Problem<'a>> {
    let grammar = if mqtt {
        address::topic(value)
    } else {
        address::address(value)
    };
    match grammar {
        Err(AddressError::Wildcard { .. }) => Err(Problem::PublishWildcard { key, value }),
        Err(error) => Err(Problem::Address { key, value, error }),
        Ok(()) if address::looks_like_filter(value) => Err(Problem::PublishWildcard { key, value }),
        Ok(()) => Ok(()),
    }
}

/// The dead letter of a handler that reads `own`: a [`target`], and not one that comes straight
/// back (spec C20).
pub(crate) const fn dead_letter<'a>(
    form: Form,
    mqtt: bool,
    own: &'a str,
    value: &'a str,
) -> Result<(), Problem<'a>> {
    if let Err(problem) = target("dead_letter", mqtt, value) {
        return Err(problem);
    }
    let comes_back = match form {
        Form::Filter => address::matches(own, value),
        _ => address::same_queue(own, value),
    };
    if comes_back {
        Err(Problem::DeadLetterLoop { form, own, value })
    } else {
        Ok(())
    }
}

/// The retry topic beside a dead letter: they must differ, or a retry would be parked.
pub(crate) const fn retry_topic<'a>(
    mqtt: bool,
    dead_letter: Option<&'a str>,
    value: &'a str,
) -> Result<(), Problem<'a>> {
    if let Err(problem) = target("retry_topic", mqtt, value) {
        return Err(problem);
    }
    match dead_letter {
        Some(dead) if address::same_queue(dead, value) => Err(Problem::RetryIsDeadLetter { value }),
        _ => Ok(()),
    }
}

/// A number of which zero would stop everything: `max_attempts`, `prefetch`, `concurrency`,
/// `workers`, `batch(size)`.
pub(crate) const fn at_least_one(key: &'static str, value: u32) -> Result<(), Problem<'static>> {
    if value == 0 {
        Err(Problem::Zero { key })
    } else {
        Ok(())
    }
}

/// A number with a largest value that MQTT sets: `qos`, `retain_handling`.
pub(crate) const fn at_most_two(key: &'static str, value: u32) -> Result<(), Problem<'static>> {
    if value > 2 {
        Err(Problem::AboveTwo { key, value })
    } else {
        Ok(())
    }
}

/// A duration of more than zero: `timeout`, `session_expiry`, `retry_after` of an error.
pub(crate) const fn positive_duration<'a>(
    key: &'static str,
    value: &'a str,
) -> Result<(), Problem<'a>> {
    match duration::parse(value) {
        Ok(parsed) if parsed.is_zero() => Err(Problem::Duration {
            key,
            value,
            error: DurationError::Zero,
        }),
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::Duration { key, value, error }),
    }
}

/// A duration that may be zero: `batch(wait)`.
pub(crate) const fn any_duration<'a>(key: &'static str, value: &'a str) -> Result<(), Problem<'a>> {
    match duration::parse(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::Duration { key, value, error }),
    }
}

/// A backoff.
pub(crate) const fn backoff(value: &str) -> Result<(), Problem<'_>> {
    match duration::parse_backoff(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::Duration {
            key: "backoff",
            value,
            error,
        }),
    }
}

/// A name: of a handler, a broker, a group, a connection.
pub(crate) const fn name<'a>(key: &'static str, value: &'a str) -> Result<(), Problem<'a>> {
    match address::address(value) {
        Ok(()) => Ok(()),
        Err(error) => Err(Problem::Address { key, value, error }),
    }
}

/// The name of a group of competing MQTT subscribers.
pub(crate) const fn share_name(value: &str) -> Result<(), Problem<'_>> {
    match address::share_name(value) {
        Ok(()) => Ok(()),
        Err(error) => Err(Problem::Address {
            key: "shared",
            value,
            error,
        }),
    }
}

/// A name that 0-9-1 carries as a short string: queues, exchanges, routing keys.
pub(crate) const fn short_name<'a>(key: &'static str, value: &'a str) -> Result<(), Problem<'a>> {
    if value.len() > SHORT_STRING {
        return Err(Problem::NotShort {
            key,
            length: value.len(),
        });
    }
    name(key, value)
}

/// `batch(…)` beside the arguments.
pub(crate) const fn batch_argument(takes_batch: bool) -> Result<(), Problem<'static>> {
    if takes_batch {
        Ok(())
    } else {
        Err(Problem::Rule {
            key: "batch",
            text: "`batch(…)` is declared, but no argument takes a batch: take the payloads as `Batch<Json<T>>`",
        })
    }
}

/// An argument beside a missing `batch(…)`.
pub(crate) const fn no_batch_argument(takes_batch: bool) -> Result<(), Problem<'static>> {
    if takes_batch {
        Err(Problem::Rule {
            key: "batch",
            text: "a handler that takes a `Batch` says how large it may be: add `batch(size = 64, wait = \"20ms\")` to the attribute",
        })
    } else {
        Ok(())
    }
}

/// What is wrong with a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem<'a> {
    /// The value breaks the grammar of addresses.
    Address {
        key: &'static str,
        value: &'a str,
        error: AddressError,
    },
    /// An exact address has wildcards.
    NotExact { key: &'static str, value: &'a str },
    /// Something would be published to a wildcard.
    PublishWildcard { key: &'static str, value: &'a str },
    /// The handler would receive its own dead letters.
    DeadLetterLoop {
        form: Form,
        own: &'a str,
        value: &'a str,
    },
    /// Retries would be dead letters.
    RetryIsDeadLetter { value: &'a str },
    /// Zero where one is the least.
    Zero { key: &'static str },
    /// More than MQTT knows.
    AboveTwo { key: &'static str, value: u32 },
    /// Longer than a short string.
    NotShort { key: &'static str, length: usize },
    /// The value is not a duration, or not one that makes sense.
    Duration {
        key: &'static str,
        value: &'a str,
        error: DurationError,
    },
    /// A rule with nothing to fill in.
    Rule {
        key: &'static str,
        text: &'static str,
    },
}

impl Problem<'_> {
    /// The key it is about.
    pub(crate) const fn key(&self) -> &'static str {
        match *self {
            Self::Address { key, .. }
            | Self::NotExact { key, .. }
            | Self::PublishWildcard { key, .. }
            | Self::Zero { key }
            | Self::AboveTwo { key, .. }
            | Self::NotShort { key, .. }
            | Self::Duration { key, .. }
            | Self::Rule { key, .. } => key,
            Self::DeadLetterLoop { .. } => "dead_letter",
            Self::RetryIsDeadLetter { .. } => "retry_topic",
        }
    }

    /// The whole message.
    pub(crate) const fn text(&self) -> Text {
        match *self {
            Self::Address { key, value, error } => match error {
                AddressError::Empty | AddressError::TooLong { .. } => {
                    error.describe(&Text::new().with_value(key).with(" "))
                }
                _ => error.describe(&declared(key, value).with(" ")),
            },
            Self::NotExact { key, value } => declared(key, value)
                .with(" has wildcards, but `")
                .with(key)
                .with("` is exact: write `filter = \"")
                .with_cut(value)
                .with("\"` to read every topic it matches"),
            Self::PublishWildcard { key, value } => declared(key, value)
                .with(" has wildcards, but nothing can be published to a filter: name one topic, as in `")
                .with(key)
                .with(example_target(key)),
            Self::DeadLetterLoop { form, own, value } => dead_letter_loop(form, own, value),
            Self::RetryIsDeadLetter { value } => declared("retry_topic", value)
                .with(" is the dead letter as well, so the first retry would be parked: name another topic"),
            Self::Zero { key } => Text::new()
                .with("`")
                .with(key)
                .with(" = 0` ")
                .with(zero_means(key)),
            Self::AboveTwo { key, value } => Text::new()
                .with("`")
                .with(key)
                .with(" = ")
                .with_number(value as u64)
                .with("` does not exist: MQTT knows 0, 1 and 2"),
            Self::NotShort { key, length } => Text::new()
                .with_value(key)
                .with(" is ")
                .with_number(length as u64)
                .with(" bytes long, but 255 is the most on RabbitMQ"),
            Self::Duration { key, value, error } => {
                declared(key, value).with(" ").with(error.as_str())
            }
            Self::Rule { text, .. } => Text::new().with(text),
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

/// The declaration as the user wrote it.
const fn declared(key: &str, value: &str) -> Text {
    Text::new()
        .with("`")
        .with(key)
        .with(" = \"")
        .with_cut(value)
        .with("\"`")
}

const fn dead_letter_loop(form: Form, own: &str, value: &str) -> Text {
    let text = declared("dead_letter", value);
    match form {
        Form::Filter => {
            let text = text
                .with(" is matched by this handler's own `filter = \"")
                .with_cut(own)
                .with("\"`, so dead letters would come straight back: ");
            if address::matches(own, OTHER_TOPIC) {
                text.with("narrow the filter, or name a topic outside it")
            } else {
                text.with("name a topic outside the filter, as in `dead_letter = \"")
                    .with(OTHER_TOPIC)
                    .with("\"`")
            }
        }
        _ => text
            .with(" is this handler's own ")
            .with(form.as_str())
            .with(", so dead letters would come straight back: name another one, as in `dead_letter = \"")
            .with_cut(own)
            .with(".dead\"`"),
    }
}

/// A topic that few filters match.
const OTHER_TOPIC: &str = "dead/letters";

/// What 0-9-1 calls a short string (section 4.2.5.3).
const SHORT_STRING: usize = 255;

const fn example_target(key: &str) -> &'static str {
    match key.as_bytes() {
        b"retry_topic" => " = \"devices/retry/state\"`",
        b"dead_letter" => " = \"dead/letters\"`",
        _ => " = \"answers\"`",
    }
}

const fn zero_means(key: &str) -> &'static str {
    match key.as_bytes() {
        b"max_attempts" => {
            "would never start the handler: the first delivery counts, so write 1 or more"
        }
        b"prefetch" => "would never receive anything: write 1 or more, or leave it out",
        b"size" => "would never fill a batch: write 1 or more, as in `batch(size = 64)`",
        _ => "would never run the handler: write 1 or more, or leave it out",
    }
}

#[cfg(test)]
mod tests;
