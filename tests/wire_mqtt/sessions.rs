//! Connecting, subscribing, coming back and leaving.

use std::time::Duration;

use ruststream::App;
use ruststream::Error;
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
use support::mqtt::packet::Reason;

use crate::SILENCE;
use crate::Wire;
use crate::jobs;
use crate::message;
use crate::mqtt;
use crate::until;

fn acks(script: Script) -> Script {
    Starts::new().answer(script, |_| Outcome::Ack)
}

fn present() -> ConnAck {
    ConnAck {
        session_present: true,
        ..ConnAck::default()
    }
}

fn app(peer: &Peer, parameters: &str, scripts: impl IntoIterator<Item = Script>) -> App {
    let broker = Mqtt::new(&format!("{}{parameters}", peer.url())).expect("it is a URL");
    Script::app("shop", scripts).broker(broker)
}

// spec: C17 M7
#[tokio::test]
async fn a_handler_has_a_session_that_is_kept_and_an_id_of_its_own() {
    let wire = Wire::of(acks(jobs())).await;
    let connect = &wire.connect;
    assert!(
        connect.client_id.starts_with("shop-") && connect.client_id.ends_with("-work"),
        "{connect:?}"
    );
    assert!(!connect.clean_start);
    assert_eq!(connect.keep_alive, 30);
    for property in [
        Property::SessionExpiryInterval(3_600),
        Property::ReceiveMaximum(64),
        Property::MaximumPacketSize(1_048_576),
    ] {
        assert!(
            connect.properties.has(&property),
            "{property:?}: {connect:?}"
        );
    }
    assert_eq!(connect.will, None);
    let filter = &wire.subscribe.filters[0];
    assert_eq!(
        (filter.topics.as_str(), filter.qos, filter.retain_handling),
        ("jobs", 1, 0)
    );
}

#[tokio::test]
async fn what_is_declared_is_what_is_said() {
    let script = acks(jobs()).with(|options| {
        options.prefetch = Some(7);
        mqtt(|mqtt| {
            mqtt.client_id = Some("mine");
            mqtt.session_expiry = Some(Duration::from_mins(5));
            mqtt.retain_handling = Some(2);
            mqtt.retain_as_published = Some(true);
        })(options);
    });
    let parameters = "?keep_alive=9s&max_packet_size=4096&clean_start=true";
    let mut wire = Wire::with(script, parameters).await;
    assert_eq!(wire.connect.client_id, "mine");
    assert!(wire.connect.clean_start);
    assert_eq!(wire.connect.keep_alive, 9);
    for property in [
        Property::SessionExpiryInterval(300),
        Property::ReceiveMaximum(7),
        Property::MaximumPacketSize(4_096),
    ] {
        assert!(wire.connect.properties.has(&property), "{property:?}");
    }
    let filter = &wire.subscribe.filters[0];
    assert!(filter.retain_as_published && filter.retain_handling == 2);
    // A clean start is asked for once: later connections go on with what the first began.
    drop(wire.reader);
    let (connect, reader) = wire.peer.session(present()).await;
    assert!(!connect.clean_start);
    wire.reader = reader;
    wire.reader.grant().await;
}

#[tokio::test]
async fn a_handler_at_qos_0_keeps_no_session() {
    let wire = Wire::of(acks(jobs()).with(mqtt(|mqtt| mqtt.qos = Some(0)))).await;
    assert!(wire.connect.clean_start);
    let keeps = |property: &Property| matches!(property, Property::SessionExpiryInterval(_));
    assert!(
        !wire.connect.properties.all().iter().any(keeps),
        "{:?}",
        wire.connect
    );
}

// spec: C14
// case: F01 F04
#[tokio::test]
async fn it_subscribes_again_on_every_connection_and_asks_for_no_retained_messages_it_had() {
    let mut wire = Wire::of(acks(jobs())).await;
    drop(wire.reader);
    let (connect, reader) = wire.peer.session(present()).await;
    assert_eq!(connect.client_id, wire.connect.client_id);
    wire.reader = reader;
    assert_eq!(wire.reader.grant().await.filters[0].retain_handling, 1);
    // The session is lost: the subscription is new.
    drop(wire.reader);
    let (_, mut reader) = wire.peer.session(ConnAck::default()).await;
    assert_eq!(reader.grant().await.filters[0].retain_handling, 0);
    reader.send(message(1, 1, "a")).await;
    reader.expect_puback().await;
}

