//! What a message costs on the embedded broker: instructions, allocations and time, publishing
//! counted.
//!
//! ```text
//! cargo bench --bench messages                  a table
//! cargo bench --bench messages -- --tsv         the same for a script; `scripts/bench` reads it
//! ```
//!
//! Each figure is the difference between a run of 2N and one of N messages, divided by N, so that
//! start and stop cancel out. Every run is a process of its own: this binary, with a scenario's name
//! and a number of messages. Instructions are counted by valgrind's callgrind, so they do not depend
//! on what else the machine does. One thread, no tracing subscriber.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench reports to whoever runs it"
)]

use std::alloc::System;
use std::env;
use std::error::Error;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use ruststream::App;
use ruststream::Attempt;
use ruststream::Batch;
use ruststream::ByteString;
use ruststream::Bytes;
use ruststream::Json;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::broker::Broker;
use ruststream::broker::memory::Memory;
use ruststream::subscriber;
use stats_alloc::INSTRUMENTED_SYSTEM;
use stats_alloc::Region;
use stats_alloc::StatsAlloc;

/// Counts allocations, and does nothing else.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Messages that came to their end.
static DONE: Total = Total(AtomicU64::new(0));
/// What handlers read, so that reading is not left out.
static READ: Total = Total(AtomicU64::new(0));

/// A total that one thread writes: a load and a store, so that the bench counts little of itself.
struct Total(AtomicU64);

impl Total {
    fn add(&self, more: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(serde::Deserialize)]
struct Order {
    id: u64,
    quantity: u64,
}

const ORDER: &[u8] = br#"{"id":1001,"quantity":3}"#;

#[subscriber(address = "json", on_decode = drop)]
async fn json(order: Json<Order>) -> Outcome {
    READ.add(order.id + order.quantity);
    DONE.add(1);
    Outcome::Ack
}

#[subscriber(address = "bytes")]
async fn bytes(payload: Bytes) -> Outcome {
    READ.add(payload.len() as u64);
    DONE.add(1);
    Outcome::Ack
}

/// Not done at its first poll, so that four are at work at once.
#[subscriber(address = "concurrent", concurrency = 4)]
async fn concurrent(payload: Bytes) -> Outcome {
    tokio::task::yield_now().await;
    READ.add(payload.len() as u64);
    DONE.add(1);
    Outcome::Ack
}

#[subscriber(address = "batch", batch(size = 64, wait = "20ms"))]
async fn batch(items: Batch<Bytes>) -> Outcome {
    for payload in &items {
        READ.add(payload.len() as u64);
        DONE.add(1);
    }
    Outcome::Ack
}

#[subscriber(address = "delayed", max_attempts = 3)]
async fn delayed(attempt: Attempt) -> Outcome {
    if attempt.number() == 1 {
        return Outcome::retry_after(Duration::from_millis(1));
    }
    DONE.add(1);
    Outcome::Ack
}

#[subscriber(address = "dead", dead_letter = "dead.letters")]
async fn dead(payload: Bytes) -> Outcome {
    READ.add(payload.len() as u64);
    DONE.add(1);
    Outcome::DeadLetter
}

/// Something to measure: one handler, and messages for it.
struct Scenario {
    name: &'static str,
    about: &'static str,
    mount: fn(App) -> App,
    payload: &'static [u8],
    /// How many messages, in the smaller of the two runs.
    messages: u64,
}

#[rustfmt::skip]
const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "json", about: "small JSON, acked", mount: |app| app.mount(json), payload: ORDER, messages: 20_000 },
    Scenario { name: "bytes", about: "raw bytes, acked", mount: |app| app.mount(bytes), payload: ORDER, messages: 20_000 },
    Scenario { name: "concurrent", about: "concurrency = 4", mount: |app| app.mount(concurrent), payload: ORDER, messages: 20_000 },
    Scenario { name: "batch", about: "batch of 64", mount: |app| app.mount(batch), payload: ORDER, messages: 20_480 },
    Scenario { name: "delayed", about: "delayed retry, then acked", mount: |app| app.mount(delayed), payload: ORDER, messages: 10_240 },
    Scenario { name: "dead", about: "dead letter", mount: |app| app.mount(dead), payload: ORDER, messages: 10_240 },
];

/// Published before the handlers get their turn; a window's worth.
const BURST: u64 = 64;

