//! A mount point's reader of the embedded broker.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio::time::Sleep;

use super::Shared;
use crate::broker::Arrival;
use crate::broker::Source;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;

/// The shell around one reader of the core.
///
/// Dropped without [`poll_close`](Source::poll_close) it is a connection that broke.
pub(super) struct MemorySource {
    shared: Arc<Shared>,
    reader: usize,
    /// Settlements on their way, the first said first.
    held: VecDeque<(u32, Token, Disposition)>,
    /// When it connected, as far as anyone must know.
    connected: Option<Instant>,
    /// When it connects again, since its window is full of what only a resumed session gives.
    again: Option<Pin<Box<Sleep>>>,
}

impl MemorySource {
    pub(super) fn new(shared: Arc<Shared>, reader: usize) -> Self {
        Self {
            shared,
            reader,
            held: VecDeque::new(),
            connected: None,
            again: None,
        }
    }

    fn settle_now(&self, token: &Token, how: Disposition) -> Result<(), AckError> {
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.settle(self.reader, token, how, now)
        })
    }

    /// Connect again when a connection has lived a minute and is of no more use (spec C15).
    #[cold]
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        if tokio::runtime::Handle::try_current().is_err() {
            // Polled by hand, as in a test: there are no timers.
            return Poll::Pending;
        }
        let connected = *self.connected.get_or_insert_with(now);
        let again = self
            .again
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(connected + STUCK_FOR)));
        if again.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.again = None;
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.lose(self.reader, STUCK, now);
        });
        self.poll_next(cx)
    }
}

/// How long a connection lives at least.
const STUCK_FOR: Duration = Duration::from_mins(1);

/// Why a connection is given up.
const STUCK: &str =
    "every delivery of the window was left unsettled, the session resumes to hand them out again";

impl Source for MemorySource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let mut state = self.shared.lock();
        let now = self.shared.now_if_timed(&state);
        let arrival = state.poll(self.reader, now, cx.waker());
        if let Poll::Ready(Arrival::Delivery(_)) = arrival {
            Shared::unlock(state);
            return arrival;
        }
        let is_stuck = state.is_stuck(self.reader);
        Shared::unlock(state);
        if let Poll::Ready(Arrival::Connected { .. }) = arrival {
            self.connected = Some(self::now());
        }
        if arrival.is_pending() && is_stuck {
            return self.poll_again(cx);
        }
        self.again = None;
        arrival
    }

    fn settle(
        &mut self,
        token: Token,
        how: Disposition,
        ticket: u32,
    ) -> Poll<Result<(), AckError>> {
        let mut state = self.shared.lock();
        if state.faults.is_some() && state.holds_settlements(self.reader) {
            self.held.push_back((ticket, token, how));
            return Poll::Pending;
        }
        let now = self.shared.now_if_timed(&state);
        let result = state.settle(self.reader, &token, how, now);
        Shared::unlock(state);
        Poll::Ready(result)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)> {
        if self.held.is_empty() {
            return Poll::Pending;
        }
        let are_held = self.shared.with(|state| {
            let are_held = state.holds_settlements(self.reader);
            if are_held && let Some(consumer) = state.consumers[self.reader].as_mut() {
                consumer.settling_waker = Some(cx.waker().clone());
            }
            are_held
        });
        if are_held {
            return Poll::Pending;
        }
        match self.held.pop_front() {
            Some((ticket, token, how)) => Poll::Ready((ticket, self.settle_now(&token, how))),
            None => Poll::Pending,
        }
    }

    fn leave(&mut self, token: Token) {
        self.shared.with(|state| state.leave(self.reader, &token));
    }

    fn set_window(&mut self, window: u32) {
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.set_window(self.reader, window, now);
        });
    }

    fn stop(&mut self) {
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.stop(self.reader, now);
        });
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.close(self.reader, now);
        });
        Poll::Ready(())
    }
}

impl Drop for MemorySource {
    fn drop(&mut self) {
        self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.forget(self.reader, now);
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the driver's supervisor decides when to connect again"
)]
fn now() -> Instant {
    Instant::now()
}
