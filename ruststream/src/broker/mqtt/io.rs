//! The tasks that serve the connections of one broker, and the thread that keeps them alive.
//!
//! The tasks run on the application's own runtime: what they hand over costs no change of thread.
//! But a handler may block the thread they run on. The server would take the client for dead, and
//! MQTT, which counts nothing, would deliver the same message again and again. So a thread of its
//! own watches over the connections and says PINGREQ for a task that does not come to it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;
use std::thread;
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::link::Link;
use crate::broker::BrokerError;

/// The tasks and the thread, as long as someone has them.
#[derive(Debug)]
pub(super) struct Io {
    tasks: Mutex<JoinSet<()>>,
    watched: Arc<Watched>,
    watchman: Thread,
}

/// What the thread watches over.
#[derive(Debug, Default)]
struct Watched(Mutex<Option<Vec<Weak<Link>>>>);

impl Io {
    /// # Errors
    ///
    /// The system gives no thread.
    pub(super) fn start() -> Result<Self, BrokerError> {
        let watched = Arc::new(Watched(Mutex::new(Some(Vec::new()))));
        let watching = Arc::clone(&watched);
        let thread = thread::Builder::new()
            .name("ruststream-mqtt".to_owned())
            .spawn(move || watching.watch())
            .map_err(|error| {
                BrokerError::transient(format!("no thread for the connections: {error}"))
            })?;
        Ok(Self {
            tasks: Mutex::default(),
            watched,
            watchman: thread.thread().clone(),
        })
    }

    /// Serve `link` by `task`, which ends with this at the latest.
    ///
    /// # Errors
    ///
    /// There is no runtime here.
    pub(super) fn serve(
        &self,
        link: &Arc<Link>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), BrokerError> {
        self.spawn(task)?;
        if let Some(links) = &mut *self.watched.lock() {
            links.push(Arc::downgrade(link));
        }
        self.watchman.unpark();
        Ok(())
    }

    /// Run `task`, which ends with this at the latest.
    ///
    /// # Errors
    ///
    /// There is no runtime here.
    pub(super) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), BrokerError> {
        let runtime = Handle::try_current().map_err(|_| {
            BrokerError::permanent("MQTT connections need a tokio runtime, and there is none here")
        })?;
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &runtime);
        Ok(())
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        *self.watched.lock() = None;
        self.watchman.unpark();
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Weak<Link>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        loop {
            let links: Vec<Arc<Link>> = {
                let mut links = self.lock();
                let Some(links) = &mut *links else { return };
                links.retain(|link| link.strong_count() > 0);
                links.iter().filter_map(Weak::upgrade).collect()
            };
            let mut pause = IDLE;
            for link in links {
                link.speak_for_task();
                // Often enough that a PINGREQ is never late.
                pause = pause.min(link.settings.keep_alive / 16);
            }
            thread::park_timeout(pause);
        }
    }
}

/// How often the thread looks around when nothing is connected.
const IDLE: Duration = Duration::from_secs(5);
