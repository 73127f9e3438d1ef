//! A packet from bytes.
//!
//! Strict in what the standard calls malformed, so that a peer which sends it is found out; it does
//! not judge what is merely a protocol error, such as a quality that was not granted.

use bytes::Buf;
use bytes::Bytes;

use super::Ack;
use super::Answers;
use super::ConnAck;
use super::Connect;
use super::Filter;
use super::Packet;
use super::Properties;
use super::Property;
use super::Publish;
use super::Reason;
use super::Subscribe;
use super::Unsubscribe;
use super::Will;
use super::kind;

/// What is wrong with bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

type Decoded<T> = Result<T, Malformed>;

impl Packet {
    /// The packet at the beginning of `bytes` and how long it is, or `None` when it is not all there.
    ///
    /// # Errors
    ///
    /// What is wrong, as soon as that is certain.
    pub fn decode(bytes: &[u8]) -> Decoded<Option<(Self, usize)>> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        let mut length = 0_usize;
        let mut at = 1;
        loop {
            let Some(&byte) = bytes.get(at) else {
                return Ok(None);
            };
            length |= usize::from(byte & 0x7F) << (7 * (at - 1));
            at += 1;
            if byte & 0x80 == 0 {
                break;
            }
            if at == 5 {
                return Err(Malformed("a length of more than four bytes"));
            }
        }
        let Some(body) = bytes.get(at..at + length) else {
            return Ok(None);
        };
        let body = Bytes::copy_from_slice(body);
        Ok(Some((decode(first, body)?, at + length)))
    }
}

fn decode(first: u8, mut body: Bytes) -> Decoded<Packet> {
    let flags = first & 0x0F;
    let kind = first >> 4;
    let fixed = match kind {
        kind::PUBLISH => flags,
        kind::PUBREL | kind::SUBSCRIBE | kind::UNSUBSCRIBE => 2,
        _ => 0,
    };
    if flags != fixed {
        return Err(Malformed("reserved flags of the first byte"));
    }
    let body = &mut body;
    let packet = match kind {
        kind::CONNECT => Packet::Connect(connect(body)?),
        kind::CONNACK => {
            let flags = byte(body)?;
            if flags > 1 {
                return Err(Malformed("reserved flags of a CONNACK"));
            }
            Packet::ConnAck(ConnAck {
                session_present: flags == 1,
                code: byte(body)?,
                properties: properties(body)?,
            })
        }
        kind::PUBLISH => Packet::Publish(publish(flags, body)?),
        kind::PUBACK => Packet::PubAck(ack(body)?),
        kind::PUBREC => Packet::PubRec(ack(body)?),
        kind::PUBREL => Packet::PubRel(ack(body)?),
        kind::PUBCOMP => Packet::PubComp(ack(body)?),
        kind::SUBSCRIBE => Packet::Subscribe(subscribe(body)?),
        kind::SUBACK => Packet::SubAck(codes(body)?),
        kind::UNSUBSCRIBE => {
            let mut packet = Unsubscribe {
                id: two(body)?,
                properties: properties(body)?,
                filters: Vec::new(),
            };
            while body.has_remaining() {
                packet.filters.push(text(body)?);
            }
            Packet::Unsubscribe(packet)
        }
        kind::UNSUBACK => Packet::UnsubAck(codes(body)?),
        kind::PINGREQ => Packet::PingReq,
        kind::PINGRESP => Packet::PingResp,
        kind::DISCONNECT => Packet::Disconnect(reason(body)?),
        kind::AUTH => Packet::Auth(reason(body)?),
        _ => return Err(Malformed("a packet of type 0")),
    };
    if body.has_remaining() {
        return Err(Malformed("bytes behind the end of the packet's fields"));
    }
    Ok(packet)
}

fn connect(body: &mut Bytes) -> Decoded<Connect> {
    let protocol = text(body)?;
    let version = byte(body)?;
    let flags = byte(body)?;
    if flags & 1 != 0 {
        return Err(Malformed("the reserved flag of a CONNECT"));
    }
    let keep_alive = two(body)?;
    // Before version 5 there are none.
    let own = |body: &mut Bytes| match version {
        5 => properties(body),
        _ => Ok(Properties::new()),
    };
    let properties = own(body)?;
    let client_id = text(body)?;
    let will = if flags & 0x04 != 0 {
        Some(Will {
            qos: flags >> 3 & 3,
            retain: flags & 0x20 != 0,
            properties: own(body)?,
            topic: text(body)?,
            payload: binary(body)?,
        })
    } else if flags & 0x38 != 0 {
        return Err(Malformed("flags of a will that there is none of"));
    } else {
        None
    };
    Ok(Connect {
        protocol,
        version,
        clean_start: flags & 2 != 0,
        keep_alive,
        properties,
        client_id,
        will,
        user_name: (flags & 0x80 != 0).then(|| text(body)).transpose()?,
        password: (flags & 0x40 != 0).then(|| binary(body)).transpose()?,
    })
}

