//! What is made to go wrong.

use std::collections::HashMap;
use std::collections::HashSet;

use bytestring::ByteString;
use tokio_util::sync::CancellationToken;

use super::State;
use crate::broker::PublishError;

/// The faults that were asked for.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Publishes that are refused, by address.
    pub(super) refusals: HashMap<ByteString, Refusal>,
    /// Publishes whose confirmation waits, by address.
    pub(super) held: HashMap<ByteString, CancellationToken>,
    /// Mount points that may not connect.
    pub(super) offline: HashSet<ByteString>,
    /// Settlements that fail, by mount point: how many still.
    pub(super) settlements: HashMap<ByteString, u32>,
    /// Mount points whose settlements are on their way for as long as they are named here.
    pub(super) held_settlements: HashSet<ByteString>,
}

/// How publishes to an address are refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    /// How many still; for ever without a number.
    pub(super) times: Option<u32>,
    pub(super) transient: bool,
}

impl State {
    /// The faults, to ask for one.
    #[cfg(feature = "testing")]
    pub(super) fn faults_mut(&mut self) -> &mut Faults {
        self.watch_sources();
        self.faults.get_or_insert_default()
    }

    /// Why a publish to `to` is refused, if it is to be.
    pub(super) fn refusal(&mut self, to: &str) -> Option<PublishError> {
        let refusals = &mut self.faults.as_mut()?.refusals;
        let refusal = refusals.get_mut(to)?;
        let transient = refusal.transient;
        if let Some(times) = &mut refusal.times {
            if *times == 0 {
                return None;
            }
            *times -= 1;
        }
        let reason = format!("the broker refuses publishes to `{to}`");
        Some(if transient {
            PublishError::transient(reason)
        } else {
            PublishError::permanent(reason)
        })
    }

    /// What the confirmation of a publish to `to` waits for.
    pub(super) fn gate(&self, to: &str) -> Option<CancellationToken> {
        let gate = self.faults.as_ref()?.held.get(to)?;
        (!gate.is_cancelled()).then(|| gate.clone())
    }

    /// Whether the mount point may not connect.
    pub(super) fn is_offline(&self, mount: &str) -> bool {
        self.faults
            .as_ref()
            .is_some_and(|faults| faults.offline.contains(mount))
    }

    /// Whether settlements of this reader are on their way for now.
    pub(super) fn holds_settlements(&self, reader: usize) -> bool {
        let mount = |reader: usize| Some(&self.consumers.get(reader)?.as_ref()?.mount);
        self.faults
            .as_ref()
            .zip(mount(reader))
            .is_some_and(|(faults, mount)| faults.held_settlements.contains(mount))
    }

    /// Whether the mount point's next settlement is to fail.
    pub(super) fn fails_settlement(&mut self, reader: usize) -> bool {
        let Some(faults) = &mut self.faults else {
            return false;
        };
        let Some(consumer) = self.consumers.get(reader).and_then(Option::as_ref) else {
            return false;
        };
        match faults.settlements.get_mut(&consumer.mount) {
            Some(times) if *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }
}
