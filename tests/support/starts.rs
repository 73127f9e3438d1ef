//! A record of what handlers were started with.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use ruststream::Attempt;
use ruststream::Outcome;
use ruststream::testing::Script;
use tokio::time::Instant;

/// One start of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// What it was started with.
    pub payload: Bytes,
    /// The number of the attempt.
    pub attempt: u32,
    /// The broker's own count plus one, where it counts.
    pub redelivery_count: Option<u32>,
    /// When, since the record was begun.
    pub at: Duration,
}

/// A record of starts; a clone is the same record.
#[derive(Clone, Debug)]
pub struct Starts {
    all: Arc<Mutex<Vec<Start>>>,
    begun: Instant,
}

impl Default for Starts {
    fn default() -> Self {
        Self::new()
    }
}

impl Starts {
    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self {
            all: Arc::default(),
            begun: now(),
        }
    }

    /// Write down a start.
    pub fn note(&self, payload: &Bytes, attempt: Attempt) -> Start {
        let start = Start {
            payload: payload.clone(),
            attempt: attempt.number(),
            redelivery_count: attempt.redelivery_count(),
            at: now() - self.begun,
        };
        self.lock().push(start.clone());
        start
    }

    /// Have a script write down its starts and answer at once.
    #[must_use]
    pub fn answer(
        &self,
        script: Script,
        answer: impl Fn(&Start) -> Outcome + Send + Sync + 'static,
    ) -> Script {
        let starts = self.clone();
        script.runs(move |(payload, attempt): (Bytes, Attempt)| {
            let outcome = answer(&starts.note(&payload, attempt));
            async move { outcome }
        })
    }

    /// Have a script write down its starts and never end.
    #[must_use]
    pub fn hang(&self, script: Script) -> Script {
        let starts = self.clone();
        script.runs(move |(payload, attempt): (Bytes, Attempt)| {
            starts.note(&payload, attempt);
            std::future::pending::<Outcome>()
        })
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Start> {
        self.lock().clone()
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The numbers of the attempts, in order.
    #[must_use]
    pub fn attempts(&self) -> Vec<u32> {
        self.lock().iter().map(|start| start.attempt).collect()
    }

    /// The payloads, in order.
    #[must_use]
    pub fn payloads(&self) -> Vec<String> {
        let text = |start: &Start| String::from_utf8_lossy(&start.payload).into_owned();
        self.lock().iter().map(text).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Start>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of a test is paused")]
fn now() -> Instant {
    Instant::now()
}