/// What a start that is refused says.
async fn refused(connack: ConnAck) -> Error {
    let peer = Peer::bind().await;
    let url = peer.url().replace("mqtt://", "mqtt://svc:p%40ss-W0rd@");
    let broker = Mqtt::new(&url).expect("it is a URL");
    let starting = crate::task(Script::app("shop", [acks(jobs())]).broker(broker).start());
    let (connect, connection) = peer.session(connack).await;
    assert_eq!(connect.user_name.as_deref(), Some("svc"));
    assert_eq!(connect.password.as_deref(), Some(&b"p@ss-W0rd"[..]));
    let error = starting
        .await
        .expect("it does not panic")
        .expect_err("it is refused");
    drop(connection);
    error
}

// spec: C14
// case: L01
#[tokio::test]
async fn a_refusal_that_cannot_heal_ends_the_start_and_says_what_to_do() {
    for (code, words) in [
        (0x86, "credentials"),
        (0x87, "not authorized"),
        (0x85, "client id"),
        (0x84, "MQTT 5"),
        (0x8A, "banned"),
        (0x9D, "moved"),
    ] {
        let connack = ConnAck {
            code,
            ..ConnAck::default()
        };
        let connack = connack.with(Property::ReasonString("ask Ada".into()));
        let error = refused(connack).await;
        let text = format!("{error} {error:?}");
        for part in [words, "`work`", "127.0.0.1", "ask Ada"] {
            assert!(text.contains(part), "0x{code:02X}, {part}: {text}");
        }
        assert!(!text.contains("p@ss") && !text.contains("p%40ss"), "{text}");
    }
}

// spec: C14
#[tokio::test]
async fn a_refusal_that_may_heal_is_tried_again() {
    let peer = Peer::bind().await;
    let starting = crate::task(app(&peer, "", [acks(jobs())]).start());
    let busy = ConnAck {
        code: 0x89,
        ..ConnAck::default()
    };
    drop(peer.session(busy).await);
    let running = starting
        .await
        .expect("it does not panic")
        .expect("it goes on");
    until("it says why", || match &running.health()["work"] {
        Health::Down { reason } => reason.contains("busy"),
        _ => false,
    })
    .await;
    let (_, mut reader) = peer.session(ConnAck::default()).await;
    reader.grant().await;
    until("it receives", || running.health()["work"] == Health::Up).await;
}

// spec: C14
// case: F18
#[tokio::test]
async fn a_filter_that_is_refused_is_one_error_that_names_it_and_no_other() {
    for (code, words) in [
        (0x87, "may not read"),
        (0x8F, "filter"),
        (0x9E, "shared"),
        (0, "grants QoS 0"),
    ] {
        let peer = Peer::bind().await;
        let packed = |name: &str| {
            let script = Script::topic(format!("{name}/topic")).named(name);
            acks(script).with(mqtt(|mqtt| mqtt.connection = Some("all")))
        };
        let app = app(&peer, "", [packed("good"), packed("secret")]);
        let starting = crate::task(app.start());
        let (connect, mut reader) = peer.session(ConnAck::default()).await;
        assert!(connect.client_id.ends_with("-all"));
        let subscribe = reader.expect_subscribe().await;
        let codes: Vec<_> = subscribe
            .filters
            .iter()
            .map(|filter| {
                if filter.topics == "secret/topic" {
                    code
                } else {
                    1
                }
            })
            .collect();
        assert_eq!(codes.len(), 2, "one SUBSCRIBE has both");
        reader
            .send(Packet::SubAck(Answers::new(subscribe.id, codes)))
            .await;
        let error = starting
            .await
            .expect("it does not panic")
            .expect_err("one is refused");
        let text = error.to_string();
        for part in [words, "`secret`", "secret/topic", "127.0.0.1"] {
            assert!(text.contains(part), "0x{code:02X}, {part}: {text}");
        }
        assert!(!text.contains("`good`"), "{text}");
    }
}

