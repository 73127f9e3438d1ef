//! What servers say of themselves, and what the driver makes of it: limits, keep-alive, wills, questions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::testing::Script;
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
use crate::rig::MOMENT;
use crate::rig::broker;
use crate::rig::down;
use crate::rig::fulfil;
use crate::rig::mqtt;
use crate::rig::now;
use crate::rig::refused;
use crate::rig::serve;
use crate::rig::serve_with;
use crate::rig::shop;
use crate::rig::until;
use crate::rig::up;

fn with(property: Property) -> ConnAck {
    ConnAck::default().with(property)
}

/// The connection that is published on, whose server has this property, with the first publish on its
/// way that `publish` begins.
async fn publisher(peer: &Peer, connack: ConnAck) -> Connection {
    let (connect, connection) = peer.session(connack).await;
    assert!(connect.client_id.contains("-publisher-"));
    connection
}

#[tokio::test]
async fn what_is_published_has_at_most_the_qos_that_the_server_takes() {
    let peer = Peer::bind().await;
    let broker = broker(&peer).with_publish_qos(2).unwrap();
    let served = serve(&peer, shop(broker, [fulfil()])).await;
    let sent = served.app.publisher().publish("bills", Message::new("b"));
    let play = async {
        let mut connection = publisher(&peer, with(Property::MaximumQos(1))).await;
        let publish = connection.expect_publish().await;
        assert_eq!(publish.qos, 1);
        let ack = Ack::of(publish.id.unwrap());
        connection.send(Packet::PubAck(ack)).await;
    };
    let (sent, ()) = tokio::join!(sent, play);
    sent.unwrap();
}

#[tokio::test]
async fn a_server_that_confirms_nothing_takes_nothing() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    let sent = served.app.publisher().publish("bills", Message::new("b"));
    let play = publisher(&peer, with(Property::MaximumQos(0)));
    let (sent, mut connection) = tokio::join!(sent, play);
    let error = sent.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.reason().contains("QoS 0 only"), "{error}");
    connection.expect_silence(MOMENT).await;
}

#[tokio::test]
async fn what_a_server_cannot_take_fails_at_once_and_the_connection_lives() {
    #[rustfmt::skip]
    let rows = [
        (Property::RetainAvailable(0), Message::new("r").retained(), "does not keep retained messages"),
        (Property::MaximumPacketSize(100), Message::new(vec![b'x'; 200]), "the server takes 100 at most"),
        // The packet around it counts: two bytes, the topic's seven, the id's two, one of the properties.
        (Property::MaximumPacketSize(100), Message::new(vec![b'x'; 89]), "is 101 bytes long"),
    ];
    for (property, message, said) in rows {
        let peer = Peer::bind().await;
        let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
        let publish = served.app.publisher();
        let refused = publish.publish("bills", message);
        let (refused, mut connection) = tokio::join!(refused, publisher(&peer, with(property)));
        let error = refused.unwrap_err();
        assert!(!error.is_transient());
        assert!(error.reason().contains(said), "{error}");
        let fits = publish.publish("bills", Message::new(vec![b'x'; 88]));
        let play = async {
            let publish = connection.expect_publish().await;
            assert_eq!(publish.payload.len(), 88);
            let ack = Ack::of(publish.id.unwrap());
            connection.send(Packet::PubAck(ack)).await;
        };
        tokio::join!(fits, play).0.unwrap();
    }
}

#[tokio::test]
async fn no_more_is_published_at_once_than_the_server_takes() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    let publish = served.app.publisher();
    let sent: Vec<_> = (0..5)
        .map(|number| publish.publish("bills", Message::new(format!("{number}"))))
        .collect();
    let mut connection = publisher(&peer, with(Property::ReceiveMaximum(2))).await;
    let mut unanswered = std::collections::VecDeque::new();
    for number in 0..2 {
        let publish = connection.expect_publish().await;
        assert_eq!(publish.text(), format!("{number}"));
        unanswered.push_back(publish.id.unwrap());
    }
    for number in 2..5 {
        connection.expect_silence(MOMENT / 3).await;
        let id = unanswered.pop_front().unwrap();
        connection.send(Packet::PubAck(Ack::of(id))).await;
        let publish = connection.expect_publish().await;
        assert_eq!(publish.text(), format!("{number}"));
        unanswered.push_back(publish.id.unwrap());
    }
    for id in unanswered {
        connection.send(Packet::PubAck(Ack::of(id))).await;
    }
    for sent in sent {
        sent.await.unwrap();
    }
}

