//! Hostile messages: headers, sizes, names, reply addresses.

use std::cell::Cell;
use std::time::Duration;

use ruststream::Bytes;
use ruststream::HeaderValue;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::broker::memory::Memory;
use ruststream::handler::Verdict;
use ruststream::headers::names;
use ruststream::registration::MqttOptions;
use ruststream::testing::Fate;
use ruststream::testing::Refuse;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;

fn fulfil() -> Script {
    Script::address("orders").named("fulfil")
}

fn brokers() -> [Memory; 4] {
    [
        Memory::amqp(),
        Memory::amqp().never_counting(),
        Memory::mqtt(),
        Memory::rabbitmq(),
    ]
}

async fn start(broker: Memory, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts")
}

fn hostile_values() -> Vec<HeaderValue> {
    vec![
        HeaderValue::Null,
        HeaderValue::Bool(true),
        HeaderValue::Int(i64::MIN),
        HeaderValue::Int(-1),
        HeaderValue::Int(i64::MAX),
        HeaderValue::UInt(u64::MAX),
        HeaderValue::Float(f64::NAN),
        HeaderValue::Float(1.0),
        HeaderValue::Text("".into()),
        HeaderValue::Text("١".into()),
        HeaderValue::Text(" 1".into()),
        HeaderValue::Text("+1".into()),
        HeaderValue::Text("9".repeat(100_000).into()),
        HeaderValue::Text("\0\r\n\u{202e}".into()),
        HeaderValue::Binary(Bytes::from_static(&[0xff, 0, 0xfe])),
        HeaderValue::Timestamp(i64::MIN),
        HeaderValue::List(vec![HeaderValue::Int(1); 1000]),
        HeaderValue::Map(vec![("a".into(), HeaderValue::Null)]),
    ]
}

// spec: C3
// case: C04
#[tokio::test(start_paused = true)]
async fn hostile_framework_headers_neither_kill_nor_escape_the_cap() {
    let all = [
        names::RETRY_COUNT,
        names::HANDLER,
        names::ID,
        names::TOPIC,
        names::EXCHANGE,
        names::ROUTING_KEY,
        names::DEAD_REASON,
        names::DEAD_ERROR,
        names::DEAD_ATTEMPTS,
        names::DEAD_ADDRESS,
        names::DEAD_HANDLER,
        names::DEAD_AT,
        names::TRACEPARENT,
    ];
    for broker in brokers() {
        let starts = Starts::new();
        let script = fulfil().with(|options| {
            options.max_attempts = Some(3);
            options.dead_letter = Some("dead");
        });
        let app = start(
            broker,
            starts.answer(script, |_| Outcome::retry_after(Duration::from_secs(1))),
        )
        .await;
        app.keep("dead");
        for name in all {
            for (number, value) in hostile_values().into_iter().enumerate() {
                let message = Message::new(format!("{name}{number}"))
                    .with_header(name.to_ascii_uppercase(), value.clone())
                    .with_header(name, value);
                app.publish("orders", message).unwrap();
            }
        }
        app.settled().await.unwrap();
        let sent = all.len() * hostile_values().len();
        assert_eq!(app.messages("dead").len(), sent, "{:?}", app.broker());
        assert!(starts.count() <= 3 * sent);
        assert!(
            app.messages("dead").iter().all(|message| message
                .headers()
                .all(names::DEAD_REASON)
                .count()
                == 1)
        );
    }
}

// spec: C3 C11
#[tokio::test(start_paused = true)]
async fn huge_messages_pass_as_they_are() {
    for broker in brokers() {
        let script = fulfil().with(|options| options.dead_letter = Some("dead"));
        let app = start(
            broker,
            Starts::new().answer(script, |_| Outcome::dead_letter()),
        )
        .await;
        app.keep("dead");
        let mut message = Message::new(vec![7_u8; 16 << 20]);
        for number in 0..10_000 {
            message = message.with_header(format!("h{number}"), number);
        }
        for _ in 0..1000 {
            message = message
                .with_header(names::DEAD_ERROR, "x")
                .with_header(names::RETRY_COUNT, 0);
        }
        let message = message.with_time_to_live(Duration::MAX);
        app.publish("orders", message).unwrap();
        app.settled().await.unwrap();
        let dead = app.messages("dead");
        assert_eq!(dead[0].payload().len(), 16 << 20);
        assert!(dead[0].headers().len() > 10_000);
    }
}

