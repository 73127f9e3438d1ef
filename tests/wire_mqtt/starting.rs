//! How sessions begin, go on, and are refused, code by code.

use std::time::Duration;

use ruststream::error::ErrorKind;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Answers;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;
use support::mqtt::packet::Reason;
use tracing::Level;

use crate::log::Log;
use crate::rig::Inbox;
use crate::rig::broker;
use crate::rig::down;
use crate::rig::fulfil;
use crate::rig::mqtt;
use crate::rig::now;
use crate::rig::refused;
use crate::rig::serve;
use crate::rig::shop;
use crate::rig::stop;
use crate::rig::until;
use crate::rig::up;

fn resumed() -> ConnAck {
    ConnAck {
        session_present: true,
        ..ConnAck::default()
    }
}

fn connack(code: u8) -> ConnAck {
    ConnAck {
        code,
        ..ConnAck::default()
    }
}

#[tokio::test]
async fn a_connect_says_how_the_session_is() {
    let peer = Peer::bind().await;
    let broker = broker(&peer)
        .with_keep_alive(Duration::from_secs(15))
        .unwrap()
        .with_session_expiry(Duration::from_hours(2))
        .with_max_packet_size(4096)
        .with_credentials("app", "secret");
    let script = fulfil().with(|options| options.prefetch = Some(7));
    let served = serve(&peer, shop(broker, [script])).await;
    let connect = served.connect;
    assert_eq!((connect.protocol.as_str(), connect.version), ("MQTT", 5));
    assert!(!connect.clean_start);
    assert_eq!(connect.keep_alive, 15);
    assert_eq!(connect.user_name.as_deref(), Some("app"));
    assert_eq!(connect.password.as_deref(), Some(&b"secret"[..]));
    for said in [
        Property::SessionExpiryInterval(7200),
        Property::ReceiveMaximum(7),
        Property::MaximumPacketSize(4096),
        Property::TopicAliasMaximum(64),
    ] {
        assert!(connect.properties.has(&said), "{said:?}: {connect:?}");
    }
    assert_eq!(connect.will, None);
    let filters = served.subscribe.filters;
    assert_eq!(filters.len(), 1);
    assert_eq!((filters[0].topics.as_str(), filters[0].qos), ("orders", 1));
}

// spec: C17
#[tokio::test]
async fn client_ids_are_of_the_application_the_host_and_the_handler_or_as_declared() {
    let peer = Peer::bind().await;
    let scripts = [
        fulfil(),
        fulfil().named("audit"),
        fulfil()
            .named("own")
            .with(mqtt(|o| o.client_id = Some("mine"))),
    ];
    let play = async {
        let mut ids = Vec::new();
        let mut connections = Vec::new();
        for _ in 0..3 {
            let (connect, mut connection) = peer.session(ConnAck::default()).await;
            connection.grant().await;
            ids.push(connect.client_id);
            connections.push(connection);
        }
        (ids, connections)
    };
    let (app, (mut ids, _connections)) = tokio::join!(shop(broker(&peer), scripts).start(), play);
    let _app = app.unwrap();
    ids.sort();
    assert_eq!(ids[0], "mine");
    let host = ids[1].strip_prefix("shop-").unwrap();
    let host = host.strip_suffix("-audit").unwrap();
    assert!(!host.is_empty());
    assert_eq!(ids[2], format!("shop-{host}-fulfil"));

    let peer = Peer::bind().await;
    let served = serve(
        &peer,
        shop(broker(&peer).with_client_id("base"), [fulfil()]),
    )
    .await;
    assert_eq!(served.connect.client_id, "base-fulfil");
}

#[tokio::test]
async fn the_session_expiry_of_a_handler_goes_before_the_one_of_the_broker() {
    let peer = Peer::bind().await;
    let script = fulfil().with(mqtt(|o| o.session_expiry = Some(Duration::from_secs(90))));
    let served = serve(&peer, shop(broker(&peer), [script])).await;
    let said = Property::SessionExpiryInterval(90);
    assert!(served.connect.properties.has(&said));
}

