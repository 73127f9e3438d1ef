//! Our own publishes of one connection: packet ids, the server's limits, and who waits for what the
//! server says. Pure.
//!
//! ```text
//!             limit reached          PUBACK
//!   publish ──> waiting ──> sent ──────────────> told
//!                            │  PUBREC   PUBCOMP
//!                            └──> released ────> told
//! ```

use std::collections::BTreeMap;
use std::collections::VecDeque;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::Publish;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::wire;
use crate::broker::PublishError;
use crate::broker::Published;

/// What the server said, or that the connection broke first.
pub(super) type Answer = Result<Published, PublishError>;

/// What a server takes, by its CONNACK (MQTT 5 section 3.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Messages at quality of service 1 or 2 that it takes at once.
    pub(super) receive_maximum: u16,
    pub(super) packet_size: u32,
    pub(super) qos: QoS,
    pub(super) retain: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            receive_maximum: u16::MAX,
            packet_size: wire::LONGEST,
            qos: QoS::ExactlyOnce,
            retain: true,
        }
    }
}

/// The publishes of a connection that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    limits: Limits,
    /// By the order in which they left, which is the order in which they are sent again.
    sent: BTreeMap<u64, Sent>,
    /// The place in `sent` of each packet id in use.
    ids: BTreeMap<u16, u64>,
    waiting: VecDeque<Waiting>,
    next: u64,
    last_id: u16,
    /// Whether what has no answer is kept for the next connection, because the session goes on there.
    keeps: bool,
}

#[derive(Debug)]
struct Sent {
    packet_id: u16,
    answer: Option<oneshot::Sender<Answer>>,
    /// Kept while it may have to be sent again.
    publish: Option<Publish>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Published,
    /// The server has it; the rest of the handshake follows (MQTT 5 section 4.3.3).
    Released(Published),
}

#[derive(Debug)]
struct Waiting {
    publish: Publish,
    answer: oneshot::Sender<Answer>,
    since: Instant,
}

impl Outbound {
    /// A connection whose session may go on after it, when `keeps`.
    pub(super) fn new(keeps: bool) -> Self {
        Self {
            keeps,
            ..Self::default()
        }
    }