fn publish(flags: u8, body: &mut Bytes) -> Decoded<Publish> {
    let qos = flags >> 1 & 3;
    if qos == 3 {
        return Err(Malformed("a quality of service of 3"));
    }
    Ok(Publish {
        dup: flags & 8 != 0,
        qos,
        retain: flags & 1 != 0,
        topic: text(body)?,
        id: (qos > 0).then(|| two(body)).transpose()?,
        properties: properties(body)?,
        payload: body.split_to(body.len()),
    })
}

fn ack(body: &mut Bytes) -> Decoded<Ack> {
    let id = two(body)?;
    let Reason { code, properties } = reason(body)?;
    Ok(Ack {
        id,
        code,
        properties,
    })
}

fn reason(body: &mut Bytes) -> Decoded<Reason> {
    let code = if body.has_remaining() { byte(body)? } else { 0 };
    let properties = if body.has_remaining() {
        properties(body)?
    } else {
        Properties::new()
    };
    Ok(Reason { code, properties })
}

fn subscribe(body: &mut Bytes) -> Decoded<Subscribe> {
    let mut packet = Subscribe {
        id: two(body)?,
        properties: properties(body)?,
        filters: Vec::new(),
    };
    while body.has_remaining() {
        let topics = text(body)?;
        let options = byte(body)?;
        if options & 0xC0 != 0 {
            return Err(Malformed("reserved options of a subscription"));
        }
        packet.filters.push(Filter {
            topics,
            qos: options & 3,
            no_local: options & 4 != 0,
            retain_as_published: options & 8 != 0,
            retain_handling: options >> 4 & 3,
        });
    }
    Ok(packet)
}

fn codes(body: &mut Bytes) -> Decoded<Answers> {
    Ok(Answers {
        id: two(body)?,
        properties: properties(body)?,
        codes: body.split_to(body.len()).to_vec(),
    })
}

fn properties(body: &mut Bytes) -> Decoded<Properties> {
    let length = variable(body)? as usize;
    if length > body.remaining() {
        return Err(Malformed("properties that are longer than the packet"));
    }
    let mut inner = body.split_to(length);
    let mut all = Properties::new();
    while inner.has_remaining() {
        all.push(property(&mut inner)?);
    }
    Ok(all)
}

fn property(body: &mut Bytes) -> Decoded<Property> {
    Ok(match variable(body)? {
        0x01 => Property::PayloadFormatIndicator(byte(body)?),
        0x02 => Property::MessageExpiryInterval(four(body)?),
        0x03 => Property::ContentType(text(body)?),
        0x08 => Property::ResponseTopic(text(body)?),
        0x09 => Property::CorrelationData(binary(body)?),
        0x0B => Property::SubscriptionIdentifier(variable(body)?),
        0x11 => Property::SessionExpiryInterval(four(body)?),
        0x12 => Property::AssignedClientIdentifier(text(body)?),
        0x13 => Property::ServerKeepAlive(two(body)?),
        0x15 => Property::AuthenticationMethod(text(body)?),
        0x16 => Property::AuthenticationData(binary(body)?),
        0x17 => Property::RequestProblemInformation(byte(body)?),
        0x18 => Property::WillDelayInterval(four(body)?),
        0x19 => Property::RequestResponseInformation(byte(body)?),
        0x1A => Property::ResponseInformation(text(body)?),
        0x1C => Property::ServerReference(text(body)?),
        0x1F => Property::ReasonString(text(body)?),
        0x21 => Property::ReceiveMaximum(two(body)?),
        0x22 => Property::TopicAliasMaximum(two(body)?),
        0x23 => Property::TopicAlias(two(body)?),
        0x24 => Property::MaximumQos(byte(body)?),
        0x25 => Property::RetainAvailable(byte(body)?),
        0x26 => Property::User(text(body)?, text(body)?),
        0x27 => Property::MaximumPacketSize(four(body)?),
        0x28 => Property::WildcardSubscriptionAvailable(byte(body)?),
        0x29 => Property::SubscriptionIdentifierAvailable(byte(body)?),
        0x2A => Property::SharedSubscriptionAvailable(byte(body)?),
        _ => return Err(Malformed("a property that does not exist")),
    })
}

const SHORT: Malformed = Malformed("a field that ends behind the packet");

fn byte(body: &mut Bytes) -> Decoded<u8> {
    body.try_get_u8().map_err(|_| SHORT)
}

fn two(body: &mut Bytes) -> Decoded<u16> {
    body.try_get_u16().map_err(|_| SHORT)
}

fn four(body: &mut Bytes) -> Decoded<u32> {
    body.try_get_u32().map_err(|_| SHORT)
}

/// A variable byte integer (1.5.5).
fn variable(body: &mut Bytes) -> Decoded<u32> {
    let mut value = 0;
    for place in 0..4 {
        let byte = byte(body)?;
        value |= u32::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed("a number of more than four bytes"))
}

fn text(body: &mut Bytes) -> Decoded<String> {
    let text = String::from_utf8(binary(body)?.into());
    text.map_err(|_| Malformed("a text that is not UTF-8"))
}

fn binary(body: &mut Bytes) -> Decoded<Bytes> {
    let length = usize::from(two(body)?);
    if length > body.remaining() {
        return Err(SHORT);
    }
    Ok(body.split_to(length))
}