#[tokio::test]
async fn at_qos_0_there_is_no_session_to_keep() {
    let peer = Peer::bind().await;
    let script = fulfil().with(mqtt(|o| o.qos = Some(0)));
    let served = serve(&peer, shop(broker(&peer), [script])).await;
    assert!(served.connect.clean_start);
    let expiry = served.connect.properties.find(|property| match property {
        Property::SessionExpiryInterval(seconds) => Some(*seconds),
        _ => None,
    });
    assert!(matches!(expiry, None | Some(0)), "{expiry:?}");
}

// spec: M7 C14
#[tokio::test]
async fn the_second_connection_goes_on_with_the_session_and_asks_for_nothing_retained_again() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let (script, mut inbox) = Inbox::acking(fulfil());
    let served = serve(&peer, shop(broker(&peer).with_clean_start(), [script])).await;
    assert!(served.connect.clean_start);
    drop(served.connection);
    let (connect, mut connection) = peer.session(resumed()).await;
    assert!(
        !connect.clean_start,
        "what the first began is not thrown away"
    );
    assert_eq!(connect.client_id, served.connect.client_id);
    // What the session kept comes before the answer to anything.
    connection
        .send(Packet::Publish(Publish::new("orders", "a").at(1, 9)))
        .await;
    let again = connection.grant().await;
    assert_eq!(served.subscribe.filters[0].retain_handling, 0);
    assert_eq!(again.filters[0].retain_handling, 1);
    assert_eq!(connection.expect_puback().await, Ack::of(9));
    assert_eq!(inbox.next().await, "a");
    up(&served.app, "fulfil").await;
    assert_eq!(log.warnings("no longer has the session"), 0);
}

// spec: C14
#[tokio::test]
async fn a_session_that_is_lost_is_subscribed_again_and_told_once() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    drop(served.connection);
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    let subscribe = connection.grant().await;
    assert_eq!(subscribe.filters, served.subscribe.filters);
    up(&served.app, "fulfil").await;
    assert_eq!(log.warnings("no longer has the session"), 1);
}

// spec: C14
#[tokio::test]
async fn a_subscription_refused_for_good_ends_the_run_with_mount_point_server_and_cure() {
    #[rustfmt::skip]
    let rows = [
        (0x80, "0x80"),
        (0x87, "have the server allow it"),
        (0x8F, "0x8F"),
        (0x9E, "leave out `mqtt(shared)`"),
        (0xA1, "0xA1"),
        (0xA2, "subscribe to topics"),
        (0x00, "declare `mqtt(qos = 0)`"),
    ];
    for (code, said) in rows {
        let peer = Peer::bind().await;
        let play = async {
            let (_, mut connection) = peer.session(ConnAck::default()).await;
            let subscribe = connection.expect_subscribe().await;
            let answers = Answers::new(subscribe.id, [code]);
            connection.send(Packet::SubAck(answers)).await;
            connection
        };
        let (error, mut connection) = refused(shop(broker(&peer), [fulfil()]), play).await;
        assert!(error.starts_with("a broker refused"), "{error}");
        assert_eq!(error.matches("\n  - ").count(), 1, "{error}");
        for part in ["fulfil", "`orders`", &peer.port().to_string(), said] {
            assert!(error.contains(part), "{code:#x} {part}: {error}");
        }
        connection.rest().await;
        peer.expect_nobody(crate::rig::MOMENT).await;
    }
}

// spec: C14
#[tokio::test]
async fn a_subscription_refused_in_passing_is_tried_again() {
    for code in [0x83, 0x91, 0x97] {
        let peer = Peer::bind().await;
        let play = async {
            let (_, mut connection) = peer.session(ConnAck::default()).await;
            let first = connection.expect_subscribe().await;
            let answers = Answers::new(first.id, [code]);
            connection.send(Packet::SubAck(answers)).await;
            (first, connection)
        };
        let (app, (first, mut connection)) =
            tokio::join!(shop(broker(&peer), [fulfil()]).start(), play);
        let app = app.unwrap();
        let reason = down(&app, "fulfil").await;
        assert!(reason.contains(&format!("0x{code:02X}")), "{reason}");
        let again = connection.grant().await;
        assert_eq!(again.filters, first.filters);
        up(&app, "fulfil").await;
    }
}

