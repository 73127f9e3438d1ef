//! The pace of undeclared retries where the broker does not count them (spec C12): there every
//! redelivery looks like the second attempt, so the pump itself remembers how often it returned one.

use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::time::Duration;

use super::shell::Shell;
use crate::broker::Returns;
use crate::delivery::Delivery;
use crate::settlement::Decision;
use crate::settlement::Plan;
use crate::settlement::pace;

/// Messages that are remembered; beyond that all start over, which is slower than a spin still.
const REMEMBERED: usize = 1024;

/// How often messages were returned, by what they look like.
#[derive(Debug, Default)]
pub(super) struct Paces(HashMap<u64, u32>);

impl Paces {
    /// The pause before a message is returned once more.
    fn pause(&mut self, delivery: &Delivery) -> Duration {
        let key = key(delivery);
        let returns = if delivery.redelivered {
            self.0
                .get(&key)
                .map_or(2, |returns| returns.saturating_add(1))
        } else {
            1
        };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(key, returns);
        pace::pause(returns)
    }

    fn forget(&mut self, delivery: &Delivery) {
        if !self.0.is_empty() && delivery.redelivered {
            self.0.remove(&key(delivery));
        }
    }
}

impl Shell {
    /// Put the pause right that was decided without a count.
    pub(super) fn repace(&mut self, delivery: &Delivery, decision: &mut Decision) {
        if self.facts.returns != Returns::Uncounted {
            return;
        }
        if let Plan::Return { pause } = &mut decision.plan {
            *pause = self.paces.pause(delivery);
        } else {
            self.paces.forget(delivery);
        }
    }
}

fn key(delivery: &Delivery) -> u64 {
    let mut hasher = DefaultHasher::new();
    match delivery.message().id() {
        Some(id) => id.hash(&mut hasher),
        None => delivery.payload().hash(&mut hasher),
    }
    hasher.finish()
}
