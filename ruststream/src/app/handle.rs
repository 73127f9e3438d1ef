//! A running application: watch it, publish through it, stop it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

use super::running::Running;
use crate::error::Error;
use crate::mount::MountPoint;
use crate::publisher::Publisher;
use crate::stats::Counters;
use crate::stats::Health;
use crate::stats::HealthCell;
use crate::stats::Stats;

/// A running application.
///
/// Dropping it ends the application at once: nothing more is settled, and the broker delivers again
/// what was not. Use [`stop`](Handle::stop) to drain.
#[must_use = "dropping the handle ends the application at once"]
pub struct Handle(Running);

impl Handle {
    pub(super) fn new(running: Running) -> Self {
        Self(running)
    }

    /// Whether each mount point receives, by its name.
    #[must_use]
    pub fn health(&self) -> BTreeMap<ByteString, Health> {
        let mounts = self.0.mounts.iter().map(MountState::status);
        mounts.map(|mount| (mount.name, mount.health)).collect()
    }

    /// What each mount point has counted so far, by its name.
    #[must_use]
    pub fn stats(&self) -> BTreeMap<ByteString, Stats> {
        let mounts = self.0.mounts.iter().map(MountState::status);
        mounts.map(|mount| (mount.name, mount.stats)).collect()
    }

    /// Publishes to the default broker, or to the first by name if none is the default; to others
    /// by [`Publisher::on`]. It stays usable until the application has stopped.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.0.publisher.clone()
    }

    /// A view of health and totals that can be shared, as with an HTTP endpoint.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.0.mounts))
    }

    /// Wait until a mount point ends that nobody stopped. It never is ready while all is well.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn failed(&mut self) -> Error {
        self.0.failed().await
    }

    /// Stop: receiving ends, what runs finishes and is settled, waiting copies are flushed, brokers
    /// are closed.
    ///
    /// # Errors
    ///
    /// When not everything could be finished in time.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the application ends at once.
    pub async fn stop(self) -> Result<(), Error> {
        self.0.stop(std::future::pending()).await
    }
}

#[cfg(feature = "testing")]
impl Handle {
    /// What each pump has in its hands, by the mount point's name.
    pub(crate) fn in_hand(&self) -> Vec<(ByteString, u64)> {
        let mounts = self.0.mounts.iter();
        mounts
            .map(|mount| (mount.point.name.clone(), mount.counters.in_hand.value()))
            .collect()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("mounts", &self.0.mounts)
            .finish_non_exhaustive()
    }
}

/// A shared view of a running application. It stays readable after the end.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<[MountState]>);

impl Monitor {
    /// The state of every mount point, in order.
    #[must_use]
    pub fn mounts(&self) -> Vec<MountStatus> {
        self.0.iter().map(MountState::status).collect()
    }

    /// The state of the mount point of this name.
    #[must_use]
    pub fn mount(&self, name: &str) -> Option<MountStatus> {
        let state = self.0.iter().find(|state| state.point.name == name)?;
        Some(state.status())
    }

    /// Whether every mount point receives.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.0
            .iter()
            .all(|state| state.health.value() == Health::Up)
    }
}

/// The state of one mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountStatus {
    /// Its name.
    pub name: ByteString,
    /// Its address.
    pub address: ByteString,
    /// The broker's name in the application.
    pub broker: ByteString,
    /// Whether it receives.
    pub health: Health,
    /// What it has counted.
    pub stats: Stats,
}

/// What a pump shares with those who watch it.
#[derive(Debug)]
pub(super) struct MountState {
    point: Arc<MountPoint>,
    pub(super) counters: Arc<Counters>,
    pub(super) health: Arc<HealthCell>,
}

impl MountState {
    pub(super) fn new(point: &Arc<MountPoint>) -> Self {
        Self {
            point: Arc::clone(point),
            counters: Arc::default(),
            health: Arc::default(),
        }
    }

    fn status(&self) -> MountStatus {
        MountStatus {
            name: self.point.name.clone(),
            address: self.point.address.clone(),
            broker: self.point.broker.clone(),
            health: self.health.value(),
            stats: self.counters.snapshot(),
        }
    }
}
