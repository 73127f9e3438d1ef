//! One pump per mount point: deliveries in, outcomes out.

pub(crate) mod core;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broker::Sink;
use crate::broker::Source;
use crate::extract::Scope;
use crate::mount::MountPoint;
use crate::stats::Counters;

/// How a pump is told to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// Cancelled: stop receiving, finish, settle, flush waiting copies (spec C7).
    pub(crate) draining: CancellationToken,
    /// Cancelled: end now and leave every delivery unsettled.
    pub(crate) abort: CancellationToken,
    /// How long a drain may take.
    pub(crate) drain: Duration,
}

/// Everything that one pump works with.
pub(crate) struct Pump {
    pub(crate) mount: Arc<MountPoint>,
    pub(crate) source: Box<dyn Source>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) scope: Scope,
    pub(crate) counters: Arc<Counters>,
    pub(crate) health: Arc<crate::stats::HealthCell>,
    pub(crate) stop: Stop,
}

/// How a pump ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Handlers that did not finish in time; their deliveries were left to the broker.
    pub(crate) unfinished: usize,
    /// Waiting copies that could not be published before the end.
    pub(crate) lost_copies: usize,
}

impl Pump {
    /// Run until stopped. A dropped connection does not end it; the driver reconnects.
    #[expect(clippy::unused_async, reason = "the pump comes with the next change")]
    pub(crate) async fn run(self) -> End {
        End {
            unfinished: 0,
            lost_copies: 0,
        }
    }
}
