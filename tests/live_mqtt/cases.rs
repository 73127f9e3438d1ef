//! Failures that people reported from systems like this one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::Attempt;
use ruststream::Json;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::PublishError;
use ruststream::Publisher;
use ruststream::Text;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::testing::Script;
use support::Mosquitto;
use support::Starts;
use support::mosquitto::Config;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;

use crate::until;

fn app(server: &Mosquitto, scripts: impl IntoIterator<Item = Script>) -> App {
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    Script::app("shop", scripts).broker(broker)
}

async fn client(server: &Mosquitto, name: &str) -> Client {
    Client::connect(&server.url(), Connect::new(name)).await
}

/// Reads what dies.
async fn undertaker(server: &Mosquitto) -> Client {
    let mut reader = client(server, "undertaker").await;
    reader.subscribe("jobs.dead", 1).await;
    reader
}

fn message(topic: &str, text: impl Into<Bytes>) -> Publish {
    Publish {
        qos: 1,
        ..Publish::new(topic, text)
    }
}

fn jobs(cap: u32) -> Script {
    Script::topic("jobs").named("work").with(|options| {
        options.max_attempts = Some(cap);
        options.dead_letter = Some("jobs.dead");
    })
}

// spec: A8 M34 C6
// case: A03 A08 H06
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_and_immediate_retries_count_to_the_same_cap() {
    for (cap, outcome) in [
        (2, Outcome::RetryAfter(Duration::from_millis(50))),
        (1, Outcome::Retry),
        (1, Outcome::RetryAfter(Duration::from_millis(100))),
        (3, Outcome::RetryAfter(Duration::ZERO)),
    ] {
        let server = Mosquitto::start().await;
        let starts = Starts::new();
        let mut dead = undertaker(&server).await;
        let script = starts.answer(jobs(cap), move |_| outcome);
        let running = app(&server, [script]).start().await.expect("it starts");
        dead.publish(message("jobs", "a")).await;
        assert_eq!(dead.take().await.text(), "a");
        dead.expect_nothing().await;
        let expected: Vec<u32> = (1..=cap).collect();
        assert_eq!(starts.attempts(), expected, "{outcome:?}");
        running.stop().await.expect("it stops in order");
    }
}

// spec: C1 C3
// case: B06 B12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_counts_and_control_headers_lose_nothing() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let mut dead = undertaker(&server).await;
    let script = starts.answer(jobs(3), |_| Outcome::Retry);
    let running = app(&server, [script]).start().await.expect("it starts");
    let counts = [
        "999999",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "",
        "one",
    ];
    for count in counts {
        let spoofed = message("jobs", count).user("x-ruststream-retry-count", count);
        dead.publish(
            spoofed
                .user("X-RUSTSTREAM-RETRY-COUNT", "7")
                .user("x-ruststream-dead-reason", "x"),
        )
        .await;
        assert_eq!(dead.take().await.text(), count);
    }
    dead.expect_nothing().await;
    assert!(starts.count() <= 3 * counts.len(), "{}", starts.count());
    running.stop().await.expect("it stops in order");
}

#[derive(serde::Deserialize)]
struct Order {
    #[expect(dead_code, reason = "decoding is what is tried")]
    id: u32,
}