// spec: C14
#[tokio::test]
async fn a_subscription_refused_later_is_down_and_tried_again() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    drop(served.connection);
    let (_, mut connection) = peer.session(ConnAck::default()).await;
    let subscribe = connection.expect_subscribe().await;
    let answers = Answers::new(subscribe.id, [0x87]);
    connection.send(Packet::SubAck(answers)).await;
    until(|| match served.app.health().get("fulfil") {
        Some(ruststream::stats::Health::Down { reason }) if reason.contains("0x87") => Some(()),
        _ => None,
    })
    .await;
    connection.grant().await;
    up(&served.app, "fulfil").await;
}

// spec: C14
#[tokio::test]
async fn a_connection_refused_for_good_ends_the_run() {
    #[rustfmt::skip]
    let rows = [
        (0x81, "0x81"), (0x82, "0x82"), (0x84, "MQTT 5"), (0x85, "`client_id`"),
        (0x86, "check the credentials"), (0x87, "give credentials"), (0x8A, "banned"), (0x8C, "0x8C"),
        (0x90, "0x90"), (0x95, "0x95"), (0x99, "0x99"), (0x9A, "0x9A"), (0x9B, "0x9B"), (0x9D, "moved"),
    ];
    for (code, said) in rows {
        let peer = Peer::bind().await;
        let broker = broker(&peer).with_credentials("svc", "p@ss-W0rd");
        let play = peer.session(connack(code).with(Property::ReasonString("no way".into())));
        let (error, (_, mut connection)) = refused(shop(broker, [fulfil()]), play).await;
        for part in ["fulfil", &peer.port().to_string(), said, "\"no way\""] {
            assert!(error.contains(part), "{code:#x} {part}: {error}");
        }
        assert!(!error.contains("p@ss"), "{error}");
        connection.expect_close().await;
        peer.expect_nobody(crate::rig::MOMENT).await;
    }
}

// spec: C14
#[tokio::test]
async fn a_connection_refused_in_passing_is_tried_again() {
    for code in [0x80, 0x83, 0x88, 0x89, 0x97, 0x9C, 0x9F] {
        let peer = Peer::bind().await;
        let play = async {
            peer.session(connack(code)).await;
            let (_, mut connection) = peer.session(ConnAck::default()).await;
            connection.grant().await;
            connection
        };
        let (app, _connection) = tokio::join!(shop(broker(&peer), [fulfil()]).start(), play);
        let app = app.unwrap();
        up(&app, "fulfil").await;
    }
}

// spec: C14
#[tokio::test]
async fn a_connection_refused_for_good_later_is_down_and_tried_again() {
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    drop(served.connection);
    peer.session(connack(0x87)).await;
    until(|| match served.app.health().get("fulfil") {
        Some(ruststream::stats::Health::Down { reason }) if reason.contains("0x87") => Some(()),
        _ => None,
    })
    .await;
    let (_, mut connection) = peer.session(resumed()).await;
    connection.grant().await;
    up(&served.app, "fulfil").await;
}

// spec: C14
#[tokio::test]
async fn a_session_taken_over_names_the_client_id() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let mut served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    served
        .connection
        .send(Packet::Disconnect(Reason::new(0x8E)))
        .await;
    let reason = down(&served.app, "fulfil").await;
    let id = format!("`{}`", served.connect.client_id);
    assert!(reason.contains(&id), "{reason}");
    assert!(reason.contains("another client"), "{reason}");
    assert!(log.warnings(&id) >= 1);
    let (_, mut connection) = peer.session(resumed()).await;
    connection.grant().await;
    up(&served.app, "fulfil").await;
}

