//! Sessions, groups, retained messages, last wills, and questions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::Retained;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::registration::Options;
use ruststream::testing::Script;
use support::Mosquitto;
use support::Proxy;
use support::Starts;
use support::child;
use support::mosquitto::Config;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Publish;

use crate::until;

fn app(name: &str, server: &Mosquitto, scripts: impl IntoIterator<Item = Script>) -> App {
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    Script::app(name, scripts).broker(broker)
}

async fn client(server: &Mosquitto, name: &str) -> Client {
    Client::connect(&server.url(), Connect::new(name)).await
}

fn message(topic: &str, text: impl Into<Bytes>) -> Publish {
    Publish {
        qos: 1,
        ..Publish::new(topic, text)
    }
}

fn mqtt(change: impl FnOnce(&mut MqttOptions)) -> impl FnOnce(&mut Options) {
    move |options| {
        let mut mqtt = MqttOptions::NONE;
        change(&mut mqtt);
        options.mqtt = Some(mqtt);
    }
}

// spec: C17 M19
// case: F19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_between_a_stop_and_a_start_is_there_after_it() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let shop = || {
        let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
        app("shop", &server, [script])
    };
    let running = shop().start().await.expect("it starts");
    running.stop().await.expect("it stops in order");
    let mut device = client(&server, "device").await;
    for number in 0..5 {
        device.publish(message("jobs", number.to_string())).await;
    }
    let running = shop().start().await.expect("it starts");
    until("all five are handled", || starts.count() == 5).await;
    running.stop().await.expect("it stops in order");
}

// spec: M19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_start_begins_without_what_the_last_session_kept() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let shop = |url: &str| {
        let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
        Script::app("shop", [script]).broker(Mqtt::new(url).expect("it is a URL"))
    };
    let running = shop(&server.url()).start().await.expect("it starts");
    running.stop().await.expect("it stops in order");
    let mut device = client(&server, "device").await;
    device.publish(message("jobs", "lost")).await;
    let url = format!("{}?clean_start=true", server.url());
    let running = shop(&url).start().await.expect("it starts");
    device.publish(message("jobs", "new")).await;
    until("the new one is handled", || starts.count() == 1).await;
    assert_eq!(starts.payloads(), ["new"]);
    running.stop().await.expect("it stops in order");
}

/// A member of a group that writes down whom it served.
fn member(name: &'static str, served: &Arc<Mutex<Vec<(&'static str, String)>>>) -> Script {
    let served = Arc::clone(served);
    Script::filter("plant/+/t")
        .named("read")
        .with(|options| {
            options.retry_topic = Some("plant/retry/t");
            options.prefetch = Some(10);
            mqtt(|mqtt| mqtt.shared = Some("g1"))(options);
        })
        .runs(move |payload: Bytes| {
            let text = String::from_utf8_lossy(&payload).into_owned();
            served.lock().expect("nobody panicked").push((name, text));
            crate::a_moment()
        })
}

// spec: M37 C29
// case: F09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_shares_its_work_and_a_member_that_stops_strands_nothing() {
    const MESSAGES: usize = 1_000;
    let broker = Mosquitto::with(Config::new().forgetful()).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let alarms = Starts::new();
    let alarm = Script::filter("alarm/#").named("alarm").with(|options| {
        options.retry_topic = Some("alarm/retry");
    });
    let alarm = alarms.answer(alarm, |_| Outcome::Ack);
    let one = app("one", &broker, [member("one", &served), alarm]);
    let one = one.start().await.expect("it starts");
    let other = app("other", &broker, [member("other", &served)]);
    let other = other.start().await.expect("it starts");
    let mut device = client(&broker, "device").await;
    device.publish(message("alarm", "fire")).await;
    until("the alarm is heard", || alarms.count() == 1).await;
    for number in 0..MESSAGES {
        device
            .publish(message("plant/1/t", number.to_string()))
            .await;
    }
    // The server has assigned half of them to this one, most are not sent yet.
    one.stop().await.expect("it stops in order");
    for number in 0..100 {
        device
            .publish(message("plant/1/t", format!("after {number}")))
            .await;
    }
    let distinct = || {
        let served = served.lock().expect("nobody panicked");
        served
            .iter()
            .map(|(_, text)| text.clone())
            .collect::<BTreeSet<_>>()
            .len()
    };
    until("all are handled", || distinct() == MESSAGES + 100).await;
    let by = |name: &str| {
        let served = served.lock().expect("nobody panicked");
        served.iter().filter(|(by, _)| *by == name).count()
    };
    assert!(
        by("one") > 100 && by("other") > 100,
        "{} {}",
        by("one"),
        by("other")
    );
    assert_eq!(alarms.count(), 1);
    // Its session is over: it would get a share of what comes else.
    let log = broker.log().text();
    assert!(log.contains("Received UNSUBSCRIBE from one-"), "{log}");
    other.stop().await.expect("it stops in order");
}

