//! A packet as bytes.
//!
//! The short forms of the standard are taken where they are allowed: an acknowledgement that says
//! success and nothing else is its identifier alone.

use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;

use super::Ack;
use super::Answers;
use super::Connect;
use super::Packet;
use super::Properties;
use super::Property;
use super::Publish;
use super::Reason;
use super::Subscribe;
use super::kind;

impl Packet {
    /// The bytes of the packet, header and all.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut body = BytesMut::new();
        let first = match self {
            Self::Connect(packet) => head(kind::CONNECT, connect(&mut body, packet)),
            Self::ConnAck(packet) => {
                body.put_u8(u8::from(packet.session_present));
                body.put_u8(packet.code);
                properties(&mut body, &packet.properties);
                head(kind::CONNACK, 0)
            }
            Self::Publish(packet) => head(kind::PUBLISH, publish(&mut body, packet)),
            Self::PubAck(packet) => head(kind::PUBACK, ack(&mut body, packet)),
            Self::PubRec(packet) => head(kind::PUBREC, ack(&mut body, packet)),
            Self::PubRel(packet) => head(kind::PUBREL, ack(&mut body, packet) | 2),
            Self::PubComp(packet) => head(kind::PUBCOMP, ack(&mut body, packet)),
            Self::Subscribe(packet) => head(kind::SUBSCRIBE, subscribe(&mut body, packet)),
            Self::SubAck(packet) => head(kind::SUBACK, codes(&mut body, packet)),
            Self::Unsubscribe(packet) => {
                body.put_u16(packet.id);
                properties(&mut body, &packet.properties);
                for filter in &packet.filters {
                    text(&mut body, filter);
                }
                head(kind::UNSUBSCRIBE, 2)
            }
            Self::UnsubAck(packet) => head(kind::UNSUBACK, codes(&mut body, packet)),
            Self::PingReq => head(kind::PINGREQ, 0),
            Self::PingResp => head(kind::PINGRESP, 0),
            Self::Disconnect(packet) => head(kind::DISCONNECT, reason(&mut body, packet)),
            Self::Auth(packet) => head(kind::AUTH, reason(&mut body, packet)),
        };
        let mut all = BytesMut::with_capacity(body.len() + 5);
        all.put_u8(first);
        variable(&mut all, body.len());
        all.put(body);
        all.freeze()
    }
}

fn head(kind: u8, flags: u8) -> u8 {
    kind << 4 | flags
}

fn connect(body: &mut BytesMut, packet: &Connect) -> u8 {
    text(body, &packet.protocol);
    body.put_u8(packet.version);
    let mut flags = u8::from(packet.clean_start) << 1;
    if let Some(will) = &packet.will {
        flags |= 0x04 | will.qos << 3 | u8::from(will.retain) << 5;
    }
    flags |= u8::from(packet.password.is_some()) << 6;
    flags |= u8::from(packet.user_name.is_some()) << 7;
    body.put_u8(flags);
    body.put_u16(packet.keep_alive);
    properties(body, &packet.properties);
    text(body, &packet.client_id);
    if let Some(will) = &packet.will {
        properties(body, &will.properties);
        text(body, &will.topic);
        binary(body, &will.payload);
    }
    if let Some(user_name) = &packet.user_name {
        text(body, user_name);
    }
    if let Some(password) = &packet.password {
        binary(body, password);
    }
    0
}

fn publish(body: &mut BytesMut, packet: &Publish) -> u8 {
    text(body, &packet.topic);
    if let Some(id) = packet.id {
        body.put_u16(id);
    }
    properties(body, &packet.properties);
    body.put_slice(&packet.payload);
    u8::from(packet.dup) << 3 | packet.qos << 1 | u8::from(packet.retain)
}

fn ack(body: &mut BytesMut, packet: &Ack) -> u8 {
    body.put_u16(packet.id);
    if packet.code != 0 || !packet.properties.all().is_empty() {
        body.put_u8(packet.code);
    }
    if !packet.properties.all().is_empty() {
        properties(body, &packet.properties);
    }
    0
}

fn subscribe(body: &mut BytesMut, packet: &Subscribe) -> u8 {
    body.put_u16(packet.id);
    properties(body, &packet.properties);
    for filter in &packet.filters {
        text(body, &filter.topics);
        body.put_u8(
            filter.qos
                | u8::from(filter.no_local) << 2
                | u8::from(filter.retain_as_published) << 3
                | filter.retain_handling << 4,
        );
    }
    2
}