// spec: C14
#[tokio::test]
async fn a_filter_that_is_refused_later_is_down_and_tried_again() {
    let mut wire = Wire::of(acks(jobs())).await;
    drop(wire.reader);
    let (_, reader) = wire.peer.session(ConnAck::default()).await;
    wire.reader = reader;
    let subscribe = wire.reader.expect_subscribe().await;
    wire.reader
        .send(Packet::SubAck(Answers::new(subscribe.id, vec![0x87])))
        .await;
    until("it is down", || match &wire.running.health()["work"] {
        Health::Down { reason } => reason.contains("may not read"),
        _ => false,
    })
    .await;
    wire.reader.grant().await;
    until("it receives", || {
        wire.running.health()["work"] == Health::Up
    })
    .await;
}

// spec: C14
#[tokio::test]
async fn a_session_that_was_taken_over_says_by_which_id() {
    let mut wire = Wire::of(acks(jobs()).with(mqtt(|mqtt| mqtt.client_id = Some("twin")))).await;
    wire.reader
        .send(Packet::Disconnect(Reason::new(0x8E)))
        .await;
    until("it says so", || match &wire.running.health()["work"] {
        Health::Down { reason } => reason.contains("`twin`") && reason.contains("client_id"),
        _ => false,
    })
    .await;
}

// spec: C14
// case: F02
#[tokio::test]
async fn a_connection_that_lives_a_moment_does_not_start_the_pauses_anew() {
    let wire = Wire::of(acks(jobs())).await;
    drop(wire.reader);
    let mut tries = 0;
    let trying = async {
        loop {
            let (_, mut reader) = wire.peer.session(ConnAck::default()).await;
            reader.grant().await;
            tries += 1;
        }
    };
    let time = Duration::from_secs(3);
    tokio::time::timeout(time, trying)
        .await
        .expect_err("it never ends");
    // 0.2 s at first, doubling, halved at most: at 0.1, 0.3, 0.7, 1.5 and 3.1 s at the earliest.
    assert!((2..=5).contains(&tries), "{tries} tries in {time:?}");
}

// spec: C17
#[tokio::test]
async fn packed_handlers_share_a_connection_and_each_gets_what_its_filter_matches() {
    let starts = Starts::new();
    let peer = Peer::bind().await;
    let packed = |topic: &str, name: &str| {
        let script = Script::topic(topic).named(name).with(|options| {
            options.prefetch = Some(10);
            mqtt(|mqtt| mqtt.connection = Some("all"))(options);
        });
        starts.answer(script, |_| Outcome::Ack)
    };
    let app = app(&peer, "", [packed("one", "first"), packed("two", "second")]);
    let starting = crate::task(app.start());
    let (connect, mut reader) = peer.session(ConnAck::default()).await;
    assert!(connect.properties.has(&Property::ReceiveMaximum(20)));
    reader.grant().await;
    let running = starting
        .await
        .expect("it does not panic")
        .expect("it starts");
    for (id, topic) in [(1, "one"), (2, "two"), (3, "three")] {
        reader
            .send(Packet::Publish(Publish::new(topic, topic).at(1, id)))
            .await;
    }
    for id in 1..=3 {
        assert_eq!(reader.expect_puback().await, Ack::of(id));
    }
    assert_eq!(starts.count(), 2);
    let arrived = |name: &str| running.stats()[name].deliveries;
    assert_eq!((arrived("first"), arrived("second")), (1, 1));
    until("the stranger is counted", || {
        running.stats()["first"].unmatched == 1
    })
    .await;
    peer.expect_nobody(SILENCE).await;
}