// spec: C8
// case: A25 E02 E04 E06
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_decode_dies_once_as_it_came_and_the_next_is_handled() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let mut dead = undertaker(&server).await;
    let script = jobs(5).runs(move |(_, attempt): (Json<Order>, Attempt)| {
        noted.note(&Bytes::new(), attempt);
        async {}
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    let bad: [&[u8]; 4] = [b"", b"not json", &[0xFF, 0xFE, 0x80], br#"{"id":"seven"}"#];
    for payload in bad {
        dead.publish(message("jobs", payload)).await;
        let letter = dead.take().await;
        assert_eq!(letter.payload, payload);
        assert_eq!(
            letter.properties.value("x-ruststream-dead-reason"),
            Some("decode")
        );
    }
    dead.publish(message("jobs", &br#"{"id":7}"#[..])).await;
    until("the good one is handled", || starts.count() == 1).await;
    dead.expect_nothing().await;
    running.stop().await.expect("it stops in order");
}

// case: E01 E02 E04
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_message_without_any_header_of_ours_is_handled() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let bytes = starts.answer(Script::topic("bytes").named("bytes"), |_| Outcome::Ack);
    let text = Script::topic("text")
        .named("text")
        .with(|options| options.max_attempts = Some(1));
    let text = text.runs(move |(text, attempt): (Text, Attempt)| {
        noted.note(&Bytes::copy_from_slice(text.as_str().as_bytes()), attempt);
        async {}
    });
    let running = app(&server, [bytes, text])
        .start()
        .await
        .expect("it starts");
    let mut device = client(&server, "device").await;
    device.publish(message("bytes", "")).await;
    device.publish(message("text", "plain")).await;
    until("both are handled", || starts.count() == 2).await;
    running.stop().await.expect("it stops in order");
}

// case: E03
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_content_type_is_decoded_or_parked_once() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let mut dead = undertaker(&server).await;
    let script = jobs(5).runs(move |(_, attempt): (Json<Order>, Attempt)| {
        noted.note(&Bytes::new(), attempt);
        async {}
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    let long = "x".repeat(10_000);
    let kinds = [
        "",
        "app",
        "application/json; charset=UTF-8",
        "Application/JSON",
        "text/plain",
        &long,
    ];
    for kind in kinds {
        let typed = message("jobs", &br#"{"id":7}"#[..]).with(Property::ContentType(kind.into()));
        dead.publish(typed).await;
    }
    until("each is decoded or parked", || {
        let it = running.stats()["work"];
        it.acked + it.dead_lettered == kinds.len() as u64
    })
    .await;
    running.stop().await.expect("it stops in order");
}

// spec: C11
// case: B13 C07 C08 C10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_has_all_that_its_message_had_and_outlives_its_expiry() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let mut keeper = Client::connect(&server.url(), Connect::resuming("keeper", 600)).await;
    keeper.subscribe("jobs.dead", 1).await;
    keeper.disconnect().await;
    let script = starts.answer(jobs(4), |_| Outcome::Retry);
    let running = app(&server, [script]).start().await.expect("it starts");
    let body: Vec<u8> = (0..=255).cycle().take(2_560).collect();
    let original = message("jobs", body.clone())
        .with(Property::MessageExpiryInterval(2))
        .with(Property::ContentType("application/octet-stream".into()))
        .with(Property::ResponseTopic("answers".into()))
        .with(Property::CorrelationData(vec![0_u8, 255, 128].into()))
        .user("tag", "a")
        .user("tag", "")
        .user("tag", "b")
        .user("other", "1");
    let mut device = client(&server, "device").await;
    device.publish(original.clone()).await;
    until("it is spent", || running.stats()["work"].dead_lettered == 1).await;
    crate::a_while(Duration::from_millis(2_500)).await;
    let mut keeper = Client::connect(&server.url(), Connect::resuming("keeper", 600)).await;
    let letter = keeper.take().await;
    assert_eq!(letter.payload, body);
    let own: Vec<_> = letter
        .properties
        .user()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("x-ruststream-"))
        .collect();
    assert_eq!(
        own,
        [("tag", "a"), ("tag", ""), ("tag", "b"), ("other", "1")]
    );
    for property in original.properties.all() {
        if !matches!(
            property,
            Property::User(..) | Property::MessageExpiryInterval(_)
        ) {
            assert!(letter.properties.has(property), "{property:?}");
        }
    }
    assert_eq!(starts.count(), 4);
    running.stop().await.expect("it stops in order");
}

// spec: M10
// case: C17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_retry_is_not_doubled_and_its_original_is_settled_at_once() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.answer(jobs(4), |_| Outcome::RetryAfter(Duration::from_millis(300)));
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut dead = undertaker(&server).await;
    dead.publish(message("jobs", "a")).await;
    server
        .log()
        .with("Received PUBACK from shop-")
        .await
        .expect("it is settled");
    assert_eq!(starts.count(), 1, "long before its copy comes");
    dead.take().await;
    dead.expect_nothing().await;
    assert_eq!(starts.attempts(), [1, 2, 3, 4]);
    running.stop().await.expect("it stops in order");
}

// spec: M15 M23 C12
// case: D14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_immediate_retry_does_not_wait_for_a_reconnect() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.answer(jobs(5), |start| {
        if start.attempt < 3 {
            Outcome::Retry
        } else {
            Outcome::Ack
        }
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    let begun = crate::now();
    client(&server, "device")
        .await
        .publish(message("jobs", "a"))
        .await;
    until("it is handled", || starts.count() == 3).await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let log = server.log().text();
    assert_eq!(log.matches("-work (p5").count(), 1, "{log}");
    running.stop().await.expect("it stops in order");
}

// spec: M40
// case: F06 F08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_with_a_wildcard_is_refused_here_and_the_connection_lives() {
    let server = Mosquitto::start().await;
    let mut reader = client(&server, "reader").await;
    reader.subscribe("a/b", 1).await;
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| options.max_attempts = Some(1));
    let script = script.runs(|publisher: Publisher| async move {
        for topic in ["a/+", "a/#", ""] {
            let refused = publisher.publish(topic, "x").await;
            assert!(!refused.expect_err(topic).is_transient());
        }
        publisher.publish("a/b", "x").await.map(drop)
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    reader.publish(message("jobs", "go")).await;
    assert_eq!(reader.take().await.text(), "x");
    let connects = server.log().count(" as shop-", 3);
    let again = tokio::time::timeout(Duration::from_millis(100), connects).await;
    again.expect_err("one connection reads and one publishes");
    running.stop().await.expect("it stops in order");
    let script = Script::topic("jobs").named("work").with(|options| {
        options.max_attempts = Some(1);
        options.dead_letter = Some("dead/#");
    });
    let error = app(&server, [script])
        .start()
        .await
        .expect_err("it is no topic");
    assert!(error.to_string().contains("dead/#"), "{error}");
}

// spec: M11 C7
// case: H03
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_delay_does_not_hold_a_short_one_back() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.answer(jobs(3), |start| match (&start.payload[..], start.attempt) {
        (b"long", 1) => Outcome::RetryAfter(Duration::from_mins(1)),
        (_, 1) => Outcome::RetryAfter(Duration::from_millis(200)),
        _ => Outcome::Ack,
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    device.publish(message("jobs", "long")).await;
    device.publish(message("jobs", "short")).await;
    until("the short one comes again", || {
        starts.payloads() == ["long", "short", "short"]
    })
    .await;
    drop(running);
}

// spec: C7 M52
// case: H07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_that_wait_are_on_the_server_before_a_stop_ends() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let shop = || {
        let script = starts.answer(jobs(3), |start| match start.attempt {
            1 => Outcome::RetryAfter(Duration::from_secs(30)),
            _ => Outcome::Ack,
        });
        app(&server, [script]).drain(Duration::from_secs(6))
    };
    let running = shop().start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..20 {
        device.publish(message("jobs", number.to_string())).await;
    }
    let settled = server.log().count("Received PUBACK from shop-", 20).await;
    settled.expect("all wait");
    running.stop().await.expect("it stops in order");
    let running = shop().start().await.expect("it starts");
    until("all are there", || starts.count() == 40).await;
    running.stop().await.expect("it stops in order");
}

