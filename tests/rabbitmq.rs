//! Section R of the specification, seen at the broker.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use ruststream::AckError;
use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Settle;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::registration::Options;
use ruststream::registration::QueueType;
use ruststream::registration::RabbitmqOptions;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::published;
use support::words;

const MINUTE: Duration = Duration::from_mins(1);
const KINDS: [QueueType; 2] = [QueueType::Classic, QueueType::Quorum];

fn queue(kind: QueueType) -> impl Fn(&mut Options) + Copy {
    move |options| {
        options.rabbitmq = Some(RabbitmqOptions {
            queue_type: Some(kind),
            ..RabbitmqOptions::NONE
        });
    }
}

fn fulfil(kind: QueueType) -> Script {
    Script::queue("orders").named("fulfil").with(queue(kind))
}

fn automatic(options: &mut Options) {
    options.settle = Some(Settle::AtMostOnce);
}

async fn start(broker: Memory, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts")
}

async fn answering(
    script: Script,
    answer: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = starts.answer(script, move |start| answer(start.attempt));
    (start(Memory::rabbitmq(), script).await, starts)
}

// spec: R1 R4 R5 R8 R22 R24
#[tokio::test(start_paused = true)]
async fn each_outcome_is_one_word_for_one_delivery() {
    for kind in KINDS {
        let (app, _) = answering(fulfil(kind), |_| Outcome::Ack).await;
        app.send("orders", "1").await;
        assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
        assert!(app.messages("orders").is_empty());

        let (app, _) = answering(fulfil(kind), |_| Outcome::Drop).await;
        app.send("orders", "1").await;
        assert_eq!(words(&app, "fulfil"), ["delivered", "rejected"]);
        assert!(app.messages("orders").is_empty());

        let once = |attempt| {
            if attempt == 1 {
                Outcome::Retry
            } else {
                Outcome::Ack
            }
        };
        let (app, _) = answering(fulfil(kind), once).await;
        app.send("orders", "1").await;
        assert_eq!(
            words(&app, "fulfil"),
            ["delivered", "returned", "delivered", "accepted"]
        );

        let later = |attempt| {
            if attempt == 1 {
                Outcome::RetryAfter(MINUTE)
            } else {
                Outcome::Ack
            }
        };
        let (app, starts) = answering(fulfil(kind), later).await;
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        assert_eq!(
            words(&app, "fulfil"),
            ["delivered", "rejected"],
            "no protocol form"
        );
        app.settled().await.unwrap();
        assert_eq!((starts.count(), published(&app, "orders")), (2, 2));
    }
}

// spec: R23
#[tokio::test(start_paused = true)]
async fn concurrent_deliveries_are_settled_each_by_its_own_outcome() {
    let starts = Starts::new();
    let wide = fulfil(QueueType::Quorum).with(|options| options.concurrency = Some(4));
    let noted = starts.clone();
    let script = wide.runs(move |(payload, attempt): (Bytes, ruststream::Attempt)| {
        noted.note(&payload, attempt);
        async move {
            // Later ones are done first.
            let number = u64::from(payload[0] - b'0');
            wait(Duration::from_secs(10 - number)).await;
            if number % 2 == 0 {
                Outcome::Drop
            } else {
                Outcome::Ack
            }
        }
    });
    let app = start(
        Memory::rabbitmq().with_dead_letter_policy("orders", "parked"),
        script,
    )
    .await;
    for payload in ["1", "2", "3", "4"] {
        app.publish("orders", payload).unwrap();
    }
    app.settled().await.unwrap();
    let parked: Vec<Bytes> = app
        .messages("parked")
        .iter()
        .map(|message| message.payload().clone())
        .collect();
    assert_eq!(parked, ["4", "2"]);
    assert_eq!(app.settlements("fulfil").accepted, 2);
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

// spec: R9 A52
#[tokio::test(start_paused = true)]
async fn a_rejected_message_goes_to_the_queues_dead_letter_exchange_where_there_is_one() {
    let starts = Starts::new();
    let script = starts.answer(fulfil(QueueType::Quorum), |_| Outcome::Drop);
    let app = start(
        Memory::rabbitmq().with_dead_letter_policy("orders", "parked"),
        script,
    )
    .await;
    assert_eq!(
        app.send("orders", "1").await.fate,
        Fate::DeadLettered {
            to: "parked".into()
        }
    );
}

// spec: R2 R11
#[tokio::test(start_paused = true)]
async fn automatic_mode_loses_what_was_sent_and_not_handled() {
    let starts = Starts::new();
    let script = starts.hang(fulfil(QueueType::Classic).with(automatic));
    let mut app = start(Memory::rabbitmq(), script).await;
    for payload in ["1", "2", "3"] {
        app.publish("orders", payload).unwrap();
    }
    app.settle_down().await;
    app.crash().await;
    assert!(app.messages("orders").is_empty(), "the queue is empty");
    app.resume().await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 1);
}

// spec: R3 R12
#[tokio::test(start_paused = true)]
async fn manual_mode_gives_back_what_was_sent_and_not_acknowledged() {
    for kind in KINDS {
        let starts = Starts::new();
        let mut app = start(Memory::rabbitmq(), starts.hang(fulfil(kind))).await;
        for payload in ["1", "2", "3"] {
            app.publish("orders", payload).unwrap();
        }
        app.advance(MINUTE).await;
        assert_eq!(app.observer().unsettled("orders"), 3);
        app.crash().await;
        assert_eq!(app.messages("orders").len(), 3, "requeued");
        app.resume().await.unwrap();
        assert_eq!(starts.payloads(), ["1", "1"], "and redelivered");
    }
}

