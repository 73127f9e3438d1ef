//! What a source yields, and the way of a delivery to a lane.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::task::Context;
use std::task::Poll;

use super::shell::Shell;
use crate::broker::Arrival;
use crate::broker::Discard;
use crate::broker::Returns;
use crate::delivery::Delivery;
use crate::settle::AckError;
use crate::settlement::Reason;
use crate::settlement::attempt;
use crate::stats::Health;

impl Shell {
    /// Take deliveries while a lane is free. While none is, the source is only asked about its
    /// connection: that it is lost must be known whatever the handlers do.
    pub(super) fn poll_arrivals(&mut self, cx: &mut Context<'_>, budget: &mut usize) -> bool {
        let mut progress = false;
        while *budget > 0 && !self.has_ended {
            let arrival = if self.free.is_empty() {
                self.pump.source.poll_link(cx)
            } else {
                self.pump.source.poll_next(cx)
            };
            match arrival {
                Poll::Ready(Arrival::Delivery(delivery)) => self.arrived(delivery),
                Poll::Ready(other) => self.heard(other),
                Poll::Pending => break,
            }
            progress = true;
            *budget -= 1;
        }
        progress
    }

    fn heard(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Delivery(delivery) => self.arrived_between(delivery),
            Arrival::Connected { epoch } => self.connected(epoch),
            Arrival::Disconnected(error) => self.disconnected(&error),
            Arrival::Discarded { messages, why } => self.discarded(messages, why),
            Arrival::Ended => self.has_ended = true,
        }
    }

    fn connected(&mut self, epoch: u32) {
        tracing::info!(
            messaging.system = self.pump.mount.system,
            messaging.destination.name = &*self.pump.mount.address,
            ruststream.handler = &*self.pump.mount.name,
            epoch,
            "receiving"
        );
        self.pump.health.set(Health::Up);
        self.is_narrow = self.facts.cap.is_some()
            && self.facts.returns == Returns::Counted
            && !self.facts.settled;
        self.narrow = 1;
        let window = if self.is_narrow {
            self.narrow
        } else {
            self.pump.mount.policy.prefetch
        };
        self.pump.source.set_window(window);
    }

    fn disconnected(&mut self, error: &crate::broker::BrokerError) {
        let mount = &self.pump.mount;
        if self.pump.health.value() == Health::Up {
            tracing::warn!(
                messaging.system = mount.system,
                messaging.destination.name = &*mount.address,
                ruststream.handler = &*mount.name,
                %error,
                "connection lost; what was unsettled is delivered again"
            );
        } else {
            tracing::warn!(
                messaging.system = mount.system,
                messaging.destination.name = &*mount.address,
                ruststream.handler = &*mount.name,
                %error,
                "not receiving; it is tried again"
            );
        }
        self.pump.health.set(Health::Down {
            reason: error.to_string(),
        });
        self.stuck = 0;
        self.is_narrow = false;
        self.waiting.discard_unsettled();
        self.forming.retain(|delivery| delivery.token.is_none());
        for id in self.core.handle_disconnected() {
            self.forget(id, Err(AckError::Stale));
        }
    }

    fn discarded(&mut self, messages: u64, why: Discard) {
        match why {
            Discard::Overflow => {
                self.pump.counters.overflowed.add(messages);
                self.warn_of_overflow();
            }
            Discard::Unmatched => {
                self.pump.counters.unmatched.add(messages);
                self.warn_of_unmatched();
            }
        }
    }

    /// A narrow window is of what may kill the process: a delivery whose handler is done, but which
    /// waits or is left, does not keep the others away.
    pub(super) fn keep_narrow_window_open(&mut self) {
        if !self.is_narrow {
            return;
        }
        let done = usize::try_from(self.stuck)
            .unwrap_or(usize::MAX)
            .saturating_add(self.core.unsettled_after_handling());
        let window = u32::try_from(done).unwrap_or(u32::MAX).saturating_add(1);
        let window = window.min(self.pump.mount.policy.prefetch);
        if window > self.narrow {
            self.narrow = window;
            self.pump.source.set_window(window);
        }
    }

    /// [`arrived`](Self::arrived), off the way that most deliveries take.
    #[inline(never)]
    fn arrived_between(&mut self, delivery: Delivery) {
        self.arrived(delivery);
    }

    #[expect(
        clippy::inline_always,
        reason = "a delivery is large to hand on, and most take exactly this way"
    )]
    #[inline(always)]
    fn arrived(&mut self, mut delivery: Delivery) {
        self.pump.counters.deliveries.add(1);
        self.number(&mut delivery);
        if self.is_narrow {
            self.widen(&delivery);
        }
        if self
            .facts
            .cap
            .is_some_and(|cap| delivery.attempt > cap.get())
        {
            self.spent_on_arrival(delivery);
        } else if self.is_routed {
            self.route(delivery);
        } else if let Some(begun) = self.start(&mut delivery) {
            self.occupy(delivery, None, begun);
        }
    }

    /// Give a delivery to a lane, or have it wait for its turn. A lane is free.
    #[inline(never)]
    fn route(&mut self, delivery: Delivery) {
        if let Some(batch) = self.pump.mount.policy.batch {
            return self.join_batch(delivery, batch);
        }
        match self.pump.mount.policy.ordered_by {
            None => self.start_in_lane(delivery, None),
            Some(key_of) => self.start_in_order(delivery, key_of),
        }
    }

    /// A first delivery shows that no crash loop is at work (spec C24).
    #[cold]
    fn widen(&mut self, delivery: &Delivery) {
        if is_first(delivery) {
            self.is_narrow = false;
            self.pump.source.set_window(self.pump.mount.policy.prefetch);
        }
    }

    /// Count the attempt (spec C1). A first delivery that carries nothing, as most are, is the first.
    #[expect(
        clippy::inline_always,
        reason = "few comparisons, where a call would cost more"
    )]
    #[inline(always)]
    fn number(&mut self, delivery: &mut Delivery) {
        if is_first(delivery) && delivery.headers().is_empty() {
            delivery.attempt = 1;
        } else {
            self.number_in_full(delivery);
        }
    }

    #[inline(never)]
    fn number_in_full(&mut self, delivery: &mut Delivery) {
        // Where the broker does not count, its flag says that it has delivered it once at least,
        // whatever number it shows beside it (spec C22).
        let flagged = u32::from(delivery.redelivered && self.facts.returns == Returns::Uncounted);
        let counted = delivery.counted.unwrap_or(0).max(flagged);
        let carried = attempt::carried(delivery.headers(), &self.pump.mount.name);
        if carried.malformed {
            self.warn_of_malformed_count();
        }
        delivery.attempt = attempt::number(carried.attempts, counted);
    }

    fn start_in_order(&mut self, delivery: Delivery, key_of: fn(&Delivery) -> u64) {
        let key = match catch_unwind(AssertUnwindSafe(|| key_of(&delivery))) {
            Ok(key) => key,
            Err(panic) => {
                let id = self.admit(delivery.settled, delivery.payload().len());
                return self.failed(
                    id,
                    delivery,
                    Reason::Panic,
                    None,
                    &super::verdict::panic_text(panic),
                );
            }
        };
        if self.is_at_work(key) || self.waiting.has(key) {
            self.waiting.push(key, delivery);
        } else {
            self.start_in_lane(delivery, Some(key));
        }
    }

    pub(super) fn start_waiting(&mut self) -> bool {
        let mut progress = false;
        while !self.free.is_empty() {
            let lanes = &self.lanes;
            let Some((key, delivery)) = self
                .waiting
                .next(|key| lanes.iter().any(|lane| lane.key == Some(key)))
            else {
                break;
            };
            self.start_in_lane(delivery, Some(key));
            progress = true;
        }
        progress
    }

    fn is_at_work(&self, key: u64) -> bool {
        self.lanes.iter().any(|lane| lane.key == Some(key))
    }
}

/// Whether the broker says that it has not delivered it before.
#[inline]
fn is_first(delivery: &Delivery) -> bool {
    !delivery.redelivered && delivery.counted.unwrap_or(0) == 0
}
