//! What one connection knows: its mount points, what came for them, and what the server waits for.
//!
//! Pure but for the wakers: packets go in, bytes to send come out, time is an argument. The task at
//! the socket and the mount points' sources share it under a lock that is never held for long.

use std::collections::HashMap;
use std::collections::HashSet;
use std::task::Waker;

use bytes::BytesMut;
use bytestring::ByteString;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::DisconnectReasonCode;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::Publish;
use tokio::time::Instant;

use super::convert;
use super::member::Member;
use super::member::Stage;
use super::outbound::Limits;
use super::outbound::Outbound;
use super::reasons;
use super::spec::Spec;
use super::unacked::Ack;
use super::unacked::Unacked;
use super::wire;
use super::wire::Violation;
use crate::address;
use crate::broker::Arrival;
use crate::broker::BrokerError;
use crate::delivery::Delivery;
use crate::settle::Token;

/// Wakers of mount points that have something new, to be woken without the lock.
pub(super) type Wakes = Vec<Waker>;

/// The state of one connection, and of the ones after it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) members: Vec<Member>,
    pub(super) outbound: Outbound,
    /// Bytes for the socket.
    pub(super) out: BytesMut,
    pub(super) line: Line,
    pub(super) server: Server,
    /// Counts connections; tokens carry it (spec C13).
    pub(super) epoch: u32,
    pub(super) wakes: Wakes,
    /// Whether nobody needs the connection any more.
    pub(super) is_closing: bool,
    /// Whether the connection is to break rather than to end.
    pub(super) is_abandoned: bool,
    /// SUBSCRIBE packets without an answer, and whom they are for.
    pub(super) subscribing: HashMap<u16, Vec<usize>>,
    unacked: Unacked,
    /// Packet ids whose PUBREC has left and whose PUBREL has not come (MQTT 5 section 4.3.3).
    received: HashSet<u16>,
    aliases: HashMap<u16, ByteString>,
    routes: Routes,
    /// More than the server may send at once.
    most_unacked: usize,
    /// More than the server may send at once and did (some count by one too few).
    tolerated: usize,
}

/// What a server has, by its CONNACK (MQTT 5 section 3.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) limits: Limits,
    pub(super) shared: bool,
    pub(super) wildcards: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            shared: true,
            wildcards: true,
        }
    }
}

/// Whether there is a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// One is being made.
    Connecting,
    Up,
    /// The last one failed, for this reason; another is made after a pause.
    Down(String),
    /// None will be made any more.
    Closed,
}

/// Which mount point a topic is for.
#[derive(Debug)]
enum Routes {
    /// The only one, if its filter matches.
    One,
    /// By exact topic, then the filters with wildcards.
    Many {
        topics: HashMap<ByteString, usize>,
        filters: Vec<usize>,
    },
}

impl State {
    pub(super) fn new(spec: &Spec) -> Self {
        let members: Vec<_> = spec.members.iter().cloned().map(Member::new).collect();
        let routes = if members.len() <= 1 {
            Routes::One
        } else {
            let (filters, topics): (Vec<_>, Vec<_>) = (0..members.len())
                .partition(|index| address::looks_like_filter(&members[*index].spec.filter));
            let topics = topics
                .into_iter()
                .map(|index| (members[index].spec.filter.clone(), index))
                .collect();
            Routes::Many { topics, filters }
        };
        Self {
            members,
            outbound: Outbound::new(spec.keeps_session()),
            out: BytesMut::new(),
            line: Line::Connecting,
            server: Server::default(),
            epoch: 0,
            wakes: Wakes::new(),
            is_closing: false,
            is_abandoned: false,
            subscribing: HashMap::new(),
            unacked: Unacked::default(),
            received: HashSet::new(),
            aliases: HashMap::new(),
            routes,
            most_unacked: usize::from(spec.receive_maximum),
            tolerated: 0,
        }
    }

    /// The server took the connection.
    pub(super) fn handle_connected(&mut self, server: Server, session_present: bool) {
        self.server = server;
        self.epoch = self.epoch.wrapping_add(1).max(1);
        self.line = Line::Up;
        self.out.clear();
        if !session_present {
            self.received.clear();
            for member in &mut self.members {
                member.is_subscribed = false;
            }
        }
        self.outbound
            .handle_connected(server.limits, session_present, &mut self.out);
        self.outbound.send(&mut self.out);
    }

