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

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: usize = 200;

    // case: F02
    #[test]
    fn tries_in_twenty_seconds_are_few_and_their_spacing_grows() {
        for _ in 0..RUNS {
            let mut reconnect = Reconnect::new();
            let (mut now, mut tries, mut last) = (Duration::ZERO, 0, Duration::ZERO);
            while now < Duration::from_secs(20) {
                tries += 1;
                let delay = reconnect.failed();
                assert!(delay > last, "{delay:?} after {last:?}");
                last = delay;
                now += delay;
            }
            assert!((4..=15).contains(&tries), "{tries}");
        }
    }

    // spec: C14
    #[test]
    fn delays_begin_short_and_end_at_the_cap() {
        for _ in 0..RUNS {
            let mut reconnect = Reconnect::new();
            let first = reconnect.failed();
            assert!(first >= Duration::from_millis(100) && first <= Duration::from_millis(200));
            let last = (0..50).map(|_| reconnect.failed()).last().expect("fifty");
            assert!(
                last >= Duration::from_secs(15) && last <= LONGEST,
                "{last:?}"
            );
            assert_eq!(reconnect.failures(), 51);
        }
    }

    // spec: C14
    #[test]
    fn clients_that_fail_together_do_not_come_back_together() {
        let mut delays: Vec<_> = (0..RUNS).map(|_| Reconnect::new().failed()).collect();
        delays.sort();
        let spread = delays[RUNS - 1].saturating_sub(delays[0]);
        assert!(spread > Duration::from_millis(50), "{spread:?}");
    }

    // spec: C14
    #[test]
    fn a_connection_that_lives_a_moment_does_not_reset_the_delay() {
        let mut reconnect = Reconnect::new();
        let mut now = Duration::ZERO;
        let mut delay = Duration::ZERO;
        for _ in 0..12 {
            reconnect.connected(now);
            now += Duration::from_millis(9_999);
            delay = reconnect.lost(now);
            now += delay;
        }
        assert!(delay >= Duration::from_secs(15), "{delay:?}");
        reconnect.connected(now);
        now += Duration::from_secs(10);
        let delay = reconnect.lost(now);
        assert!(delay <= Duration::from_millis(200), "{delay:?}");
        assert_eq!(reconnect.failures(), 1);
    }

    #[test]
    fn a_loss_without_a_connection_is_one_more_failure() {
        let mut reconnect = Reconnect::new();
        let first = reconnect.failed();
        assert!(reconnect.lost(Duration::from_hours(1)) > first);
    }
}
