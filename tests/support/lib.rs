//! What the tests, examples and benches share.

#![expect(
    clippy::missing_panics_doc,
    reason = "a panic is how a fixture fails a test"
)]

pub mod child;
pub mod mosquitto;
pub mod mqtt;
pub mod process;
mod proxy;
mod python;
mod rabbit;
mod starts;

pub use mosquitto::Mosquitto;
pub use proxy::Proxy;
pub use proxy::Way;
pub use python::python;
pub use rabbit::Generation;
pub use rabbit::Rabbit;
pub use rabbit::unique;
pub use starts::Start;
pub use starts::Starts;

use std::time::Duration;

use ruststream::testing::EventKind;
use ruststream::testing::TestApp;

/// How long a fixture waits for what should be there in a moment, before it fails the test. It is a
/// bound and not a wait: nobody sleeps for it. It is real time, so a test with a paused clock has no use
/// for servers, processes and connections.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// What `mount` said to the broker about its deliveries, in order, and when it was given one.
#[must_use]
pub fn words(app: &TestApp, mount: &str) -> Vec<&'static str> {
    let kinds = app.observer().events_of(mount);
    kinds.iter().filter_map(word).collect()
}

fn word(kind: &EventKind) -> Option<&'static str> {
    Some(match kind {
        EventKind::Delivered { .. } => "delivered",
        EventKind::Accepted => "accepted",
        EventKind::Rejected => "rejected",
        EventKind::Returned => "returned",
        EventKind::Released => "released",
        EventKind::Left => "left",
        EventKind::Stale => "stale",
        _ => return None,
    })
}

/// How many messages were published to `address`, by whomever.
#[must_use]
pub fn published(app: &TestApp, address: &str) -> usize {
    let events = app.events();
    let here = events.iter().filter(|event| event.address == address);
    here.filter(|event| matches!(event.kind, EventKind::Published { .. } | EventKind::Unread))
        .count()
}

/// The text of a header, or its number as text.
#[must_use]
pub fn header(message: &ruststream::Message, name: &str) -> Option<String> {
    use ruststream::HeaderValue;
    Some(match message.headers().first(name)? {
        HeaderValue::Text(text) => text.to_string(),
        HeaderValue::Int(number) => number.to_string(),
        HeaderValue::UInt(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}
