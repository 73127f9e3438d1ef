//! When to try again. Pure: `now` is an argument, any clock that never goes back.

use std::time::Duration;

use backon::BackoffBuilder;
use backon::ExponentialBackoff;
use backon::ExponentialBuilder;

/// How long to wait between connections: 0.2 s at first, doubling to 30 s, each shortened by up to
/// a half at random, so that many clients do not come back at once.
///
/// A connection that lives less than ten seconds counts as one more failure (spec C14).
#[derive(Debug)]
pub(crate) struct Reconnect {
    delays: ExponentialBackoff,
    failures: u32,
    connected: Option<Duration>,
}

impl Reconnect {
    /// Nothing failed yet.
    pub(crate) fn new() -> Self {
        Self {
            delays: DELAYS.build(),
            failures: 0,
            connected: None,
        }
    }

    /// A try to connect failed: how long to wait before the next.
    #[must_use]
    pub(crate) fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.connected = None;
        // It never ends: its number of times is not limited.
        self.delays.next().unwrap_or(LONGEST)
    }

    /// It is connected.
    pub(crate) fn connected(&mut self, now: Duration) {
        self.connected = Some(now);
    }

    /// The connection was lost: how long to wait before the next.
    #[must_use]
    pub(crate) fn lost(&mut self, now: Duration) -> Duration {
        let lived = self
            .connected
            .map_or(Duration::ZERO, |since| now.saturating_sub(since));
        if lived >= STABLE {
            *self = Self::new();
        }
        self.failed()
    }

    /// How many failures there were in a row, short-lived connections included.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

/// The jitter comes on top and is at most as long again: these are the halves.
const DELAYS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(15))
    .without_max_times()
    .with_jitter();

const LONGEST: Duration = Duration::from_secs(30);

/// A connection that lives that long has worked.
const STABLE: Duration = Duration::from_secs(10);
