//! Against the examples and tables of the standard, MQTT 5.0 of 7 March 2019.

use super::*;

#[track_caller]
fn both_ways(packet: Packet, bytes: &[u8]) {
    assert_eq!(packet.encode(), bytes, "the bytes of {packet:?}");
    assert_eq!(Packet::decode(bytes), Ok(Some((packet, bytes.len()))));
}

/// Figure 3-6 gives the variable header; before it the fixed header of 3.1.1, behind it a payload of
/// the fields that its flags announce, in the order of 3.1.3.
#[test]
fn a_connect_is_that_of_figure_3_6() {
    let mut bytes = vec![0x10, 40];
    bytes.extend([0, 4, b'M', b'Q', b'T', b'T', 5, 0b1100_1110, 0, 10]);
    bytes.extend([5, 0x11, 0, 0, 0, 10]);
    bytes.extend([0, 2, b'i', b'd']);
    bytes.extend([0, 0, 3, b'w', b'/', b't', 0, 3, 1, 2, 3]);
    bytes.extend([0, 1, b'u', 0, 4, b'p', b'a', b's', b's']);
    let mut connect = Connect::new("id").with(Property::SessionExpiryInterval(10));
    connect.keep_alive = 10;
    connect.will = Some(Will {
        topic: "w/t".into(),
        payload: Bytes::from_static(&[1, 2, 3]),
        qos: 1,
        ..Will::default()
    });
    both_ways(Packet::Connect(connect.login("u", "pass")), &bytes);
}

/// 3.3.2.3, the example of a variable header: topic `a/b`, packet identifier 10, no properties.
#[test]
fn a_publish_is_that_of_the_example_in_3_3_2() {
    let publish = Publish::new("a/b", "").at(1, 10);
    let bytes = [0x32, 8, 0, 3, b'a', b'/', b'b', 0, 10, 0];
    both_ways(Packet::Publish(publish), &bytes);
}

/// Figure 3-8: DUP is bit 3, the quality bits 2 and 1, RETAIN bit 0. Without quality there is no
/// identifier (3.3.2.2).
#[test]
fn the_flags_of_a_publish_stand_where_figure_3_8_has_them() {
    let first = |publish: Publish| Packet::Publish(publish).encode()[0];
    assert_eq!(first(Publish::new("t", "")), 0x30);
    assert_eq!(first(Publish::new("t", "").retained()), 0x31);
    assert_eq!(first(Publish::new("t", "").at(1, 1)), 0x32);
    assert_eq!(first(Publish::new("t", "").at(2, 1)), 0x34);
    assert_eq!(first(Publish::new("t", "").at(2, 1).again()), 0x3C);
    let plain = Publish::new("t", "x");
    both_ways(Packet::Publish(plain), &[0x30, 5, 0, 1, b't', 0, b'x']);
}

/// 3.8.2 and 3.8.3, the examples: identifier 10; `a/b` with quality 1, `c/d` with quality 2.
#[test]
fn a_subscribe_is_that_of_the_examples_in_3_8() {
    let subscribe = Subscribe {
        id: 10,
        filters: vec![Filter::new("a/b", 1), Filter::new("c/d", 2)],
        ..Subscribe::default()
    };
    let mut bytes = vec![0x82, 15, 0, 10, 0];
    bytes.extend([0, 3, b'a', b'/', b'b', 1, 0, 3, b'c', b'/', b'd', 2]);
    both_ways(Packet::Subscribe(subscribe), &bytes);
}

/// 3.8.3.1: bits 1 and 0 are the quality, 2 is No Local, 3 is Retain As Published, 5 and 4 are Retain
/// Handling.
#[test]
fn the_options_of_a_subscription_stand_where_3_8_3_1_has_them() {
    let filter = Filter {
        no_local: true,
        retain_as_published: true,
        retain_handling: 2,
        ..Filter::new("t", 1)
    };
    let subscribe = Subscribe {
        id: 1,
        filters: vec![filter],
        ..Subscribe::default()
    };
    let bytes = [0x82, 7, 0, 1, 0, 0, 1, b't', 0b0010_1101];
    both_ways(Packet::Subscribe(subscribe), &bytes);
}

/// 3.10.3, the example.
#[test]
fn an_unsubscribe_is_that_of_the_example_in_3_10() {
    let unsubscribe = Unsubscribe {
        id: 10,
        filters: vec!["a/b".into(), "c/d".into()],
        ..Unsubscribe::default()
    };
    let mut bytes = vec![0xA2, 13, 0, 10, 0];
    bytes.extend([0, 3, b'a', b'/', b'b', 0, 3, b'c', b'/', b'd']);
    both_ways(Packet::Unsubscribe(unsubscribe), &bytes);
}

