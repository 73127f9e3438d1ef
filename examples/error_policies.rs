//! What errors, panics, slow handlers and broken payloads mean: `cargo run --example error_policies`.
//!
//! A handler that can fail says what its failures mean, or it does not compile. An error type says
//! it for each error; the attribute says it for everything else.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::error::Error;
use std::future::pending;
use std::num::ParseIntError;
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::{App, Attempt, DeadLetter, Failure, Json, State, Text, subscriber};
use tokio::sync::mpsc;
use tokio::time::timeout;

type Log = mpsc::Sender<String>;

/// Each error says what it means.
#[derive(Debug, Failure, thiserror::Error)]
enum ImportError {
    #[failure(retry)]
    #[error("the row is locked")]
    Locked,
    #[failure(retry_after = "200ms")]
    #[error("the database is away")]
    Away,
    #[failure(drop)]
    #[error("it is imported already")]
    Duplicate,
    #[failure(dead_letter)]
    #[error("there is no table `{0}`")]
    NoTable(String),
}

#[subscriber(queue = "imports", max_attempts = 5, dead_letter = "dead")]
async fn import(job: Text, attempt: Attempt, log: State<Log>) -> Result<(), ImportError> {
    let answer = match (job.as_str(), attempt.number()) {
        ("locked", 1) => Err(ImportError::Locked),
        ("away", 1..=2) => Err(ImportError::Away),
        ("twice", _) => Err(ImportError::Duplicate),
        ("lost", _) => Err(ImportError::NoTable("lost".to_owned())),
        _ => Ok(()),
    };
    let what = match &answer {
        Ok(()) => "done".to_owned(),
        Err(error) => error.to_string(),
    };
    tell(
        &log,
        format!("import {}: attempt {attempt}, {what}", job.as_str()),
    )
    .await;
    answer
}

/// Any error with a text will do when the attribute says what it means.
#[subscriber(queue = "numbers", on_error = dead_letter, dead_letter = "dead")]
async fn parse(number: Text, log: State<Log>) -> Result<(), ParseIntError> {
    let number: i32 = number.parse()?;
    tell(&log, format!("parse: {number}")).await;
    Ok(())
}

/// A handler that takes too long is tried again after a growing delay with jitter; one that panics
/// is not. What cannot be decoded is dropped here.
#[subscriber(
    queue = "visits",
    max_attempts = 3,
    dead_letter = "dead",
    timeout = "100ms",
    backoff = "50ms..400ms",
    on_panic = dead_letter,
    on_decode = drop
)]
async fn visit(visitors: Json<u32>, attempt: Attempt, log: State<Log>) {
    tell(&log, format!("visit {}: attempt {attempt}", *visitors)).await;
    // Dividing by no visitor panics, and a crowd takes for ever.
    let minutes_for_each = 60 / *visitors;
    if minutes_for_each < 15 {
        pending::<()>().await;
    }
}

#[subscriber(queue = "dead", reads_dead_letters)]
async fn file(letter: DeadLetter, log: State<Log>) {
    let handler = letter.handler().unwrap_or("?");
    let reason = letter.reason().unwrap_or("?");
    let attempts = letter.attempts().unwrap_or_default();
    tell(
        &log,
        format!("file: `{handler}` gave up after {attempts}, {reason}"),
    )
    .await;
}

async fn tell(log: &Log, line: String) {
    // Nobody listens any more when `main` has failed already.
    log.send(line).await.ok();
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (log, mut lines) = mpsc::channel::<String>(64);
    let app = App::new("policies")
        .broker(Memory::new())
        .state(log)
        .start()
        .await?;

    let publisher = app.publisher();
    for job in ["fine", "locked", "away", "twice", "lost"] {
        publisher.publish("imports", job).await?;
    }
    publisher.publish("numbers", "42").await?;
    publisher.publish("numbers", "many").await?;
    publisher.publish("visits", Json(1)).await?;
    publisher.publish("visits", Json(0)).await?;
    publisher.publish("visits", Json(5)).await?;
    publisher.publish("visits", "five").await?;

    let mut told = Vec::new();
    while told.len() < EXPECTED.len() {
        let line = timeout(Duration::from_secs(10), lines.recv()).await?;
        let line = line.ok_or("the handlers are gone")?;
        println!("{line}");
        told.push(line);
    }
    let monitor = app.monitor();
    app.stop().await?;

    told.sort_unstable();
    assert_eq!(told, EXPECTED);
    let visits = monitor.mount("visit").ok_or("`visit` runs")?.stats;
    assert_eq!((visits.undecodable, visits.dropped), (1, 1));
    Ok(())
}

/// What is told, sorted.
const EXPECTED: [&str; 18] = [
    "file: `import` gave up after 1, error",
    "file: `parse` gave up after 1, error",
    "file: `visit` gave up after 1, panic",
    "file: `visit` gave up after 3, timeout",
    "import away: attempt 1, the database is away",
    "import away: attempt 2, the database is away",
    "import away: attempt 3, done",
    "import fine: attempt 1, done",
    "import locked: attempt 1, the row is locked",
    "import locked: attempt 2, done",
    "import lost: attempt 1, there is no table `lost`",
    "import twice: attempt 1, it is imported already",
    "parse: 42",
    "visit 0: attempt 1",
    "visit 1: attempt 1",
    "visit 5: attempt 1",
    "visit 5: attempt 2",
    "visit 5: attempt 3",
];
