//! What is published, within what the server takes; and the connection that carries it.

use std::time::Duration;

use ruststream::Message;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::broker::Broker;
use ruststream::broker::Published;
use ruststream::broker::mqtt::Mqtt;
use ruststream::testing::Script;
use support::Starts;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;
use support::mqtt::packet::Will;

use crate::SILENCE;
use crate::confirm;
use crate::jobs;
use crate::mqtt;
use crate::until;

/// A publisher outside an application, and its connection.
async fn publisher(
    parameters: &str,
    connack: ConnAck,
) -> (Peer, Publisher, support::mqtt::Connection) {
    let peer = Peer::bind().await;
    let broker = Mqtt::new(&format!("{}{parameters}", peer.url())).expect("it is a URL");
    let publisher = Publisher::new(broker.sink());
    // The connection is made with the first message.
    let first = publisher.publish("first", "x");
    let (connect, mut writer) = peer.session(connack).await;
    assert!(connect.clean_start, "nothing outlives it");
    let serving = async {
        confirm(&mut writer).await;
    };
    let (confirmed, ()) = tokio::join!(first, serving);
    confirmed.expect("it is confirmed");
    (peer, publisher, writer)
}

// spec: C4
#[tokio::test]
async fn a_publish_is_ready_when_it_is_confirmed_and_says_that_nobody_reads_it() {
    let (_peer, publisher, mut writer) = publisher("", ConnAck::default()).await;
    let publish = publisher.publish("a", "1");
    let sent = writer.expect_publish().await;
    let mut publish = std::pin::pin!(publish);
    assert!(futures_util::poll!(&mut publish).is_pending());
    writer
        .send(Packet::PubAck(
            Ack::of(sent.id.expect("it has one")).code(0x10),
        ))
        .await;
    assert_eq!(publish.await.expect("it is taken"), Published::Unread);
}