// spec: C14
#[tokio::test]
async fn a_server_without_what_a_subscription_needs_ends_the_run_with_the_cure() {
    let filter = |options: &mut ruststream::registration::Options| {
        options.retry_topic = Some("orders/again");
        options.retry_topic_elsewhere = true;
    };
    #[rustfmt::skip]
    let rows = [
        (Property::SharedSubscriptionAvailable(0), fulfil().with(mqtt(|o| o.shared = Some("g"))), "leave out `mqtt(shared)`"),
        (Property::WildcardSubscriptionAvailable(0), Script::filter("orders/+").named("fulfil").with(filter), "subscribe to topics"),
    ];
    for (property, script, said) in rows {
        let peer = Peer::bind().await;
        let play = peer.session(with(property));
        let (error, (_, mut connection)) = refused(shop(broker(&peer), [script]), play).await;
        for part in ["fulfil", said, &peer.port().to_string()] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let said = connection.rest().await;
        let subscribed = said
            .iter()
            .any(|packet| matches!(packet, Packet::Subscribe(_)));
        assert!(!subscribed, "{said:?}");
    }
}

#[tokio::test]
async fn a_shorter_session_than_asked_for_is_told_once() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let shorter = || with(Property::SessionExpiryInterval(60));
    let served = serve_with(&peer, shop(broker(&peer), [fulfil()]), shorter()).await;
    drop(served.connection);
    let (_, mut connection) = peer.session(shorter()).await;
    connection.grant().await;
    up(&served.app, "fulfil").await;
    assert_eq!(log.warnings("asked_s=3600 granted_s=60"), 1);
}

#[tokio::test]
async fn topic_aliases_of_the_server_stand_for_their_topics_until_the_connection_ends() {
    let peer = Peer::bind().await;
    let script = Script::filter("orders/+").named("fulfil").with(|options| {
        options.retry_topic = Some("orders/again");
    });
    let (sender, mut topics) = tokio::sync::mpsc::unbounded_channel();
    let script = script.runs(move |topic: ruststream::Topic| {
        sender.send(topic.to_string()).ok();
        async { Outcome::Ack }
    });
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    let connection = &mut served.connection;
    #[rustfmt::skip]
    let rows = [("orders/a", 1), ("orders/b", 64), ("", 1), ("", 64), ("orders/c", 1), ("", 1)];
    for (topic, alias) in rows {
        let publish = Publish::new(topic, "x").with(Property::TopicAlias(alias));
        connection.send(Packet::Publish(publish)).await;
    }
    for expected in ["a", "b", "a", "b", "c", "c"] {
        assert_eq!(topics.recv().await.unwrap(), format!("orders/{expected}"));
    }
    drop(served.connection);
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    connection.grant().await;
    let publish = Publish::new("", "x").with(Property::TopicAlias(1));
    connection.send(Packet::Publish(publish)).await;
    assert_eq!(connection.expect_disconnect().await.code, 0x82);
}

#[tokio::test]
async fn a_silence_is_broken_by_a_ping_and_a_ping_without_an_answer_ends_the_connection() {
    let peer = Peer::bind().await;
    let app = shop(broker(&peer), [fulfil()]);
    // The server's word on it goes before the own one.
    let mut served = serve_with(&peer, app, with(Property::ServerKeepAlive(1))).await;
    assert_eq!(served.connect.keep_alive, 30);
    let begun = now();
    for _ in 0..2 {
        served.connection.expect_nothing_but_a_ping().await;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(served.connection.expect().await, Packet::PingReq);
    assert!(!served.connection.rest().await.contains(&Packet::PingResp));
    let reason = down(&served.app, "fulfil").await;
    assert!(reason.contains("did not answer a PINGREQ"), "{reason}");
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    connection.grant().await;
    up(&served.app, "fulfil").await;
}

// case: I14
#[tokio::test]
async fn a_handler_that_blocks_its_thread_for_three_keep_alives_does_not_cost_the_connection() {
    let peer = Peer::bind().await;
    let broker = broker(&peer)
        .with_keep_alive(Duration::from_secs(1))
        .unwrap();
    let script = fulfil().runs(|_: Bytes| async {
        std::thread::sleep(Duration::from_secs(3));
        Outcome::Ack
    });
    let app = shop(broker, [script]);
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let app = app.start().await.unwrap();
            stopping.await.ok();
            app.stop().await.unwrap();
        });
    });
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    connection.grant().await;
    let publish = Publish::new("orders", "a").at(1, 1);
    connection.send(Packet::Publish(publish)).await;
    let mut pings = 0;
    let mut heard = now();
    loop {
        let packet = connection.expect().await;
        // A server waits for one and a half of it.
        assert!(
            heard.elapsed() < Duration::from_millis(1500),
            "{:?}",
            heard.elapsed()
        );
        heard = now();
        match packet {
            Packet::PingReq => connection.send(Packet::PingResp).await,
            Packet::PubAck(ack) => break assert_eq!(ack, Ack::of(1)),
            other => panic!("{other:?}"),
        }
        pings += 1;
    }
    assert!(pings >= 2, "{pings}");
    stop.send(()).unwrap();
    connection.rest().await;
    thread.join().unwrap();
}

