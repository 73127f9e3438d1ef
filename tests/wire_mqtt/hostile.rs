//! A server that breaks the rules, by mistake or on purpose: one clear error, no panic, no spin, and
//! what comes after it is handled.

use std::time::Duration;

use ruststream::Outcome;
use ruststream::broker::mqtt::Mqtt;
use ruststream::stats::Health;
use ruststream::testing::Script;
use support::Starts;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Answers;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;
use support::mqtt::packet::Subscribe;

use crate::Wire;
use crate::jobs;
use crate::message;
use crate::until;

/// Bytes that end a connection, and a word of the reason.
fn offences() -> Vec<(&'static str, Vec<u8>)> {
    let raw = |bytes: &[u8]| bytes.to_vec();
    let packet = |packet: Packet| packet.encode().to_vec();
    let alias = |alias: u16, topic: &str| {
        packet(Packet::Publish(
            Publish::new(topic, "x")
                .at(1, 1)
                .with(Property::TopicAlias(alias)),
        ))
    };
    vec![
        ("packet", raw(&[0x00, 0x00])),
        ("packet", raw(&[0xF0, 0x02, 0x00, 0x00])),
        ("ength", raw(&[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01])),
        ("packet", raw(&[0x30, 0x00])),
        ("packet", raw(&[0x32, 0x03, 0x00, 0x01, b'a'])),
        // A topic longer than its packet.
        ("packet", raw(&[0x30, 0x05, 0x00, 0x20, b'a', 0x00, b'x'])),
        ("UTF-8", raw(&[0x30, 0x05, 0x00, 0x01, 0xFF, 0x00, b'x'])),
        // Properties that end after, and before, where they say.
        (
            "end where they say",
            raw(&[
                0x30, 0x0A, 0x00, 0x01, b'a', 0x03, 0x01, 0x01, 0x01, 0x00, b'x', b'y',
            ]),
        ),
        (
            "packet",
            raw(&[0x30, 0x06, 0x00, 0x01, b'a', 0x7F, 0x01, 0x01]),
        ),
        (
            "wildcard",
            packet(Packet::Publish(Publish::new("jobs/#", "x").at(1, 1))),
        ),
        (
            "packet",
            raw(&[
                0x32, 0x09, 0x00, 0x04, b'j', b'o', b'b', b's', 0x00, 0x00, 0x00,
            ]),
        ),
        (
            "packet",
            raw(&[
                0x36, 0x09, 0x00, 0x04, b'j', b'o', b'b', b's', 0x00, 0x01, 0x00,
            ]),
        ),
        ("alias", alias(0, "jobs")),
        ("alias", alias(9, "")),
        ("alias", alias(65, "jobs")),
        (
            "topic",
            packet(Packet::Publish(Publish::new("", "x").at(1, 1))),
        ),
        ("not sent", packet(Packet::PubAck(Ack::of(77)))),
        (
            "second CONNACK",
            packet(Packet::ConnAck(ConnAck::default())),
        ),
        ("clients send", packet(Packet::PingReq)),
        (
            "clients send",
            packet(Packet::Subscribe(Subscribe {
                id: 1,
                filters: vec![support::mqtt::packet::Filter::new("a", 1)],
                ..Subscribe::default()
            })),
        ),
    ]
}

#[tokio::test]
async fn every_offence_ends_the_connection_with_a_reason_and_the_next_one_serves() {
    for (words, bytes) in offences() {
        let starts = Starts::new();
        let mut wire = Wire::of(starts.answer(jobs(), |_| Outcome::Ack)).await;
        wire.reader.send_raw(&bytes).await;
        let said = wire.reader.rest().await;
        let Some(Packet::Disconnect(reason)) = said.last() else {
            panic!("{bytes:02x?}: the server is told why: {said:?}");
        };
        assert!(reason.code >= 0x80, "{bytes:02x?}: {reason:?}");
        until("it says why", || match &wire.running.health()["work"] {
            Health::Down { reason } => reason.contains(words),
            _ => false,
        })
        .await;
        let (_, mut reader) = wire.peer.session(ConnAck::default()).await;
        reader.grant().await;
        reader.send(message(1, 1, "after")).await;
        assert_eq!(reader.expect_puback().await, Ack::of(1));
        assert_eq!(starts.payloads(), ["after"], "{bytes:02x?}");
    }
}