// spec: M48
// case: F11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_filters_each_get_a_message_once() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let filter = |filter: &str, name: &str| {
        let script = Script::filter(filter)
            .named(name)
            .with(|options| options.retry_topic = Some("a/b"));
        starts.answer(script, |_| Outcome::Ack)
    };
    let exact = starts.answer(Script::topic("a/b").named("exact"), |_| Outcome::Ack);
    let scripts = [filter("a/#", "all"), filter("a/+", "one"), exact];
    let running = app("shop", &server, scripts)
        .start()
        .await
        .expect("it starts");
    client(&server, "device")
        .await
        .publish(message("a/b", "x"))
        .await;
    until("each starts", || starts.count() == 3).await;
    running.stop().await.expect("it stops in order");
    assert_eq!(starts.count(), 3);
}

/// Writes down payloads with their retained flag.
fn flags(script: Script, seen: &Arc<Mutex<Vec<(String, bool)>>>) -> Script {
    let seen = Arc::clone(seen);
    script.runs(move |(payload, retained): (Bytes, Retained)| {
        let text = String::from_utf8_lossy(&payload).into_owned();
        seen.lock()
            .expect("nobody panicked")
            .push((text, retained.is_retained()));
        async {}
    })
}

// case: F04
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retained_message_comes_once_flagged_and_not_with_every_reconnect() {
    let server = Mosquitto::start().await;
    let proxy = Proxy::to(&server.url());
    let mut device = client(&server, "device").await;
    device.publish(message("cfg/x", "kept").retained()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let script = flags(Script::topic("cfg/x").named("configure"), &seen);
    let broker = Mqtt::new(&proxy.url(&server.url())).expect("it is a URL");
    let running = Script::app("shop", [script]).broker(broker).start().await;
    let running = running.expect("it starts");
    let count = || seen.lock().expect("nobody panicked").len();
    until("it comes", || count() == 1).await;
    for cut in 1..=3 {
        proxy.cut();
        server
            .log()
            .count("Sending SUBACK to shop-", cut + 1)
            .await
            .expect("it is back");
    }
    device.publish(message("cfg/x", "live")).await;
    until("the live one comes", || count() == 2).await;
    let seen = seen.lock().expect("nobody panicked").clone();
    assert_eq!(
        seen,
        [("kept".to_owned(), true), ("live".to_owned(), false)]
    );
    running.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retain_handling_and_retain_as_published_are_as_declared() {
    let server = Mosquitto::start().await;
    let mut device = client(&server, "device").await;
    device.publish(message("cfg/x", "kept").retained()).await;
    let seen: Vec<_> = (0..4).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let script = |at: usize, change: fn(&mut MqttOptions)| {
        flags(
            Script::topic("cfg/x")
                .named(format!("h{at}"))
                .with(mqtt(change)),
            &seen[at],
        )
    };
    let scripts = [
        script(0, |mqtt| mqtt.retain_handling = Some(0)),
        script(1, |mqtt| mqtt.retain_handling = Some(1)),
        script(2, |mqtt| mqtt.retain_handling = Some(2)),
        script(3, |mqtt| mqtt.retain_as_published = Some(true)),
    ];
    let running = app("shop", &server, scripts)
        .start()
        .await
        .expect("it starts");
    device.publish(message("cfg/x", "live").retained()).await;
    let of = |at: usize| seen[at].lock().expect("nobody panicked").clone();
    let has = |at: usize, text: &str| of(at).iter().any(|(known, _)| known == text);
    until("all have the live one", || (0..4).all(|at| has(at, "live"))).await;
    assert_eq!(
        [has(0, "kept"), has(1, "kept"), has(2, "kept")],
        [true, true, false]
    );
    assert!(of(0).contains(&("live".to_owned(), false)));
    assert!(of(3).contains(&("live".to_owned(), true)));
    running.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_no_local_handler_does_not_hear_its_own_application() {
    let server = Mosquitto::start().await;
    let (quiet, all) = (Starts::new(), Starts::new());
    let scripts = [
        quiet.answer(
            Script::topic("chat")
                .named("quiet")
                .with(mqtt(|mqtt| mqtt.no_local = Some(true))),
            |_| Outcome::Ack,
        ),
        all.answer(Script::topic("chat").named("all"), |_| Outcome::Ack),
    ];
    let running = app("shop", &server, scripts)
        .start()
        .await
        .expect("it starts");
    running
        .publisher()
        .publish("chat", Message::new("own"))
        .await
        .expect("it is read");
    client(&server, "other")
        .await
        .publish(message("chat", "foreign"))
        .await;
    until("both have heard", || all.count() == 2 && quiet.count() > 0).await;
    assert_eq!(quiet.payloads(), ["foreign"]);
    running.stop().await.expect("it stops in order");
}

// spec: C28
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_to_another_application_gets_its_answer() {
    let server = Mosquitto::start().await;
    let answering = Script::topic("prices").named("quote").runs(
        |(question, publisher, asked): (Bytes, Publisher, Message)| async move {
            let to = asked.reply_to().unwrap_or_default().to_owned();
            let mut answer = Message::new(format!("{} bytes", question.len()));
            if let Some(id) = asked.correlation_id() {
                answer = answer.with_correlation_id(id.clone());
            }
            publisher.publish(to, answer).await.map(drop)
        },
    );
    let answering = answering.with(|options| options.max_attempts = Some(3));
    let shop = app("shop", &server, [answering])
        .start()
        .await
        .expect("it starts");
    let idle = Script::topic("idle").named("idle");
    let asking = app("asking", &server, [idle])
        .start()
        .await
        .expect("it starts");
    let publisher = asking.publisher();
    let patience = Duration::from_secs(10);
    let (one, two) = tokio::join!(
        publisher.request("prices", "lamp", patience),
        publisher.request("prices", "table", patience),
    );
    assert_eq!(one.expect("it is answered").payload(), "4 bytes");
    assert_eq!(two.expect("it is answered").payload(), "5 bytes");
    let error = publisher
        .request("nobody", "x", patience)
        .await
        .expect_err("nobody answers");
    assert!(error.reason().contains("nobody reads"), "{error}");
    asking.stop().await.expect("it stops in order");
    shop.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario, run by a test in a process of its own"]
async fn mortal() {
    if !child::is_scenario() {
        return;
    }
    let broker = Mqtt::new(&child::argument("URL")).expect("it is a URL");
    let broker = broker
        .with_last_will(
            "state",
            Message::new("gone").with_header("who", "shop"),
            Duration::from_secs(1),
        )
        .expect("MQTT can say it");
    let idle = Script::topic("idle").named("idle");
    let running = Script::app("shop", [idle])
        .broker(broker)
        .start()
        .await
        .expect("it starts");
    let term = crate::termination();
    child::say("ready");
    term.await;
    running.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_will_is_published_after_a_crash_and_not_after_a_stop() {
    let server = Mosquitto::start().await;
    let mut heir = client(&server, "heir").await;
    heir.subscribe("state", 1).await;
    let url = server.url();
    let service = child::scenario("sessions::mortal", &[("URL", &url)]);
    service.line_with("ready").await;
    let status = service.term().await;
    assert!(status.success(), "{status}");
    let service = child::scenario("sessions::mortal", &[("URL", &url)]);
    service.line_with("ready").await;
    heir.expect_nothing().await;
    service.kill().await;
    let will = heir.take().await;
    assert_eq!(
        (will.text().as_str(), will.properties.value("who")),
        ("gone", Some("shop"))
    );
    heir.expect_nothing().await;
}
