//! What becomes of deliveries and of waiting copies when the process dies.

use std::fmt;

use super::MountPoint;
use crate::broker::Returns;
use crate::policy::Delay;

/// What becomes of a mount point's messages when the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantee {
    /// Deliveries that are not settled yet.
    pub deliveries: Fate,
    /// Delayed retries that wait.
    pub waiting_copies: Fate,
}

/// What becomes of a message when the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is lost.
    Lost,
    /// The broker delivers it again.
    Returned,
    /// The broker delivers it again when the session resumes.
    ReturnedOnResume,
    /// It is kept and published when it is due.
    Kept,
}

impl Guarantee {
    pub(crate) fn of(mount: &MountPoint) -> Self {
        let deliveries = if mount.capabilities.settled {
            Fate::Lost
        } else if mount.capabilities.returns == Returns::OnResume {
            Fate::ReturnedOnResume
        } else {
            Fate::Returned
        };
        let waiting_copies = match mount.policy.delay {
            Delay::Process => Fate::Lost,
            // The original is still unsettled while the copy waits.
            Delay::Hold => deliveries,
            Delay::Journal | Delay::Broker => Fate::Kept,
        };
        Self {
            deliveries,
            waiting_copies,
        }
    }
}

impl Fate {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Returned => "delivered again",
            Self::ReturnedOnResume => "delivered again when the session resumes",
            Self::Kept => "kept",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            deliveries,
            waiting_copies,
        } = self;
        write!(
            f,
            "in a crash: unsettled deliveries are {deliveries}, waiting copies are {waiting_copies}"
        )
    }
}
