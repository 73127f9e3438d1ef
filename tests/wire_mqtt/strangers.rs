//! What servers are told that send what cannot be right.

use std::time::Duration;

use support::mqtt::Connection;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Answers;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;

use crate::log::Log;
use crate::rig::Inbox;
use crate::rig::broker;
use crate::rig::down;
use crate::rig::fulfil;
use crate::rig::serve;
use crate::rig::shop;
use crate::rig::up;

fn publish(id: u16, text: &str) -> Packet {
    Packet::Publish(Publish::new("orders", text.to_owned()).at(1, id))
}

/// The next connection, which is subscribed and delivers.
async fn works(peer: &Peer, inbox: &mut Inbox) -> Connection {
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    connection.grant().await;
    connection.send(publish(1, "works")).await;
    assert_eq!(connection.expect_puback().await, Ack::of(1));
    assert_eq!(inbox.next().await, "works");
    connection
}

#[tokio::test]
async fn what_cannot_be_right_ends_the_connection_with_its_code_and_the_next_one_works() {
    let big = |byte: u8| vec![byte, 0xFF, 0xFF, 0xFF, 0xFF];
    #[rustfmt::skip]
    let rows: Vec<(&str, Vec<u8>, u8)> = vec![
        ("a length of five bytes",        big(0x30), 0x81),
        ("type 0",                        vec![0x00, 0x00], 0x81),
        ("a PUBLISH without a topic's length", vec![0x30, 0x01, 0x00], 0x81),
        ("a topic longer than the packet", vec![0x30, 0x05, 0x00, 0x20, b'a', b'b', 0x00], 0x81),
        ("a topic that is no UTF-8",      vec![0x30, 0x05, 0x00, 0x02, 0xC3, 0x28, 0x00], 0x81),
        ("QoS 3",                         vec![0x36, 0x07, 0x00, 0x02, b'a', b'b', 0x00, 0x01, 0x00], 0x81),
        ("packet id 0",                   vec![0x32, 0x07, 0x00, 0x02, b'a', b'b', 0x00, 0x00, 0x00], 0x81),
        ("properties beyond the end",     vec![0x30, 0x06, 0x00, 0x02, b'a', b'b', 0x20, 0x01], 0x81),
        ("properties that end elsewhere", vec![0x30, 0x08, 0x00, 0x02, b'a', b'b', 0x01, 0x01, 0x01, b'x'], 0x81),
        ("an unknown property",           vec![0x30, 0x07, 0x00, 0x02, b'a', b'b', 0x02, 0x7F, 0x00], 0x81),
        ("a topic with a wildcard",       Packet::Publish(Publish::new("orders/+", "x")).encode().to_vec(), 0x81),
        ("a topic with a NUL",            Packet::Publish(Publish::new("or\0ders", "x")).encode().to_vec(), 0x81),
        ("neither topic nor alias",       Packet::Publish(Publish::new("", "x")).encode().to_vec(), 0x82),
        ("alias 0",                       Packet::Publish(Publish::new("orders", "x").with(Property::TopicAlias(0))).encode().to_vec(), 0x94),
        ("an unexplained alias",          Packet::Publish(Publish::new("", "x").with(Property::TopicAlias(3))).encode().to_vec(), 0x82),
        ("an alias above the maximum",    Packet::Publish(Publish::new("orders", "x").with(Property::TopicAlias(65))).encode().to_vec(), 0x94),
        ("a PUBACK of nothing",           Packet::PubAck(Ack::of(77)).encode().to_vec(), 0x82),
        ("a second CONNACK",              Packet::ConnAck(ConnAck::default()).encode().to_vec(), 0x82),
        ("a CONNECT",                     Packet::Connect(support::mqtt::packet::Connect::new("x")).encode().to_vec(), 0x82),
        ("a PINGREQ",                     Packet::PingReq.encode().to_vec(), 0x82),
        ("a SUBSCRIBE",                   Packet::Subscribe(support::mqtt::packet::Subscribe { id: 1, filters: vec![support::mqtt::packet::Filter::new("a", 1)], ..Default::default() }).encode().to_vec(), 0x82),
        ("an AUTH",                       Packet::Auth(support::mqtt::packet::Reason::new(0x18)).encode().to_vec(), 0x82),
        ("a packet that is too large",    vec![0x30, 0x80, 0x80, 0x80, 0x01], 0x95),
    ];
    for (what, bytes, code) in rows {
        let log = Log::capture();
        let peer = Peer::bind().await;
        let (script, mut inbox) = Inbox::acking(fulfil());
        let mut served = serve(&peer, shop(broker(&peer), [script])).await;
        served.connection.send_raw(&bytes).await;
        let said = served.connection.rest().await;
        let [Packet::Disconnect(goodbye)] = &said[..] else {
            panic!("{what}: {said:?}");
        };
        let is_same = goodbye.code == code
            // Malformed or a protocol error: section 4.13 leaves it to us.
            || (matches!(code, 0x81 | 0x82) && matches!(goodbye.code, 0x81 | 0x82));
        assert!(is_same, "{what}: {goodbye:?}");
        let reason = down(&served.app, "fulfil").await;
        assert!(!reason.is_empty());
        assert!(
            log.warnings("") <= 2,
            "{what}: {:#?}",
            log.from(tracing::Level::WARN)
        );
        drop(served.connection);
        works(&peer, &mut inbox).await;
        up(&served.app, "fulfil").await;
    }
}

