//! An application under test.

use std::fmt;

use bytestring::ByteString;

use super::Event;
use super::EventKind;
use super::Observer;
use crate::App;
use crate::Error;
use crate::Message;
use crate::app::Handle;
use crate::app::Monitor;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::memory::Memory;
use crate::stats::Health;
use crate::stats::Stats;

/// An application that runs on the embedded broker in virtual time.
///
/// `mount` is a mount point's name: the handler's, unless it was given another. Dropping it is a
/// crash.
pub struct TestApp {
    app: App,
    broker: Memory,
    observer: Observer,
    pub(super) handle: Option<Handle>,
    /// Readable after the end.
    monitor: Option<Monitor>,
}

/// What a mount point said to the broker, and what it was given, as the broker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlements {
    /// Deliveries handed to it.
    pub delivered: usize,
    /// Handled (accepted, PUBACK, `basic.ack`), copied ones included.
    pub accepted: usize,
    /// Given up (rejected).
    pub rejected: usize,
    /// Given back as failed (modified, requeued).
    pub returned: usize,
    /// Given back unstarted (released).
    pub released: usize,
    /// Left unsettled for good.
    pub left: usize,
    /// Words that came too late, for a connection that was gone.
    pub stale: usize,
}

impl TestApp {
    /// Start `app` with `broker` as its default broker. For other named brokers give the
    /// application clones of it.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    ///
    /// # Panics
    ///
    /// When the clock is not paused; see [`virtual_time`](super::virtual_time).
    pub async fn start(broker: Memory, app: App) -> Result<Self, Error> {
        // Without a paused clock a test would wait for real: say so at once.
        tokio::time::advance(std::time::Duration::ZERO).await;
        let mut started = Self {
            app: app.broker(broker.clone()),
            observer: broker.observe(),
            broker,
            handle: None,
            monitor: None,
        };
        started.resume().await?;
        Ok(started)
    }

    /// The broker. It outlives crashes and stops.
    #[must_use]
    pub fn broker(&self) -> &Memory {
        &self.broker
    }

    /// Who watches the broker: more to see and more to break than what is here.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Publish as an independent client. Nothing is handled before the test waits.
    ///
    /// # Errors
    ///
    /// As a sink: refused, unroutable, full.
    pub fn publish(
        &self,
        to: impl Into<ByteString>,
        message: impl Into<Message>,
    ) -> Result<Published, PublishError> {
        self.observer.publish(to, message)
    }

    /// Keep what is published to `address`, as a reader that never comes would: under MQTT's and
    /// RabbitMQ's rules a dead letter that nobody reads is gone or refused.
    pub fn keep(&self, address: impl Into<ByteString>) {
        self.broker.declare(address);
    }

    /// The messages that wait at `address`, in order. They stay there.
    #[must_use]
    pub fn messages(&self, address: &str) -> Vec<Message> {
        let waiting = self.observer.messages(address);
        waiting.into_iter().map(|waiting| waiting.message).collect()
    }

    /// Everything that happened at the broker, the oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.observer.events()
    }

    /// What `mount` said to the broker.
    #[must_use]
    pub fn settlements(&self, mount: &str) -> Settlements {
        let mut settlements = Settlements::default();
        for event in self.observer.events_of(mount) {
            match event {
                EventKind::Delivered { .. } => settlements.delivered += 1,
                EventKind::Accepted => settlements.accepted += 1,
                EventKind::Rejected => settlements.rejected += 1,
                EventKind::Returned => settlements.returned += 1,
                EventKind::Released => settlements.released += 1,
                EventKind::Left => settlements.left += 1,
                EventKind::Stale => settlements.stale += 1,
                _ => {}
            }
        }
        settlements
    }

    /// What `mount` has counted since the application last started; it stays readable after a crash
    /// or a stop. Zeros for a name that is not known.
    #[must_use]
    pub fn stats(&self, mount: &str) -> Stats {
        let status = self
            .monitor
            .as_ref()
            .and_then(|monitor| monitor.mount(mount));
        status.map(|status| status.stats).unwrap_or_default()
    }

    /// Whether `mount` receives.
    #[must_use]
    pub fn health(&self, mount: &str) -> Option<Health> {
        Some(self.monitor.as_ref()?.mount(mount)?.health)
    }

    /// Break the connection of `mount`. It connects again at once.
    pub async fn cut(&self, mount: &str) {
        self.observer.cut(mount);
        self.settle_down().await;
    }

    /// Kill the process: nothing more is settled, what waits in memory is lost.
    pub async fn crash(&mut self) {
        drop(self.handle.take());
        self.settle_down().await;
    }

    /// Start the application again on the same broker, after a crash or a stop: its queues and
    /// sessions are still there.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    pub async fn resume(&mut self) -> Result<(), Error> {
        drop(self.handle.take());
        self.settle_down().await;
        let handle = self.app.start_again().await?;
        self.monitor = Some(handle.monitor());
        self.handle = Some(handle);
        self.settle_down().await;
        Ok(())
    }

    /// Stop it in order and come back when it has ended.
    ///
    /// # Errors
    ///
    /// When not everything could be finished in time.
    pub async fn pause(&mut self) -> Result<(), Error> {
        let Some(handle) = self.handle.take() else {
            return Ok(());
        };
        let stopped = handle.stop().await;
        self.settle_down().await;
        stopped
    }

    /// Stop it in order, for good.
    ///
    /// # Errors
    ///
    /// When not everything could be finished in time.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.pause().await
    }

    /// The totals of all mount points.
    pub(super) fn totals(&self) -> Stats {
        let mut totals = Stats::default();
        for stats in self
            .handle
            .iter()
            .flat_map(|handle| handle.stats().into_values())
        {
            totals.starts += stats.starts;
            totals.dropped += stats.dropped;
            totals.stuck += stats.stuck;
        }
        totals
    }
}

impl fmt::Debug for TestApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestApp")
            .field("app", &self.app)
            .field("broker", &self.broker)
            .field("running", &self.handle.is_some())
            .finish_non_exhaustive()
    }
}
