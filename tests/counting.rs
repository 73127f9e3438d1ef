//! Attempts and caps: section C, "Counting".

use std::time::Duration;

use ruststream::HeaderValue;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::broker::memory::Memory;
use ruststream::registration::Options;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::header;
use support::published;

const MINUTE: Duration = Duration::from_mins(1);
const COUNT: &str = "x-ruststream-retry-count";

fn brokers() -> [(&'static str, Memory); 5] {
    [
        ("AMQP", Memory::amqp()),
        ("AMQP, always counting", Memory::amqp().always_counting()),
        ("AMQP, never counting", Memory::amqp().never_counting()),
        ("MQTT", Memory::mqtt()),
        ("RabbitMQ", Memory::rabbitmq()),
    ]
}

fn capped(most: u32) -> impl Fn(&mut Options) + Copy {
    move |options| {
        options.max_attempts = Some(most);
        options.dead_letter = Some("orders.dead");
    }
}

async fn answering(
    broker: Memory,
    options: impl FnOnce(&mut Options),
    answer: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = Script::address("orders").named("fulfil").with(options);
    let script = starts.answer(script, move |start| answer(start.attempt));
    let app = TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts");
    app.keep("orders.dead");
    (app, starts)
}

// spec: C1
// case: A03 A04
#[tokio::test(start_paused = true)]
async fn mixed_requeues_and_copies_keep_counting() {
    for (rules, broker) in brokers() {
        let alternating = |attempt: u32| match attempt % 2 {
            1 => Outcome::Retry,
            _ => Outcome::RetryAfter(Duration::from_millis(10)),
        };
        for most in [3, 6] {
            let (app, starts) = answering(broker.clone(), capped(most), alternating).await;
            let journey = app.send("orders", format!("{most}")).await;
            assert_eq!(
                journey.fate,
                Fate::DeadLettered {
                    to: "orders.dead".into()
                },
                "{rules}"
            );
            let expected: Vec<u32> = (1..=most).collect();
            assert_eq!(starts.attempts(), expected, "{rules}");
            app.stop().await.unwrap();
        }
    }
}

// spec: C1
// case: A03
#[tokio::test(start_paused = true)]
async fn delayed_retries_read_the_count_that_they_write() {
    for (rules, broker) in brokers() {
        let later = |_| Outcome::RetryAfter(Duration::from_millis(50));
        let (app, starts) = answering(broker, capped(2), later).await;
        app.send("orders", "1").await;
        assert_eq!(starts.attempts(), [1, 2], "{rules}");
        assert_eq!(app.messages("orders.dead").len(), 1, "{rules}");
    }
}

// spec: C3 C23
// case: B06
#[tokio::test(start_paused = true)]
async fn a_huge_count_dies_at_once_and_what_is_no_count_is_ignored() {
    #[rustfmt::skip]
    let rows: &[(&str, HeaderValue, &[u32])] = &[
        ("a count above the cap",     HeaderValue::from(999_999),                 &[]),
        ("the largest that counts",   HeaderValue::from(u32::MAX),                &[]),
        ("too large",                 HeaderValue::from(u64::MAX),                &[1, 2, 3]),
        ("too large, as text",        HeaderValue::from("18446744073709551616"),  &[1, 2, 3]),
        ("negative",                  HeaderValue::from(-1),                      &[1, 2, 3]),
        ("no number",                 HeaderValue::from("two"),                   &[1, 2, 3]),
        ("bytes",                     HeaderValue::Binary("\u{1}".into()),        &[1, 2, 3]),
        ("a list",                    HeaderValue::List(vec![1.into()]),          &[1, 2, 3]),
        ("one",                       HeaderValue::from("1"),                     &[2, 3]),
    ];
    for (rules, broker) in brokers() {
        for (situation, count, attempts) in rows {
            let (app, starts) = answering(broker.clone(), capped(3), |_| Outcome::Retry).await;
            let journey = app
                .send(
                    "orders",
                    Message::new(*situation).with_header(COUNT, count.clone()),
                )
                .await;
            assert_eq!(
                journey.fate,
                Fate::DeadLettered {
                    to: "orders.dead".into()
                },
                "{rules}: {situation}"
            );
            assert_eq!(starts.attempts(), *attempts, "{rules}: {situation}");
            app.stop().await.unwrap();
        }
    }
}

// spec: C3
#[tokio::test(start_paused = true)]
async fn a_copy_carries_exactly_one_count_whatever_came() {
    let later = |_| Outcome::RetryAfter(MINUTE);
    let (app, _) = answering(Memory::amqp(), |_| {}, later).await;
    let message = Message::new("1")
        .with_header("X-RustStream-Retry-Count", 1)
        .with_header(COUNT, "2")
        .with_header(COUNT, "nonsense");
    app.publish("orders", message).unwrap();
    app.settle_down().await;
    app.observer().keep_offline("fulfil");
    app.advance(2 * MINUTE).await;
    let copies = app.messages("orders");
    let counts: Vec<String> = copies[0]
        .headers()
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(COUNT))
        .map(|(_, value)| format!("{value:?}"))
        .collect();
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert_eq!(header(&copies[0], COUNT).as_deref(), Some("3"));
}