// spec: C5
#[tokio::test]
async fn a_refusal_is_an_error_with_the_servers_reason() {
    let (_peer, publisher, mut writer) = publisher("", ConnAck::default()).await;
    for (code, is_transient, words) in [
        (0x87, false, "may not publish"),
        (0x97, true, "limit"),
        (0x90, false, "topic"),
    ] {
        let publish = publisher.publish("a", "1");
        let sent = writer.expect_publish().await;
        let mut ack = Ack::of(sent.id.expect("it has one")).code(code);
        ack.properties
            .push(Property::ReasonString("ask Ada".into()));
        writer.send(Packet::PubAck(ack)).await;
        let error = publish.await.expect_err("it is refused");
        assert_eq!(error.is_transient(), is_transient, "{error}");
        assert!(
            error.reason().contains(words) && error.reason().contains("ask Ada"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn no_more_is_on_its_way_than_the_server_takes_at_once() {
    let connack = ConnAck::default().with(Property::ReceiveMaximum(2));
    let (_peer, publisher, mut writer) = publisher("", connack).await;
    let all: Vec<_> = (0..5)
        .map(|number| publisher.publish("a", number.to_string()))
        .collect();
    let (first, second) = (writer.expect_publish().await, writer.expect_publish().await);
    writer.expect_silence(SILENCE).await;
    for sent in [first, second] {
        writer
            .send(Packet::PubAck(Ack::of(sent.id.expect("it has one"))))
            .await;
    }
    for _ in 2..5 {
        confirm(&mut writer).await;
    }
    for one in all {
        one.await.expect("it is confirmed");
    }
}

// case: F15
#[tokio::test]
async fn what_the_server_cannot_take_fails_at_once_and_touches_nothing() {
    let connack = ConnAck::default()
        .with(Property::MaximumPacketSize(64))
        .with(Property::RetainAvailable(0));
    let (_peer, publisher, mut writer) = publisher("", connack).await;
    let long = publisher
        .publish("a", vec![0; 100])
        .await
        .expect_err("it is too long");
    assert!(
        !long.is_transient() && long.reason().contains("takes 64 at most"),
        "{long}"
    );
    let kept = publisher.publish("a", Message::new("x").retained()).await;
    assert!(
        kept.expect_err("it keeps nothing")
            .reason()
            .contains("retained")
    );
    for topic in ["", "a/+", "a/#", "a\0b"] {
        let error = publisher.publish(topic, "x").await.expect_err(topic);
        assert!(!error.is_transient(), "{error}");
    }
    let binary = Message::new("x").with_header("h", bytes::Bytes::from_static(&[255]));
    let error = publisher
        .publish("a", binary)
        .await
        .expect_err("it is no text");
    assert!(error.reason().contains("`h`"), "{error}");
    let publish = publisher.publish("a", "fits");
    assert_eq!(confirm(&mut writer).await.text(), "fits");
    publish.await.expect("it is confirmed");
}

#[tokio::test]
async fn a_server_with_qos_1_gets_no_more_and_one_with_qos_0_cannot_confirm() {
    let connack = ConnAck::default().with(Property::MaximumQos(1));
    let (_peer, publisher_of_two, mut writer) = publisher("?publish_qos=2", connack).await;
    let publish = publisher_of_two.publish("a", "x");
    assert_eq!(confirm(&mut writer).await.qos, 1);
    publish.await.expect("it is confirmed");

    let peer = Peer::bind().await;
    let broker = Mqtt::new(&peer.url()).expect("it is a URL");
    let publisher = Publisher::new(broker.sink());
    let publish = publisher.publish("a", "x");
    let connack = ConnAck::default().with(Property::MaximumQos(0));
    let (_connect, _writer) = peer.session(connack).await;
    assert!(
        publish
            .await
            .expect_err("nothing confirms it")
            .reason()
            .contains("QoS 0")
    );
}

// spec: C4
#[tokio::test]
async fn at_qos_2_the_whole_handshake_is_awaited() {
    let peer = Peer::bind().await;
    let broker = Mqtt::new(&format!("{}?publish_qos=2", peer.url())).expect("it is a URL");
    let publisher = Publisher::new(broker.sink());
    let publish = publisher.publish("a", "x");
    let (_, mut writer) = peer.session(ConnAck::default()).await;
    let sent = writer.expect_publish().await;
    assert_eq!(sent.qos, 2);
    let id = sent.id.expect("it has one");
    writer.send(Packet::PubRec(Ack::of(id))).await;
    assert_eq!(writer.expect_pubrel().await, Ack::of(id));
    writer.send(Packet::PubComp(Ack::of(id))).await;
    publish.await.expect("it is confirmed");
}

// spec: C5
#[tokio::test]
async fn a_broken_connection_fails_what_is_on_its_way_and_what_waits_goes_with_the_next() {
    let (peer, publisher, mut writer) = publisher("", ConnAck::default()).await;
    let lost = publisher.publish("a", "lost");
    writer.expect_publish().await;
    drop(writer);
    let error = lost.await.expect_err("nobody knows what became of it");
    assert!(error.is_transient(), "{error}");
    let waits = publisher.publish("a", "waits");
    let (_, mut writer) = peer.session(ConnAck::default()).await;
    assert_eq!(confirm(&mut writer).await.text(), "waits");
    waits.await.expect("it is confirmed");
}

#[tokio::test]
async fn a_no_local_handler_is_on_the_connection_that_is_published_on_and_its_session_is_resumed_whole()
 {
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let script = script.with(mqtt(|mqtt| mqtt.no_local = Some(true)));
    let mut wire = crate::Wire::with(script, "?publish_qos=2").await;
    assert!(wire.subscribe.filters[0].no_local);
    assert!(
        wire.connect.client_id.ends_with("-publisher"),
        "{:?}",
        wire.connect
    );
    let publisher = wire.running.publisher();
    let (one, two) = (publisher.publish("a", "1"), publisher.publish("a", "2"));
    let first = wire.reader.expect_publish().await;
    let second = wire.reader.expect_publish().await;
    let (first_id, second_id) = (
        first.id.expect("it has one"),
        second.id.expect("it has one"),
    );
    wire.reader.send(Packet::PubRec(Ack::of(first_id))).await;
    wire.reader.expect_pubrel().await;
    drop(wire.reader);
    assert!(one.await.expect_err("nobody waits so long").is_transient());
    assert!(two.await.expect_err("nobody waits so long").is_transient());
    let present = ConnAck {
        session_present: true,
        ..ConnAck::default()
    };
    let (_, mut reader) = wire.peer.session(present).await;
    // In the order in which they left, with the ids that they had (MQTT 5 section 4.4).
    assert_eq!(reader.expect_pubrel().await, Ack::of(first_id));
    let again = reader.expect_publish().await;
    assert_eq!(
        again,
        Publish {
            dup: true,
            ..second
        }
    );
    assert_eq!(again.id, Some(second_id));
    reader.grant().await;
}

#[tokio::test]
async fn the_last_will_is_told_to_the_server_at_the_start() {
    let peer = Peer::bind().await;
    let will = Message::new("gone").with_header("who", "shop").retained();
    let broker = Mqtt::new(&peer.url())
        .expect("it is a URL")
        .with_last_will("state", will, Duration::from_secs(7))
        .expect("MQTT can say it");
    let script = Starts::new().answer(jobs(), |_| Outcome::Ack);
    let starting = crate::task(Script::app("shop", [script]).broker(broker).start());
    let (mut wills, mut connections) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (connect, mut connection) = peer.session(ConnAck::default()).await;
        if connect.client_id.ends_with("-work") {
            connection.grant().await;
        }
        wills.extend(connect.will);
        connections.push(connection);
    }
    let running = starting.await.expect("it does not panic");
    drop(running.expect("it starts"));
    let [will] = &wills[..] else {
        panic!("one connection has it: {wills:?}");
    };
    let Will {
        topic, retain, qos, ..
    } = will;
    assert_eq!((topic.as_str(), *retain, *qos), ("state", true, 1));
    assert!(will.properties.has(&Property::WillDelayInterval(7)));
    assert_eq!(will.properties.value("who"), Some("shop"));
}

// spec: C28
#[tokio::test]
async fn a_request_says_where_the_answer_goes_and_knows_it_by_its_correlation_data() {
    let (peer, publisher, mut writer) = publisher("", ConnAck::default()).await;
    let asking = crate::task(publisher.request("prices", "?", Duration::from_secs(10)));
    let (connect, mut replies) = peer.session(ConnAck::default()).await;
    assert!(connect.client_id.contains("-replies-"));
    let topic = replies.grant().await.filters[0].topics.clone();
    let question = confirm(&mut writer).await;
    assert!(
        question
            .properties
            .has(&Property::ResponseTopic(topic.clone())),
        "{question:?}"
    );
    let id = question.properties.find(|property| match property {
        Property::CorrelationData(data) => Some(data.clone()),
        _ => None,
    });
    let id = id.expect("it has one");
    let stranger = Publish::new(topic.clone(), "for another").at(1, 1);
    replies
        .send(Packet::Publish(
            stranger.with(Property::CorrelationData("no".into())),
        ))
        .await;
    let answer = Publish::new(topic, "42")
        .at(1, 2)
        .with(Property::CorrelationData(id));
    replies.send(Packet::Publish(answer)).await;
    let answer = asking
        .await
        .expect("it does not panic")
        .expect("it is answered");
    assert_eq!(answer.payload(), "42");
    assert_eq!(replies.expect_puback().await, Ack::of(1));
    assert_eq!(replies.expect_puback().await, Ack::of(2));

    let unanswered = publisher.request("prices", "?", Duration::from_millis(50));
    let (error, _) = tokio::join!(unanswered, confirm(&mut writer));
    assert!(
        error
            .expect_err("nobody answers")
            .reason()
            .contains("`prices`")
    );
}

// spec: C15
#[tokio::test]
async fn messages_at_qos_0_that_find_no_room_are_counted() {
    let starts = Starts::new();
    let script = starts.hang(jobs()).with(mqtt(|mqtt| mqtt.qos = Some(0)));
    let mut wire = crate::Wire::of(script).await;
    let mut bytes = Vec::new();
    for _ in 0..2_000 {
        bytes.extend_from_slice(&crate::message(0, 0, "x").encode());
    }
    wire.reader.send_raw(&bytes).await;
    until("what is too much is counted", || {
        wire.running.stats()["work"].overflowed > 0
    })
    .await;
    let fence = || wire.running.stats()["work"].overflowed + 1_024 + 64 >= 2_000;
    until("no more is kept than has room", fence).await;
}