// spec: C7
// case: I02 I03
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_in_time_and_what_runs_ends_with_its_publishes() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.hang(Script::topic("jobs").named("work"));
    let running = app(&server, [script])
        .drain(Duration::from_millis(500))
        .start()
        .await;
    let running = running.expect("it starts");
    let mut device = client(&server, "device").await;
    device.subscribe("out", 1).await;
    device.publish(message("jobs", "hangs")).await;
    until("it hangs", || starts.count() == 1).await;
    let begun = crate::now();
    running.stop().await.expect_err("one is unfinished");
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );

    // It comes again, to one that publishes on its way out.
    let again = starts.clone();
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| options.max_attempts = Some(2));
    let script = script.runs(
        move |(payload, attempt, publisher): (Bytes, Attempt, Publisher)| {
            again.note(&payload, attempt);
            async move {
                crate::a_while(Duration::from_millis(300)).await;
                publisher.publish("out", payload).await?;
                Ok::<_, PublishError>(())
            }
        },
    );
    let running = app(&server, [script]).start().await.expect("it starts");
    until("it is at work", || starts.count() == 2).await;
    running.stop().await.expect("it stops in order");
    assert_eq!(device.take().await.text(), "hangs");
}

// spec: C7
// case: I07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_at_any_moment_lose_nothing() {
    const MESSAGES: usize = 1_000;
    let server = Mosquitto::with(Config::new().forgetful()).await;
    let starts = Starts::new();
    let shop = || {
        let script = Script::topic("jobs")
            .named("work")
            .with(|options| options.concurrency = Some(4));
        app(&server, [starts.answer(script, |_| Outcome::Ack)])
    };
    let running = shop().start().await.expect("it starts");
    running.stop().await.expect("it stops in order");
    let mut device = client(&server, "device").await;
    for number in 0..MESSAGES {
        device.publish(message("jobs", number.to_string())).await;
    }
    for stop in 0..20 {
        let running = shop().start().await.expect("it starts");
        let enough = (stop + 1) * MESSAGES / 25;
        until("some are handled", || starts.count() >= enough).await;
        running.stop().await.expect("it stops in order");
    }
    let running = shop().start().await.expect("it starts");
    let handled = || {
        let mut counts = BTreeMap::new();
        for payload in starts.payloads() {
            *counts.entry(payload).or_insert(0) += 1;
        }
        counts
    };
    until("all are handled", || handled().len() == MESSAGES).await;
    running.stop().await.expect("it stops in order");
    let again = handled().values().filter(|count| **count > 1).count();
    assert_eq!(again, 0, "what was handled was acknowledged");
}

