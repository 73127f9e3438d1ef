//! The wall clock, read in this one place.

use std::time::SystemTime;

/// Now, as RFC 3339 in UTC with milliseconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub(crate) fn now_rfc3339() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
