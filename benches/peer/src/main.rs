//! One side of `benches/mqtt.rs`: `peer side NAME URL QOS MESSAGES`, with the receive maximum in `WINDOW`.

use std::env;
use std::error::Error;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ruststream::runtime::AppInfo;
use ruststream::runtime::RustStream;
use ruststream_rumqttc::prelude::*;
use serde::Deserialize;
use tokio::sync::Notify;

#[derive(Deserialize)]
#[expect(dead_code, reason = "decoding is what is measured")]
struct Reading {
    id: u64,
    device: String,
    temperature: f64,
    humidity: f64,
    samples: Vec<u32>,
    note: String,
}

static MESSAGES: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static BEGUN: OnceLock<(Instant, u64)> = OnceLock::new();
static END: Notify = Notify::const_new();

fn count(reading: &Reading) {
    std::hint::black_box(reading.temperature + reading.humidity);
    let done = DONE.fetch_add(1, Ordering::Relaxed) + 1;
    if done == 1 {
        BEGUN.get_or_init(|| (Instant::now(), cpu()));
    }
    if done == MESSAGES.load(Ordering::Relaxed) {
        let (begun, cpu_then) = BEGUN.get().expect("it began with the first");
        println!("done {} {}", begun.elapsed().as_micros(), cpu() - cpu_then);
        END.notify_one();
    }
}

#[subscriber(MqttTopic::new("bench").qos(Qos::AtMostOnce))]
async fn unconfirmed(reading: &Reading) -> HandlerOutcome {
    count(reading);
    HandlerOutcome::ack()
}

#[subscriber(MqttTopic::new("bench").qos(Qos::AtLeastOnce))]
async fn confirmed(reading: &Reading) -> HandlerOutcome {
    count(reading);
    HandlerOutcome::ack()
}

/// CPU time of this process so far, in microseconds.
fn cpu() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum::<u64>()
        / 1000
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [_, _, url, qos, messages] = &arguments[..] else {
        return Err("usage: peer side NAME URL QOS MESSAGES".into());
    };
    MESSAGES.store(messages.parse()?, Ordering::Relaxed);
    let window: std::num::NonZeroU16 = env::var("WINDOW").unwrap_or_else(|_| "1000".to_owned()).parse()?;
    let unconfirmed_only = qos == "0";
    let broker = MqttBroker::new(url.as_str(), "bench").receive_maximum(window);
    let app = RustStream::new(AppInfo::new("bench", "0.1.0")).with_broker(broker, |b| {
        if unconfirmed_only {
            b.include(unconfirmed);
        } else {
            b.include(confirmed);
        }
    });
    let running = app.start().await?;
    println!("ready");
    END.notified().await;
    drop(running);
    std::process::exit(0);
}
