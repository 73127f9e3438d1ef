//! Packets to and from bytes, by rumqttc's codec.
//!
//! What the codec lets pass and the standard does not is refused here, so that nothing after this
//! sees a packet that cannot be right.

use bytes::Buf;
use bytes::BytesMut;
use rumqttc::v5::mqttbytes::Error as CodecError;
use rumqttc::v5::mqttbytes::v5::Disconnect;
use rumqttc::v5::mqttbytes::v5::DisconnectReasonCode;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::PubAck;
use rumqttc::v5::mqttbytes::v5::PubComp;
use rumqttc::v5::mqttbytes::v5::PubRec;
use rumqttc::v5::mqttbytes::v5::PubRel;
use rumqttc::v5::mqttbytes::v5::Publish;
use rumqttc::v5::mqttbytes::v5::check;

/// The longest packet there is: what a remaining length of four bytes can say (MQTT 5 section 1.5.5).
pub(super) const LONGEST: u32 = 268_435_455;

/// Why the connection cannot go on, and the reason code that the server is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: DisconnectReasonCode,
    pub(super) reason: String,
}

impl Violation {
    pub(super) fn malformed(reason: impl Into<String>) -> Self {
        Self {
            code: DisconnectReasonCode::MalformedPacket,
            reason: reason.into(),
        }
    }

    pub(super) fn protocol(reason: impl Into<String>) -> Self {
        Self {
            code: DisconnectReasonCode::ProtocolError,
            reason: reason.into(),
        }
    }
}

/// Take the next whole packet off `buffer`; `None` when more bytes are needed.
///
/// # Errors
///
/// The bytes are not a packet that a server sends, or it is longer than `longest`. Nothing after it
/// can be trusted.
pub(super) fn read(buffer: &mut BytesMut, longest: u32) -> Result<Option<Packet>, Violation> {
    // The codec measures what follows the fixed header, and a limit is of the whole packet (MQTT 5
    // section 3.1.2.11.4).
    let frame_length = match check(buffer.iter(), Some(longest)) {
        Ok(header) => header.frame_length(),
        Err(CodecError::InsufficientBytes(more)) if buffer.len() + more <= longest as usize => {
            buffer.reserve(more.min(MOST_RESERVED));
            return Ok(None);
        }
        Err(CodecError::InsufficientBytes(more)) => buffer.len() + more,
        Err(CodecError::PayloadSizeLimitExceeded { pkt_size, .. }) => {
            let header = buffer.get(1..).and_then(varint);
            pkt_size + 1 + header.map_or(1, |(_, length)| length)
        }
        Err(error) => return Err(Violation::malformed(error.to_string())),
    };
    if frame_length > longest as usize {
        return Err(Violation {
            code: DisconnectReasonCode::PacketTooLarge,
            reason: format!(
                "the server sent a packet of {frame_length} bytes, the limit that it was told is {longest}: raise \
                 `max_packet_size`"
            ),
        });
    }
    let frame = &buffer[..frame_length];
    let shape = Shape::of(frame);
    if let Some(packet) = odd(frame)? {
        buffer.advance(frame_length);
        return Ok(Some(packet));
    }
    let packet = Packet::read(buffer, None).map_err(|error| {
        Violation::malformed(format!("a packet of the server cannot be read: {error}"))
    })?;
    match &packet {
        Packet::Publish(publish) => {
            check_publish(publish, shape, frame_length)?;
            Ok(Some(packet))
        }
        Packet::ConnAck(_)
        | Packet::PubAck(_)
        | Packet::PubRec(_)
        | Packet::PubRel(_)
        | Packet::PubComp(_)
        | Packet::SubAck(_)
        | Packet::UnsubAck(_)
        | Packet::PingResp(_)
        | Packet::Disconnect(_) => Ok(Some(packet)),
        Packet::Auth(_)
        | Packet::Connect(..)
        | Packet::PingReq(_)
        | Packet::Subscribe(_)
        | Packet::Unsubscribe(_) => Err(Violation::protocol(
            "the server sent a packet that only clients send",
        )),
    }
}

/// Whether `bytes` may be the beginning of an answer to a CONNECT: CONNACK, DISCONNECT or AUTH.
pub(super) fn may_answer_connect(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_none_or(|first| matches!(first >> 4, 2 | 14 | 15))
}

