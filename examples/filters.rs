//! MQTT-style filters, on the embedded broker: `cargo run --example filters`.
//!
//! A filter reads many topics and cannot be published to, so a handler that reads one says where
//! its retries go. A retried message still knows the topic that it came from. A shared filter
//! spreads its messages over the members of a group.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::error::Error;
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::{App, Attempt, Json, Outcome, State, Topic, subscriber};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Reads the temperature of every room. What `+` stood for is a level of the topic.
#[subscriber(
    filter = "rooms/+/temperature",
    retry_topic = "rooms/retry/temperature",
    max_attempts = 3,
    on_decode = drop
)]
async fn watch(
    degrees: Json<f32>,
    topic: Topic,
    attempt: Attempt,
    log: State<mpsc::Sender<String>>,
) -> Outcome {
    let room = topic.level(1).unwrap_or("?");
    if *degrees > 100.0 && attempt.is_first() {
        tell(&log, format!("{room}: {} degrees? once more", *degrees)).await;
        return Outcome::retry();
    }
    tell(&log, format!("{room}: {} degrees", *degrees)).await;
    Outcome::ack()
}

/// Counts who opens which door. Two members share the work, see `main`.
#[subscriber(
    filter = "doors/#",
    retry_topic = "doors/retry",
    competes,
    mqtt(qos = 1, shared = "porters")
)]
async fn count(topic: Topic, log: State<mpsc::Sender<String>>) {
    tell(&log, format!("{} was opened", topic.as_str())).await;
}

async fn tell(log: &mpsc::Sender<String>, line: String) {
    // Nobody listens any more when `main` has failed already.
    log.send(line).await.ok();
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (log, mut lines) = mpsc::channel::<String>(16);
    let house = App::new("house")
        .broker(Memory::mqtt())
        .state(log)
        .mount(watch)
        .mount_with(count, |mount| mount.name("porter-1"))
        .mount_with(count, |mount| mount.name("porter-2"))
        .start()
        .await?;

    let publisher = house.publisher();
    publisher
        .publish("rooms/kitchen/temperature", Json(21.5))
        .await?;
    publisher
        .publish("rooms/cellar/temperature", Json(4000.0))
        .await?;
    for door in [
        "doors/front",
        "doors/garden/gate",
        "doors/front",
        "doors/garage",
    ] {
        publisher.publish(door, "").await?;
    }

    let mut told = Vec::new();
    while told.len() < 7 {
        let line = timeout(Duration::from_secs(10), lines.recv()).await?;
        let line = line.ok_or("the handlers are gone")?;
        println!("{line}");
        told.push(line);
    }
    let monitor = house.monitor();
    house.stop().await?;

    for line in [
        "kitchen: 21.5 degrees",
        "cellar: 4000 degrees? once more",
        "cellar: 4000 degrees",
    ] {
        assert!(told.iter().any(|it| it == line), "nobody said `{line}`");
    }
    let acked = |name| monitor.mount(name).map_or(0, |mount| mount.stats.acked);
    let porters = (acked("porter-1"), acked("porter-2"));
    println!(
        "porter 1 saw {} doors, porter 2 saw {}",
        porters.0, porters.1
    );
    assert_eq!(porters.0 + porters.1, 4, "each door was counted once");
    Ok(())
}