// spec: C17
#[tokio::test]
async fn filters_that_overlap_cannot_be_packed_and_ids_cannot_be_shared() {
    let peer = Peer::bind().await;
    let filter =
        |filter: &str, name: &str, change: fn(&mut ruststream::registration::MqttOptions)| {
            let script = Script::filter(filter)
                .named(name)
                .with(|options| options.retry_topic = Some("a/retry"));
            acks(script).with(mqtt(change))
        };
    let packed = |mqtt: &mut ruststream::registration::MqttOptions| mqtt.connection = Some("all");
    let error = app(
        &peer,
        "",
        [filter("a/+", "one", packed), filter("a/#", "two", packed)],
    )
    .check();
    let text = error.expect_err("they overlap").to_string();
    assert!(text.contains("mqtt(connection)"), "{text}");
    let twins = |mqtt: &mut ruststream::registration::MqttOptions| mqtt.client_id = Some("twin");
    let error = app(
        &peer,
        "",
        [filter("a/+", "one", twins), filter("b/#", "two", twins)],
    )
    .check();
    let text = error.expect_err("they are twins").to_string();
    assert!(text.contains("`twin`"), "{text}");
}

// spec: C29 C7
#[tokio::test]
async fn a_plain_session_is_kept_at_a_stop_and_what_was_not_started_is_not_acknowledged() {
    let starts = Starts::new();
    let script = starts
        .hang(jobs())
        .with(|options| options.concurrency = Some(1));
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 1, "hangs")).await;
    wire.reader.send(message(1, 2, "waits")).await;
    until("one is at work", || starts.count() == 1).await;
    let Wire {
        running,
        mut reader,
        ..
    } = wire;
    let stopping = crate::task(running.stop());
    let said = reader.rest().await;
    stopping
        .await
        .expect("it does not panic")
        .expect_err("one handler hangs");
    assert_eq!(
        said,
        [Packet::Disconnect(Reason::new(0))],
        "nothing is acknowledged"
    );
}

// spec: C29 C7
#[tokio::test]
async fn a_member_of_a_group_leaves_it_handles_what_comes_until_it_is_empty_and_ends_its_session() {
    let starts = Starts::new();
    let script = starts.answer(jobs(), |_| Outcome::Ack);
    let wire = Wire::of(script.with(mqtt(|mqtt| mqtt.shared = Some("g")))).await;
    let Wire {
        running,
        mut reader,
        ..
    } = wire;
    let stopping = crate::task(running.stop());
    let unsubscribe = reader.expect_unsubscribe().await;
    assert_eq!(unsubscribe.filters, ["$share/g/jobs"]);
    // The server had assigned more to it.
    reader.send(message(1, 1, "a")).await;
    reader
        .send(Packet::UnsubAck(Answers::new(unsubscribe.id, vec![0])))
        .await;
    assert_eq!(reader.expect_puback().await, Ack::of(1));
    assert_eq!(reader.expect().await, Packet::PingReq);
    reader.send(message(1, 2, "b")).await;
    reader.send(Packet::PingResp).await;
    assert_eq!(reader.expect_puback().await, Ack::of(2));
    // Something came, so it asks once more.
    assert_eq!(reader.expect().await, Packet::PingReq);
    reader.send(Packet::PingResp).await;
    let end = reader.expect_disconnect().await;
    assert!(
        end.properties.has(&Property::SessionExpiryInterval(0)),
        "{end:?}"
    );
    drop(reader);
    stopping
        .await
        .expect("it does not panic")
        .expect("it stops in order");
    assert_eq!(starts.payloads(), ["a", "b"]);
}

// spec: C29
#[tokio::test]
async fn a_member_of_a_group_that_left_something_unacknowledged_keeps_its_session() {
    let script = Starts::new().answer(jobs(), |_| Outcome::Retry);
    let mut wire = Wire::of(script.with(mqtt(|mqtt| mqtt.shared = Some("g")))).await;
    wire.reader.send(message(1, 1, "a")).await;
    until("it is left", || wire.running.stats()["work"].stuck == 1).await;
    let said = wire.stop().await;
    assert_eq!(
        said.last(),
        Some(&Packet::Disconnect(Reason::new(0))),
        "{said:?}"
    );
}