/// 3.14.2, the example: a reason code, five bytes of properties, a session expiry interval of 0.
#[test]
fn a_disconnect_is_that_of_the_example_in_3_14() {
    let reason = Reason::new(0).with(Property::SessionExpiryInterval(0));
    let bytes = [0xE0, 7, 0, 5, 0x11, 0, 0, 0, 0];
    both_ways(Packet::Disconnect(reason), &bytes);
}

/// 3.4.2.1 and its like: reason code and properties are left out for plain success, the properties
/// alone where there are none. 2.1.3 has the flags of each type.
#[test]
fn the_short_forms_are_those_of_the_standard() {
    both_ways(Packet::PubAck(Ack::of(0x0102)), &[0x40, 2, 1, 2]);
    both_ways(Packet::PubRec(Ack::of(1)), &[0x50, 2, 0, 1]);
    both_ways(Packet::PubRel(Ack::of(1)), &[0x62, 2, 0, 1]);
    both_ways(Packet::PubComp(Ack::of(1)), &[0x70, 2, 0, 1]);
    let refused = Ack::of(1).code(0x87);
    both_ways(Packet::PubAck(refused), &[0x40, 3, 0, 1, 0x87]);
    both_ways(Packet::PingReq, &[0xC0, 0]);
    both_ways(Packet::PingResp, &[0xD0, 0]);
    both_ways(Packet::Disconnect(Reason::new(0)), &[0xE0, 0]);
    both_ways(Packet::Disconnect(Reason::new(0x8E)), &[0xE0, 1, 0x8E]);
    both_ways(Packet::Auth(Reason::new(0)), &[0xF0, 0]);
}

/// Figures 3-2, 3-15 and 3-19: an answer to each.
#[test]
fn answers_are_laid_out_as_in_3_2_and_3_9_and_3_11() {
    let connack = ConnAck {
        session_present: true,
        ..ConnAck::default()
    };
    let connack = connack.with(Property::ReceiveMaximum(20));
    both_ways(Packet::ConnAck(connack), &[0x20, 6, 1, 0, 3, 0x21, 0, 20]);
    let answers = Answers::new(10, [0, 2, 0x80]);
    both_ways(
        Packet::SubAck(answers.clone()),
        &[0x90, 6, 0, 10, 0, 0, 2, 0x80],
    );
    both_ways(Packet::UnsubAck(answers), &[0xB0, 6, 0, 10, 0, 0, 2, 0x80]);
}

/// Table 1-1: the lengths at which a variable byte integer grows.
#[test]
fn a_length_has_the_bytes_of_table_1_1() {
    #[rustfmt::skip]
    let rows: &[(usize, &[u8])] = &[
        (127,       &[0x7F]),
        (128,       &[0x80, 0x01]),
        (16_383,    &[0xFF, 0x7F]),
        (16_384,    &[0x80, 0x80, 0x01]),
        (2_097_151, &[0xFF, 0xFF, 0x7F]),
        (2_097_152, &[0x80, 0x80, 0x80, 0x01]),
    ];
    for (length, bytes) in rows {
        // Two bytes of topic length, one of properties.
        let packet = Packet::Publish(Publish::new("", vec![7; length - 3]));
        let encoded = packet.encode();
        assert_eq!(&encoded[1..=bytes.len()], *bytes, "{length}");
        let whole = 1 + bytes.len() + length;
        assert_eq!(Packet::decode(&encoded), Ok(Some((packet, whole))));
        assert_eq!(Packet::decode(&encoded[..whole - 1]), Ok(None));
    }
}

/// Figure 1-1: the letter A and the ideograph U+2A6D4.
#[test]
fn a_text_is_that_of_figure_1_1() {
    let publish = Publish::new("A\u{2A6D4}", "");
    let bytes = [0x30, 8, 0, 5, 0x41, 0xF0, 0xAA, 0x9B, 0x94, 0];
    both_ways(Packet::Publish(publish), &bytes);
}

