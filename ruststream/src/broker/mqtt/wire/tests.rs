use bytes::Bytes;
use proptest::prelude::*;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::PublishProperties;

use super::*;

const LIMIT: u32 = 4096;

/// What is read of `pieces`, one after the other, and how it ends. Checks each step.
fn read_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<String>, usize) {
    let mut buffer = BytesMut::new();
    let mut packets = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let before = buffer.len();
            match read(&mut buffer, LIMIT) {
                Ok(Some(packet)) => {
                    assert!(
                        buffer.len() + 2 <= before,
                        "a packet takes two bytes at least"
                    );
                    packets.push(format!("{packet:?}"));
                }
                Ok(None) => {
                    assert_eq!(buffer.len(), before, "what is not whole is kept");
                    assert!(buffer.capacity() <= 2 * (before + MOST_RESERVED));
                    break;
                }
                Err(violation) => {
                    assert!(buffer.len() <= before);
                    assert!(!violation.reason.is_empty());
                    return (packets, Some(violation.reason), 0);
                }
            }
        }
    }
    (packets, None, buffer.len())
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

prop_compose! {
    fn publish()(
        topic in "[a-z/]{1,12}",
        payload in prop::collection::vec(any::<u8>(), 0..40),
        id in 0..4_u16,
        alias in prop::option::of(any::<u16>()),
        user in prop::collection::vec(("[a-z]{0,4}", "[a-z]{0,4}"), 0..3),
    ) -> Packet {
        let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(id % 3)];
        Packet::Publish(Publish {
            pkid: id.max(1),
            properties: Some(PublishProperties {
                topic_alias: alias,
                user_properties: user,
                ..PublishProperties::default()
            }),
            ..Publish::new(topic, qos, Bytes::from(payload), None)
        })
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    prop_oneof![
        3 => publish(),
        1 => (1..9_u16).prop_map(|id| Packet::PubAck(PubAck::new(id, None))),
        1 => (1..9_u16).prop_map(|id| Packet::PubRel(PubRel::new(id, None))),
        1 => (1..9_u16).prop_map(|id| Packet::PubComp(PubComp::new(id, None))),
    ]
}

fn encoded(packets: &[Packet]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for packet in packets {
        write(packet, &mut bytes).expect("it is short");
    }
    bytes.to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_in_any_pieces_are_read_to_an_end(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cuts in prop::collection::vec(0..40_usize, 0..8),
    ) {
        prop_assert_eq!(read_all([&bytes[..]]), read_all(cut(&bytes, &cuts)));
    }

    #[test]
    fn a_packet_with_wrong_bytes_in_it_is_read_to_an_end(
        packets in prop::collection::vec(packet(), 1..5),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(0..40_usize, 0..8),
    ) {
        let mut bytes = encoded(&packets);
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(read_all([&bytes[..]]), read_all(cut(&bytes, &cuts)));
    }

    #[test]
    fn packets_in_order_are_read_as_they_were_written(
        packets in prop::collection::vec(packet(), 1..5),
        cuts in prop::collection::vec(0..40_usize, 0..8),
    ) {
        let bytes = encoded(&packets);
        let (read, end, rest) = read_all(cut(&bytes, &cuts));
        prop_assert_eq!((read.len(), end, rest), (packets.len(), None, 0));
    }
}
