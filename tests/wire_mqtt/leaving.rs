//! What a stop says to the server (spec C29, M52), and what a connection that resumes says again.

use std::time::Duration;

use ruststream::Message;
use ruststream::Outcome;
use ruststream::testing::Script;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Answers;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;
use support::mqtt::packet::Reason;

use crate::rig::Inbox;
use crate::rig::broker;
use crate::rig::fulfil;
use crate::rig::mqtt;
use crate::rig::serve;
use crate::rig::shop;
use crate::rig::stop;
use crate::rig::up;

fn shared(script: Script) -> Script {
    script.with(mqtt(|o| o.shared = Some("group")))
}

fn session_ends() -> Reason {
    Reason::new(0).with(Property::SessionExpiryInterval(0))
}

// spec: C29
#[tokio::test]
async fn a_member_of_a_group_unsubscribes_takes_what_is_its_own_and_ends_its_session() {
    let peer = Peer::bind().await;
    let (script, mut inbox) = Inbox::acking(shared(fulfil()));
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    assert_eq!(served.subscribe.filters[0].topics, "$share/group/orders");
    let connection = &mut served.connection;
    stop(served.app, async {
        let unsubscribe = connection.expect_unsubscribe().await;
        assert_eq!(unsubscribe.filters, ["$share/group/orders"]);
        // Assigned to it before, and on its way.
        for id in 1..=2 {
            let publish = Publish::new("orders", format!("before {id}")).at(1, id);
            connection.send(Packet::Publish(publish)).await;
        }
        assert_eq!(connection.expect_puback().await, Ack::of(1));
        assert_eq!(connection.expect_puback().await, Ack::of(2));
        let answers = Answers::new(unsubscribe.id, [0]);
        connection.send(Packet::UnsubAck(answers)).await;
        assert_eq!(connection.expect().await, Packet::PingReq);
        let publish = Publish::new("orders", "after").at(1, 3);
        connection.send(Packet::Publish(publish)).await;
        connection.send(Packet::PingResp).await;
        assert_eq!(connection.expect_puback().await, Ack::of(3));
        // Something came, so it is asked once more.
        assert_eq!(connection.expect().await, Packet::PingReq);
        connection.send(Packet::PingResp).await;
        assert_eq!(connection.expect_disconnect().await, session_ends());
        connection.expect_close().await;
    })
    .await;
    for expected in ["before 1", "before 2", "after"] {
        assert_eq!(inbox.next().await, expected);
    }
}

// spec: C29
#[tokio::test]
async fn a_member_of_a_group_with_something_unsettled_keeps_its_session() {
    let peer = Peer::bind().await;
    // An undeclared retry leaves it without a word.
    let (script, mut inbox) = Inbox::of(shared(fulfil()), |_| Outcome::Retry);
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    let connection = &mut served.connection;
    let publish = Publish::new("orders", "a").at(1, 1);
    connection.send(Packet::Publish(publish)).await;
    inbox.next().await;
    stop(served.app, async {
        let unsubscribe = connection.expect_unsubscribe().await;
        let answers = Answers::new(unsubscribe.id, [0]);
        connection.send(Packet::UnsubAck(answers)).await;
        assert_eq!(connection.expect().await, Packet::PingReq);
        connection.send(Packet::PingResp).await;
        assert_eq!(connection.expect_disconnect().await, Reason::new(0));
        connection.expect_close().await;
    })
    .await;
}

// spec: C29 M52 C7
#[tokio::test]
async fn a_plain_subscription_keeps_its_session_and_what_was_not_started_is_not_acknowledged() {
    let peer = Peer::bind().await;
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let opens = std::sync::Arc::clone(&gate);
    let script = fulfil()
        .with(|options| {
            options.prefetch = Some(10);
            options.concurrency = Some(1);
        })
        .runs(move |payload: bytes::Bytes| {
            started.send(payload).ok();
            let gate = std::sync::Arc::clone(&gate);
            async move { gate.notified().await }
        });
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    let connection = &mut served.connection;
    for id in 1..=3 {
        let publish = Publish::new("orders", format!("{id}")).at(1, id);
        connection.send(Packet::Publish(publish)).await;
    }
    assert_eq!(starts.recv().await.unwrap(), "1");
    stop(served.app, async {
        opens.notify_one();
        assert_eq!(connection.expect_puback().await, Ack::of(1));
        assert_eq!(connection.expect_disconnect().await, Reason::new(0));
        connection.expect_close().await;
    })
    .await;
    assert!(starts.try_recv().is_err(), "what was buffered comes again");
}

