//! One connection at the socket: bytes in, bytes out, keep-alive. It decides nothing about messages.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;

use bytes::Buf;
use bytes::BytesMut;
use rumqttc::v5::mqttbytes::v5::Disconnect;
use rumqttc::v5::mqttbytes::v5::DisconnectProperties;
use rumqttc::v5::mqttbytes::v5::DisconnectReasonCode;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::PingReq;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::task::yield_now;
use tokio::time::Instant;
use tokio::time::Sleep;
use tokio::time::sleep_until;
use tokio_util::io::poll_read_buf;

use super::leave;
use super::link::Link;
use super::reasons;
use super::state::State;
use super::subscribe;
use super::wire;
use super::wire::Violation;
use crate::broker::BoxFuture;
use crate::broker::BrokerError;
use crate::net::Stream;
use crate::net::explain;

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum Over {
    /// Nobody needs it any more.
    Closed,
    Lost(BrokerError),
}

/// A connection that the server has taken.
pub(super) struct Connection {
    link: Arc<Link>,
    stream: Box<dyn Stream>,
    inbound: BytesMut,
    outbound: BytesMut,
    /// The longest packet that the server takes.
    longest_outbound: usize,
    /// Packets of one read, handled under one lock.
    packets: Vec<Packet>,
    keep_alive: Duration,
    connected: Instant,
    heard: Instant,
    spoke: Instant,
    /// When the PINGREQ left that has no answer yet, or the first answer to several came.
    pinged: Option<Instant>,
    /// How many of them have no answer.
    pings: u32,
    /// An answer is overdue. Whether it came and was not read, because something kept the thread, is
    /// known when the runtime has looked at its sockets.
    doubt: Option<Doubt>,
    /// When a SUBSCRIBE was sent that has no answer yet.
    asked: Option<Instant>,
    /// When refused subscriptions are tried again.
    again: Option<Instant>,
    tries: u32,
    timer: Pin<Box<Sleep>>,
    armed: Option<Instant>,
    /// Whether what was written has not left yet (TLS).
    unflushed: bool,
    /// Its last packet is on its way, and then it is over.
    ending: Option<Ending>,
}

enum Doubt {
    Looking(BoxFuture<'static, ()>),
    Looked,
}

enum Ending {
    Close,
    Fail(BrokerError),
}

impl Connection {
    /// `inbound` is what came after the CONNACK.
    pub(super) fn new(
        link: Arc<Link>,
        stream: Box<dyn Stream>,
        inbound: BytesMut,
        keep_alive: Duration,
    ) -> Self {
        let now = now();
        let longest = link.lock().server.limits.packet_size;
        Self {
            longest_outbound: usize::try_from(longest).unwrap_or(usize::MAX),
            link,
            stream,
            inbound,
            outbound: BytesMut::new(),
            packets: Vec::new(),
            keep_alive,
            connected: now,
            heard: now,
            spoke: now,
            pinged: None,
            pings: 0,
            doubt: None,
            asked: None,
            again: None,
            tries: 0,
            timer: Box::pin(sleep_until(now)),
            armed: None,
            unflushed: false,
            ending: None,
        }
    }

    /// Wait until a server that was sent the DISCONNECT closes its end (MQTT 5 section 3.14.4): then it
    /// has read every acknowledgement before it.
    pub(super) async fn shut_down(mut self) {
        let closed = async {
            while self.stream.read_buf(&mut self.inbound).await? > 0 {
                self.inbound.clear();
            }
            Ok::<_, io::Error>(())
        };
        // A server that is gone, or slow, does not keep a stop from its end.
        tokio::time::timeout(LAST_WORD, closed).await.ok();
        tokio::time::timeout(LAST_WORD, self.stream.shutdown())
            .await
            .ok();
    }