// spec: C28 M40
#[tokio::test(start_paused = true)]
async fn a_hostile_reply_address_reaches_nothing_but_itself() {
    for broker in brokers() {
        let script =
            fulfil().runs(|_: Bytes| async { Verdict::Answer(Box::new(Message::new("answer"))) });
        let app = start(broker, script).await;
        for to in [
            "",
            "+",
            "#",
            "a/+/b",
            "$share/g/a",
            "\0",
            "a\u{ffff}b",
            &"x".repeat(100_000),
        ] {
            app.publish("orders", Message::new("ask").with_reply_to(to))
                .unwrap();
        }
        app.advance(Duration::from_secs(3)).await;
        app.publish("orders", "plain").unwrap();
        app.advance(Duration::from_secs(3)).await;
        assert_eq!(app.stats("fulfil").starts, 9, "{:?}", app.broker());
        app.stop().await.ok();
    }
}

// spec: M40 C5
#[tokio::test(start_paused = true)]
async fn a_retry_topic_that_panics_or_cannot_be_published_to_keeps_the_original() {
    type With = fn(&ruststream::Delivery) -> std::borrow::Cow<'_, str>;
    let odd: [With; 4] = [
        |_| panic!("a handler panics"),
        |_| "orders/+".into(),
        |_| "".into(),
        |_| "orders/#".into(),
    ];
    for broker in [Memory::mqtt(), Memory::new()] {
        for with in odd {
            let starts = Starts::new();
            let script = Script::filter("orders/+").named("fulfil").with(|options| {
                options.max_attempts = Some(3);
                options.retry_topic_with = Some(with);
                options.mqtt = Some(MqttOptions::NONE);
            });
            let app = start(broker.client(), starts.answer(script, |_| Outcome::Retry)).await;
            app.publish("orders/1", "x").unwrap();
            app.advance(Duration::from_mins(2)).await;
            assert_eq!(starts.count(), 1);
            assert_eq!(app.stats("fulfil").stuck, 1, "{broker:?}");
            let published = app
                .events()
                .into_iter()
                .filter(|event| event.address != "orders/1");
            let published = published.filter(|event| {
                matches!(event.kind, ruststream::testing::EventKind::Published { .. })
            });
            assert_eq!(published.count(), 0, "{broker:?}");
            app.stop().await.ok();
            broker.observe().clear_events();
            broker.observe().end_session("fulfil");
        }
    }
}

// spec: C35
#[tokio::test(start_paused = true)]
async fn odd_names_are_refused_at_the_start_or_work() {
    let odd = [
        "\0",
        "a\0b",
        "\u{feff}x",
        "a b",
        "\n",
        "é/ü",
        "$SYS/x",
        "/",
        "//",
        "a'b`c",
        &"n".repeat(70_000),
    ];
    for broker in brokers() {
        for name in odd {
            let script = Script::address(name).named("fulfil");
            let app = Script::app("shop", [Starts::new().answer(script, |_| Outcome::Ack)]);
            if let Ok(app) = TestApp::start(broker.client(), app).await {
                assert_eq!(app.send(name, "x").await.fate, Fate::Handled, "{name:?}");
                app.stop().await.unwrap();
            }
        }
    }
}

thread_local! {
    /// The log lines of this thread, once somebody counts them.
    static LINES: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts log lines of `info` and above. It is the process's: one of a thread is forgotten where
/// another thread logs first.
struct Lines;

impl tracing::Subscriber for Lines {
    fn register_callsite(
        &self,
        _: &'static tracing::Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && LINES.get().is_some()
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        LINES.set(LINES.get().map(|lines| lines + 1));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// spec: C5
#[tokio::test(start_paused = true)]
async fn ten_thousand_refused_dead_letters_are_a_few_log_lines() {
    tracing::subscriber::set_global_default(Lines).unwrap();
    for how in [Refuse::Permanent, Refuse::Transient] {
        let script = fulfil().with(|options| {
            options.dead_letter = Some("dead");
            options.prefetch = Some(10_000);
            options.concurrency = Some(1000);
        });
        let broker = Memory::amqp();
        broker.observe().refuse_publishes("dead", how, None);
        let app = start(
            broker,
            Starts::new().answer(script, |_| Outcome::dead_letter()),
        )
        .await;
        for number in 0..10_000 {
            app.publish("orders", format!("{number}")).unwrap();
        }
        LINES.set(Some(0));
        app.advance(Duration::from_secs(100)).await;
        let said = LINES.take().unwrap();
        assert!((1..=20).contains(&said), "{said} lines");
        assert!(app.messages("dead").is_empty());
        let at_broker = app.observer().unsettled("orders");
        assert_eq!(at_broker, 10_000);
        app.stop().await.ok();
    }
}