#[tokio::test]
async fn the_last_will_is_of_the_connection_that_is_published_on_from_the_start() {
    let peer = Peer::bind().await;
    let message = Message::new("gone")
        .retained()
        .with_content_type("text/plain")
        .with_header("why", "lost");
    let broker = broker(&peer)
        .with_last_will("shop/state", message, Duration::from_secs(5))
        .unwrap();
    let play = async {
        let mut connections = Vec::new();
        for _ in 0..2 {
            let (connect, mut connection) = peer.session(ConnAck::default()).await;
            if connect.client_id.ends_with("-fulfil") {
                connection.grant().await;
            }
            connections.push((connect, connection));
        }
        connections.sort_by_key(|(connect, _)| connect.client_id.clone());
        connections
    };
    let (app, mut connections) = tokio::join!(shop(broker, [fulfil()]).start(), play);
    let app = app.unwrap();
    assert_eq!(connections[0].0.will, None, "not of the handler's");
    let will = connections[1].0.will.clone().unwrap();
    assert_eq!(
        (will.topic.as_str(), &will.payload[..]),
        ("shop/state", &b"gone"[..])
    );
    assert!(will.retain && will.qos == 1);
    assert!(will.properties.has(&Property::WillDelayInterval(5)));
    assert!(
        will.properties
            .has(&Property::ContentType("text/plain".into()))
    );
    assert_eq!(will.properties.value("why"), Some("lost"));
    let (stopped, ()) = tokio::join!(app.stop(), async {
        for (_, connection) in &mut connections {
            // 0x00 takes the will back, 0x04 would not.
            assert_eq!(connection.expect_disconnect().await.code, 0);
        }
    });
    stopped.unwrap();
}

/// A question that is asked, and the two connections of it.
async fn asked(peer: &Peer) -> (Connection, Connection, Publish) {
    let (connect, mut replies) = peer.session(ConnAck::default()).await;
    let subscribe = replies.grant().await;
    assert_eq!(
        subscribe.filters[0].topics,
        format!("ruststream/replies/{}", connect.client_id)
    );
    let mut publisher = publisher(peer, ConnAck::default()).await;
    let question = publisher.expect_publish().await;
    let to = Property::ResponseTopic(subscribe.filters[0].topics.clone());
    assert!(question.properties.has(&to), "{question:?}");
    (replies, publisher, question)
}

fn correlation(publish: &Publish) -> Bytes {
    let found = publish.properties.find(|property| match property {
        Property::CorrelationData(data) => Some(data.clone()),
        _ => None,
    });
    found.expect("a question can be told from others")
}

// spec: C28
#[tokio::test]
async fn a_question_gets_the_answer_that_carries_its_correlation_data() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    let answer =
        served
            .app
            .publisher()
            .request("prices", Message::new("lamp"), Duration::from_secs(10));
    let play = async {
        let (mut replies, mut publisher, question) = asked(&peer).await;
        publisher
            .send(Packet::PubAck(Ack::of(question.id.unwrap())))
            .await;
        let Some(Property::ResponseTopic(to)) = question
            .properties
            .all()
            .iter()
            .find(|property| matches!(property, Property::ResponseTopic(_)))
        else {
            unreachable!("it was looked at");
        };
        for (id, data, text) in [
            (1, Bytes::from_static(b"of another"), "wrong"),
            (2, correlation(&question), "right"),
            (3, correlation(&question), "again"),
        ] {
            let answer = Publish::new(to, text)
                .at(1, id)
                .with(Property::CorrelationData(data));
            replies.send(Packet::Publish(answer)).await;
            assert_eq!(replies.expect_puback().await, Ack::of(id));
        }
    };
    let (answer, ()) = tokio::join!(answer, play);
    assert_eq!(&answer.unwrap().payload()[..], b"right");
}

// spec: C28
#[tokio::test]
async fn a_question_that_nobody_answers_or_reads_says_so() {
    for (code, said) in [(0x00, "within"), (0x10, "nobody reads"), (0x87, "0x87")] {
        let peer = Peer::bind().await;
        let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
        let answer = served.app.publisher().request(
            "prices",
            Message::new("lamp"),
            Duration::from_millis(700),
        );
        let play = async {
            let (replies, mut publisher, question) = asked(&peer).await;
            let ack = Ack::of(question.id.unwrap()).code(code);
            publisher.send(Packet::PubAck(ack)).await;
            (replies, publisher)
        };
        let (answer, _connections) = tokio::join!(answer, play);
        let error = answer.unwrap_err();
        assert!(error.reason().contains(said), "{error}");
    }
}