// case: F15
#[tokio::test]
async fn a_server_that_ignores_the_longest_packet_is_told_so_with_the_setting() {
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let mut wire = Wire::with(script, "?max_packet_size=1024").await;
    wire.reader.send(message(1, 1, &"x".repeat(5_000))).await;
    let end = wire.reader.expect_disconnect().await;
    assert_eq!(end.code, 0x95);
    until("it says why", || match &wire.running.health()["work"] {
        Health::Down { reason } => reason.contains("max_packet_size") && reason.contains("5012"),
        _ => false,
    })
    .await;
}

// case: D10
#[tokio::test]
async fn a_pubrel_for_an_unknown_id_is_completed() {
    let mut wire = Wire::of(Starts::new().answer(jobs(), |_| Outcome::Ack)).await;
    wire.reader.send(Packet::PubRel(Ack::of(321))).await;
    assert_eq!(wire.reader.expect_pubcomp().await, Ack::of(321));
    wire.reader.send(message(1, 1, "a")).await;
    wire.reader.expect_puback().await;
}

#[tokio::test]
async fn acknowledgements_nobody_waits_for_and_answers_nobody_asked_for_are_ignored() {
    let mut wire = Wire::of(Starts::new().answer(jobs(), |_| Outcome::Ack)).await;
    wire.reader.send(Packet::PubComp(Ack::of(5))).await;
    wire.reader
        .send(Packet::SubAck(Answers::new(500, vec![1])))
        .await;
    wire.reader
        .send(Packet::UnsubAck(Answers::new(500, vec![0])))
        .await;
    wire.reader.send(Packet::PingResp).await;
    wire.reader.send(message(1, 1, "a")).await;
    wire.reader.expect_puback().await;
}

#[tokio::test]
async fn a_topic_alias_stands_for_its_topic_until_the_connection_ends() {
    let starts = Starts::new();
    let mut wire = Wire::of(starts.answer(jobs(), |_| Outcome::Ack)).await;
    let aliased = |topic: &str, id: u16| {
        Packet::Publish(
            Publish::new(topic, "x")
                .at(1, id)
                .with(Property::TopicAlias(3)),
        )
    };
    wire.reader.send(aliased("jobs", 1)).await;
    wire.reader.send(aliased("", 2)).await;
    assert_eq!(wire.reader.expect_puback().await, Ack::of(1));
    assert_eq!(wire.reader.expect_puback().await, Ack::of(2));
    drop(wire.reader);
    let (_, mut reader) = wire.peer.session(ConnAck::default()).await;
    reader.grant().await;
    reader.send(aliased("", 1)).await;
    reader.expect_disconnect().await;
    assert_eq!(starts.count(), 2);
}

#[tokio::test]
async fn bytes_may_come_one_by_one_or_ten_thousand_packets_at_once() {
    let starts = Starts::new();
    let script = starts.answer(jobs(), |_| Outcome::Ack);
    let mut wire = Wire::of(script.with(|options| options.prefetch = Some(20_000))).await;
    for byte in message(1, 1, "slow").encode() {
        wire.reader.send_raw(&[byte]).await;
        tokio::task::yield_now().await;
    }
    wire.reader.expect_puback().await;
    let mut bytes = Vec::new();
    for id in 1..=10_000 {
        bytes.extend_from_slice(&message(1, id, "fast").encode());
    }
    let (_, ()) = tokio::join!(wire.reader.try_send_raw(&bytes), async {});
    for id in 1..=10_000 {
        assert_eq!(wire.reader.expect_puback().await, Ack::of(id));
    }
    assert_eq!(starts.count(), 10_001);
}

// spec: C15
// case: F14
#[tokio::test]
async fn a_server_that_sends_more_than_the_receive_maximum_is_held_and_then_left() {
    let starts = Starts::new();
    let script = starts.hang(jobs()).with(|options| {
        options.prefetch = Some(4);
        options.concurrency = Some(100);
    });
    let mut wire = Wire::of(script).await;
    for id in 1..=20 {
        wire.reader.send(message(1, id, &id.to_string())).await;
    }
    until("as many are at work as may be", || starts.count() == 4).await;
    for id in 21..=40 {
        wire.reader.send(message(1, id, &id.to_string())).await;
    }
    assert_eq!(wire.reader.expect_disconnect().await.code, 0x93);
    assert_eq!(starts.count(), 4);
}