// spec: R14 C15
#[tokio::test(start_paused = true)]
async fn a_prefetch_bounds_what_is_outstanding() {
    for (prefetch, concurrency) in [(1, 1), (4, 2), (50, 8)] {
        let starts = Starts::new();
        let options = |options: &mut Options| {
            options.prefetch = Some(prefetch);
            options.concurrency = Some(concurrency);
        };
        let app = start(
            Memory::rabbitmq(),
            starts.hang(fulfil(QueueType::Quorum).with(options)),
        )
        .await;
        for number in 0..200 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.advance(MINUTE).await;
        assert_eq!(app.observer().unsettled("orders"), prefetch as usize);
        assert_eq!(starts.count(), concurrency as usize);
    }
}

// spec: R15 R16
#[tokio::test(start_paused = true)]
async fn automatic_mode_is_not_bounded_by_the_prefetch_but_by_a_buffer_of_our_own() {
    let starts = Starts::new();
    let options = |options: &mut Options| {
        automatic(options);
        options.prefetch = Some(2);
    };
    let app = start(
        Memory::rabbitmq(),
        starts.hang(fulfil(QueueType::Classic).with(options)),
    )
    .await;
    for number in 0..50_000 {
        app.publish("orders", number.to_string()).unwrap();
    }
    app.advance(MINUTE).await;
    let waiting = app.messages("orders").len();
    assert!(waiting < 50_000 - 3, "more than the prefetch was sent");
    assert!(
        waiting > 0,
        "the buffer is bounded, and the broker is stopped by it"
    );
}

// spec: R25
#[tokio::test(start_paused = true)]
async fn automatic_mode_has_no_word_for_any_outcome() {
    let answers: Arc<Mutex<Vec<Result<(), AckError>>>> = Arc::default();
    let noted = Arc::clone(&answers);
    let script = fulfil(QueueType::Classic).with(automatic).runs(
        move |(payload, settler): (Bytes, Settler)| {
            let noted = Arc::clone(&noted);
            async move {
                let answer = match payload.as_ref() {
                    b"ack" => settler.ack().await,
                    b"drop" => settler.drop().await,
                    _ => settler.retry().await,
                };
                noted.lock().unwrap().push(answer);
            }
        },
    );
    let app = start(Memory::rabbitmq(), script).await;
    for payload in ["ack", "drop", "retry"] {
        app.send("orders", payload).await;
    }
    assert_eq!(*answers.lock().unwrap(), [Err(AckError::Unsupported); 3]);
    assert_eq!(words(&app, "fulfil"), ["delivered"; 3]);
}

// spec: C22 C1
// case: A09 A18
#[tokio::test(start_paused = true)]
async fn a_cap_holds_exactly_on_a_queue_that_does_not_count() {
    for most in [1, 2, 3, 7] {
        for outcome in [Outcome::Retry, Outcome::RetryAfter(MINUTE)] {
            for kind in KINDS {
                let script = fulfil(kind).with(|options| options.max_attempts = Some(most));
                let (app, starts) = answering(script, move |_| outcome).await;
                app.send("orders", "1").await;
                let expected: Vec<u32> = (1..=most).collect();
                assert_eq!(
                    starts.attempts(),
                    expected,
                    "{kind:?}, cap {most}, {outcome:?}"
                );
            }
        }
    }
}

// spec: C1
// case: A18
#[tokio::test(start_paused = true)]
async fn a_redelivery_without_a_count_is_the_second_attempt() {
    let starts = Starts::new();
    let mut app = start(Memory::rabbitmq(), starts.hang(fulfil(QueueType::Classic))).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    app.crash().await;
    app.resume().await.unwrap();
    assert_eq!(starts.attempts(), [1, 2]);
}

// spec: C26
// case: A15
#[tokio::test(start_paused = true)]
async fn the_brokers_own_limit_is_never_reached_silently() {
    for limit in [None, Some(3), Some(5)] {
        let options = move |options: &mut Options| {
            options.max_attempts = Some(30);
            options.rabbitmq = Some(RabbitmqOptions {
                queue_type: Some(QueueType::Quorum),
                delivery_limit: limit,
                ..RabbitmqOptions::NONE
            });
        };
        let script = Script::queue("orders").named("fulfil").with(options);
        let (app, starts) = answering(script, |attempt| match attempt {
            25 => Outcome::Ack,
            _ => Outcome::Retry,
        })
        .await;
        assert_eq!(
            app.send("orders", "1").await.fate,
            Fate::Handled,
            "limit {limit:?}"
        );
        let expected: Vec<u32> = (1..=25).collect();
        assert_eq!(starts.attempts(), expected, "limit {limit:?}");
    }
}

// spec: C26
#[tokio::test(start_paused = true)]
async fn an_uncapped_retry_outlives_the_brokers_own_limit() {
    let (app, starts) = answering(fulfil(QueueType::Quorum), |attempt| match attempt {
        50 => Outcome::Ack,
        _ => Outcome::Retry,
    })
    .await;
    assert_eq!(app.send("orders", "1").await.fate, Fate::Handled);
    assert_eq!(starts.count(), 50);
}

// spec: C4
// case: C04
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_routed_keeps_the_original() {
    let options = |options: &mut Options| options.dead_letter = Some("jobs.daed");
    let (app, starts) =
        answering(fulfil(QueueType::Quorum).with(options), |_| Outcome::Retry).await;
    app.publish("orders", "1").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 1);
    assert_eq!(app.settlements("fulfil").accepted, 0);
    assert_eq!(app.observer().unsettled("orders"), 1);
}
