//! Several brokers in one application, and several programs from one set of handlers:
//! `cargo run --example several_brokers`.
//!
//! A handler names its broker, and publishes to another one by name. A group is what one program
//! runs of them.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::error::Error;
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::{App, Json, PublishError, Publisher, State, Topic, subscriber};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Reading {
    meter: String,
    units: u32,
}

/// Runs beside the meters: what they say on one broker becomes work on the other.
#[subscriber(
    broker = "meters",
    filter = "meters/+/units",
    retry_topic = "meters/retry/units",
    group = "gateway",
    max_attempts = 10,
    backoff = "100ms..10s",
    on_decode = drop
)]
async fn forward(units: Json<u32>, topic: Topic, publisher: Publisher) -> Result<(), PublishError> {
    let reading = Reading {
        meter: topic.level(1).unwrap_or_default().to_owned(),
        units: *units,
    };
    publisher
        .on("office")?
        .publish("readings", Json(reading))
        .await?;
    Ok(())
}

/// Runs in the office, and knows nothing of the meters' broker.
#[subscriber(broker = "office", queue = "readings", group = "office", on_decode = drop)]
async fn bill(reading: Json<Reading>, bills: State<mpsc::Sender<Reading>>) {
    println!("{} used {} units", reading.meter, reading.units);
    bills.send(reading.into_inner()).await.ok();
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let meters = Memory::mqtt();
    let office = Memory::amqp();
    let (sender, mut bills) = mpsc::channel::<Reading>(16);

    // Two programs, as it were: each runs its group, with the brokers that it needs.
    let gateway = App::new("gateway")
        .group("gateway")
        .named_broker("meters", meters)
        .named_broker("office", office.clone())
        .start()
        .await?;
    let billing = App::new("billing")
        .group("office")
        .named_broker("office", office)
        .state(sender)
        .start()
        .await?;

    let publisher = gateway.publisher().on("meters")?;
    publisher.publish("meters/m1/units", Json(40)).await?;
    publisher.publish("meters/m2/units", Json(2)).await?;

    let mut billed = 0;
    for meter in ["m1", "m2"] {
        let reading = timeout(Duration::from_secs(10), bills.recv()).await?;
        let reading = reading.ok_or("the office is closed")?;
        assert_eq!(reading.meter, meter);
        billed += reading.units;
    }
    gateway.stop().await?;
    billing.stop().await?;
    println!("{billed} units billed");
    assert_eq!(billed, 42);
    Ok(())
}