// spec: C29
#[tokio::test]
async fn a_stop_that_the_server_does_not_answer_ends_all_the_same() {
    let peer = Peer::bind().await;
    let app = shop(broker(&peer), [shared(fulfil())]).drain(Duration::from_millis(300));
    let mut served = serve(&peer, app).await;
    let connection = &mut served.connection;
    let begun = crate::rig::now();
    let (stopped, ()) = tokio::join!(served.app.stop(), async {
        connection.expect_unsubscribe().await;
        connection.rest().await;
    });
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    drop(stopped);
}

#[tokio::test]
async fn a_subscription_with_no_local_is_on_the_connection_that_is_published_on() {
    let peer = Peer::bind().await;
    let script = fulfil().with(mqtt(|o| o.no_local = Some(true)));
    let (script, mut inbox) = Inbox::acking(script);
    let mut served = serve(&peer, shop(broker(&peer), [script])).await;
    assert!(served.connect.client_id.ends_with("-publisher"));
    assert!(served.subscribe.filters[0].no_local);
    let publisher = served.app.publisher();
    let bill = publisher.publish("bills", Message::new("b"));
    let play = async {
        let publish = served.connection.expect_publish().await;
        served
            .connection
            .send(Packet::PubAck(Ack::of(publish.id.unwrap())))
            .await;
        publish
    };
    let (confirmed, sent) = tokio::join!(bill, play);
    confirmed.unwrap();
    assert_eq!((sent.topic.as_str(), sent.qos), ("bills", 1));
    let message = Publish::new("orders", "a").at(1, 1);
    served.connection.send(Packet::Publish(message)).await;
    assert_eq!(served.connection.expect_puback().await, Ack::of(1));
    assert_eq!(inbox.next().await, "a");
    peer.expect_nobody(crate::rig::MOMENT).await;
}

#[tokio::test]
async fn what_has_no_answer_is_sent_again_when_its_session_resumes_and_only_then() {
    let peer = Peer::bind().await;
    let script = fulfil().with(mqtt(|o| o.no_local = Some(true)));
    let broker = broker(&peer).with_publish_qos(2).unwrap();
    let mut served = serve(&peer, shop(broker, [script])).await;
    let publisher = served.app.publisher();
    let first = publisher.publish("bills", Message::new("released"));
    let second = publisher.publish("bills", Message::new("published"));
    let connection = &mut served.connection;
    let released = connection.expect_publish().await;
    let open = connection.expect_publish().await;
    assert!(!released.dup && !open.dup);
    let id = released.id.unwrap();
    connection.send(Packet::PubRec(Ack::of(id))).await;
    assert_eq!(connection.expect_pubrel().await, Ack::of(id));
    drop(served.connection);
    // Nobody waits for as long as a connection may be away.
    assert!(first.await.unwrap_err().is_transient());
    assert!(second.await.unwrap_err().is_transient());

    let present = ConnAck {
        session_present: true,
        ..ConnAck::default()
    };
    let (_, mut connection) = peer.session(present).await;
    assert_eq!(connection.expect_pubrel().await, Ack::of(id));
    assert_eq!(connection.expect_publish().await, open.clone().again());
    connection.grant().await;
    connection.send(Packet::PubComp(Ack::of(id))).await;
    up(&served.app, "fulfil").await;
    drop(connection);

    let (_, mut connection) = peer.session(ConnAck::default()).await;
    connection.grant().await;
    let third = publisher.publish("bills", Message::new("third"));
    let publish = connection.expect_publish().await;
    assert_eq!(
        publish.text(),
        "third",
        "the session is gone, and its messages with it"
    );
    drop(third);
}