// spec: C2
// case: A19
#[tokio::test(start_paused = true)]
async fn a_replayed_dead_letter_starts_again() {
    for (rules, broker) in brokers() {
        let (app, starts) = answering(broker, capped(3), |_| Outcome::Retry).await;
        app.send("orders", "1").await;
        let dead = app.observer().take("orders.dead").unwrap().message;
        app.publish("orders", dead).unwrap();
        app.settled().await.unwrap();
        assert_eq!(starts.attempts(), [1, 2, 3, 1, 2, 3], "{rules}");
        let dead = app.messages("orders.dead");
        assert_eq!(dead.len(), 1, "{rules}");
        let reasons = dead[0].headers().all("x-ruststream-dead-reason").count();
        assert_eq!(reasons, 1, "{rules}: a second death replaces the first");
    }
}

// spec: C23
#[tokio::test(start_paused = true)]
async fn what_is_spent_on_arrival_is_not_started() {
    let (app, starts) = answering(Memory::amqp(), capped(3), |_| Outcome::Ack).await;
    app.send("orders", Message::new("1").with_header(COUNT, 3))
        .await;
    assert_eq!(starts.count(), 0);
    let dead = app.messages("orders.dead");
    assert_eq!(
        header(&dead[0], "x-ruststream-dead-reason").as_deref(),
        Some("max_attempts")
    );
    let cap_only = |options: &mut Options| options.max_attempts = Some(3);
    let (app, starts) = answering(Memory::amqp(), cap_only, |_| Outcome::Ack).await;
    let journey = app
        .send("orders", Message::new("1").with_header(COUNT, 3))
        .await;
    assert_eq!((journey.fate, starts.count()), (Fate::Dropped, 0));
}

// spec: C23 C24
// case: A22
#[tokio::test(start_paused = true)]
async fn a_message_that_kills_the_process_is_charged_and_its_neighbours_at_most_once() {
    let broker = Memory::amqp();
    let starts = Starts::new();
    let noted = starts.clone();
    // One at a time, so that its neighbours are prefetched and never started.
    let options = capped(3);
    let script = Script::address("orders")
        .named("fulfil")
        .with(options)
        .runs(
            move |(payload, attempt): (ruststream::Bytes, ruststream::Attempt)| {
                noted.note(&payload, attempt);
                async move {
                    if payload.as_ref() == b"bomb" {
                        std::future::pending::<()>().await;
                    }
                    Outcome::Ack
                }
            },
        );
    let mut app = TestApp::start(broker, Script::app("shop", [script]))
        .await
        .unwrap();
    app.observer().keep_offline("fulfil");
    for payload in ["bomb", "1", "2", "3", "4", "5"] {
        app.publish("orders", payload).unwrap();
    }
    for _ in 0..5 {
        app.crash().await;
        app.observer().let_online("fulfil");
        app.resume().await.unwrap();
    }
    app.settled().await.unwrap();
    let bombs = starts
        .payloads()
        .iter()
        .filter(|payload| *payload == "bomb")
        .count();
    assert_eq!(bombs, 3, "at most as often as the cap says");
    assert_eq!(app.messages("orders.dead").len(), 1);
    let neighbours = starts
        .all()
        .into_iter()
        .filter(|start| start.payload.as_ref() != b"bomb");
    let attempts: Vec<u32> = neighbours.map(|start| start.attempt).collect();
    assert_eq!(attempts.len(), 5, "each of them is handled");
    assert!(attempts.iter().all(|attempt| *attempt <= 2), "{attempts:?}");
}

// spec: C1
#[tokio::test(start_paused = true)]
async fn a_server_that_shows_a_count_of_0_on_everything_changes_nothing() {
    let later = |attempt| {
        if attempt < 4 {
            Outcome::RetryAfter(MINUTE)
        } else {
            Outcome::Ack
        }
    };
    let (app, starts) = answering(Memory::amqp().always_counting(), capped(5), later).await;
    app.send("orders", "1").await;
    assert_eq!(starts.attempts(), [1, 2, 3, 4]);
    assert_eq!(published(&app, "orders"), 4);
}

// spec: C12
// case: A11
#[tokio::test(start_paused = true)]
async fn an_undeclared_retry_cannot_spin() {
    for (rules, broker) in brokers() {
        let (app, starts) = answering(broker, |_| {}, |_| Outcome::Retry).await;
        app.publish("orders", "1").unwrap();
        app.advance(Duration::from_secs(3)).await;
        assert!(
            starts.count() < 150,
            "{rules}: {} starts in 3 s",
            starts.count()
        );
        drop(app);
    }
}

// spec: C12
// case: A24
#[tokio::test(start_paused = true)]
async fn a_failing_dependency_does_not_multiply_the_load_and_nothing_is_lost() {
    for (rules, broker) in brokers() {
        let starts = Starts::new();
        let options = |options: &mut Options| {
            options.max_attempts = Some(1000);
            options.dead_letter = Some("orders.dead");
            options.prefetch = Some(600);
        };
        let script = Script::address("orders").named("fulfil").with(options);
        let script = starts.answer(script, |start| {
            if start.at < Duration::from_secs(20) {
                Outcome::Retry
            } else {
                Outcome::Ack
            }
        });
        let app = TestApp::start(broker, Script::app("shop", [script]))
            .await
            .unwrap();
        for number in 0..500 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.advance(Duration::from_secs(20)).await;
        // A message that has failed for 20 s has been tried eleven times or twelve.
        assert!(
            starts.count() <= 500 * 13,
            "{rules}: {} starts",
            starts.count()
        );
        app.settled_within(Duration::from_secs(30)).await.unwrap();
        assert_eq!(app.messages("orders.dead").len(), 0, "{rules}");
        assert_eq!(app.stats("fulfil").acked, 500, "{rules}");
    }
}
