//! Runs a checked application: subscribe, pump, stop in order.
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
use tokio_util::sync::CancellationToken;

use super::App;
use super::announce::announce;
use super::handle::Handle;
use super::handle::MountState;
use super::plan::Plan;
use super::signal::Signals;
use crate::broker::Broker;
use crate::broker::BrokerError;
use crate::broker::Source;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Problem;
use crate::extract::Scope;
use crate::mount::bind::Bound;
use crate::publisher::Brokers;
use crate::pump::End;
use crate::pump::Pump;
use crate::pump::Stop;
use crate::state::StateMap;

impl App {
    /// Run until SIGINT or SIGTERM (elsewhere Ctrl-C). The first signal starts a drain: receiving
    /// ends, what runs finishes and is settled, waiting copies are flushed. A second signal ends it
    /// at once and leaves deliveries unsettled, so that they come again. Works while disconnected.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the application ([`ErrorKind::Invalid`]), a broker that refuses
    /// for good at start-up, or an ending that was not clean; see [`ErrorKind`] for the exit codes.
    pub async fn run(self) -> Result<(), Error> {
        let plan = self.plan()?;
        let signals = Signals::listen().map_err(|error| {
            let what = format!("signals cannot be listened to: {error}");
            Error::new(ErrorKind::Failed, vec![Problem::new(what)])
        })?;
        drive(
            plan,
            &self.state,
            Requests::<std::future::Pending<()>>::Signals(signals),
        )
        .await
    }

    /// Run until `stop` is ready, then drain. Signals are not listened to.
    ///
    /// # Errors
    ///
    /// As [`run`](App::run), except that nothing interrupts the drain.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let plan = self.plan()?;
        drive(plan, &self.state, Requests::Future(Some(Box::pin(stop)))).await
    }

    /// Start, and give a handle to watch, publish and stop. It is ready when every mount point has
    /// subscribed. Signals are not listened to.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the application, or a broker that refuses for good.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, nothing runs.
    pub async fn start(self) -> Result<Handle, Error> {
        let plan = self.plan()?;
        start(plan, &self.state).await.map(Handle::new)
    }
}

#[cfg(feature = "testing")]
impl App {
    /// Start it, to be started again later.
    pub(crate) async fn start_again(&self) -> Result<Handle, Error> {
        let plan = self.plan()?;
        start(plan, &self.state).await.map(Handle::new)
    }
}

/// Who asks for a stop: the first request drains, the second ends at once.
enum Requests<F> {
    Signals(Signals),
    Future(Option<std::pin::Pin<Box<F>>>),
}

impl<F: Future<Output = ()>> Requests<F> {
    /// The next request. Cancel safe.
    async fn next(&mut self) {
        match self {
            Self::Signals(signals) => {
                let signal = signals.next().await;
                tracing::info!(signal, "asked to stop");
            }
            Self::Future(future) => {
                match future {
                    Some(stop) => stop.await,
                    None => std::future::pending().await,
                }
                *future = None;
            }
        }
    }
}

async fn drive<F: Future<Output = ()>>(
    plan: Plan,
    state: &StateMap,
    mut requests: Requests<F>,
) -> Result<(), Error> {
    let brokers = plan.brokers.clone();
    let started = tokio::select! {
        biased;
        () = requests.next() => None,
        started = start(plan, state) => Some(started?),
    };
    let Some(mut running) = started else {
        // Asked to stop before every mount point had subscribed: nothing was taken yet.
        close(brokers, CLOSE_WITHIN).await;
        return Ok(());
    };
    let failed = tokio::select! {
        biased;
        () = requests.next() => None,
        failed = running.failed() => Some(failed),
    };
    let stopped = running.stop(requests.next()).await;
    match failed {
        Some(error) => Err(error),
        None => stopped,
    }
}