/// How many times a run is longer when time is taken, and how often it is run: the shortest counts.
const LONGER: u64 = 10;
const TRIES: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report(false),
        ["--tsv"] => report(true),
        [name, messages] => run_here(name, messages.parse()?),
        _ => Err(
            "usage: messages [--tsv], or the name of a scenario and a number of messages".into(),
        ),
    }
}

fn report(tsv: bool) -> Result<(), Box<dyn Error>> {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    if !has_valgrind {
        eprintln!("valgrind is not installed: instructions are not counted");
    }
    if !tsv {
        println!(
            "{:28} {:>12} {:>12} {:>10}",
            "per message", "instructions", "allocations", "time"
        );
    }
    for scenario in &SCENARIOS {
        let messages = scenario.messages;
        let instructions = if has_valgrind {
            let more = instructions(scenario, 2 * messages)? - instructions(scenario, messages)?;
            format!("{:.0}", more / to_f64(messages))
        } else {
            "-".to_owned()
        };
        let (fewer, more) = (run(scenario, messages)?, run(scenario, 2 * messages)?);
        let allocations = (to_f64(more.allocations) - to_f64(fewer.allocations)) / to_f64(messages);
        let time = time(scenario)?;
        if tsv {
            println!(
                "{}\t{instructions}\t{allocations:.3}\t{time:.0}",
                scenario.about
            );
        } else {
            println!(
                "{:28} {instructions:>12} {allocations:>12.3} {time:>7.0} ns",
                scenario.about
            );
        }
    }
    Ok(())
}

/// What a run came to.
struct Figures {
    allocations: u64,
    nanoseconds: u64,
}

fn time(scenario: &Scenario) -> Result<f64, Box<dyn Error>> {
    let messages = scenario.messages * LONGER;
    let mut shortest = f64::INFINITY;
    for _ in 0..TRIES {
        let (fewer, more) = (run(scenario, messages)?, run(scenario, 2 * messages)?);
        let time = to_f64(more.nanoseconds) - to_f64(fewer.nanoseconds);
        shortest = shortest.min(time / to_f64(messages));
    }
    Ok(shortest)
}

fn run(scenario: &Scenario, messages: u64) -> Result<Figures, Box<dyn Error>> {
    let output = Command::new(env::current_exe()?)
        .args([scenario.name, &messages.to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse);
    match (figures.next(), figures.next()) {
        (Some(Ok(allocations)), Some(Ok(nanoseconds))) => Ok(Figures {
            allocations,
            nanoseconds,
        }),
        _ => Err(format!(
            "{}: {}",
            scenario.name,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn instructions(scenario: &Scenario, messages: u64) -> Result<f64, Box<dyn Error>> {
    const WORD: &str = "Collected : ";
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args([scenario.name, &messages.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find_map(|line| line.split_once(WORD));
    let (_, count) = counted.ok_or_else(|| format!("{}: {said}", scenario.name))?;
    Ok(count.trim().parse()?)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// The process that is measured.
#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn run_here(name: &str, messages: u64) -> Result<(), Box<dyn Error>> {
    let scenario = SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or("there is no such scenario")?;
    // Time that jumps when everybody waits: a delay costs what it makes the runtime do.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let region = Region::new(ALLOCATOR);
    let begun = Instant::now();
    runtime.block_on(drive(scenario, messages))?;
    let elapsed = begun.elapsed();
    println!("{} {}", region.change().allocations, elapsed.as_nanos());
    Ok(())
}

async fn drive(scenario: &Scenario, messages: u64) -> Result<(), Box<dyn Error>> {
    let broker = Memory::new();
    let app = (scenario.mount)(App::new("bench").broker(broker.clone()))
        .start()
        .await?;
    let sender = Publisher::new(broker.sink());
    let to = ByteString::from_static(scenario.name);
    let payload = Bytes::from_static(scenario.payload);
    let mut published = 0;
    while published < messages {
        let burst = BURST.min(messages - published);
        for _ in 0..burst {
            sender
                .publish(to.clone(), Message::new(payload.clone()))
                .await?;
        }
        published += burst;
        settle_down(published).await;
    }
    app.stop().await?;
    Ok(())
}

/// Wait until so many messages came to their end.
async fn settle_down(messages: u64) {
    for _ in 0..8 {
        if DONE.value() == messages {
            return;
        }
        tokio::task::yield_now().await;
    }
    while DONE.value() < messages {
        idle().await;
    }
}

/// Let nothing be ready, so that paused time goes on.
#[expect(clippy::disallowed_methods, reason = "a bench has no source of time")]
async fn idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
