//! Many messages in one call, each with an outcome of its own: `cargo run --example batches`.
//!
//! When a whole batch fails, its items come again one by one, so that one bad item does not spend
//! the attempts of its neighbours.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::{App, Batch, DeadLetter, Json, Publisher, State, subscriber};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Stores up to four readings at once. Items that are not answered are acked when it returns.
#[subscriber(
    queue = "readings",
    batch(size = 4, wait = "50ms"),
    max_attempts = 2,
    dead_letter = "readings.dead"
)]
async fn store(batch: Batch<Json<u32>>, table: State<Arc<Table>>) -> Result<(), &'static str> {
    let readings: Vec<u32> = batch.iter().map(|reading| ***reading).collect();
    if table.calls.fetch_add(1, Ordering::Relaxed) == 0 {
        println!("store {readings:?}: the table is locked");
        return Err("the table is locked");
    }
    let mut stored = 0;
    for reading in batch {
        if **reading > 1000 {
            reading.dead_letter();
        } else {
            stored += 1;
        }
    }
    println!("store {readings:?}: {stored} stored");
    table.stored.fetch_add(stored, Ordering::Relaxed);
    table.changed.notify_one();
    Ok(())
}

/// A batch of dead letters is read like any other: what belongs to one message stands inside.
#[subscriber(
    queue = "readings.dead",
    reads_dead_letters,
    batch(size = 10, wait = "50ms")
)]
async fn file(letters: Batch<DeadLetter>, table: State<Arc<Table>>) {
    for letter in &letters {
        println!("file: {}", letter.value());
        table.filed.fetch_add(1, Ordering::Relaxed);
    }
    table.changed.notify_one();
}

#[derive(Default)]
struct Table {
    calls: AtomicU32,
    stored: AtomicU32,
    filed: AtomicU32,
    changed: Notify,
}

impl Table {
    fn totals(&self) -> (u32, u32) {
        (
            self.stored.load(Ordering::Relaxed),
            self.filed.load(Ordering::Relaxed),
        )
    }

    async fn reaches(&self, stored: u32, filed: u32) {
        while self.totals() != (stored, filed) {
            self.changed.notified().await;
        }
    }
}

async fn publish_readings(publisher: &Publisher) -> Result<(), ruststream::PublishError> {
    for reading in [11, 12, 13, 14, 15, 9999, 17, 18, 19] {
        publisher.publish("readings", Json(reading)).await?;
    }
    publisher.publish("readings", "no number").await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let table = Arc::new(Table::default());
    let app = App::new("readings")
        .broker(Memory::new())
        .state(Arc::clone(&table))
        .start()
        .await?;
    publish_readings(&app.publisher()).await?;

    // Of ten readings eight are fine, one is out of range, and one is no reading at all.
    timeout(Duration::from_secs(10), table.reaches(8, 2)).await?;
    let monitor = app.monitor();
    app.stop().await?;

    let store = monitor.mount("store").ok_or("`store` runs")?.stats;
    println!(
        "{} deliveries in {} calls",
        store.deliveries,
        table.calls.load(Ordering::Relaxed)
    );
    assert_eq!(table.totals(), (8, 2));
    assert_eq!((store.acked, store.retried, store.dead_lettered), (8, 4, 2));
    Ok(())
}
