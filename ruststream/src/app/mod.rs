//! The application: brokers, state, a choice of handlers, and how it is run.

mod announce;
#[cfg(test)]
mod announce_tests;
mod handle;
mod plan;
mod run;
#[cfg(test)]
#[cfg(feature = "memory")]
mod run_tests;
mod running;
mod signal;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;

pub use self::handle::Handle;
pub use self::handle::Monitor;
pub use self::handle::MountStatus;
use crate::broker::Broker;
use crate::config::Config;
use crate::describe::Description;
use crate::error::Error;
use crate::mount::Mount;
use crate::mount::draft::DEFAULT_BROKER;
use crate::registry::Function;
use crate::registry::Handlers;
use crate::registry::Registry;
use crate::state::StateMap;

/// An application: the handlers of a program, with their brokers and state.
///
/// Handlers are found by themselves. [`only`](App::only) and [`group`](App::group) narrow what
/// runs; [`mount`](App::mount) and [`mount_with`](App::mount_with) choose one by one, and turn
/// finding off. Nothing is connected before [`run`](App::run), [`run_until`](App::run_until) or
/// [`start`](App::start).
///
/// # Examples
///
/// ```no_run
/// use ruststream::App;
///
/// # struct Db;
/// # async fn example(db: Db) -> Result<(), ruststream::Error> {
/// App::new("orders")
///     .state(db)
///     .broker(ruststream::broker::from_env()?)
///     .run()
///     .await
/// # }
/// ```
#[must_use = "an application does nothing until it is run"]
pub struct App {
    name: ByteString,
    state: StateMap,
    brokers: Vec<(String, Arc<dyn Broker>)>,
    registry: Registry,
    groups: Vec<String>,
    chosen: Vec<Chosen>,
    config: Config,
    drain: Option<Duration>,
}

/// One explicit choice of a handler.
#[derive(Debug)]
struct Chosen {
    function: Function,
    mount: Mount,
}

impl App {
    /// An application of this name. The name is part of client ids and of durable subscriptions,
    /// so it should stay the same from one version of the program to the next.
    pub fn new(name: impl Into<ByteString>) -> Self {
        Self {
            name: name.into(),
            state: StateMap::default(),
            brokers: Vec::new(),
            registry: Registry::linked(),
            groups: Vec::new(),
            chosen: Vec::new(),
            config: Config::default(),
            drain: None,
        }
    }

    /// Share a value with handlers, which take it as `State<T>`. One value per type; a later one
    /// takes the place of an earlier one.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self
    }

    /// The broker of handlers that name none.
    pub fn broker(self, broker: impl Broker + 'static) -> Self {
        self.named_broker(DEFAULT_BROKER, broker)
    }

    /// The broker of handlers that declare `broker = "…"` with this name.
    pub fn named_broker(mut self, name: impl Into<String>, broker: impl Broker + 'static) -> Self {
        self.brokers.push((name.into(), Arc::new(broker)));
        self
    }

    /// Run only handlers that declare this `group`; called again, those of another one too.
    /// Explicit choices ([`only`](App::only), [`mount`](App::mount)) are not narrowed by it.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Run only these handlers, and what is mounted explicitly: `app.only((fulfil, record))`.
    pub fn only(mut self, handlers: impl Handlers) -> Self {
        self.chosen
            .extend(handlers.functions().into_iter().map(|function| Chosen {
                function,
                mount: Mount::new(),
            }));
        self
    }

    /// Run this handler as its attribute and the configuration say.
    pub fn mount<F: 'static>(self, handler: F) -> Self {
        self.mount_with(handler, |mount| mount)
    }

    /// Run this handler with values of the program's own, which win over every other source. A
    /// handler may be mounted several times under different names.
    ///
    /// # Examples
    ///
    /// ```
    /// use ruststream::App;
    /// use ruststream::Bytes;
    /// use ruststream::subscriber;
    ///
    /// #[subscriber(queue = "orders", max_attempts = 3)]
    /// async fn fulfil(order: Bytes) {}
    ///
    /// # let _ =
    /// App::new("orders").mount(fulfil).mount_with(fulfil, |mount| {
    ///     mount.name("fulfil-eu").address("eu.orders").max_attempts(5)
    /// });
    /// ```
    pub fn mount_with<F: 'static>(
        mut self,
        handler: F,
        change: impl FnOnce(Mount) -> Mount,
    ) -> Self {
        self.chosen.push(Chosen {
            function: Function::of(&handler),
            mount: change(Mount::new()),
        });
        self
    }

    /// Where configuration comes from: a path, or a [`Config`]. By default `ruststream.toml` if it
    /// is there, and the process's environment; see [`config`](crate::config).
    pub fn config(mut self, config: impl Into<Config>) -> Self {
        self.config = config.into();
        self
    }

    /// How long a stop may take to finish what runs; 25 s by default, under the usual 30 s that
    /// containers are given. The configuration's `drain` does not change what is said here.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = Some(drain);
        self
    }

    /// Look for everything that is wrong, without connecting to anything. A test may call it.
    ///
    /// # Errors
    ///
    /// Every problem at once, each with its place and its cure.
    pub fn check(&self) -> Result<(), Error> {
        self.plan().map(drop)
    }

    /// Every mount point with its effective values and where each came from. Nothing is connected.
    ///
    /// # Errors
    ///
    /// As [`check`](App::check).
    pub fn describe(&self) -> Result<Description, Error> {
        self.plan().map(|plan| plan.describe())
    }

    /// Choose from this registry instead of what is linked.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }
}

/// Shows names, never values of state or of the configuration.
impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brokers = self.brokers.iter().map(|(name, _)| name);
        f.debug_struct("App")
            .field("name", &self.name)
            .field("state", &self.state)
            .field("brokers", &brokers.collect::<Vec<_>>())
            .field("registry", &self.registry)
            .field("groups", &self.groups)
            .field("chosen", &self.chosen)
            .field("config", &self.config)
            .field("drain", &self.drain)
            .finish()
    }
}