/// What a start says when the server answers the CONNECT so.
async fn greeted_with(bytes: Option<&[u8]>) -> String {
    let peer = Peer::bind().await;
    let broker = Mqtt::new(&format!("{}?connect_timeout=500ms", peer.url())).expect("it is a URL");
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let starting = crate::task(Script::app("shop", [script]).broker(broker).start());
    let mut connection = peer.accept().await;
    connection.expect_connect().await;
    let held = match bytes {
        Some([]) => {
            drop(connection);
            None
        }
        Some(bytes) => {
            connection.send_raw(bytes).await;
            Some(connection)
        }
        None => Some(connection),
    };
    let text = match starting.await.expect("it does not panic") {
        Err(error) => error.to_string(),
        Ok(running) => {
            until("it says why", || {
                matches!(running.health()["work"], Health::Down { .. })
            })
            .await;
            format!("{:?}", running.health()["work"])
        }
    };
    drop(held);
    text
}

#[tokio::test]
async fn whatever_answers_in_place_of_a_server_is_called_what_it_is() {
    for (bytes, words) in [
        (Some(&[0x20, 0x02, 0x00, 0x01][..]), "3.1.1"),
        (
            Some(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]),
            "something else",
        ),
        (
            Some(&[0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x28][..]),
            "mqtts://",
        ),
        (Some(&[0xD0, 0x00][..]), "something else than a CONNACK"),
        (Some(&[][..]), "without an answer"),
        (None, "did not answer"),
    ] {
        let text = greeted_with(bytes).await;
        assert!(text.contains(words), "{bytes:02x?}: {text}");
    }
}

#[tokio::test]
async fn a_server_that_is_silent_is_asked_and_left() {
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let mut wire = Wire::with(script, "?keep_alive=1s").await;
    wire.reader.expect_nothing_but_a_ping().await;
    assert_eq!(wire.reader.expect().await, Packet::PingReq);
    // This one has no answer.
    wire.reader.expect_close().await;
    until("it says why", || match &wire.running.health()["work"] {
        Health::Down { reason } => reason.contains("PINGREQ"),
        _ => false,
    })
    .await;
}

// spec: C14
#[tokio::test]
async fn a_subscription_without_an_answer_is_not_waited_for_for_ever() {
    let peer = Peer::bind().await;
    let broker = Mqtt::new(&format!("{}?connect_timeout=300ms", peer.url())).expect("it is a URL");
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let starting = crate::task(Script::app("shop", [script]).broker(broker).start());
    let (_, mut reader) = peer.session(ConnAck::default()).await;
    reader.expect_subscribe().await;
    reader.expect_close().await;
    let running = starting
        .await
        .expect("it does not panic")
        .expect("it goes on");
    until("it says why", || match &running.health()["work"] {
        Health::Down { reason } => reason.contains("SUBSCRIBE"),
        _ => false,
    })
    .await;
}

// case: F02
#[tokio::test]
async fn a_port_where_nobody_listens_is_tried_less_and_less() {
    let peer = Peer::bind().await;
    let (url, port) = (peer.url(), peer.port());
    drop(peer);
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let broker = Mqtt::new(&url).expect("it is a URL");
    let running = Script::app("shop", [script]).broker(broker).start().await;
    let running = running.expect("a server that is away is no error");
    until("it says why", || match &running.health()["work"] {
        Health::Down { reason } => reason.contains("refuses connections"),
        _ => false,
    })
    .await;
    // It comes by itself once somebody listens.
    let peer = Peer::bind_to(port).await;
    let (_, mut reader) = peer.session(ConnAck::default()).await;
    reader.grant().await;
    until("it receives", || running.health()["work"] == Health::Up).await;
    drop(running);
    let unknown = Mqtt::new("mqtt://nonexistent.invalid").expect("it is a URL");
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let starting = Script::app("shop", [script]).broker(unknown).start();
    let running = tokio::time::timeout(Duration::from_secs(12), starting).await;
    let running = running.expect("it does not hang").expect("it may heal");
    until("it says why", || match &running.health()["work"] {
        Health::Down { reason } => reason.contains("does not resolve"),
        _ => false,
    })
    .await;
}