fn codes(body: &mut BytesMut, packet: &Answers) -> u8 {
    body.put_u16(packet.id);
    properties(body, &packet.properties);
    body.put_slice(&packet.codes);
    0
}

fn reason(body: &mut BytesMut, packet: &Reason) -> u8 {
    if packet.code != 0 || !packet.properties.all().is_empty() {
        body.put_u8(packet.code);
    }
    if !packet.properties.all().is_empty() {
        properties(body, &packet.properties);
    }
    0
}

fn properties(body: &mut BytesMut, all: &Properties) {
    let mut inner = BytesMut::new();
    for one in all.all() {
        property(&mut inner, one);
    }
    variable(body, inner.len());
    body.put(inner);
}

fn property(out: &mut BytesMut, property: &Property) {
    match property {
        Property::PayloadFormatIndicator(value) => byte(out, 0x01, *value),
        Property::MessageExpiryInterval(value) => four(out, 0x02, *value),
        Property::ContentType(value) => string(out, 0x03, value),
        Property::ResponseTopic(value) => string(out, 0x08, value),
        Property::CorrelationData(value) => data(out, 0x09, value),
        Property::SubscriptionIdentifier(value) => {
            out.put_u8(0x0B);
            variable(out, *value as usize);
        }
        Property::SessionExpiryInterval(value) => four(out, 0x11, *value),
        Property::AssignedClientIdentifier(value) => string(out, 0x12, value),
        Property::ServerKeepAlive(value) => two(out, 0x13, *value),
        Property::AuthenticationMethod(value) => string(out, 0x15, value),
        Property::AuthenticationData(value) => data(out, 0x16, value),
        Property::RequestProblemInformation(value) => byte(out, 0x17, *value),
        Property::WillDelayInterval(value) => four(out, 0x18, *value),
        Property::RequestResponseInformation(value) => byte(out, 0x19, *value),
        Property::ResponseInformation(value) => string(out, 0x1A, value),
        Property::ServerReference(value) => string(out, 0x1C, value),
        Property::ReasonString(value) => string(out, 0x1F, value),
        Property::ReceiveMaximum(value) => two(out, 0x21, *value),
        Property::TopicAliasMaximum(value) => two(out, 0x22, *value),
        Property::TopicAlias(value) => two(out, 0x23, *value),
        Property::MaximumQos(value) => byte(out, 0x24, *value),
        Property::RetainAvailable(value) => byte(out, 0x25, *value),
        Property::User(name, value) => {
            string(out, 0x26, name);
            text(out, value);
        }
        Property::MaximumPacketSize(value) => four(out, 0x27, *value),
        Property::WildcardSubscriptionAvailable(value) => byte(out, 0x28, *value),
        Property::SubscriptionIdentifierAvailable(value) => byte(out, 0x29, *value),
        Property::SharedSubscriptionAvailable(value) => byte(out, 0x2A, *value),
    }
}

fn byte(out: &mut BytesMut, id: u8, value: u8) {
    out.put_u8(id);
    out.put_u8(value);
}

fn two(out: &mut BytesMut, id: u8, value: u16) {
    out.put_u8(id);
    out.put_u16(value);
}

fn four(out: &mut BytesMut, id: u8, value: u32) {
    out.put_u8(id);
    out.put_u32(value);
}

fn string(out: &mut BytesMut, id: u8, value: &str) {
    out.put_u8(id);
    text(out, value);
}

fn data(out: &mut BytesMut, id: u8, value: &[u8]) {
    out.put_u8(id);
    binary(out, value);
}

fn text(out: &mut BytesMut, value: &str) {
    binary(out, value.as_bytes());
}

fn binary(out: &mut BytesMut, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("a field has at most 65535 bytes");
    out.put_u16(length);
    out.put_slice(value);
}

/// A variable byte integer (1.5.5).
fn variable(out: &mut BytesMut, mut value: usize) {
    loop {
        let low = u8::try_from(value & 0x7F).expect("seven bits are a byte");
        value >>= 7;
        if value == 0 {
            return out.put_u8(low);
        }
        out.put_u8(low | 0x80);
    }
}
