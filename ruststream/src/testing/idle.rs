//! Waiting until nothing is left to do. Every wait ends.

use std::fmt;
use std::time::Duration;

use bytestring::ByteString;

use super::TestApp;

/// What was still going on when a wait reached its limit, or when something went round and round
/// without a pause, so that no time passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Unsettled {
    /// How long was waited, in virtual time.
    pub waited: Duration,
    /// What each mount point is busy with; idle ones are left out.
    pub busy: Vec<Busy>,
}

/// What a mount point is busy with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Its name.
    pub mount: ByteString,
    /// Deliveries and waiting copies in its hands.
    pub in_hand: usize,
    /// Messages that wait for it at the broker.
    pub waiting: usize,
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?} not everything is settled", self.waited)?;
        for Busy {
            mount,
            in_hand,
            waiting,
        } in &self.busy
        {
            write!(
                f,
                "; `{mount}` has {in_hand} in hand and {waiting} waiting at the broker"
            )?;
        }
        Ok(())
    }
}

impl TestApp {
    /// Let everything happen that takes no time.
    pub async fn settle_down(&self) {
        self.turn(TURNS).await;
    }

    async fn turn(&self, turns: usize) {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    /// Let `time` pass. All timers that are due meanwhile fire, in order.
    pub async fn advance(&self, time: Duration) {
        self.settle_down().await;
        sleep(time).await;
        self.settle_down().await;
    }

    /// Let time pass until every message is handled, parked or left, and no copy waits: for a day
    /// at most.
    ///
    /// # Errors
    ///
    /// What was still going on then.
    pub async fn settled(&self) -> Result<(), Unsettled> {
        self.settled_within(DAY).await
    }

    /// As [`settled`](Self::settled), for so long at most.
    ///
    /// # Errors
    ///
    /// What was still going on then.
    pub async fn settled_within(&self, limit: Duration) -> Result<(), Unsettled> {
        let mut waited = Duration::ZERO;
        let mut step = FIRST_STEP;
        let mut rounds = 0;
        loop {
            self.turn(FEW_TURNS).await;
            let mut busy = self.busy();
            if busy.is_empty() {
                self.settle_down().await;
                busy = self.busy();
            }
            if busy.is_empty() {
                return Ok(());
            }
            if waited >= limit || rounds > MOST_ROUNDS {
                return Err(Unsettled { waited, busy });
            }
            // Whatever happens at the broker ends the step; what ends in a pump's hands only is found at
            // the end of the step.
            step = step.min(limit.saturating_sub(waited));
            let begun = now();
            tokio::select! {
                biased;
                () = self.next_event() => {}
                () = sleep(step) => {}
            }
            let passed = now() - begun;
            waited += passed;
            // Something that goes round without a pause keeps time from passing at all.
            rounds = if passed.is_zero() { rounds + 1 } else { 0 };
            step = (step * 2).min(LONGEST_STEP);
        }
    }

    /// Let time pass until `holds`, for so long at most. Whether it does.
    pub async fn until(&self, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let mut waited = Duration::ZERO;
        loop {
            self.settle_down().await;
            if holds(self) {
                return true;
            }
            if waited >= limit {
                return false;
            }
            sleep(FIRST_STEP).await;
            waited += FIRST_STEP;
        }
    }

    /// Wait for the next thing that happens at the broker.
    async fn next_event(&self) {
        let mut is_asked_again = false;
        let again = |_: &super::Observer| std::mem::replace(&mut is_asked_again, true);
        self.observer().until(again).await;
    }

    /// What is going on. A mount point whose messages are all left unsettled for good is idle.
    pub(super) fn busy(&self) -> Vec<Busy> {
        let Some(handle) = &self.handle else {
            return Vec::new();
        };
        let busy = handle.in_hand().into_iter().map(|(mount, in_hand)| {
            let observer = self.observer();
            let stuck = observer.stuck(&mount) as usize;
            // What was handed out and is unsettled is in the pump's hands already, or stuck.
            let unsettled = observer.unsettled(&mount).saturating_sub(stuck);
            Busy {
                in_hand: usize::try_from(in_hand)
                    .unwrap_or(usize::MAX)
                    .max(unsettled),
                waiting: observer.queue_depth(&mount),
                mount,
            }
        });
        busy.filter(|busy| busy.in_hand > 0 || busy.waiting > 0)
            .collect()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "virtual time: it passes only when nothing else can happen"
)]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "virtual time: it is measured as the test sees it"
)]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// More turns than any chain of wakes between two timers has.
const TURNS: usize = 200;
const FEW_TURNS: usize = 8;
/// More than a window's worth of events at one moment, many times over.
const MOST_ROUNDS: usize = 200_000;
const FIRST_STEP: Duration = Duration::from_millis(1);
const LONGEST_STEP: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
