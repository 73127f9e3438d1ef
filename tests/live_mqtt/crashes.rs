//! The service dies, the server dies, the connection breaks: at every step between receiving a message
//! and acknowledging it.

use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::Attempt;
use ruststream::Outcome;
use ruststream::broker::mqtt::Mqtt;
use ruststream::policy::Delay;
use ruststream::registration::MqttOptions;
use ruststream::stats::Health;
use ruststream::testing::Script;
use support::Mosquitto;
use support::Proxy;
use support::Starts;
use support::Way;
use support::child;
use support::mosquitto::Config;
use support::mqtt::Client;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;
use support::process::Process;

use crate::a_moment;
use crate::until;

async fn client(server: &Mosquitto, name: &str) -> Client {
    Client::connect(&server.url(), Connect::new(name)).await
}

fn message(topic: &str, text: &str) -> Publish {
    Publish {
        qos: 1,
        ..Publish::new(topic, text.to_owned())
    }
}

/// Publish to somebody who has subscribed.
async fn publish(server: &Mosquitto, message: Publish) {
    let ack = client(server, "device").await.publish(message).await;
    assert_eq!(ack.code, 0, "somebody reads it: {}", server.log().text());
}

fn start(url: &str, what: &str) -> Process {
    child::scenario("crashes::service", &[("URL", url), ("WHAT", what)])
}

/// A service that says what it is started with, and then does what it was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario, run by a test in a process of its own"]
async fn service() {
    if !child::is_scenario() {
        return;
    }
    let what = child::argument("WHAT");
    let script = Script::topic("jobs").named("work").with(|options| {
        options.max_attempts = Some(3);
        options.dead_letter = Some("jobs.dead");
        options.mqtt = Some(MqttOptions {
            qos: Some(if what == "exactly once" { 2 } else { 1 }),
            ..MqttOptions::NONE
        });
        if what == "hold" {
            options.delay = Some(Delay::Hold);
        }
    });
    let doing = what.clone();
    let script = script.runs(move |(payload, attempt): (Bytes, Attempt)| {
        let text = String::from_utf8_lossy(&payload).into_owned();
        child::say(&format!("started {text} attempt {attempt}"));
        let doing = doing.clone();
        async move {
            match doing.as_str() {
                "hang" => std::future::pending().await,
                "hang at the second" if attempt.number() == 2 => std::future::pending().await,
                "hang at the second" => Outcome::RetryAfter(Duration::from_millis(200)),
                "wait" | "hold" if attempt.is_first() => {
                    Outcome::RetryAfter(Duration::from_secs(30))
                }
                "retry" => Outcome::Retry,
                _ => Outcome::Ack,
            }
        }
    });
    let broker = Mqtt::new(&child::argument("URL")).expect("it is the URL of the server");
    let running = Script::app("shop", [script]).broker(broker).start().await;
    let running = running.expect("it starts");
    let term = crate::termination();
    child::say("ready");
    term.await;
    running.stop().await.ok();
}

// spec: M3 M18 M19
// case: D12
#[tokio::test]
async fn a_message_comes_again_whose_handler_was_killed() {
    let server = Mosquitto::start().await;
    let first = start(&server.url(), "hang");
    first.line_with("ready").await;
    publish(&server, message("jobs", "a")).await;
    first.line_with("started a attempt 1").await;
    first.kill().await;

    let second = start(&server.url(), "ack");
    second.line_with("started a attempt 1").await;
    server
        .log()
        .with("Received PUBACK from shop-")
        .await
        .expect("it is acknowledged");
    second.kill().await;

    // Acknowledged, it does not come a third time.
    let third = start(&server.url(), "ack");
    third.line_with("ready").await;
    publish(&server, message("jobs", "b")).await;
    third.line_with("started b").await;
    assert!(!third.lines().text().contains("started a"));
}

// spec: C1 C2 M33 M46 M47
// case: A06
#[tokio::test]
async fn attempts_that_copies_carry_survive_a_kill() {
    let server = Mosquitto::start().await;
    let mut dead = client(&server, "undertaker").await;
    dead.subscribe("jobs.dead", 1).await;
    let first = start(&server.url(), "hang at the second");
    first.line_with("ready").await;
    publish(&server, message("jobs", "a")).await;
    first.line_with("started a attempt 2").await;
    first.kill().await;

    let second = start(&server.url(), "retry");
    second.line_with("started a attempt 2").await;
    second.line_with("started a attempt 3").await;
    let letter = dead.take().await;
    assert_eq!(letter.text(), "a");
    assert_eq!(
        letter.properties.value("x-ruststream-dead-attempts"),
        Some("3")
    );
    dead.expect_nothing().await;
}

