//! Section A of the specification, seen at the broker.

mod at_most_once;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use ruststream::AckError;
use ruststream::Attempt;
use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::Settle;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::registration::Options;
use ruststream::testing::EventKind;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::header;
use support::published;
use support::words;

const MINUTE: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);

fn fulfil() -> Script {
    Script::address("orders").named("fulfil")
}

async fn start(broker: Memory, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts")
}

/// An application whose handler answers by the attempt, and the record of its starts.
async fn answering(
    broker: Memory,
    options: impl FnOnce(&mut Options),
    answer: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = starts.answer(fulfil().with(options), move |start| answer(start.attempt));
    (start(broker, script).await, starts)
}

fn cap(most: u32) -> impl FnOnce(&mut Options) {
    move |options| options.max_attempts = Some(most)
}

fn cap_and_dead_letter(most: u32) -> impl FnOnce(&mut Options) {
    move |options| {
        options.max_attempts = Some(most);
        options.dead_letter = Some("orders.dead");
    }
}

fn at_most_once(options: &mut Options) {
    options.settle = Some(Settle::AtMostOnce);
}

// spec: A1 A2
#[tokio::test(start_paused = true)]
async fn an_ack_is_one_acceptance_and_the_message_is_gone() {
    let (mut app, starts) = answering(Memory::amqp(), |_| {}, |_| Outcome::Ack).await;
    assert_eq!(app.send("orders", "1").await.fate, Fate::Handled);
    assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
    assert!(app.messages("orders").is_empty());
    app.crash().await;
    app.resume().await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 1, "a second receiver gets nothing");
}

// spec: A3 A4 A5 A6 A9 A31 A33 A35
#[tokio::test(start_paused = true)]
async fn a_retry_returns_the_message_which_comes_again_counted_one_higher() {
    let retry_twice = |attempt| {
        if attempt < 3 {
            Outcome::Retry
        } else {
            Outcome::Ack
        }
    };
    let (app, starts) = answering(Memory::amqp(), |_| {}, retry_twice).await;
    app.send("orders", "1").await;
    assert_eq!(
        words(&app, "fulfil"),
        [
            "delivered",
            "returned",
            "delivered",
            "returned",
            "delivered",
            "accepted"
        ]
    );
    let counts: Vec<Option<u32>> = delivered_counts(&app);
    assert_eq!(counts, [None, Some(1), Some(2)]);
    let seen: Vec<Option<u32>> = starts
        .all()
        .iter()
        .map(|start| start.redelivery_count)
        .collect();
    assert_eq!(
        seen,
        [None, Some(2), Some(3)],
        "the broker's count plus one"
    );
    assert_eq!(starts.attempts(), [1, 2, 3]);
    assert_eq!(published(&app, "orders"), 1, "no copy");
}

fn delivered_counts(app: &TestApp) -> Vec<Option<u32>> {
    let events = app.observer().events_of("fulfil");
    events
        .iter()
        .filter_map(|event| match event {
            EventKind::Delivered { count, .. } => Some(*count),
            _ => None,
        })
        .collect()
}

// spec: A31
#[tokio::test(start_paused = true)]
async fn a_count_of_0_is_reported_as_the_first_delivery() {
    let (app, starts) = answering(Memory::amqp().always_counting(), |_| {}, |_| Outcome::Ack).await;
    app.send("orders", "1").await;
    assert_eq!(starts.all()[0].redelivery_count, Some(1));
    assert_eq!(starts.attempts(), [1]);
}

// spec: A6
#[tokio::test(start_paused = true)]
async fn no_retry_is_ever_a_release() {
    for settle in [Settle::AtLeastOnce, Settle::AtMostOnce] {
        for most in [None, Some(1), Some(3)] {
            for broker in [
                Memory::amqp(),
                Memory::amqp().always_counting(),
                Memory::amqp().never_counting(),
            ] {
                let options = |options: &mut Options| {
                    options.settle = Some(settle);
                    options.max_attempts = most;
                };
                let answer = |attempt| {
                    if attempt < 6 {
                        Outcome::Retry
                    } else {
                        Outcome::Ack
                    }
                };
                let (app, _) = answering(broker, options, answer).await;
                app.publish("orders", "1").unwrap();
                app.advance(MINUTE).await;
                assert_eq!(app.settlements("fulfil").released, 0, "{settle:?} {most:?}");
            }
        }
    }
}

