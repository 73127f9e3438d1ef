//! What generated code needs. Not for use by hand; it may change in any release.

pub use inventory;

pub use crate::Delivery;
pub use crate::Failure;
pub use crate::Outcome;
// By another name, which no lint takes for one that the user has imported.
pub use crate::extract::Extract as Argument;
pub use crate::extract::Incoming;
pub use crate::finish::*;
pub use crate::handler::Slot;
pub use crate::handler::Typed;
pub use crate::policy::*;
pub use crate::registration::*;
pub use crate::settle::Settle;

use std::borrow::Cow;
use std::time::Duration;

use crate::check;
use crate::duration;

/// The rules of [`check`], as panics at the user's own code.
macro_rules! at_compile_time {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        #[track_caller]
        pub const fn $name($($argument: $type),*) {
            if let Err(problem) = check::$name($($argument),*) {
                panic!("{}", problem.text().as_str());
            }
        }
    )* };
}

at_compile_time! {
    source(form: Form, mqtt: bool, value: &str);
    target(key: &'static str, mqtt: bool, value: &str);
    dead_letter(form: Form, mqtt: bool, own: &str, value: &str);
    retry_topic(mqtt: bool, dead_letter: Option<&str>, value: &str);
    at_least_one(key: &'static str, value: u32);
    at_most_two(key: &'static str, value: u32);
    positive_duration(key: &'static str, value: &str);
    any_duration(key: &'static str, value: &str);
    backoff(value: &str);
    name(key: &'static str, value: &str);
    share_name(value: &str);
    short_name(key: &'static str, value: &str);
    batch_argument(takes_batch: bool);
    no_batch_argument(takes_batch: bool);
}

/// The function of `retry_topic_with`.
#[must_use]
pub const fn retry_topic_of(function: RetryTopic) -> RetryTopic {
    function
}

type RetryTopic = fn(&Delivery) -> Cow<'_, str>;

/// A duration that [`positive_duration`] or [`any_duration`] has checked.
#[must_use]
pub const fn parsed_duration(value: &str) -> Duration {
    duration::parse_checked(value)
}

/// A backoff that [`backoff`] has checked.
#[must_use]
pub const fn parsed_backoff(value: &str) -> Option<Backoff> {
    match duration::parse_backoff(value) {
        Ok(parsed) => Some(parsed),
        Err(_) => None,
    }
}

/// A number that [`at_most_two`] has checked.
#[must_use]
pub const fn small(value: u32) -> u8 {
    if value > 2 { 2 } else { value.to_le_bytes()[0] }
}
