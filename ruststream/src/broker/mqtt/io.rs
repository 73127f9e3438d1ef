//! The thread that serves the connections of one broker.
//!
//! It is one of its own so that a handler that blocks its thread cannot keep a connection from
//! answering: the server would take the client for dead, and MQTT, which counts nothing, would
//! deliver the same message again and again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use tokio::runtime::Builder;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;

use crate::broker::BrokerError;

/// The thread, as long as someone has it.
#[derive(Debug)]
pub(super) struct Io {
    handle: Handle,
    tasks: Mutex<JoinSet<()>>,
    _stop: DropGuard,
}

impl Io {
    /// # Errors
    ///
    /// The system gives no thread, or none of what a runtime needs.
    pub(super) fn start() -> Result<Self, BrokerError> {
        let failed = |error: std::io::Error| {
            BrokerError::transient(format!("no thread for the connections: {error}"))
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        thread::Builder::new()
            .name("ruststream-mqtt".to_owned())
            .spawn(move || runtime.block_on(stopped.cancelled()))
            .map_err(failed)?;
        Ok(Self {
            handle,
            tasks: Mutex::new(JoinSet::new()),
            _stop: stop.drop_guard(),
        })
    }

    /// Run `task` there. It ends with the thread at the latest.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.handle);
    }
}