// spec: C28
#[tokio::test]
async fn a_question_whose_answers_may_not_come_is_not_asked() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    let answer =
        served
            .app
            .publisher()
            .request("prices", Message::new("lamp"), Duration::from_secs(10));
    let play = async {
        let (_, mut replies) = peer.session(ConnAck::default()).await;
        let subscribe = replies.expect_subscribe().await;
        let answers = Answers::new(subscribe.id, [0x87]);
        replies.send(Packet::SubAck(answers)).await;
        replies
    };
    let (answer, _replies) = tokio::join!(answer, play);
    let error = answer.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.reason().contains("answers cannot come"), "{error}");
    peer.expect_nobody(MOMENT).await;
}

#[tokio::test]
async fn at_qos_2_a_publish_is_confirmed_by_the_pubcomp_and_refused_by_the_pubrec() {
    let peer = Peer::bind().await;
    let broker = broker(&peer).with_publish_qos(2).unwrap();
    let served = serve(&peer, shop(broker, [fulfil()])).await;
    let publish = served.app.publisher();
    let sent = publish.publish("bills", Message::new("a"));
    let mut connection = publisher(&peer, ConnAck::default()).await;
    let first = connection.expect_publish().await;
    assert_eq!(first.qos, 2);
    let id = first.id.unwrap();
    connection.send(Packet::PubRec(Ack::of(id))).await;
    assert_eq!(connection.expect_pubrel().await, Ack::of(id));
    connection.send(Packet::PubComp(Ack::of(id))).await;
    sent.await.unwrap();
    for (code, transient) in [(0x87, false), (0x90, false), (0x97, true), (0x83, true)] {
        let sent = publish.publish("bills", Message::new("b"));
        let id = connection.expect_publish().await.id.unwrap();
        connection
            .send(Packet::PubRec(Ack::of(id).code(code)))
            .await;
        let error = sent.await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{error}");
        assert!(error.reason().contains(&format!("0x{code:02X}")), "{error}");
    }
    connection.expect_silence(MOMENT).await;
}

#[tokio::test]
async fn of_too_many_messages_at_qos_0_the_newest_are_dropped_counted_and_warned_of_once() {
    const KEPT: usize = 1024;
    let log = Log::capture();
    let peer = Peer::bind().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let (sender, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let script = fulfil()
        .with(mqtt(|o| o.qos = Some(0)))
        .with(|options| options.concurrency = Some(1))
        .runs(move |payload: Bytes| {
            sender
                .send(String::from_utf8(payload.to_vec()).unwrap())
                .ok();
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.map(drop) }
        });
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    let publish = |number: usize| Packet::Publish(Publish::new("orders", number.to_string()));
    served.connection.send(publish(0)).await;
    assert_eq!(starts.recv().await.unwrap(), "0");
    let flood: Vec<u8> = (1..=KEPT + 76)
        .flat_map(|number| publish(number).encode())
        .collect();
    served.connection.send_raw(&flood).await;
    until(|| (served.app.stats()["fulfil"].overflowed == 76).then_some(())).await;
    opens.add_permits(1);
    for number in 1..=KEPT {
        assert_eq!(starts.recv().await.unwrap(), number.to_string());
    }
    served.connection.send(publish(9999)).await;
    assert_eq!(starts.recv().await.unwrap(), "9999");
    assert_eq!(
        log.warnings("the newest were lost"),
        1,
        "{:#?}",
        log.from(tracing::Level::WARN)
    );
}

// spec: C15 M20 M21
#[tokio::test]
async fn deliveries_left_for_good_are_counted_and_warned_of_before_they_fill_the_window() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let script = fulfil().with(|options| options.prefetch = Some(5));
    let (script, mut inbox) = Inbox::of(script, |_| Outcome::Retry);
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    for id in 1..=5_u16 {
        let publish = Publish::new("orders", "a").at(1, id);
        served.connection.send(Packet::Publish(publish)).await;
        inbox.next().await;
        until(|| (served.app.stats()["fulfil"].stuck == u64::from(id)).then_some(())).await;
        let warned = log.warnings("left unsettled");
        assert_eq!(
            warned,
            usize::from(id >= 4),
            "{id}: {:#?}",
            log.from(tracing::Level::WARN)
        );
    }
    served.connection.expect_silence(MOMENT).await;
}