// spec: M24 M51 M53 A43
#[tokio::test]
async fn a_copy_that_waits_in_the_process_dies_with_it_and_no_other_message_does() {
    let server = Mosquitto::start().await;
    let first = start(&server.url(), "wait");
    first.line_with("ready").await;
    let mut device = client(&server, "device").await;
    device.publish(message("jobs", "waits")).await;
    first.line_with("started waits attempt 1").await;
    server
        .log()
        .with("Received PUBACK from shop-")
        .await
        .expect("it is acknowledged first");
    first.kill().await;
    device.publish(message("jobs", "later")).await;

    let second = start(&server.url(), "ack");
    second.line_with("started later attempt 1").await;
    assert!(!second.lines().text().contains("started waits"));
}

// spec: C6 C4
#[tokio::test]
async fn a_held_retry_survives_a_kill() {
    let server = Mosquitto::start().await;
    let first = start(&server.url(), "hold");
    first.line_with("ready").await;
    publish(&server, message("jobs", "waits")).await;
    first.line_with("started waits attempt 1").await;
    first.kill().await;
    assert!(!server.log().text().contains("Received PUBACK from shop-"));

    let second = start(&server.url(), "ack");
    second.line_with("started waits attempt 1").await;
}

// spec: C4 M8 M9
#[tokio::test]
async fn a_kill_between_the_copy_and_the_acknowledgement_doubles_the_message() {
    let server = Mosquitto::start().await;
    let proxy = Proxy::to(&server.url());
    let first = start(&proxy.url(&server.url()), "retry");
    first.line_with("ready").await;
    // What the server says does not arrive any more: the copy is there, its confirmation is not.
    publish(&server, message("jobs", "a")).await;
    first.line_with("started a attempt 1").await;
    proxy.pause(Way::Down);
    server
        .log()
        .with("publisher-")
        .await
        .expect("the copy is on its way");
    first.kill().await;
    proxy.resume();
    let acknowledged = server
        .log()
        .text()
        .matches("Received PUBACK from shop-")
        .count();

    let second = start(&server.url(), "ack");
    second.line_with("started a attempt 1").await;
    assert_eq!(acknowledged, 0, "{}", server.log().text());
}

// spec: M2
// case: D10
#[tokio::test]
async fn a_service_killed_in_the_middle_of_a_qos_2_handshake_finds_its_session_again() {
    let server = Mosquitto::start().await;
    let proxy = Proxy::to(&server.url());
    let first = start(&proxy.url(&server.url()), "exactly once");
    first.line_with("ready").await;
    let mut device = client(&server, "device").await;
    proxy.pause(Way::Down);
    let exact = |text: &str| Publish {
        qos: 2,
        ..Publish::new("jobs", text.to_owned())
    };
    device.publish(exact("a")).await;
    proxy.resume();
    first.line_with("started a").await;
    server
        .log()
        .with("Received PUBREC from shop-")
        .await
        .expect("it is acknowledged");
    first.kill().await;

    let second = start(&server.url(), "exactly once");
    second.line_with("ready").await;
    device.publish(exact("b")).await;
    second.line_with("started b attempt 1").await;
    let connects = server.log().text().matches("as shop-").count();
    assert!(connects <= 3, "{}", server.log().text());
    assert!(second.lines().text().matches("started a").count() <= 1);
}