// spec: C8
// case: I11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_a_failed_attempt_and_the_others_are_handled() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let mut dead = undertaker(&server).await;
    let script = jobs(2).runs(move |(payload, attempt): (Bytes, Attempt)| {
        noted.note(&payload, attempt);
        async move {
            crate::a_moment().await;
            if &payload[..] == b"p" {
                std::panic::resume_unwind(Box::new(7));
            }
        }
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    for text in ["p", "a", "b"] {
        dead.publish(message("jobs", text)).await;
    }
    let letter = dead.take().await;
    assert_eq!(letter.text(), "p");
    assert_eq!(
        letter.properties.value("x-ruststream-dead-reason"),
        Some("panic")
    );
    until("the others are handled", || {
        running.stats()["work"].acked == 2
    })
    .await;
    running.stop().await.expect("it stops in order");
}

// case: J01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_handles_in_the_order_of_delivery() {
    let server = Mosquitto::with(Config::new().forgetful()).await;
    let starts = Starts::new();
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| options.prefetch = Some(50));
    let script = starts.answer(script, |_| Outcome::Ack);
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..2_000 {
        device.publish(message("jobs", number.to_string())).await;
    }
    until("all are handled", || starts.count() == 2_000).await;
    let numbers: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    assert_eq!(starts.payloads(), numbers);
    running.stop().await.expect("it stops in order");
}

// case: K14
#[tokio::test]
async fn two_handlers_on_one_group_are_an_error_that_names_both() {
    let server = Mosquitto::start().await;
    let member = |name: &str| {
        Script::topic("jobs").named(name).with(|options| {
            options.mqtt = Some(MqttOptions {
                shared: Some("g"),
                ..MqttOptions::NONE
            });
        })
    };
    let error = app(&server, [member("one"), member("two")]).start().await;
    let text = error.expect_err("they split a group").to_string();
    assert!(text.contains("`one`") && text.contains("`two`"), "{text}");
}

// case: L01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_let_in_and_wrong_ones_are_an_error_without_them() {
    let server = Mosquitto::with(Config::new().user("svc", "p@ss-W0rd")).await;
    let url = server.url().replace("mqtt://", "mqtt://svc:p%40ss-W0rd@");
    let shop = |url: &str| {
        let broker = Mqtt::new(url).expect("it is a URL");
        Script::app("shop", [Script::topic("jobs").named("work")]).broker(broker)
    };
    let running = shop(&url).start().await.expect("it is let in");
    running.stop().await.expect("it stops in order");
    let error = shop(&url.replace("W0rd", "wrong"))
        .start()
        .await
        .expect_err("it is not let in");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("`work`") && text.contains("127.0.0.1"),
        "{text}"
    );
    for secret in ["p@ss", "p%40ss", "svc", "cEBzcy"] {
        assert!(!text.contains(secret), "{text}");
    }
}

// spec: C14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_qos_that_the_server_has_not_is_published_at_what_it_has() {
    let server = Mosquitto::with(Config::new().max_qos(1)).await;
    let starts = Starts::new();
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    let broker = Mqtt::new(&format!("{}?publish_qos=2", server.url())).expect("it is a URL");
    let running = Script::app("shop", [script]).broker(broker).start().await;
    let running = running.expect("it starts");
    running
        .publisher()
        .publish("jobs", Message::new("x"))
        .await
        .expect("it is confirmed");
    until("it is handled", || starts.count() == 1).await;
    running.stop().await.expect("it stops in order");
}