// spec: A8 A35 A36 A37 A44
// case: A09
#[tokio::test(start_paused = true)]
async fn a_message_that_always_retries_starts_exactly_as_often_as_the_cap_says() {
    for most in [1, 2, 3, 7] {
        for outcome in [Outcome::Retry, Outcome::RetryAfter(MINUTE)] {
            for broker in [
                Memory::amqp(),
                Memory::amqp().always_counting(),
                Memory::amqp().never_counting(),
            ] {
                let (app, starts) = answering(broker, cap(most), move |_| outcome).await;
                let journey = app.send("orders", "1").await;
                assert_eq!(journey.fate, Fate::Dropped, "cap {most}, {outcome:?}");
                let expected: Vec<u32> = (1..=most).collect();
                assert_eq!(starts.attempts(), expected, "cap {most}, {outcome:?}");
                assert!(app.messages("orders").is_empty());
            }
        }
    }
}

// spec: A13 R9
#[tokio::test(start_paused = true)]
async fn a_drop_is_a_rejection_which_the_brokers_own_policy_takes() {
    let (app, _) = answering(Memory::amqp(), |_| {}, |_| Outcome::Drop).await;
    assert_eq!(app.send("orders", "1").await.fate, Fate::Dropped);
    assert_eq!(words(&app, "fulfil"), ["delivered", "rejected"]);
    assert_eq!(published(&app, "orders"), 1, "no copy");

    let broker = Memory::amqp().with_dead_letter_policy("orders", "parked");
    let (app, _) = answering(broker, |_| {}, |_| Outcome::Drop).await;
    assert_eq!(
        app.send("orders", "1").await.fate,
        Fate::DeadLettered {
            to: "parked".into()
        }
    );
}

// spec: A14 A15 A16 A17 A18
#[tokio::test(start_paused = true)]
async fn a_delivery_without_an_outcome_sends_nothing_and_is_back_when_the_link_is_gone() {
    for cut in [true, false] {
        let starts = Starts::new();
        let mut app = start(
            Memory::amqp(),
            starts.hang(fulfil().with(|options| options.concurrency = Some(2))),
        )
        .await;
        app.publish("orders", "1").unwrap();
        app.advance(MINUTE).await;
        assert_eq!(
            app.observer().unsettled("orders"),
            1,
            "unsettled while the handler runs"
        );
        if cut {
            app.observer().keep_offline("fulfil");
        } else {
            app.pause().await.expect_err("the handler does not end");
        }
        app.settle_down().await;
        assert_eq!(words(&app, "fulfil"), ["delivered"], "no disposition");
        assert_eq!(app.messages("orders").len(), 1, "it is back on the queue");
        app.observer().let_online("fulfil");
        if !cut {
            app.resume().await.unwrap();
        }
        app.settle_down().await;
        assert_eq!(starts.count(), 2);
        app.crash().await;
    }
}

// spec: A19
#[tokio::test(start_paused = true)]
async fn a_handler_that_returned_has_said_nothing_until_its_outcome_reaches_the_pump() {
    let kept: Arc<Mutex<Option<Settler>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let script = fulfil().runs(move |settler: Settler| {
        *keep.lock().unwrap() = Some(settler);
        async {}
    });
    let app = start(Memory::amqp(), script).await;
    app.publish("orders", "1").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(words(&app, "fulfil"), ["delivered"]);
    let settler = kept.lock().unwrap().take().unwrap();
    assert_eq!(settler.ack().await, Ok(()));
    assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
}

// spec: A20
#[tokio::test(start_paused = true)]
async fn a_delivery_without_a_disposition_stays_with_its_link() {
    let broker = Memory::amqp();
    let (first, second) = (Starts::new(), Starts::new());
    let app = start(broker.clone(), first.hang(fulfil())).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    let other = start(
        broker,
        second.answer(fulfil().named("other"), |_| Outcome::Ack),
    )
    .await;
    other.advance(60 * MINUTE).await;
    assert_eq!((first.count(), second.count()), (1, 0));
}

// spec: A32
#[tokio::test(start_paused = true)]
async fn what_a_publisher_sends_has_no_header_section() {
    let starts = Starts::new();
    let first = fulfil().runs(|publisher: Publisher| async move {
        publisher.publish("invoices", "1").await.unwrap();
    });
    let second = starts.answer(Script::address("invoices").named("bill"), |_| Outcome::Ack);
    let app = TestApp::start(Memory::amqp(), Script::app("shop", [first, second]))
        .await
        .unwrap();
    app.send("orders", "1").await;
    assert_eq!(starts.all()[0].redelivery_count, None);
}

/// `Attempt` is what a handler would use; the record here uses it as well.
#[tokio::test(start_paused = true)]
async fn a_handler_sees_its_attempt() {
    let script = fulfil().with(cap(2)).runs(|attempt: Attempt| async move {
        if attempt.is_first() {
            Outcome::Retry
        } else {
            Outcome::Ack
        }
    });
    let app = start(Memory::amqp(), script).await;
    assert_eq!(app.send("orders", "1").await.fate, Fate::Handled);
}
