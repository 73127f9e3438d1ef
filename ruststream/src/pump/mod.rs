//! One pump per mount point: deliveries in, outcomes out.
//!
//! [`core`] decides what happens next and is pure; [`shell`] carries it out: it polls the source,
//! the handlers and the publishes, all in one task, and owns the clock. A delivery stays in the
//! pump's hands until it is settled, so that neither a panic nor a timeout of its handler loses it.

mod arrival;
mod batch;
pub(crate) mod core;
mod hand;
mod lane;
mod notice;
mod order;
mod repace;
mod settle;
mod shell;
mod start;
mod stop;
mod verdict;
mod warn;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broker::Sink;
use crate::broker::Source;
use crate::extract::Scope;
use crate::mount::MountPoint;
use crate::stats::Counters;
use crate::stats::HealthCell;

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
    pub(crate) health: Arc<HealthCell>,
    pub(crate) stop: Stop,
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Deliveries that were left to the broker because their handlers, or what was to be done for
    /// them, did not finish in time.
    pub(crate) unfinished: usize,
    /// Copies whose original was settled and that could not be published before the end.
    pub(crate) lost_copies: usize,
}

impl Pump {
    /// Run until stopped. A dropped connection does not end it; the driver reconnects.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is an abort: running handlers are dropped and their deliveries left
    /// unsettled, copies that wait in memory are lost (spec A43).
    pub(crate) async fn run(self) -> End {
        let (draining, abort) = (self.stop.draining.clone(), self.stop.abort.clone());
        let mut draining = std::pin::pin!(draining.cancelled());
        let mut abort = std::pin::pin!(abort.cancelled());
        let mut shell = shell::Shell::new(self);
        std::future::poll_fn(|cx| {
            if abort.as_mut().poll(cx).is_ready() {
                return std::task::Poll::Ready(shell.aborted());
            }
            if !shell.is_draining() && draining.as_mut().poll(cx).is_ready() {
                shell.drain();
            }
            let polled = shell.poll(cx);
            #[cfg(feature = "testing")]
            shell.tell_in_hand();
            polled
        })
        .await
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("mount", &self.mount.name)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests;
