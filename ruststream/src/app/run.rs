//! Runs a checked application: subscribe, then pump, until someone asks it to stop.

use std::sync::Arc;

use bytestring::ByteString;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::App;
use super::announce::announce;
use super::handle::Handle;
use super::handle::MountState;
use super::plan::Plan;
use super::running::CLOSE_WITHIN;
use super::running::Running;
use super::running::close;
use super::signal::Signals;
use crate::broker::Broker;
use crate::broker::BrokerError;
use crate::broker::Source;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Problem;
use crate::extract::Scope;
use crate::mount::bind::Bound;
use crate::mount::draft::DEFAULT_BROKER;
use crate::publisher::Brokers;
use crate::publisher::Publisher;
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
pub(super) async fn start(plan: Plan, state: &StateMap) -> Result<Running, Error> {
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
    let sinks = Brokers::new(
        plan.brokers
            .iter()
            .map(|(name, broker)| (ByteString::from(name.as_str()), broker.sink())),
    );
    let publisher = publisher(&plan.brokers, &sinks);
    let mut running = Running::new(publisher, stop.clone(), plan.brokers);
    let mut states = Vec::new();
    for (mount, source) in plan.mounts.into_iter().zip(sources) {
        let state_of_mount = MountState::new(&mount.point);
        let sink = mount.broker.sink();
        let pump = Pump {
            mount: Arc::clone(&mount.point),
            source,
            sink: Arc::clone(&sink),
            scope: Scope::new(state.clone(), sink, sinks.clone(), draining.clone()),
            counters: Arc::clone(&state_of_mount.counters),
            health: Arc::clone(&state_of_mount.health),
            stop: stop.clone(),
        };
        running.spawn(mount, pump);
        states.push(state_of_mount);
    }
    running.mounts = states.into();
    Ok(running)
}

/// Publishes to the default broker, or to the first if no broker is the default.
fn publisher(brokers: &[(String, Arc<dyn Broker>)], sinks: &Brokers) -> Publisher {
    let default = brokers.iter().find(|(name, _)| name == DEFAULT_BROKER);
    let (_, broker) = default
        .or(brokers.first())
        .expect("a checked plan has a mount point, and its broker");
    Publisher::with_brokers(broker.sink(), sinks.clone())
}

/// Subscribe all mount points at once, in their order. A refusal ends it: the driver tries again by
/// itself whatever may heal.
async fn subscribe(mounts: &[Bound]) -> Result<Vec<Box<dyn Source>>, Error> {
    type Subscribed = (usize, Result<Box<dyn Source>, BrokerError>);
    prepare(mounts);
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

/// Tell each broker all that it will be asked for.
fn prepare(mounts: &[Bound]) {
    for (index, mount) in mounts.iter().enumerate() {
        let same = |other: &&Bound| other.point.broker == mount.point.broker;
        if mounts.iter().take(index).any(|earlier| same(&earlier)) {
            continue;
        }
        let subscriptions: Vec<_> = mounts
            .iter()
            .filter(same)
            .map(|mount| mount.subscription.clone())
            .collect();
        mount.broker.prepare(&subscriptions);
    }
}

fn refused(mount: &Bound, error: &BrokerError) -> Problem {
    let location = crate::config::redact::redact(&mount.broker.location());
    mount.problem(format!(
        "the broker at {location} refused: {}",
        error.reason
    ))
}