// spec: C13
// case: D07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_does_not_cross_a_reconnect() {
    let mut server = Mosquitto::with(Config::new().forgetful()).await;
    let (starts, gate) = (Starts::new(), tokio::sync::watch::Sender::new(false));
    let (noted, opened) = (starts.clone(), gate.subscribe());
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| {
            options.max_attempts = Some(3);
            options.concurrency = Some(2);
        })
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            noted.note(&payload, attempt);
            let mut opened = opened.clone();
            async move {
                match &payload[..] {
                    b"m1" => {
                        opened
                            .wait_for(|open| *open)
                            .await
                            .expect("the gate is there");
                    }
                    _ => std::future::pending().await,
                }
            }
        });
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    let app = Script::app("shop", [script]).broker(broker);
    let running = app
        .drain(Duration::from_millis(100))
        .start()
        .await
        .expect("it starts");
    publish(&server, message("jobs", "m1")).await;
    until("m1 is at work", || starts.count() == 1).await;

    // The server forgets, so that the packet id of m1 is free for m2.
    server.restart().await;
    until("it receives again", || {
        running
            .monitor()
            .mount("work")
            .is_some_and(|it| it.health == Health::Up)
    })
    .await;
    let log = server.log();
    log.with("Sending SUBACK to shop-")
        .await
        .expect("it subscribed again");
    publish(&server, message("jobs", "m2")).await;
    until("m2 is at work", || starts.count() == 2).await;
    gate.send_replace(true);
    until("the late word is refused", || {
        running.stats()["work"].stale == 1
    })
    .await;
    drop(running);

    // The session is looked into by another client: m2 is still there, unacknowledged.
    let name = session_of(&server.log().text());
    let mut observer = Client::connect(&server.url(), Connect::resuming(name, 600)).await;
    assert!(observer.connack.session_present);
    let kept = observer.message().await;
    assert_eq!((kept.text(), kept.dup), ("m2".to_owned(), true));
}

/// The client id of the service, as the server has it in its log.
fn session_of(log: &str) -> String {
    let name = log
        .split(" as ")
        .find(|rest| rest.starts_with("shop-") && !rest.contains("publisher"));
    let name = name.and_then(|rest| rest.split(' ').next());
    name.expect("the service has connected").to_owned()
}

// spec: C14
// case: F01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_subscription_is_back_after_each_restart_of_a_forgetful_server() {
    let mut server = Mosquitto::with(Config::new().forgetful()).await;
    let starts = Starts::new();
    let topics = ["one", "two", "three"];
    let scripts =
        topics.map(|topic| starts.answer(Script::topic(topic).named(topic), |_| Outcome::Ack));
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    let running = Script::app("shop", scripts)
        .broker(broker)
        .start()
        .await
        .expect("it starts");
    for restart in 1..=3 {
        server.restart().await;
        server
            .log()
            .count("Sending SUBACK to shop-", 3)
            .await
            .expect("all subscribe again");
        let mut device = client(&server, "device").await;
        for topic in topics {
            assert_eq!(device.publish(message(topic, "x")).await.code, 0);
        }
        until("each handler starts", || starts.count() == 3 * restart).await;
    }
    running.stop().await.expect("it stops in order");
}

// spec: M3 M7 M19 C14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_unacknowledged_and_what_waits_is_there_after_a_restart_with_persistence() {
    let mut server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let script =
        Script::topic("jobs")
            .named("work")
            .runs(move |(payload, attempt): (Bytes, Attempt)| {
                let start = noted.note(&payload, attempt);
                let is_first = noted
                    .payloads()
                    .iter()
                    .filter(|text| text.as_bytes() == &start.payload[..])
                    .count()
                    == 1;
                async move {
                    if is_first {
                        std::future::pending::<()>().await;
                    }
                }
            });
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    let running = Script::app("shop", [script])
        .broker(broker)
        .start()
        .await
        .expect("it starts");
    let mut device = client(&server, "device").await;
    device.publish(message("jobs", "a")).await;
    until("it is at work", || starts.count() == 1).await;
    server.restart().await;
    // The first handler still hangs in the only lane; its message is not lost for that.
    until("the connection is back", || {
        running.health()["work"] == Health::Up
    })
    .await;
    drop(running);
    let name = session_of(&server.log().text());
    let mut observer = Client::connect(&server.url(), Connect::resuming(name, 600)).await;
    assert_eq!(observer.message().await.text(), "a");
}