// case: F15
#[tokio::test]
async fn a_server_that_ignores_the_packet_limit_is_told_and_does_not_make_a_storm() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let (script, mut inbox) = Inbox::acking(fulfil());
    let broker = broker(&peer).with_max_packet_size(10_240);
    let mut served = serve(&peer, shop(broker, [script])).await;
    let large = "x".repeat(20_000);
    for _ in 0..2 {
        served.connection.send(publish(1, &large)).await;
        assert_eq!(served.connection.expect_disconnect().await.code, 0x95);
        served.connection.expect_close().await;
        let reason = down(&served.app, "fulfil").await;
        // Beside the payload: the fixed header, the topic and its length, the packet id, and no properties.
        assert!(reason.contains("20015 bytes"), "{reason}");
        assert!(
            reason.contains("10240") && reason.contains("`max_packet_size`"),
            "{reason}"
        );
        let begun = crate::rig::now();
        served.connection = peer.session(ConnAck::default()).await.1;
        assert!(
            begun.elapsed() >= Duration::from_millis(50),
            "{:?}",
            begun.elapsed()
        );
        served.connection.grant().await;
    }
    assert_eq!(log.warnings("message=not connected"), 1);
    served.connection.send(publish(2, "small")).await;
    assert_eq!(served.connection.expect_puback().await, Ack::of(2));
    assert_eq!(inbox.next().await, "small");
}

#[tokio::test]
async fn a_suback_with_too_few_codes_is_asked_again() {
    let peer = Peer::bind().await;
    let play = async {
        let (_, mut connection) = peer.session(ConnAck::default()).await;
        let subscribe = connection.expect_subscribe().await;
        let answers = Answers::new(subscribe.id, []);
        connection.send(Packet::SubAck(answers)).await;
        connection
    };
    let (app, mut connection) = tokio::join!(shop(broker(&peer), [fulfil()]).start(), play);
    let app = app.unwrap();
    down(&app, "fulfil").await;
    // On this connection, or on the next.
    let again = tokio::time::timeout(support::PATIENCE, connection.next())
        .await
        .unwrap();
    if let Some(Packet::Subscribe(subscribe)) = again {
        let answers = Answers::new(subscribe.id, [1]);
        connection.send(Packet::SubAck(answers)).await;
    } else {
        connection = peer.session(ConnAck::default()).await.1;
        connection.grant().await;
    }
    up(&app, "fulfil").await;
}