// spec: C14
// case: F02
#[tokio::test]
async fn connections_that_live_a_moment_come_ever_further_apart() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let served = serve(&peer, shop(broker(&peer), [fulfil()])).await;
    drop(served.connection);
    for step in 0..4 {
        let begun = now();
        let (_, mut connection) = peer.session(resumed()).await;
        let least = Duration::from_millis(100 << step);
        assert!(begun.elapsed() >= least, "{step}: {:?}", begun.elapsed());
        connection.grant().await;
        up(&served.app, "fulfil").await;
        drop(connection);
        down(&served.app, "fulfil").await;
    }
    assert_eq!(log.warnings("message=not connected"), 1);
}

// spec: C14
// case: F02
#[tokio::test]
async fn a_closed_port_and_a_name_that_does_not_resolve_cost_few_tries_and_few_lines() {
    let closed = {
        let peer = Peer::bind().await;
        peer.url()
    };
    for url in [closed.as_str(), "mqtt://nowhere.invalid:1883"] {
        let log = Log::capture();
        let app = shop(
            ruststream::broker::mqtt::Mqtt::new(url).unwrap(),
            [fulfil()],
        );
        let app = app.start().await.unwrap();
        let reason = down(&app, "fulfil").await;
        assert!(
            reason.contains("refuses connections") || reason.contains("`nowhere.invalid`"),
            "{reason}"
        );
        // How often it is tried is the arithmetic of `Reconnect`; this is what one window of it says.
        tokio::time::timeout(Duration::from_secs(2), std::future::pending::<()>())
            .await
            .unwrap_err();
        let lines = log.from(Level::INFO);
        assert!((2..10).contains(&lines.len()), "{lines:#?}");
        app.stop().await.unwrap();
    }
}

// spec: C17
#[tokio::test]
async fn packed_mount_points_share_a_connection_and_each_gets_its_own() {
    let peer = Peer::bind().await;
    let packed = |options: &mut ruststream::registration::Options| {
        mqtt(|o| o.connection = Some("x"))(options);
    };
    let (one, mut ones) = Inbox::acking(fulfil().with(packed).with(|o| o.prefetch = Some(5)));
    let two = ruststream::testing::Script::topic("returns").named("refund");
    let (two, mut twos) = Inbox::acking(two.with(packed).with(|o| o.prefetch = Some(8)));
    let mut served = serve(&peer, shop(broker(&peer), [one, two])).await;
    assert!(served.connect.client_id.ends_with("-x"));
    let sum = Property::ReceiveMaximum(13);
    assert!(served.connect.properties.has(&sum), "{:?}", served.connect);
    let filters: Vec<_> = served
        .subscribe
        .filters
        .iter()
        .map(|f| &f.topics[..])
        .collect();
    assert_eq!(filters, ["orders", "returns"]);
    peer.expect_nobody(crate::rig::MOMENT).await;

    let connection = &mut served.connection;
    for (id, topic) in [(1, "returns"), (2, "orders"), (3, "elsewhere")] {
        let publish = Publish::new(topic, topic).at(1, id);
        connection.send(Packet::Publish(publish)).await;
    }
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        acknowledged.push(connection.expect_puback().await);
    }
    // In the order of arrival, the one that is nobody's included.
    assert_eq!(acknowledged, [Ack::of(1), Ack::of(2), Ack::of(3)]);
    assert_eq!(
        (ones.next().await, twos.next().await),
        ("orders".into(), "returns".into())
    );
    until(|| {
        let stats = served.app.stats();
        let unmatched: u64 = stats.values().map(|stats| stats.unmatched).sum();
        (unmatched == 1).then_some(())
    })
    .await;
    assert!(ones.is_empty() && twos.is_empty());
    stop(served.app, async {
        let goodbye = connection.expect_disconnect().await;
        assert_eq!(goodbye, Reason::new(0), "both keep their sessions");
        connection.expect_close().await;
    })
    .await;
}

