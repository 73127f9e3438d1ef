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
use super::ahead::Ahead;
use super::ahead::Signal;
use super::entry::Moment;
use super::state::State;
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
    /// What it does without the lock.
    ahead: Ahead,
    /// Settlements on their way, the first said first.
    held: VecDeque<(u32, Token, Disposition)>,
    /// When it connected, as far as anyone must know.
    connected: Option<Instant>,
    /// When it connects again, since its window is full of what only a resumed session gives.
    again: Option<Pin<Box<Sleep>>>,
}

impl MemorySource {
    pub(super) fn new(shared: Arc<Shared>, reader: usize, signal: Arc<Signal>) -> Self {
        Self {
            shared,
            reader,
            ahead: Ahead::new(signal),
            held: VecDeque::new(),
            connected: None,
            again: None,
        }
    }

    fn settle_now(&mut self, token: &Token, how: Disposition) -> Result<(), AckError> {
        self.say(|state, reader, now| state.settle(reader, token, how, now))
    }

    /// Say something to the broker, after what was collected.
    fn say<R>(&mut self, word: impl FnOnce(&mut State, usize, Moment) -> R) -> R {
        let Self {
            shared,
            reader,
            ahead,
            ..
        } = self;
        shared.with(|state| {
            let now = shared.now_if_timed(state);
            ahead.tell(state, *reader, now);
            word(state, *reader, now)
        })
    }

    /// Say something that concerns what was not handed out: all of it is at the broker then.
    fn give_back_and_say(&mut self, word: impl FnOnce(&mut State, usize, Moment)) {
        let Self {
            shared,
            reader,
            ahead,
            ..
        } = self;
        shared.with(|state| {
            let now = shared.now_if_timed(state);
            ahead.give_back(state, *reader, now);
            word(state, *reader, now);
        });
    }

    /// Ask the broker for what happens next, and take what else waits there.
    fn poll_broker(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let mut state = self.shared.lock();
        let now = self.shared.now_if_timed(&state);
        self.ahead.give_back(&mut state, self.reader, now);
        let arrival = state.poll(self.reader, now, cx.waker());
        if let Poll::Ready(Arrival::Delivery(_)) = arrival {
            self.ahead.take(&mut state, self.reader);
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

    fn settle_at_broker(
        &mut self,
        token: Token,
        how: Disposition,
        ticket: u32,
    ) -> Poll<Result<(), AckError>> {
        let mut state = self.shared.lock();
        let now = self.shared.now_if_timed(&state);
        self.ahead.tell(&mut state, self.reader, now);
        if state.faults.is_some() && state.holds_settlements(self.reader) {
            self.held.push_back((ticket, token, how));
            return Poll::Pending;
        }
        let result = state.settle(self.reader, &token, how, now);
        Shared::unlock(state);
        Poll::Ready(result)
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
    #[inline]
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        match self.ahead.next() {
            Some(delivery) => Poll::Ready(Arrival::Delivery(delivery)),
            None => self.poll_broker(cx),
        }
    }

    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let arrival = self.say(|state, reader, now| state.poll_link(reader, now, cx.waker()));
        if let Poll::Ready(Arrival::Connected { .. }) = arrival {
            self.connected = Some(now());
        }
        arrival
    }

    #[inline]
    fn settle(
        &mut self,
        token: Token,
        how: Disposition,
        ticket: u32,
    ) -> Poll<Result<(), AckError>> {
        if how == Disposition::Accept && self.ahead.accept(&token) {
            return Poll::Ready(Ok(()));
        }
        self.settle_at_broker(token, how, ticket)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)> {
        if self.ahead.has_accepted() {
            self.say(|_, _, _| ());
        }
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
        self.say(|state, reader, _| state.leave(reader, &token));
    }

    fn set_window(&mut self, window: u32) {
        self.give_back_and_say(|state, reader, now| state.set_window(reader, window, now));
    }

    fn stop(&mut self) {
        self.give_back_and_say(State::stop);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        self.give_back_and_say(State::close);
        Poll::Ready(())
    }
}

impl Drop for MemorySource {
    fn drop(&mut self) {
        self.give_back_and_say(State::forget);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the driver's supervisor decides when to connect again"
)]
fn now() -> Instant {
    Instant::now()
}
