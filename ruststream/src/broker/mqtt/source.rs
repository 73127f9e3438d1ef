//! A mount point's reader of its connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;

use super::io::Io;
use super::link::Link;
use super::member::Stage;
use super::state::Line;
use super::state::State;
use crate::broker::Arrival;
use crate::broker::BoxFuture;
use crate::broker::Source;
use crate::delivery::Delivery;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;

/// The side of a connection that the pump has. It takes deliveries and says acknowledgements in
/// groups, so that the lock and the task at the socket cost each of them little.
///
/// Dropped without [`poll_close`](Source::poll_close) it is a connection that broke.
pub(super) struct MqttSource {
    link: Arc<Link>,
    index: usize,
    /// Keeps the tasks of the connections alive.
    io: Option<Arc<Io>>,
    bell: Arc<AtomicBool>,
    /// Taken, and not handed out yet.
    ahead: VecDeque<Delivery>,
    /// Settled, and not said yet.
    said: Vec<Token>,
    /// Handed out or taken, and not settled.
    unsettled: u32,
    closing: Option<BoxFuture<'static, ()>>,
}

impl MqttSource {
    pub(super) fn new(link: Arc<Link>, index: usize, io: Arc<Io>) -> Self {
        let mut source = Self::detached(link, index);
        source.io = Some(io);
        source
    }

    /// One that is itself among the tasks of the connections.
    pub(super) fn detached(link: Arc<Link>, index: usize) -> Self {
        let bell = Arc::clone(&link.lock().members[index].bell);
        Self {
            link,
            index,
            io: None,
            bell,
            ahead: VecDeque::new(),
            said: Vec::new(),
            unsettled: 0,
            closing: None,
        }
    }

    /// Say what was settled.
    fn flush(&mut self) {
        if self.said.is_empty() {
            return;
        }
        let is_new = {
            let mut state = self.link.lock();
            let is_new = state.out.is_empty();
            let epoch = state.epoch;
            let is_up = state.line == Line::Up;
            for token in self.said.drain(..) {
                // It may have become void since it was settled (spec C13).
                if is_up && token.epoch == epoch {
                    state.settle(token.key);
                }
            }
            is_new && !state.out.is_empty()
        };
        if is_new {
            self.link.wake_io();
        }
    }

    /// What happened, then what came.
    fn poll_link_or(&mut self, cx: &mut Context<'_>, takes: bool) -> Poll<Arrival> {
        let mut state = self.link.lock();
        let is_fenced = matches!(
            state.members[self.index].stage,
            Stage::Unsubscribing(_) | Stage::Draining(_)
        );
        let window = self.link.spec.members[self.index].window;
        let member = &mut state.members[self.index];
        if let Some(event) = member.next_event() {
            if let Arrival::Disconnected(_) = event {
                self.unsettled = 0;
                self.ahead.retain(|delivery| delivery.token.is_none());
            }
            return Poll::Ready(event);
        }
        if takes && member.is_connected {
            let room = window.saturating_sub(self.unsettled);
            self.unsettled += member.take(&mut self.ahead, room);
            if let Some(delivery) = self.ahead.pop_front() {
                return Poll::Ready(Arrival::Delivery(delivery));
            }
        }
        if member.stage == Stage::Ended && member.is_empty() {
            return Poll::Ready(Arrival::Ended);
        }
        match &member.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => member.waker = Some(cx.waker().clone()),
        }
        drop(state);
        if is_fenced {
            // It asks the server whether there is more, once everything is acknowledged.
            self.link.wake_io();
        }
        Poll::Pending
    }
}

impl Source for MqttSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        if !self.bell.load(Ordering::Relaxed)
            && let Some(delivery) = self.ahead.pop_front()
        {
            return Poll::Ready(Arrival::Delivery(delivery));
        }
        self.flush();
        self.poll_link_or(cx, true)
    }

    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        self.poll_link_or(cx, false)
    }

    fn settle(
        &mut self,
        token: Token,
        how: Disposition,
        ticket: u32,
    ) -> Poll<Result<(), AckError>> {
        let _ = ticket;
        if token.epoch != self.link.epoch() {
            return Poll::Ready(Err(AckError::Stale));
        }
        match how {
            // MQTT knows one answer (spec M14).
            Disposition::Accept | Disposition::Reject => {
                self.unsettled = self.unsettled.saturating_sub(1);
                self.said.push(token);
                Poll::Ready(Ok(()))
            }
            Disposition::Return | Disposition::Release => Poll::Ready(Err(AckError::Unsupported)),
        }
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)> {
        let _ = cx;
        self.flush();
        Poll::Pending
    }

    fn leave(&mut self, token: Token) {
        self.flush();
        {
            let mut state = self.link.lock();
            if state.line == Line::Up && token.epoch == state.epoch {
                state.leave(self.index, token.key);
            }
        }
        self.link.wake_io();
    }

    fn set_window(&mut self, window: u32) {
        // The receive maximum is of the connection, and nobody counts here (spec C24).
        let _ = window;
    }

    fn stop(&mut self) {
        self.flush();
        {
            let mut state = self.link.lock();
            let keeps = self.link.spec.keeps_session();
            let is_up = state.line == Line::Up;
            let member = &mut state.members[self.index];
            let comes_again = keeps && member.spec.group.is_none();
            if comes_again || !is_up {
                member.stage = Stage::Ended;
                let mut keys = member.give_back();
                self.ahead.retain(|delivery| match &delivery.token {
                    Some(token) => {
                        keys.push(token.key);
                        false
                    }
                    None => true,
                });
                for key in keys {
                    state.leave(self.index, key);
                }
            } else {
                member.stage = Stage::Unsubscribing(None);
            }
            let State { members, wakes, .. } = &mut *state;
            members[self.index].ring(wakes);
        }
        self.link.wake_io();
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.flush();
        let closing = self.closing.get_or_insert_with(|| {
            close(&self.link, self.index);
            let link = Arc::clone(&self.link);
            Box::pin(async move { link.ended().await })
        });
        // A connection that others still need is not waited for.
        if !self.link.lock().is_closing {
            return Poll::Ready(());
        }
        Pin::new(closing).poll(cx)
    }
}

impl Drop for MqttSource {
    fn drop(&mut self) {
        if self.closing.is_none() {
            self.link.lock().is_abandoned = true;
            close(&self.link, self.index);
        }
    }
}

/// A mount point needs its connection no more. The last one takes it down.
fn close(link: &Link, index: usize) {
    {
        let mut state = link.lock();
        state.members[index].stage = Stage::Closed;
        let is_last = state
            .members
            .iter()
            .all(|member| member.stage == Stage::Closed);
        // The one that is published on closes with the broker.
        state.is_closing = is_last && !link.spec.publishes;
    }
    link.wake_io();
}

#[cfg(test)]
mod tests;