// spec: C14 C17
#[tokio::test]
async fn of_two_packed_filters_only_the_one_that_is_refused_is_named() {
    let peer = Peer::bind().await;
    let one = fulfil().with(mqtt(|o| o.connection = Some("x")));
    let two = ruststream::testing::Script::topic("returns").named("refund");
    let two = two.with(mqtt(|o| o.connection = Some("x")));
    let play = async {
        let (_, mut connection) = peer.session(ConnAck::default()).await;
        let subscribe = connection.expect_subscribe().await;
        let answers = Answers::new(subscribe.id, [1, 0x87]);
        connection.send(Packet::SubAck(answers)).await;
        connection
    };
    let (error, _connection) = refused(shop(broker(&peer), [one, two]), play).await;
    assert!(
        error.contains("refund") && error.contains("`returns`"),
        "{error}"
    );
    assert!(!error.contains("fulfil"), "{error}");
    assert_eq!(error.matches("\n  - ").count(), 1, "{error}");
}

// spec: C17
#[tokio::test]
async fn packed_filters_that_overlap_and_twin_client_ids_do_not_start() {
    let peer = Peer::bind().await;
    let one = fulfil().with(mqtt(|o| o.connection = Some("x")));
    let two = ruststream::testing::Script::topic("orders").named("audit");
    let two = two.with(mqtt(|o| o.connection = Some("x")));
    let error = shop(broker(&peer), [one, two]).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = error.to_string();
    assert!(
        error.contains("fulfil") && error.contains("audit"),
        "{error}"
    );
    assert!(error.contains("mqtt(connection)"), "{error}");

    let twin = || mqtt(|o| o.client_id = Some("twin"));
    let other = ruststream::testing::Script::topic("returns").named("refund");
    let error = shop(broker(&peer), [fulfil().with(twin()), other.with(twin())])
        .check()
        .unwrap_err()
        .to_string();
    assert!(error.contains("`twin`"), "{error}");
    peer.expect_nobody(crate::rig::MOMENT).await;
}

// case: L01
#[tokio::test]
async fn no_line_error_or_debug_shows_the_password() {
    let log = Log::capture();
    let peer = Peer::bind().await;
    let url = format!("mqtt://svc:p%40ss-W0rd@127.0.0.1:{}", peer.port());
    let broker = ruststream::broker::mqtt::Mqtt::new(&url).unwrap();
    let mut shown = vec![format!("{broker:?}")];
    let app = shop(broker.clone(), [fulfil()]);
    shown.push(format!("{:?}", app.describe().unwrap()));
    shown.push(format!("{app:?}"));
    let served = serve(&peer, app).await;
    assert_eq!(served.connect.user_name.as_deref(), Some("svc"));
    assert_eq!(served.connect.password.as_deref(), Some(&b"p@ss-W0rd"[..]));
    shown.push(format!("{:?}", served.app));
    drop(served.connection);
    peer.session(connack(0x86)).await;
    shown.push(down(&served.app, "fulfil").await);
    drop(served.app);
    for code in [0x86, 0x87] {
        let play = peer.session(connack(code));
        let (error, _) = refused(shop(broker.clone(), [fulfil()]), play).await;
        shown.push(error);
    }
    drop(peer);
    let app = shop(broker, [fulfil()]).start().await.unwrap();
    shown.push(down(&app, "fulfil").await);
    let wrong = "mqtt://svc:p%40ss-W0rd@127.0.0.1:99999?keep_alive=p@ss";
    shown.push(
        ruststream::broker::mqtt::Mqtt::new(wrong)
            .unwrap_err()
            .to_string(),
    );
    shown.extend(log.all());
    assert!(log.all().len() > 10, "the log was captured");
    for line in shown {
        // As it is, as in the URL, and what base64 makes of both at any place.
        for secret in ["p@ss", "p%40ss", "W0rd", "cEBzc", "BAc3", "wQHNz"] {
            assert!(!line.contains(secret), "{secret}: {line}");
        }
    }
}
