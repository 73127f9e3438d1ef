//! A running application: its pumps, and how they are stopped.
//!
//! The order of a stop (field case I03): handlers see the stop signal, receiving ends, what runs
//! finishes with its publishes and settlements, each source closes, and the brokers close last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::Id;
use tokio::task::JoinError;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::handle::MountState;
use crate::broker::Broker;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Problem;
use crate::mount::bind::Bound;
use crate::publisher::Publisher;
use crate::pump::End;
use crate::pump::Pump;
use crate::pump::Stop;

/// A running application.
pub(super) struct Running {
    pub(super) mounts: Arc<[MountState]>,
    pub(super) publisher: Publisher,
    bound: Vec<Bound>,
    pumps: JoinSet<End>,
    /// Which mount point each task is, to name one that dies.
    tasks: HashMap<Id, usize>,
    stop: Stop,
    brokers: Vec<(String, Arc<dyn Broker>)>,
}

/// How far beyond the drain pumps may go. They end by themselves: a settlement that has begun is
/// seen through for 2 s, and sources close; this is for one that does not.
const OVERTIME: Duration = Duration::from_secs(5);
/// How long an ending at once may take.
const ABORT_WITHIN: Duration = Duration::from_secs(1);
/// How long brokers may take to close.
pub(super) const CLOSE_WITHIN: Duration = Duration::from_secs(2);

impl Running {
    /// Nothing runs yet.
    pub(super) fn new(
        publisher: Publisher,
        stop: Stop,
        brokers: Vec<(String, Arc<dyn Broker>)>,
    ) -> Self {
        Self {
            mounts: Arc::default(),
            publisher,
            bound: Vec::new(),
            pumps: JoinSet::new(),
            tasks: HashMap::new(),
            stop,
            brokers,
        }
    }

    /// Start the pump of one mount point.
    pub(super) fn spawn(&mut self, mount: Bound, pump: Pump) {
        let task = self.pumps.spawn(pump.run());
        self.tasks.insert(task.id(), self.bound.len());
        self.bound.push(mount);
    }

    /// Wait until a mount point ends that nobody stopped: a fault, which is never silent.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn failed(&mut self) -> Error {
        let Some(joined) = self.pumps.join_next_with_id().await else {
            return std::future::pending().await;
        };
        Error::new(ErrorKind::Failed, vec![self.ended_early(joined)])
    }

    /// The fault of a pump that ended before anyone stopped it.
    fn ended_early(&self, joined: Result<(Id, End), JoinError>) -> Problem {
        let problem = match joined {
            Ok((id, _)) => self.fault(id, "it stopped by itself"),
            Err(error) => self.died(&error),
        };
        tracing::error!(problem = %problem, "a mount point failed");
        problem
    }

    /// Stop in order; `at_once` cuts it short.
    pub(super) async fn stop(mut self, at_once: impl Future<Output = ()>) -> Result<(), Error> {
        let started = self.pumps.len();
        tracing::info!(ruststream.handlers = started, "stopping");
        let mut tally = Tally::default();
        while let Some(joined) = self.pumps.try_join_next_with_id() {
            tally.problems.push(self.ended_early(joined));
        }
        self.stop.draining.cancel();
        let limit = self.stop.drain.saturating_add(OVERTIME);
        let mut at_once = std::pin::pin!(at_once);
        let in_time = tokio::select! {
            biased;
            done = timeout(limit, self.join(&mut tally)) => done.is_ok(),
            () = &mut at_once => {
                tally.interrupted = true;
                false
            }
        };
        if !in_time {
            self.stop.abort.cancel();
            // Elapsed or not: what is left is cut below.
            let ended = timeout(ABORT_WITHIN, self.join(&mut tally)).await.is_ok();
            if !ended {
                tally.unfinished += self.pumps.len();
                self.pumps.shutdown().await;
            }
        }
        let brokers = std::mem::take(&mut self.brokers);
        if tally.interrupted {
            close(brokers, ABORT_WITHIN / 2).await;
        } else {
            tokio::select! {
                biased;
                () = close(brokers, CLOSE_WITHIN) => {}
                () = at_once => tally.interrupted = true,
            }
        }
        tally.result()
    }

    /// Wait for every pump. Cancel safe: what was counted stays counted.
    async fn join(&mut self, tally: &mut Tally) {
        while let Some(joined) = self.pumps.join_next_with_id().await {
            match joined {
                Ok((_, end)) => {
                    tally.unfinished += end.unfinished;
                    tally.lost_copies += end.lost_copies;
                }
                Err(error) => {
                    let problem = self.died(&error);
                    tracing::error!(problem = %problem, "a mount point failed");
                    tally.problems.push(problem);
                }
            }
        }
    }

    fn died(&self, error: &JoinError) -> Problem {
        let what = if error.is_panic() {
            "its pump panicked"
        } else {
            "its pump was cancelled"
        };
        self.fault(error.id(), what)
    }

    fn fault(&self, task: Id, what: &str) -> Problem {
        const CURE: &str = "this is a fault of ruststream, please report it";
        match self
            .tasks
            .get(&task)
            .and_then(|index| self.bound.get(*index))
        {
            Some(mount) => mount.problem(what).cure(CURE),
            None => Problem::new(what).cure(CURE),
        }
    }
}

/// What a stop came to.
#[derive(Debug, Default)]
struct Tally {
    unfinished: usize,
    lost_copies: usize,
    interrupted: bool,
    problems: Vec<Problem>,
}

impl Tally {
    fn result(self) -> Result<(), Error> {
        let Self {
            unfinished,
            lost_copies,
            interrupted,
            problems,
        } = self;
        tracing::info!(unfinished, lost_copies, interrupted, "stopped");
        let kind = if interrupted {
            ErrorKind::Interrupted
        } else if !problems.is_empty() {
            ErrorKind::Failed
        } else if unfinished > 0 || lost_copies > 0 {
            ErrorKind::DrainTimeout {
                unfinished,
                lost_copies,
            }
        } else {
            return Ok(());
        };
        Err(Error::new(kind, problems))
    }
}

/// Close all brokers at once, for so long.
pub(super) async fn close(brokers: Vec<(String, Arc<dyn Broker>)>, within: Duration) {
    let mut closing = JoinSet::new();
    for (_, broker) in &brokers {
        closing.spawn(broker.close());
    }
    let all = async { while closing.join_next().await.is_some() {} };
    if timeout(within, all).await.is_err() {
        tracing::warn!("a broker did not close in time");
    }
}