    /// The connection is gone, or could not be made.
    pub(super) fn handle_disconnected(&mut self, error: &BrokerError) {
        self.line = Line::Down(error.reason.clone());
        self.out.clear();
        self.unacked.clear();
        self.aliases.clear();
        self.subscribing.clear();
        self.tolerated = 0;
        self.outbound.handle_disconnected(&error.reason);
        let Self { members, wakes, .. } = self;
        for member in members {
            member.handle_disconnected(error, wakes);
        }
    }

    /// A packet came. PINGRESP is none of its business.
    ///
    /// # Errors
    ///
    /// The connection cannot go on.
    pub(super) fn handle_packet(
        &mut self,
        packet: Packet,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Violation> {
        match packet {
            Packet::Publish(publish) => return self.handle_publish(publish, now),
            Packet::PubAck(puback) => {
                let answer = reasons::acknowledged(&puback);
                if !self.outbound.handle_puback(puback.pkid, answer) {
                    return Err(Violation::protocol(
                        "the server acknowledged a message that was not sent",
                    ));
                }
                self.outbound.send(&mut self.out);
            }
            Packet::PubRec(pubrec) => {
                let answer = reasons::received(&pubrec);
                self.outbound
                    .handle_pubrec(pubrec.pkid, answer, &mut self.out);
                self.outbound.send(&mut self.out);
            }
            Packet::PubComp(pubcomp) => {
                self.outbound.handle_pubcomp(pubcomp.pkid);
                self.outbound.send(&mut self.out);
            }
            Packet::PubRel(pubrel) => {
                // One that an earlier process received is finished all the same, or the server
                // would say it again on every connection.
                self.received.remove(&pubrel.pkid);
                wire::put_pubcomp(pubrel.pkid, &mut self.out);
            }
            Packet::ConnAck(_) => {
                return Err(Violation::protocol("the server sent a second CONNACK"));
            }
            _ => {}
        }
        Ok(())
    }

    fn handle_publish(
        &mut self,
        mut publish: Publish,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Violation> {
        let topic = self.topic(&mut publish)?;
        let Publish {
            qos,
            pkid,
            dup,
            retain,
            ..
        } = publish;
        if qos == QoS::ExactlyOnce && dup && self.received.contains(&pkid) {
            // It was handled; only the acknowledgement did not arrive.
            wire::put_pubrec(pkid, &mut self.out);
            return Ok(());
        }
        let index = self.route(&topic);
        if qos == QoS::AtMostOnce {
            let Some(member) = index.and_then(|index| self.members.get_mut(index)) else {
                self.unmatched();
                return Ok(());
            };
            if member.has_room_for_unconfirmed() {
                let native = convert::native(topic, publish, now);
                let delivery = Delivery::new(native, None)
                    .with_redelivered(dup)
                    .with_retained(retain);
                member.push(delivery, &mut self.wakes);
            } else {
                member.overflowed(&mut self.wakes);
            }
            return Ok(());
        }
        let ack = Ack {
            packet_id: pkid,
            is_exactly_once: qos == QoS::ExactlyOnce,
        };
        if self.unacked.len() >= self.most_unacked {
            self.tolerated += 1;
            if self.tolerated > self.most_unacked + TOLERANCE {
                return Err(Violation {
                    code: DisconnectReasonCode::ReceiveMaximumExceeded,
                    reason: format!(
                        "the server sent more than {} messages without an acknowledgement, which is the receive maximum that \
                         it was told",
                        self.most_unacked
                    ),
                });
            }
        }
        let Some(member) = index.and_then(|index| self.members.get_mut(index)) else {
            let key = self
                .unacked
                .arrived(ack, usize::MAX, crate::registration::AckOrder::Arrival);
            self.settle(key);
            self.unmatched();
            return Ok(());
        };
        let order = member.spec.order;
        let at = index.unwrap_or_default();
        let takes = member.takes();
        let key = self.unacked.arrived(ack, at, order);
        if !takes {
            // It comes again when the session resumes, and keeps nobody waiting until then.
            self.leave(at, key);
            return Ok(());
        }
        let Some(member) = self.members.get_mut(at) else {
            return Ok(());
        };
        let token = Token {
            epoch: self.epoch,
            key,
        };
        let native = convert::native(topic, publish, now);
        let delivery = Delivery::new(native, Some(token))
            .with_redelivered(dup)
            .with_retained(retain);
        member.push(delivery, &mut self.wakes);
        Ok(())
    }

    /// The topic, which an alias may stand for (MQTT 5 section 3.3.2.3.4).
    fn topic(&mut self, publish: &mut Publish) -> Result<ByteString, Violation> {
        let topic = ByteString::try_from(std::mem::take(&mut publish.topic))
            .map_err(|_| Violation::malformed("the topic of a PUBLISH is not UTF-8"))?;
        let alias = publish
            .properties
            .as_mut()
            .and_then(|properties| properties.topic_alias.take());
        let Some(alias) = alias else {
            if topic.is_empty() {
                return Err(Violation::protocol("a PUBLISH has neither topic nor alias"));
            }
            return Ok(topic);
        };
        if alias == 0 || alias > TOPIC_ALIASES {
            return Err(Violation {
                code: DisconnectReasonCode::TopicAliasInvalid,
                reason: format!(
                    "the server used the topic alias {alias}, allowed are 1 to {TOPIC_ALIASES}"
                ),
            });
        }
        if topic.is_empty() {
            return self.aliases.get(&alias).cloned().ok_or_else(|| {
                Violation::protocol("the server used a topic alias that it had not explained")
            });
        }
        self.aliases.insert(alias, topic.clone());
        Ok(topic)
    }

    fn route(&self, topic: &str) -> Option<usize> {
        let matches = |index: &usize| address::matches(&self.members[*index].spec.filter, topic);
        match &self.routes {
            Routes::One => (!self.members.is_empty()).then_some(0).filter(matches),
            Routes::Many { topics, filters } => topics
                .get(topic)
                .copied()
                .or_else(|| filters.iter().copied().find(matches)),
        }
    }

    fn unmatched(&mut self) {
        let Self { members, wakes, .. } = self;
        if let Some(member) = members.first_mut() {
            member.unmatched(wakes);
        }
    }

    /// A delivery is acknowledged as soon as its turn comes. Whether there was one to acknowledge.
    pub(super) fn settle(&mut self, key: u64) -> bool {
        let Self {
            unacked,
            out,
            received,
            ..
        } = self;
        unacked.settle(key, |ack| acknowledge(ack, out, received))
    }

    /// A delivery is left without a word, as long as the connection lives.
    pub(super) fn leave(&mut self, index: usize, key: u64) {
        let Self {
            unacked,
            out,
            received,
            members,
            ..
        } = self;
        if unacked.leave(key, |ack| acknowledge(ack, out, received))
            && let Some(member) = members.get_mut(index)
        {
            member.left += 1;
        }
    }

    /// Deliveries of a mount point that its handlers may still settle.
    pub(super) fn open(&self, index: usize) -> usize {
        self.unacked.open(index)
    }

    /// Whether the server waits for no acknowledgement.
    pub(super) fn is_all_acknowledged(&self) -> bool {
        self.unacked.len() == 0 && self.members.iter().all(|member| member.left == 0)
    }

    /// Whether some mount point gets nothing more, because it left all that it may have at once.
    pub(super) fn is_stuck(&self) -> bool {
        self.members.iter().any(|member| {
            member.stage == Stage::Receiving && member.left >= member.spec.window.max(1)
        })
    }

    /// Append the publishes that the server takes now.
    pub(super) fn outbound_send(&mut self) {
        self.outbound.send(&mut self.out);
    }

    /// Tell a mount point what happened.
    pub(super) fn tell(&mut self, index: usize, arrival: Arrival) {
        let Self { members, wakes, .. } = self;
        if let Some(member) = members.get_mut(index) {
            member.tell(arrival, wakes);
        }
    }
}

fn acknowledge(ack: Ack, out: &mut BytesMut, received: &mut HashSet<u16>) {
    if ack.is_exactly_once {
        received.insert(ack.packet_id);
        wire::put_pubrec(ack.packet_id, out);
    } else {
        wire::put_puback(ack.packet_id, out);
    }
}

/// Topic aliases that the server may use: what it costs is a topic each.
pub(super) const TOPIC_ALIASES: u16 = 64;
/// Some servers count one too few after an acknowledgement out of order.
const TOLERANCE: usize = 16;