// spec: C14 C13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_loses_nothing_wherever_it_is_cut() {
    let server = Mosquitto::start().await;
    let proxy = Proxy::to(&server.url());
    let starts = Starts::new();
    let script = starts.answer(
        Script::topic("jobs")
            .named("work")
            .with(|options| options.concurrency = Some(4)),
        |_| Outcome::Ack,
    );
    let broker = Mqtt::new(&proxy.url(&server.url())).expect("it is a URL");
    let running: ruststream::app::Handle = app(script, broker).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..200 {
        device.publish(message("jobs", &number.to_string())).await;
        if number % 20 == 10 {
            proxy.cut();
        }
    }
    until("each was handled", || {
        let mut seen = starts.payloads();
        seen.sort();
        seen.dedup();
        seen.len() == 200
    })
    .await;
    // What was handled when the connection broke comes once more, before this one.
    device.publish(message("jobs", "last")).await;
    until("the last one", || {
        starts.payloads().iter().any(|text| text == "last")
    })
    .await;
    running.stop().await.expect("it stops in order");
    let name = session_of(&server.log().text());
    let mut observer = Client::connect(&server.url(), Connect::resuming(name, 600)).await;
    observer.expect_nothing().await;
}

fn app(script: Script, broker: Mqtt) -> App {
    Script::app("shop", [script]).broker(broker)
}

// spec: C14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_silent_is_noticed_and_found_again() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    let url = format!("{}?keep_alive=1s", server.url());
    let running = app(script, Mqtt::new(&url).expect("it is a URL"))
        .start()
        .await
        .expect("it starts");
    server.pause();
    until("it is noticed", || {
        matches!(running.health()["work"], Health::Down { .. })
    })
    .await;
    server.resume();
    until("it is back", || running.health()["work"] == Health::Up).await;
    publish(&server, message("jobs", "a")).await;
    until("it is handled", || starts.count() == 1).await;
    running.stop().await.expect("it stops in order");
}

// spec: M1 C16
// case: D09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_leave_in_order_and_a_cut_in_between_loses_nothing() {
    let server = Mosquitto::start().await;
    let proxy = Proxy::to(&server.url());
    let starts = Starts::new();
    let noted = starts.clone();
    let turn = std::sync::Arc::new(tokio::sync::watch::Sender::new(5_u8));
    let turns = std::sync::Arc::clone(&turn);
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| options.concurrency = Some(4))
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            let _ = noted.note(&payload, attempt);
            let mut turn = turns.subscribe();
            async move {
                let own = payload[1] - b'0';
                turn.wait_for(|turn| *turn <= own)
                    .await
                    .expect("turns go on");
            }
        });
    let broker = Mqtt::new(&proxy.url(&server.url())).expect("it is a URL");
    let running = app(script, broker).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for text in ["m1", "m2", "m3", "m4"] {
        device.publish(message("jobs", text)).await;
    }
    until("all are at work", || starts.count() == 4).await;
    // 4 and 3 are done, and the connection breaks.
    turn.send_replace(3);
    until("two are done", || running.stats()["work"].acked == 2).await;
    let before = acks(&proxy.bytes(0, Way::Up));
    assert!(
        before.is_empty(),
        "they wait for those before them: {before:?}"
    );
    proxy.cut();
    until("all have come again", || {
        starts.count() == 8 || {
            let seen = starts.payloads();
            seen.iter().skip(4).any(|text| text == "m1")
                && seen.iter().skip(4).any(|text| text == "m2")
        }
    })
    .await;
    turn.send_replace(1);
    until("all are acknowledged", || {
        acks(&proxy.bytes(1, Way::Up)).len() == 4
    })
    .await;
    assert_eq!(acks(&proxy.bytes(1, Way::Up)), [1, 2, 3, 4]);
    running.stop().await.expect("it stops in order");
}

/// The packet ids of the PUBACKs in what a client sent.
fn acks(mut bytes: &[u8]) -> Vec<u16> {
    let mut ids = Vec::new();
    while let Ok(Some((packet, length))) = Packet::decode(bytes) {
        if let Packet::PubAck(Ack { id, .. }) = packet {
            ids.push(id);
        }
        bytes = &bytes[length..];
    }
    ids
}

// spec: C14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_starts_while_its_server_is_away_and_finds_it_later() {
    let mut server = Mosquitto::start().await;
    server.stop().await;
    let starts = Starts::new();
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    let running = app(script, broker)
        .start()
        .await
        .expect("a server that is away is no error");
    until("it says that it does not receive, and why", || {
        matches!(&running.health()["work"], Health::Down { reason } if reason.contains("refuses connections"))
    })
    .await;
    server.restart().await;
    until("it is found", || running.health()["work"] == Health::Up).await;
    publish(&server, message("jobs", "a")).await;
    until("it is handled", || starts.count() == 1).await;
    running.stop().await.expect("it stops in order");
    a_moment().await;
}