/// Table 2-4: the identifier and the type of each property.
#[test]
fn a_property_has_the_identifier_and_the_type_of_table_2_4() {
    let text = || "ab".to_owned();
    let data = || Bytes::from_static(&[1, 2]);
    #[rustfmt::skip]
    let rows: Vec<(Property, &[u8])> = vec![
        (Property::PayloadFormatIndicator(1),          &[0x01, 1]),
        (Property::MessageExpiryInterval(0x0102_0304), &[0x02, 1, 2, 3, 4]),
        (Property::ContentType(text()),                &[0x03, 0, 2, b'a', b'b']),
        (Property::ResponseTopic(text()),              &[0x08, 0, 2, b'a', b'b']),
        (Property::CorrelationData(data()),            &[0x09, 0, 2, 1, 2]),
        (Property::SubscriptionIdentifier(128),        &[0x0B, 0x80, 1]),
        (Property::SessionExpiryInterval(u32::MAX),    &[0x11, 255, 255, 255, 255]),
        (Property::AssignedClientIdentifier(text()),   &[0x12, 0, 2, b'a', b'b']),
        (Property::ServerKeepAlive(0x0102),            &[0x13, 1, 2]),
        (Property::AuthenticationMethod(text()),       &[0x15, 0, 2, b'a', b'b']),
        (Property::AuthenticationData(data()),         &[0x16, 0, 2, 1, 2]),
        (Property::RequestProblemInformation(1),       &[0x17, 1]),
        (Property::WillDelayInterval(1),               &[0x18, 0, 0, 0, 1]),
        (Property::RequestResponseInformation(1),      &[0x19, 1]),
        (Property::ResponseInformation(text()),        &[0x1A, 0, 2, b'a', b'b']),
        (Property::ServerReference(text()),            &[0x1C, 0, 2, b'a', b'b']),
        (Property::ReasonString(text()),               &[0x1F, 0, 2, b'a', b'b']),
        (Property::ReceiveMaximum(20),                 &[0x21, 0, 20]),
        (Property::TopicAliasMaximum(20),              &[0x22, 0, 20]),
        (Property::TopicAlias(20),                     &[0x23, 0, 20]),
        (Property::MaximumQos(1),                      &[0x24, 1]),
        (Property::RetainAvailable(1),                 &[0x25, 1]),
        (Property::User(text(), text()),               &[0x26, 0, 2, b'a', b'b', 0, 2, b'a', b'b']),
        (Property::MaximumPacketSize(20),              &[0x27, 0, 0, 0, 20]),
        (Property::WildcardSubscriptionAvailable(1),   &[0x28, 1]),
        (Property::SubscriptionIdentifierAvailable(1), &[0x29, 1]),
        (Property::SharedSubscriptionAvailable(1),     &[0x2A, 1]),
    ];
    for (property, bytes) in rows {
        let length = u8::try_from(bytes.len()).unwrap();
        let mut all = vec![0x30, 3 + length, 0, 0, length];
        all.extend(bytes);
        both_ways(Packet::Publish(Publish::default().with(property)), &all);
    }
}

#[test]
fn user_properties_keep_their_order_and_their_doubles() {
    let publish = Publish::new("t", "")
        .user("b", "1")
        .user("a", "2")
        .user("b", "");
    let (packet, _) = Packet::decode(&Packet::Publish(publish).encode())
        .unwrap()
        .unwrap();
    let Packet::Publish(publish) = packet else {
        panic!("{packet:?}");
    };
    assert_eq!(
        publish.properties.user(),
        [("b", "1"), ("a", "2"), ("b", "")]
    );
    assert_eq!(publish.properties.value("b"), Some("1"));
}

#[test]
fn what_the_standard_calls_malformed_is_no_packet() {
    #[rustfmt::skip]
    let rows: &[(&str, &[u8], &str)] = &[
        ("2.1.2",   &[0x00, 0],                                  "type 0"),
        ("2.1.3",   &[0x42, 2, 0, 1],                            "flags of the first byte"),
        ("3.8.1",   &[0x80, 7, 0, 1, 0, 0, 1, b't', 0],          "flags of the first byte"),
        ("3.3.1.2", &[0x36, 6, 0, 1, b't', 0, 1, 0],             "service of 3"),
        ("1.5.5",   &[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],       "more than four bytes"),
        ("1.5.4",   &[0x30, 3, 0, 9, b't'],                      "ends behind the packet"),
        ("2.2.2.1", &[0x30, 4, 0, 1, b't', 9],                   "longer than the packet"),
        ("2.2.2.2", &[0x30, 6, 0, 1, b't', 2, 0x04, 1],          "does not exist"),
        ("1.5.4",   &[0x30, 4, 0, 1, 0xFF, 0],                   "not UTF-8"),
        ("3.2.2.1", &[0x20, 3, 2, 0, 0],                         "flags of a CONNACK"),
        ("3.8.3.1", &[0x82, 7, 0, 1, 0, 0, 1, b't', 0x40],       "reserved options"),
        ("3.12",    &[0xC0, 1, 0],                               "behind the end"),
    ];
    for (clause, bytes, why) in rows {
        let Err(Malformed(said)) = Packet::decode(bytes) else {
            panic!("{clause}: {bytes:02x?} was taken");
        };
        assert!(said.contains(why), "{clause}: {said}");
    }
}