/// Subscribe everything, then start one pump per mount point.
async fn start(plan: Plan, state: &StateMap) -> Result<Running, Error> {
    announce(&plan);
    let sources = match subscribe(&plan.mounts).await {
        Ok(sources) => sources,
        Err(error) => {
            close(plan.brokers, CLOSE_WITHIN).await;
            return Err(error);
        }
    };
    // Every handler is in place before the first delivery is taken (field case F23).
    let draining = CancellationToken::new();
    let stop = Stop {
        draining: draining.clone(),
        abort: CancellationToken::new(),
        drain: plan.drain.0,
    };
    let mut running = Running {
        mounts: Arc::default(),
        bound: Vec::new(),
        pumps: JoinSet::new(),
        tasks: HashMap::new(),
        stop: stop.clone(),
        brokers: plan.brokers,
    };
    let sinks = running.brokers.iter();
    let brokers = Brokers::new(sinks.map(|(name, broker)| (name.as_str().into(), broker.sink())));
    let mut states = Vec::new();
    for (index, (mount, source)) in plan.mounts.into_iter().zip(sources).enumerate() {
        let state_of_mount = MountState::new(&mount.point);
        let sink = mount.broker.sink();
        let pump = Pump {
            mount: Arc::clone(&mount.point),
            source,
            sink: Arc::clone(&sink),
            scope: Scope::new(state.clone(), sink, brokers.clone(), draining.clone()),
            counters: Arc::clone(&state_of_mount.counters),
            health: Arc::clone(&state_of_mount.health),
            stop: stop.clone(),
        };
        let task = running.pumps.spawn(pump.run());
        running.tasks.insert(task.id(), index);
        running.bound.push(mount);
        states.push(state_of_mount);
    }
    running.mounts = states.into();
    Ok(running)
}

/// Subscribe all mount points at once, in their order. A refusal ends it: the driver tries again by
/// itself whatever may heal.
async fn subscribe(mounts: &[Bound]) -> Result<Vec<Box<dyn Source>>, Error> {
    type Subscribed = (usize, Result<Box<dyn Source>, BrokerError>);
    let mut tasks: JoinSet<Subscribed> = JoinSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let source = mount.broker.subscribe(mount.subscription.clone());
        tasks.spawn(async move { (index, source.await) });
    }
    let mut sources: Vec<Option<Box<dyn Source>>> = mounts.iter().map(|_| None).collect();
    let mut problems = Vec::new();
    let mut next = tasks.join_next().await;
    while let Some(joined) = next {
        match joined {
            Ok((index, Ok(source))) => sources[index] = Some(source),
            Ok((index, Err(error))) => problems.push(refused(&mounts[index], &error)),
            Err(error) => problems.push(Problem::new(format!("a driver failed: {error}"))),
        }
        // After a refusal only what has its answer already is looked at.
        next = if problems.is_empty() {
            tasks.join_next().await
        } else {
            tasks.try_join_next()
        };
    }
    if problems.is_empty() {
        Ok(sources.into_iter().flatten().collect())
    } else {
        Err(Error::new(ErrorKind::Refused, problems))
    }
}

fn refused(mount: &Bound, error: &BrokerError) -> Problem {
    let location = crate::config::redact::redact(&mount.broker.location());
    mount.problem(format!(
        "the broker at {location} refused: {}",
        error.reason
    ))
}

/// A running application.
pub(super) struct Running {
    pub(super) mounts: Arc<[MountState]>,
    bound: Vec<Bound>,
    pumps: JoinSet<End>,
    /// Which mount point each task is, to name one that dies.
    tasks: HashMap<Id, usize>,
    stop: Stop,
    brokers: Vec<(String, Arc<dyn Broker>)>,
}

/// How far beyond the drain pumps may go: a settlement that has begun is seen through.
const OVERTIME: Duration = Duration::from_secs(2);
/// How long an ending at once may take.
const ABORT_WITHIN: Duration = Duration::from_secs(1);
/// How long brokers may take to close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

impl Running {
    /// The name and state of every mount point's broker, for publishing.
    pub(super) fn brokers(&self) -> &[(String, Arc<dyn Broker>)] {
        &self.brokers
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
        let problem = match joined {
            Ok((id, _)) => self.fault(id, "it stopped by itself"),
            Err(error) => self.died(&error),
        };
        tracing::error!(problem = %problem, "a mount point failed");
        Error::new(ErrorKind::Failed, vec![problem])
    }

    /// Stop in order; `at_once` cuts it short.
    pub(super) async fn stop(mut self, at_once: impl Future<Output = ()>) -> Result<(), Error> {
        let started = self.pumps.len();
        tracing::info!(ruststream.handlers = started, "stopping");
        self.stop.draining.cancel();
        let mut tally = Tally::default();
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
async fn close(brokers: Vec<(String, Arc<dyn Broker>)>, within: Duration) {
    let mut closing = JoinSet::new();
    for (_, broker) in &brokers {
        closing.spawn(broker.close());
    }
    let all = async { while closing.join_next().await.is_some() {} };
    if timeout(within, all).await.is_err() {
        tracing::warn!("a broker did not close in time");
    }
}