/// Packets that the codec cannot read although they are in order, or reads too late to say what is
/// wrong.
fn odd(frame: &[u8]) -> Result<Option<Packet>, Violation> {
    const CONNACK: u8 = 0x20;
    const DISCONNECT: u8 = 0xE0;
    match frame {
        // A DISCONNECT may leave out its reason (MQTT 5 section 3.14.2.1).
        [DISCONNECT, 0] => Ok(Some(Packet::Disconnect(Disconnect {
            reason_code: DisconnectReasonCode::NormalDisconnection,
            properties: None,
        }))),
        [DISCONNECT, 1, code] => {
            let mut whole = BytesMut::from(&[DISCONNECT, 2, *code, 0][..]);
            Packet::read(&mut whole, None)
                .map(Some)
                .map_err(|error| Violation::malformed(error.to_string()))
        }
        // Without properties it is the CONNACK of an older version.
        [CONNACK, 2, _, _] => Err(Violation {
            code: DisconnectReasonCode::ProtocolError,
            reason: OLD_SERVER.to_owned(),
        }),
        _ => Ok(None),
    }
}

/// What a server is that answers in an older version of the protocol.
pub(super) const OLD_SERVER: &str =
    "the server does not speak MQTT 5, it answered in MQTT 3.1.1 or older";

/// The length that a PUBLISH gives for its properties, and where its payload begins by it.
#[derive(Clone, Copy)]
struct Shape {
    payload_at: usize,
}

impl Shape {
    fn of(frame: &[u8]) -> Option<Self> {
        let first = *frame.first()?;
        if first >> 4 != PUBLISH {
            return None;
        }
        let (_, length) = varint(frame.get(1..)?)?;
        let topic_at = 1 + length;
        let topic = frame.get(topic_at..topic_at + 2)?;
        let topic = usize::from(u16::from_be_bytes([topic[0], topic[1]]));
        let id = if first & 0b0110 == 0 { 0 } else { 2 };
        let properties_at = topic_at + 2 + topic + id;
        let (properties, length) = varint(frame.get(properties_at..)?)?;
        Some(Self {
            payload_at: properties_at + length + properties,
        })
    }
}

/// What the codec does not check: that the properties end where they say, and the topic.
fn check_publish(
    publish: &Publish,
    shape: Option<Shape>,
    frame_length: usize,
) -> Result<(), Violation> {
    if shape.is_none_or(|shape| shape.payload_at + publish.payload.len() != frame_length) {
        return Err(Violation::malformed(
            "the properties of a PUBLISH do not end where they say",
        ));
    }
    let Ok(topic) = std::str::from_utf8(&publish.topic) else {
        return Err(Violation::malformed("the topic of a PUBLISH is not UTF-8"));
    };
    if topic.contains(['+', '#', '\0']) {
        return Err(Violation::malformed(
            "the topic of a PUBLISH has a wildcard or a NUL in it",
        ));
    }
    Ok(())
}

/// A variable byte integer at the head of `bytes`, and how many bytes it takes (MQTT 5 section 1.5.5).
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The type of a PUBLISH in its first byte (MQTT 5 section 2.1.2).
const PUBLISH: u8 = 3;

/// Append a packet.
///
/// # Errors
///
/// It is longer than the protocol allows. Nothing was appended.
pub(super) fn write(packet: &Packet, out: &mut BytesMut) -> Result<(), CodecError> {
    let before = out.len();
    packet.write(out, None).map(drop).inspect_err(|_| {
        out.truncate(before);
    })
}

/// Append the acknowledgement of a message at quality of service 1.
pub(super) fn put_puback(packet_id: u16, out: &mut BytesMut) {
    put(&Packet::PubAck(PubAck::new(packet_id, None)), out);
}

/// Append the first acknowledgement of a message at quality of service 2.
pub(super) fn put_pubrec(packet_id: u16, out: &mut BytesMut) {
    put(&Packet::PubRec(PubRec::new(packet_id, None)), out);
}

/// Append the second acknowledgement of our own message at quality of service 2.
pub(super) fn put_pubrel(packet_id: u16, out: &mut BytesMut) {
    put(&Packet::PubRel(PubRel::new(packet_id, None)), out);
}

/// Append the last acknowledgement of a message at quality of service 2.
pub(super) fn put_pubcomp(packet_id: u16, out: &mut BytesMut) {
    put(&Packet::PubComp(PubComp::new(packet_id, None)), out);
}

/// Append a packet that is always short enough.
pub(super) fn put(packet: &Packet, out: &mut BytesMut) {
    write(packet, out).expect("a packet without variable parts is short");
}

/// What is reserved at once on the word of a length that a server gives.
const MOST_RESERVED: usize = 64 * 1024;

#[cfg(test)]
mod tests;