    /// A message is to be published. What can be sent is sent by the next [`send`](Self::send).
    pub(super) fn publish(&mut self, publish: Publish, now: Instant) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        self.waiting.push_back(Waiting {
            publish,
            answer,
            since: now,
        });
        receiver
    }

    /// Append what the server takes now.
    pub(super) fn send(&mut self, out: &mut BytesMut) {
        while self.ids.len() < usize::from(self.limits.receive_maximum).min(MOST_IN_FLIGHT)
            && out.len() < MOST_BUFFERED
        {
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            let Waiting {
                mut publish,
                answer,
                ..
            } = waiting;
            if let Err(error) = self.fit(&mut publish) {
                tell(Some(answer), Err(error));
                continue;
            }
            publish.pkid = self.free_id();
            let packet_id = publish.pkid;
            let packet = Packet::Publish(publish);
            if let Err(error) = wire::write(&packet, out) {
                tell(
                    Some(answer),
                    Err(PublishError::permanent(error.to_string())),
                );
                continue;
            }
            let Packet::Publish(publish) = packet else {
                return;
            };
            self.ids.insert(packet_id, self.next);
            self.sent.insert(
                self.next,
                Sent {
                    packet_id,
                    answer: Some(answer),
                    publish: self.keeps.then_some(publish),
                    stage: Stage::Published,
                },
            );
            self.next += 1;
        }
    }

    /// Make a message fit what the server takes, or say why it cannot.
    fn fit(&self, publish: &mut Publish) -> Result<(), PublishError> {
        if publish.qos as u8 > self.limits.qos as u8 {
            publish.qos = self.limits.qos;
        }
        if publish.qos == QoS::AtMostOnce {
            return Err(PublishError::permanent(
                "the server takes messages at QoS 0 only, which it does not confirm",
            ));
        }
        if publish.retain && !self.limits.retain {
            return Err(PublishError::permanent(
                "the server does not keep retained messages",
            ));
        }
        // As long as it will be: the packet id takes its place in the size only when it is there.
        publish.pkid = u16::MAX;
        let size = publish.size();
        if size > self.limits.packet_size as usize {
            return Err(PublishError::permanent(format!(
                "the message is {size} bytes long as an MQTT packet, the server takes {} at most",
                self.limits.packet_size
            )));
        }
        Ok(())
    }

    /// A packet id that nothing uses, for whatever needs one.
    pub(super) fn free_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.wrapping_add(1).max(1);
            if !self.ids.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    /// PUBACK: the server's word on a message at quality of service 1. Returns whether it was asked for.
    pub(super) fn handle_puback(&mut self, packet_id: u16, answer: Answer) -> bool {
        match self.stage(packet_id) {
            Some(Stage::Published) => {
                self.tell(packet_id, answer);
                true
            }
            _ => false,
        }
    }

    /// PUBREC: the server's word on a message at quality of service 2. Appends what goes back.
    pub(super) fn handle_pubrec(&mut self, packet_id: u16, answer: Answer, out: &mut BytesMut) {
        match (self.stage(packet_id), answer) {
            (Some(Stage::Published), Err(error)) => self.tell(packet_id, Err(error)),
            (Some(Stage::Published), Ok(published)) => {
                if let Some(sent) = self.sent_mut(packet_id) {
                    sent.stage = Stage::Released(published);
                    sent.publish = None;
                }
                wire::put_pubrel(packet_id, out);
            }
            // Said again, or for what this process knows nothing of: the handshake is finished.
            _ => wire::put_pubrel(packet_id, out),
        }
    }

    /// PUBCOMP: the handshake is over.
    pub(super) fn handle_pubcomp(&mut self, packet_id: u16) {
        if let Some(Stage::Released(published)) = self.stage(packet_id) {
            self.tell(packet_id, Ok(published));
        }
    }

    /// A connection is there. What the session still has is sent again, in its order (MQTT 5
    /// section 4.4); without the session nobody knows what became of it.
    pub(super) fn handle_connected(
        &mut self,
        limits: Limits,
        session_present: bool,
        out: &mut BytesMut,
    ) {
        self.limits = limits;
        if !session_present {
            self.fail_sent("the server no longer has the session in which it was published");
            return;
        }
        for sent in self.sent.values_mut() {
            match (&mut sent.publish, sent.stage) {
                (Some(publish), Stage::Published) => {
                    publish.dup = true;
                    let packet = Packet::Publish(publish.clone());
                    wire::write(&packet, out).expect("it was written before");
                }
                _ => wire::put_pubrel(sent.packet_id, out),
            }
        }
    }

    /// The connection is gone.
    pub(super) fn handle_disconnected(&mut self, why: &str) {
        if self.keeps {
            // They are sent again when the session resumes, but nobody waits for so long.
            for sent in self.sent.values_mut() {
                tell(sent.answer.take(), Err(unanswered(why)));
            }
        } else {
            self.fail_sent(why);
        }
    }

    fn fail_sent(&mut self, why: &str) {
        self.ids.clear();
        for sent in std::mem::take(&mut self.sent).into_values() {
            tell(sent.answer, Err(unanswered(why)));
        }
    }

    /// There is no connection: messages that have waited since before `until` fail.
    pub(super) fn fail_waiting(&mut self, why: &str, until: Option<Instant>) {
        while let Some(waiting) = self
            .waiting
            .pop_front_if(|waiting| until.is_none_or(|until| waiting.since <= until))
        {
            let reason = format!("not connected: {why}");
            tell(Some(waiting.answer), Err(PublishError::transient(reason)));
        }
    }

    /// Whether nothing waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    fn stage(&self, packet_id: u16) -> Option<Stage> {
        let at = self.ids.get(&packet_id)?;
        self.sent.get(at).map(|sent| sent.stage)
    }

    fn sent_mut(&mut self, packet_id: u16) -> Option<&mut Sent> {
        let at = self.ids.get(&packet_id)?;
        self.sent.get_mut(at)
    }

    fn tell(&mut self, packet_id: u16, answer: Answer) {
        let sent = self
            .ids
            .remove(&packet_id)
            .and_then(|at| self.sent.remove(&at));
        if let Some(sent) = sent {
            tell(sent.answer, answer);
        }
    }
}

fn tell(waiter: Option<oneshot::Sender<Answer>>, answer: Answer) {
    if let Some(waiter) = waiter {
        // Whoever published may have stopped waiting.
        waiter.send(answer).ok();
    }
}

/// A publish whose fate is not known.
fn unanswered(why: &str) -> PublishError {
    PublishError::transient(format!(
        "the connection ended before the server confirmed it: {why}"
    ))
}

/// Bounds what is encoded ahead of the socket, in bytes.
const MOST_BUFFERED: usize = 256 * 1024;
/// Messages that are unconfirmed at once, whatever a server would take: ids stay quick to find, and
/// some are left for other packets.
const MOST_IN_FLIGHT: usize = 16_384;
