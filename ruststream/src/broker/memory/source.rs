//! A mount point's reader of the embedded broker.

use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use super::Shared;
use super::link::Given;
use super::link::Told;
use crate::broker::Arrival;
use crate::broker::BrokerError;
use crate::broker::Source;
use crate::delivery::Delivery;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;

/// The shell around one reader of the core.
///
/// Dropped without [`poll_close`](Source::poll_close) it is a connection that broke.
pub(super) struct MemorySource {
    shared: Arc<Shared>,
    reader: usize,
}

impl MemorySource {
    pub(super) fn new(shared: Arc<Shared>, reader: usize) -> Self {
        Self { shared, reader }
    }
}

impl Source for MemorySource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        let told = self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.poll(self.reader, now, cx.waker())
        });
        told.map(|told| match told {
            Told::Delivery(given) => Arrival::Delivery(delivery(given)),
            Told::Connected(epoch) => Arrival::Connected { epoch },
            Told::Disconnected(why) => Arrival::Disconnected(BrokerError::transient(why)),
            Told::Ended => Arrival::Ended,
        })
    }

    fn settle(
        &mut self,
        token: Token,
        how: Disposition,
        ticket: u32,
    ) -> Poll<Result<(), AckError>> {
        // Nothing is on its way for long here: the ticket is not needed.
        let _ = ticket;
        Poll::Ready(self.shared.with(|state| {
            let now = self.shared.now_if_timed(state);
            state.settle(self.reader, &token, how, now)
        }))
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)> {
        let _ = cx;
        Poll::Pending
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

fn delivery(given: Given) -> Delivery {
    Delivery::new(given.native, given.token)
        .with_count(given.count)
        .with_redelivered(given.redelivered)
        .with_retained(given.retained)
}
