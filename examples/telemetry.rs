//! What machines tell of themselves: `cargo run --example telemetry`. Without a server it runs on the
//! embedded broker; with one, on that:
//!
//! ```text
//! RUSTSTREAM_URL=mqtt://localhost cargo run --example telemetry
//! ```
//!
//! ```text
//! devices/+/telemetry ─> record, in two processes that share the work
//!          ^                │ 3 attempts
//!          └── retry topic ─┤
//!                           └─> dead/telemetry ─> file
//! ```
//!
//! The two processes are two applications here. It ends by itself, and fails when a reading is lost.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ruststream::broker::Broker;
use ruststream::{
    App, Attempt, Bytes, DeadLetter, Json, Message, Outcome, State, Topic, broker, subscriber,
};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Records a reading. A filter cannot be published to, so it says where its retries go: a topic that
/// the filter matches, and that is no device's. `Topic` is still the device's then.
#[subscriber(
    filter = "devices/+/telemetry",
    retry_topic = "devices/retry/telemetry",
    max_attempts = 3,
    dead_letter = "dead/telemetry",
    competes,
    mqtt(qos = 1, shared = "recorders")
)]
async fn record(
    reading: Json<Reading>,
    topic: Topic,
    attempt: Attempt,
    log: State<Arc<Log>>,
) -> Outcome {
    let device = topic.level(1).unwrap_or("?");
    let celsius = reading.celsius;
    if celsius > 200.0 {
        tell(device, &format!("attempt {attempt}: {celsius} C cannot be"));
        return Outcome::retry();
    }
    if reading.is_early && attempt.is_first() {
        tell(
            device,
            "the clock of the device is ahead, once more in 200 ms",
        );
        return Outcome::retry_after(Duration::from_millis(200));
    }
    tell(device, &format!("attempt {attempt}: {celsius} C"));
    log.end(device, "recorded");
    Outcome::ack()
}

/// Files what could not be recorded. Without a reader an MQTT server keeps nothing.
#[subscriber(topic = "dead/telemetry", reads_dead_letters)]
async fn file(payload: Bytes, letter: DeadLetter, log: State<Arc<Log>>) {
    let length = payload.len();
    let device = letter
        .address()
        .and_then(|address| address.split('/').nth(1))
        .unwrap_or("?");
    tell(device, &format!("filed, {length} bytes: {letter}"));
    log.end(device, "filed");
}

fn tell(device: &str, what: &str) {
    println!("{device:>9}  {what}");
}

#[derive(Deserialize)]
struct Reading {
    celsius: f32,
    #[serde(default)]
    is_early: bool,
}

#[rustfmt::skip]
const READINGS: [(&str, &str); 8] = [
    ("boiler-1", r#"{"celsius": 81.5}"#),
    ("boiler-2", r#"{"celsius": 79.0}"#),
    ("boiler-3", r#"{"celsius": 9999.0}"#),
    ("pump-1",   r#"{"celsius": 40.25, "is_early": true}"#),
    ("pump-2",   r#"{"celsius": 41.0}"#),
    ("pump-3",   "fever"),
    ("valve-1",  r#"{"celsius": 22.5}"#),
    ("valve-2",  r#"{"celsius": 23.0, "is_early": true}"#),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let log = Arc::new(Log::default());
    let server = broker::from_env()?;
    println!("on {}", server.location());

    // Each has a session of its own, because client ids begin with the application's name.
    let one = app("telemetry-one", &server, &log)
        .mount(record)
        .mount(file);
    let other = app("telemetry-two", &server, &log).mount(record);
    let one = one.start().await?;
    let other = other.start().await?;

    for (device, reading) in READINGS {
        let topic = format!("devices/{device}/telemetry");
        let message = Message::new(reading).with_content_type("application/json");
        one.publisher().publish(topic, message).await?;
    }
    timeout(Duration::from_secs(20), log.ended(READINGS.len())).await?;

    other.stop().await?;
    one.stop().await?;
    log.check()
}

fn app(name: &'static str, server: &Arc<dyn Broker>, log: &Arc<Log>) -> App {
    App::new(name)
        .broker(Arc::clone(server))
        .state(Arc::clone(log))
}

/// What happened to the reading of each device.
#[derive(Default)]
struct Log {
    ends: Mutex<BTreeMap<String, Vec<&'static str>>>,
    changed: Notify,
}

impl Log {
    fn end(&self, device: &str, how: &'static str) {
        self.with(|ends| ends.entry(device.to_owned()).or_default().push(how));
        self.changed.notify_one();
    }

    async fn ended(&self, devices: usize) {
        while self.with(|ends| ends.len()) < devices {
            self.changed.notified().await;
        }
    }

    /// Every reading has ended once, and as it should.
    fn check(&self) -> Result<(), Box<dyn Error>> {
        for (device, _) in READINGS {
            let wanted = match device {
                "boiler-3" | "pump-3" => "filed",
                _ => "recorded",
            };
            let ends = self.with(|ends| ends.get(device).cloned().unwrap_or_default());
            if ends != [wanted] {
                return Err(format!("{device} was to be {wanted} once: {ends:?}").into());
            }
        }
        println!("{} readings, each recorded or filed once", READINGS.len());
        Ok(())
    }

    fn with<R>(&self, work: impl FnOnce(&mut BTreeMap<String, Vec<&'static str>>) -> R) -> R {
        work(&mut self.ends.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