    /// Say PINGREQ if nothing was said for long, because the task that should does not come to it.
    /// Returns whether anything was said.
    pub(super) fn speak_for_task(&mut self) -> bool {
        let now = now();
        // The task itself speaks sooner, and the server waits longer (MQTT 5 section 3.1.2.10).
        if self.ending.is_some() || self.spoke + self.keep_alive * 17 / 16 > now {
            return false;
        }
        if self.outbound.is_empty() {
            self.ping(now);
        }
        let mut cx = Context::from_waker(Waker::noop());
        // Whatever is wrong with the socket, the task finds it too.
        self.write(&mut cx, now)
            .is_ok_and(|has_written| has_written)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        self.link.io().register(cx.waker());
        for _ in 0..ROUNDS {
            let now = now();
            let mut progress = false;
            if self.ending.is_none() {
                match self.read(cx, now) {
                    Ok(has_read) => progress |= has_read,
                    Err(error) => return Poll::Ready(Over::Lost(error)),
                }
            }
            if self.ending.is_none()
                && let Some(over) = self.tend(now, progress)
            {
                return Poll::Ready(over);
            }
            match self.write(cx, now) {
                Ok(has_written) => progress |= has_written,
                Err(error) => return Poll::Ready(self.over(Some(error))),
            }
            if self.ending.is_some() && self.outbound.is_empty() && self.flush(cx).is_ready() {
                return Poll::Ready(self.over(None));
            }
            if !progress && self.poll_timer(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn over(&mut self, error: Option<BrokerError>) -> Over {
        match (self.ending.take(), error) {
            (Some(Ending::Close), _) | (None, None) => Over::Closed,
            (Some(Ending::Fail(error)), _) | (None, Some(error)) => Over::Lost(error),
        }
    }

    /// Read what is there and handle it. Whether there was anything.
    fn read(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<bool, BrokerError> {
        // What came with the CONNACK is there already.
        let mut has_read = self.handle_inbound(now)?;
        if self.ending.is_some() {
            return Ok(true);
        }
        // A new buffer for every few messages, and not for every one: payloads are parts of it.
        if self.inbound.capacity() - self.inbound.len() < READ_AT_LEAST {
            self.inbound.reserve(READ_AT_ONCE);
        }
        match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.inbound) {
            Poll::Ready(Ok(0)) => {
                let end = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(explain(&end, &self.link.settings.endpoint));
            }
            Poll::Ready(Ok(_)) => {
                self.heard = now;
                has_read = true;
                self.handle_inbound(now)?;
            }
            Poll::Ready(Err(error)) => return Err(explain(&error, &self.link.settings.endpoint)),
            Poll::Pending => {}
        }
        Ok(has_read)
    }

    /// Handle every whole packet that was read, under one lock.
    fn handle_inbound(&mut self, now: Instant) -> Result<bool, BrokerError> {
        let longest = self.link.settings.max_packet_size;
        let violation = loop {
            match wire::read(&mut self.inbound, longest) {
                Ok(Some(packet)) => self.packets.push(packet),
                Ok(None) => break None,
                Err(violation) => break Some(violation),
            }
        };
        let has_any = !self.packets.is_empty();
        let handled = if has_any { self.handle(now)? } else { Ok(()) };
        if let Some(violation) = handled.err().or(violation) {
            self.end_with(&violation);
        }
        Ok(has_any)
    }

    fn handle(&mut self, now: Instant) -> Result<Result<(), Violation>, BrokerError> {
        let link = Arc::clone(&self.link);
        let mut state = link.lock();
        for packet in self.packets.drain(..) {
            let handled = match packet {
                Packet::PingResp(_) => {
                    self.pings = self.pings.saturating_sub(1);
                    self.pinged = (self.pings > 0).then_some(now);
                    if self.pinged.is_none() {
                        leave::handle_pingresp(&mut state);
                    }
                    Ok(())
                }
                Packet::SubAck(suback) => {
                    let refused = subscribe::handle_suback(&mut state, &suback);
                    if state.subscribing.is_empty() {
                        self.asked = None;
                    }
                    if refused && self.again.is_none() {
                        self.again = Some(now + pause(&mut self.tries));
                    }
                    Ok(())
                }
                Packet::UnsubAck(unsuback) => {
                    leave::handle_unsuback(&mut state, unsuback.pkid);
                    Ok(())
                }
                Packet::Disconnect(disconnect) => {
                    return Err(reasons::disconnected(&disconnect, &link.spec.client_id));
                }
                packet => state.handle_packet(packet, || now),
            };
            if handled.is_err() {
                return Ok(handled);
            }
        }
        Ok(Ok(()))
    }

    /// Do what is due, and take what is to be sent.
    fn tend(&mut self, now: Instant, has_read: bool) -> Option<Over> {
        let link = Arc::clone(&self.link);
        let mut state = link.lock();
        if state.is_abandoned {
            return Some(Over::Closed);
        }
        if self.again.is_some_and(|again| again <= now) {
            self.again = None;
            self.ask(&mut state, now);
        }
        let pings = leave::tend(&mut state, self.pinged.is_none());
        state.outbound_send();
        if self.outbound.is_empty() {
            std::mem::swap(&mut self.outbound, &mut state.out);
        } else if !state.out.is_empty() {
            self.outbound.extend_from_slice(&state.out);
            state.out.clear();
        }
        if pings {
            // After every acknowledgement, or its answer would prove nothing.
            self.ping(now);
        }
        if state.is_closing && state.outbound.is_empty() {
            let ends_session = self.link.spec.keeps_session()
                && leave::ends_session(&state)
                && state.is_all_acknowledged();
            self.say_goodbye(
                DisconnectReasonCode::NormalDisconnection,
                None,
                ends_session,
            );
            self.ending = Some(Ending::Close);
            return None;
        }
        if self.is_stuck(&state) && self.connected + STUCK_FOR <= now {
            self.say_goodbye(DisconnectReasonCode::NormalDisconnection, None, false);
            self.ending = Some(Ending::Fail(BrokerError::transient(
                "every delivery of the window was left unsettled, the session resumes to hand them out again",
            )));
            return None;
        }
        drop(state);
        self.keep_alive(now, has_read)
    }

    /// Subscribe what is not subscribed, and tell the others that they receive.
    pub(super) fn subscribe(&mut self) {
        let link = Arc::clone(&self.link);
        let mut state = link.lock();
        let now = now();
        self.ask(&mut state, now);
    }

    fn ask(&mut self, state: &mut State, now: Instant) {
        if subscribe::ask(state, &self.link.spec) {
            self.asked = Some(now);
        }
    }

    /// A session that is resumed hands out again what was left; one that is not would lose it.
    fn is_stuck(&self, state: &State) -> bool {
        self.link.spec.keeps_session() && state.is_stuck()
    }

    fn keep_alive(&mut self, now: Instant, has_read: bool) -> Option<Over> {
        let Some(what) = self.overdue(now) else {
            self.doubt = None;
            if self.pinged.is_none() && self.heard.min(self.spoke) + self.keep_alive <= now {
                self.ping(now);
            }
            return None;
        };
        match self.doubt {
            // The answer may be behind what was read.
            Some(Doubt::Looked) if !has_read => {
                return Some(Over::Lost(BrokerError::transient(what)));
            }
            Some(_) => {}
            // Deferred until the sockets were looked at.
            None => self.doubt = Some(Doubt::Looking(Box::pin(yield_now()))),
        }
        None
    }

    /// What the server should have answered by now.
    fn overdue(&self, now: Instant) -> Option<String> {
        let patience = self.patience();
        if self.pinged.is_some_and(|pinged| pinged + patience <= now) {
            return Some(format!(
                "the server did not answer a PINGREQ for {patience:?}"
            ));
        }
        let patience = self.link.settings.connect_timeout;
        self.asked
            .is_some_and(|asked| asked + patience <= now)
            .then(|| format!("the server did not answer a SUBSCRIBE for {patience:?}"))
    }

    fn ping(&mut self, now: Instant) {
        wire::put(&Packet::PingReq(PingReq), &mut self.outbound);
        self.pinged.get_or_insert(now);
        self.pings = self.pings.saturating_add(1);
    }

    /// How long a PINGREQ may have no answer.
    fn patience(&self) -> Duration {
        self.keep_alive.min(LONGEST_PATIENCE)
    }

    /// The connection cannot go on; the server is told why.
    fn end_with(&mut self, violation: &Violation) {
        self.say_goodbye(violation.code, Some(violation.reason.clone()), false);
        self.ending = Some(Ending::Fail(BrokerError::transient(
            violation.reason.clone(),
        )));
    }

    fn say_goodbye(
        &mut self,
        reason_code: DisconnectReasonCode,
        reason_string: Option<String>,
        ends_session: bool,
    ) {
        // A server is not to be sent more than it takes, for a reason least of all (MQTT 5 section
        // 3.14.2.2.3).
        let longest = self.longest_outbound;
        let fits = |reason: &String| reason.len() + DISCONNECT_WITHOUT_REASON <= longest;
        let reason_string = reason_string.filter(fits);
        let session_expiry_interval = ends_session.then_some(0);
        let properties =
            (ends_session || reason_string.is_some()).then_some(DisconnectProperties {
                session_expiry_interval,
                reason_string,
                user_properties: Vec::new(),
                server_reference: None,
            });
        let packet = Packet::Disconnect(Disconnect {
            reason_code,
            properties,
        });
        wire::put(&packet, &mut self.outbound);
    }

    /// Write what there is. Whether anything could be written.
    fn write(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<bool, BrokerError> {
        let mut has_written = false;
        while !self.outbound.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.outbound) {
                Poll::Ready(Ok(0)) => {
                    let end = io::Error::from(io::ErrorKind::BrokenPipe);
                    return Err(explain(&end, &self.link.settings.endpoint));
                }
                Poll::Ready(Ok(written)) => {
                    self.outbound.advance(written);
                    self.spoke = now;
                    has_written = true;
                }
                Poll::Ready(Err(error)) => {
                    return Err(explain(&error, &self.link.settings.endpoint));
                }
                Poll::Pending => return Ok(has_written),
            }
        }
        if has_written || self.unflushed {
            self.unflushed = match self.flush(cx) {
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => {
                    return Err(explain(&error, &self.link.settings.endpoint));
                }
                Poll::Pending => true,
            };
        }
        Ok(has_written)
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// `Ready` when something is due. The timer is only ever set to an earlier time: what is due
    /// moves on with every packet, and one that fires too early costs less than so many settings.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        if let Some(Doubt::Looking(looking)) = &mut self.doubt {
            return looking.as_mut().poll(cx).map(|()| {
                self.doubt = Some(Doubt::Looked);
            });
        }
        let next = self.next_due();
        if next <= now {
            return Poll::Ready(());
        }
        loop {
            if self.armed.is_none_or(|armed| next < armed) {
                self.armed = Some(next);
                self.timer.as_mut().reset(next);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.armed.take() == Some(next) {
                return Poll::Ready(());
            }
        }
    }

    fn next_due(&self) -> Instant {
        let silence = match self.pinged {
            Some(pinged) => pinged + self.patience(),
            None => self.heard.min(self.spoke) + self.keep_alive,
        };
        let asked = self
            .asked
            .map(|asked| asked + self.link.settings.connect_timeout);
        let stuck = self
            .is_stuck(&self.link.lock())
            .then(|| self.connected + STUCK_FOR);
        [Some(silence), asked, self.again, stuck]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(silence)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("connected", &self.connected)
            .field("pinged", &self.pinged)
            .finish_non_exhaustive()
    }
}

/// How long to wait before refused subscriptions are tried again.
fn pause(tries: &mut u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << (*tries).min(16));
    *tries = tries.saturating_add(1);
    pause.min(LONGEST_PAUSE)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the connection's shell tells the rest what time it is"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Rounds of one poll before the thread's other connections get their turn.
const ROUNDS: usize = 16;
/// Payloads are parts of what was read at once, so this bounds what a small one that is kept can hold.
const READ_AT_ONCE: usize = 16 * 1024;
/// With less room than this a new buffer is begun.
const READ_AT_LEAST: usize = 4 * 1024;
/// How long a connection lives at least that is given up because nothing more comes (spec C15).
const STUCK_FOR: Duration = Duration::from_mins(1);
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);
/// How long each end may take to close.
const LAST_WORD: Duration = Duration::from_millis(750);
/// The bytes of a DISCONNECT beside its reason.
const DISCONNECT_WITHOUT_REASON: usize = 24;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
