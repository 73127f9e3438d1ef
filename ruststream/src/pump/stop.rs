//! Stopping: receiving ends, what runs finishes, waiting copies leave (spec C7).

use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use super::End;
use super::core::Elapsed;
use super::shell::Shell;
use crate::AckError;
use crate::settle::Disposition;
use crate::settlement::Plan;
use crate::stats::Health;

/// Waiting copies that are not due by then leave this long before the drain's end.
const FLUSH: Duration = Duration::from_secs(5);
/// A settlement or a publish that has begun is seen through for this long beyond the drain's end.
const SEEN_THROUGH: Duration = Duration::from_secs(2);

/// Where a pump is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It receives.
    Running,
    /// It finishes what it has, until then.
    Draining(Elapsed),
    /// Handlers are gone; what was being said to the broker is seen through, until then.
    Finishing(Elapsed),
    /// The source says its last words, until then.
    Closing(Elapsed),
}

impl Phase {
    pub(super) fn next_timer(self) -> Option<Elapsed> {
        match self {
            Self::Running => None,
            Self::Draining(until) | Self::Finishing(until) | Self::Closing(until) => Some(until),
        }
    }
}

impl Shell {
    pub(super) fn is_draining(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Begin to stop.
    pub(super) fn drain(&mut self) {
        let now = self.now();
        let drain = self.pump.stop.drain;
        self.phase = Phase::Draining(now.saturating_add(drain));
        self.pump.source.stop();
        let flush_at = now.saturating_add(drain.saturating_sub(FLUSH));
        let early = self.core.handle_stop(now, flush_at);
        self.pump.counters.flushed.add(early);
        if self.pump.mount.capabilities.releases {
            while let Some(delivery) = self.waiting.pop() {
                let id = self.admit(delivery.settled, delivery.payload().len());
                let decision = crate::settlement::Decision {
                    plan: Plan::Settle(Disposition::Release),
                    refused: false,
                    reason: None,
                };
                self.apply(id, delivery, decision, false, None);
            }
        }
    }

    /// Count a retry that is asked for during the drain and would be due after it.
    pub(super) fn note_wait(&self, delay: Duration) {
        if let Phase::Draining(until) = self.phase
            && self.now().saturating_add(delay) > until.saturating_sub(FLUSH)
        {
            self.pump.counters.flushed.add(1);
        }
    }

    /// Ended at once: every delivery is left to the broker.
    pub(super) fn aborted(&mut self) -> End {
        self.abandon_handlers();
        self.ended()
    }

    /// Whether the pump has come to its end.
    pub(super) fn poll_drained(&mut self, cx: &mut Context<'_>) -> Option<End> {
        loop {
            match self.phase {
                Phase::Running => return None,
                Phase::Draining(until) => {
                    let is_done = self.has_ended
                        && self.core.is_empty()
                        && self.waiting.is_empty()
                        && self.forming.is_empty();
                    let now = self.now();
                    if !is_done && now < until {
                        return None;
                    }
                    // What is due by the end of the drain is still done, however short that was.
                    if self.core.next_timer().is_some_and(|due| due <= now) {
                        return None;
                    }
                    self.abandon_handlers();
                    self.phase = Phase::Finishing(until.saturating_add(SEEN_THROUGH));
                }
                Phase::Finishing(until) => {
                    let is_at_work = self.core.is_being_settled() || self.core.copies_at_risk() > 0;
                    if is_at_work && self.now() < until {
                        return None;
                    }
                    self.phase = Phase::Closing(self.now().saturating_add(SEEN_THROUGH));
                }
                Phase::Closing(until) => {
                    if self.pump.source.poll_close(cx) == Poll::Pending && self.now() < until {
                        return None;
                    }
                    return Some(self.ended());
                }
            }
        }
    }

    /// Drop what still runs; the broker delivers it again.
    fn abandon_handlers(&mut self) {
        for index in 0..self.lanes.len() {
            if !self.lanes[index].is_busy {
                continue;
            }
            if let Some(right) = &self.lanes[index].by_hand {
                right.revoke();
            }
            self.drop_future(index);
            for delivery in self.release_all(index) {
                self.core.handle_abandoned(delivery.id);
                self.unfinished += 1;
            }
        }
        for id in 0..self.care.len() {
            if let Some(care) = self.care[id].take_if(|care| care.right.is_some()) {
                if let Some(right) = &care.right {
                    right.revoke();
                }
                self.core.handle_abandoned(care.delivery.id);
                self.unfinished += 1;
            }
        }
        while self.waiting.pop().is_some() {
            self.unfinished += 1;
        }
        self.unfinished += self.forming.len();
        self.forming.clear();
        self.forming_until = None;
        self.deadlines.clear();
    }

    fn ended(&mut self) -> End {
        for care in self.care.iter_mut().flatten() {
            care.tell(Err(AckError::Closed));
        }
        let end = End {
            unfinished: self.unfinished + self.core.unsettled(),
            lost_copies: self.core.copies_at_risk(),
        };
        self.pump.health.set(Health::Stopped);
        if end.lost_copies > 0 {
            tracing::error!(
                ruststream.handler = &*self.pump.mount.name,
                messaging.destination.name = &*self.pump.mount.address,
                copies = end.lost_copies,
                "waiting copies could not be published before the end and are lost"
            );
        }
        if end.unfinished > 0 {
            tracing::warn!(
                ruststream.handler = &*self.pump.mount.name,
                messaging.destination.name = &*self.pump.mount.address,
                deliveries = end.unfinished,
                "not everything was finished in time; these deliveries are left to the broker"
            );
        }
        end
    }
}
