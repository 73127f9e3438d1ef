//! What a connection does with time.

use std::task::Waker;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Publish;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::broker::Arrival;
use crate::broker::Source;
use crate::broker::Subscription;
use crate::broker::mqtt::settings::Settings;
use crate::broker::mqtt::source::MqttSource;
use crate::broker::mqtt::spec::Spec;
use crate::broker::mqtt::state::Server;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::settle::Settle;

const WINDOW: u16 = 3;

fn link(qos: u8) -> Arc<Link> {
    let subscription = Subscription {
        app: "shop".into(),
        mount: "fulfil".into(),
        form: Form::Topic,
        address: "orders".into(),
        window: WINDOW.into(),
        settle: Settle::default(),
        amqp: None,
        mqtt: Some(MqttOptions {
            qos: Some(qos),
            ..MqttOptions::NONE
        }),
        rabbitmq: None,
    };
    let settings = Arc::new(Settings::parse("mqtt://localhost").expect("a URL"));
    let spec = Spec::of(&[&subscription], &settings);
    Arc::new(Link::new(spec, settings))
}

/// A connection that lives, and the server's end of it.
fn connected(link: &Arc<Link>) -> (Connection, tokio::io::DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    {
        let mut state = link.lock();
        state.handle_connected(Server::default(), false);
        link.set_epoch(state.epoch);
        let epoch = state.epoch;
        state.tell(0, Arrival::Connected { epoch });
    }
    let stream = Box::new(ours);
    let keep_alive = link.settings.keep_alive;
    let connection = Connection::new(Arc::clone(link), stream, BytesMut::new(), keep_alive);
    (connection, theirs)
}

/// A server that says `greeting` and answers each PINGREQ. Returns what else it got.
async fn answer(mut stream: tokio::io::DuplexStream, greeting: BytesMut) -> Vec<u8> {
    stream.write_all(&greeting).await.expect("it is open");
    let mut got = Vec::new();
    let mut buffer = [0; 256];
    loop {
        let count = stream.read(&mut buffer).await.expect("it is open");
        match &buffer[..count] {
            [] => return got,
            [0xC0, 0x00] => stream.write_all(&[0xD0, 0x00]).await.expect("it is open"),
            other => got.extend_from_slice(other),
        }
    }
}

fn deliveries(count: u16) -> BytesMut {
    let mut bytes = BytesMut::new();
    for id in 1..=count {
        let mut publish = Publish::new("orders", QoS::AtLeastOnce, &b"x"[..], None);
        publish.pkid = id;
        wire::put(&Packet::Publish(publish), &mut bytes);
    }
    bytes
}

/// Leave `count` deliveries without a word.
async fn leave(source: &mut MqttSource, count: u16) {
    let mut left = 0;
    while left < count {
        let arrival = std::future::poll_fn(|cx| source.poll_next(cx)).await;
        if let Arrival::Delivery(mut delivery) = arrival {
            source.leave(delivery.token.take().expect("it is to be settled"));
            left += 1;
        }
    }
}

// spec: C15
#[tokio::test(start_paused = true)]
async fn a_window_full_of_left_deliveries_ends_a_connection_that_has_lived_a_minute() {
    let link = link(1);
    let (connection, theirs) = connected(&link);
    let begun = now();
    let mut source = MqttSource::detached(Arc::clone(&link), 0);
    let (over, got, ()) = tokio::join!(
        link.serve(connection),
        answer(theirs, deliveries(WINDOW)),
        leave(&mut source, WINDOW),
    );
    let Over::Lost(error) = over else {
        panic!("{over:?}");
    };
    assert!(error.is_transient());
    assert!(error.reason.contains("left unsettled"), "{error:?}");
    assert_eq!(begun.elapsed(), STUCK_FOR);
    // Without a reason and properties it is a normal end that keeps the session (section 3.14.2.1).
    assert_eq!(got, [0xE0, 0x00]);
}

// spec: C15
#[tokio::test(start_paused = true)]
async fn a_window_that_is_not_full_keeps_its_connection() {
    let link = link(1);
    let (connection, theirs) = connected(&link);
    let mut source = MqttSource::detached(Arc::clone(&link), 0);
    let hours = tokio::time::timeout(Duration::from_hours(3), async {
        tokio::join!(
            link.serve(connection),
            answer(theirs, deliveries(WINDOW)),
            leave(&mut source, WINDOW - 1),
        )
    });
    assert!(hours.await.is_err(), "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_given_up_after_a_ping_and_its_patience() {
    let link = link(1);
    let (connection, _theirs) = connected(&link);
    let begun = now();
    let over = link.serve(connection).await;
    assert!(matches!(over, Over::Lost(error) if error.reason.contains("PINGREQ")));
    let expected = link.settings.keep_alive + LONGEST_PATIENCE;
    let took = begun.elapsed();
    assert!(
        took >= expected && took < expected + Duration::from_millis(50),
        "{took:?}"
    );
}

// case: I14
#[tokio::test(start_paused = true)]
async fn an_answer_that_came_while_the_task_was_away_is_one() {
    let link = link(1);
    let (mut connection, mut theirs) = connected(&link);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        tokio::time::advance(link.settings.keep_alive * 5 / 4).await;
        assert!(connection.speak_for_task());
    }
    let mut said = [0; 4];
    theirs.read_exact(&mut said).await.expect("they were said");
    assert_eq!(said, [0xC0, 0x00, 0xC0, 0x00]);
    theirs.write_all(&[0xD0, 0x00]).await.expect("it is open");
    assert!(connection.poll(&mut cx).is_pending());
    assert!(connection.pinged.is_some(), "one answer is still to come");
    theirs.write_all(&[0xD0, 0x00]).await.expect("it is open");
    assert!(connection.poll(&mut cx).is_pending());
    assert_eq!((connection.pinged, connection.pings), (None, 0));
}
