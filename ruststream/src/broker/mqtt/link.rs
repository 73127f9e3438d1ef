//! What the task at the socket, the sources of the mount points and the publisher share.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::task::AtomicWaker;
use rumqttc::v5::mqttbytes::v5::Publish;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::Connection;
use super::connection::Over;
use super::outbound::Answer;
use super::settings::Settings;
use super::spec::Spec;
use super::state::State;
use super::state::Wakes;

/// One connection, as long as it is needed: the sockets come and go.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) settings: Arc<Settings>,
    pub(super) spec: Spec,
    state: Mutex<State>,
    /// The task at the socket.
    io: AtomicWaker,
    /// The epoch of the connection that lives, 0 while there is none: read without the lock.
    epoch: AtomicU32,
    /// The socket while there is one. Locked before the state, where both are.
    connection: Mutex<Option<Connection>>,
    /// Set once the task at the socket has ended.
    ended: watch::Sender<bool>,
}

/// The state under its lock. What has to be woken is woken after the lock is given back.
pub(super) struct Locked<'a> {
    guard: Option<MutexGuard<'a, State>>,
}

impl Link {
    pub(super) fn new(spec: Spec, settings: Arc<Settings>) -> Self {
        Self {
            state: Mutex::new(State::new(&spec)),
            settings,
            spec,
            io: AtomicWaker::new(),
            epoch: AtomicU32::new(0),
            connection: Mutex::new(None),
            ended: watch::Sender::new(false),
        }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            guard: Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Have the task at the socket look at the state.
    pub(super) fn wake_io(&self) {
        self.io.wake();
    }

    pub(super) fn io(&self) -> &AtomicWaker {
        &self.io
    }

    /// The epoch of the connection that lives, or 0.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Only under the lock, so that it and the state agree.
    pub(super) fn set_epoch(&self, epoch: u32) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Publish; the answer comes later.
    pub(super) fn publish(&self, publish: Publish, now: Instant) -> oneshot::Receiver<Answer> {
        let (receiver, is_new) = {
            let mut state = self.lock();
            let state = &mut *state;
            let is_new = state.out.is_empty();
            let receiver = state.outbound.publish(publish, now);
            if state.line == super::state::Line::Up {
                state.outbound.send(&mut state.out);
            }
            (receiver, is_new)
        };
        if is_new {
            self.wake_io();
        }
        receiver
    }

    /// Serve a connection until it is over. Dropping the future breaks it.
    pub(super) async fn serve(&self, connection: Connection) -> Over {
        /// Takes the connection out again, whatever happens.
        struct Held<'a>(&'a Link);

        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.connection().take();
            }
        }

        *self.connection() = Some(connection);
        let held = Held(self);
        let over = std::future::poll_fn(|cx| match &mut *self.connection() {
            Some(connection) => connection.poll(cx),
            None => Poll::Ready(Over::Closed),
        })
        .await;
        let connection = self.connection().take();
        drop(held);
        if let (Over::Closed, Some(connection)) = (&over, connection) {
            connection.shut_down().await;
        }
        over
    }

    /// Keep the connection alive if its task does not come to it.
    pub(super) fn speak_for_task(&self) {
        // Locked, it is at work.
        if let Ok(mut connection) = self.connection.try_lock()
            && let Some(connection) = &mut *connection
            && connection.speak_for_task()
        {
            // The task's own waker may have been taken for this.
            self.wake_io();
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_ended(&self) {
        self.ended.send_replace(true);
    }

    /// Wait until the task at the socket has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn ended(&self) {
        // The sender is here, so this ends with the value.
        self.ended
            .subscribe()
            .wait_for(|ended| *ended)
            .await
            .map(drop)
            .ok();
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }
}

impl std::ops::Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.guard.as_ref().expect("held until it is dropped")
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else {
            return;
        };
        if guard.wakes.is_empty() {
            return;
        }
        let mut wakes: Wakes = std::mem::take(&mut guard.wakes);
        drop(guard);
        for waker in wakes.drain(..) {
            waker.wake();
        }
    }
}
