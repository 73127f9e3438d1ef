//! Stops at bad moments (spec C7).

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ruststream::App;
use ruststream::Outcome;
use ruststream::broker::memory::Memory;
use ruststream::error::ErrorKind;
use ruststream::testing::Refuse;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::published;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

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

#[expect(clippy::disallowed_methods, reason = "virtual time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
fn now() -> Instant {
    Instant::now()
}

async fn start(broker: Memory, script: Script, drain: Option<Duration>) -> TestApp {
    let mut app: App = Script::app("shop", [script]);
    if let Some(drain) = drain {
        app = app.drain(drain);
    }
    TestApp::start(broker, app)
        .await
        .expect("the application starts")
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn a_copy_whose_original_is_being_settled_when_the_stop_comes_leaves_before_the_end() {
    for broker in brokers() {
        let script = Starts::new().answer(fulfil(), |_| Outcome::retry_after(3600 * SECOND));
        let mut app = start(broker, script, None).await;
        let observer = app.observer().clone();
        observer.hold_settlements("fulfil");
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        let release = async {
            wait(SECOND).await;
            observer.release_settlements("fulfil");
        };
        let (stopped, ()) = tokio::join!(app.pause(), release);
        stopped.unwrap();
        assert_eq!(
            app.messages("orders").len() + app.messages("fulfil").len(),
            1
        );
    }
}

// spec: C5 C7
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_refused_is_tried_again_before_the_end() {
    for broker in brokers() {
        let script = Starts::new().answer(fulfil(), |_| Outcome::retry_after(SECOND));
        let mut app = start(broker, script, None).await;
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        app.observer()
            .refuse_publishes("orders", Refuse::Transient, None);
        // Long enough for the longest pause between two tries.
        app.advance(300 * SECOND).await;
        let tries = || {
            let events = app.events();
            let kind = ruststream::testing::EventKind::Refused;
            events.iter().filter(|event| event.kind == kind).count()
        };
        let before = tries();
        while tries() == before {
            app.advance(SECOND).await;
        }
        app.observer().take_publishes("orders");
        app.pause().await.unwrap();
        assert_eq!(
            app.messages("orders").len() + app.messages("fulfil").len(),
            1
        );
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn a_stop_tells_of_deliveries_whose_dead_letter_was_not_taken_in_time() {
    for is_held in [true, false] {
        let script = fulfil().with(|options| options.dead_letter = Some("dead"));
        let script = Starts::new().answer(script, |_| Outcome::dead_letter());
        let mut app = start(Memory::amqp(), script, None).await;
        if is_held {
            app.observer().hold_confirmations("dead");
        } else {
            app.observer()
                .refuse_publishes("dead", Refuse::Transient, None);
        }
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        let error = app.pause().await.expect_err("it was not finished");
        let kind = ErrorKind::DrainTimeout {
            unfinished: 1,
            lost_copies: 0,
        };
        assert_eq!(error.kind(), kind, "held: {is_held}");
        assert_eq!(app.messages("orders").len(), 1);
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn no_handler_starts_after_the_drain_is_over() {
    for broker in brokers() {
        let begun = now();
        let late = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&late);
        let script = fulfil().with(|options| options.prefetch = Some(8)).runs(
            move |_: ruststream::Bytes| {
                if begun.elapsed() > 3 * SECOND {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                async {
                    wait(1700 * Duration::from_millis(1)).await;
                }
            },
        );
        let mut app = start(broker, script, Some(2 * SECOND)).await;
        for _ in 0..8 {
            app.publish("orders", "x").unwrap();
        }
        app.advance(SECOND).await;
        app.pause().await.ok();
        assert_eq!(late.load(Ordering::Relaxed), 0);
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn a_drain_of_nothing_and_one_of_for_ever_end() {
    for broker in brokers() {
        for drain in [Duration::ZERO, Duration::MAX] {
            let starts = Starts::new();
            let script = starts.answer(fulfil(), |start| {
                if start.attempt < 2 {
                    Outcome::retry_after(SECOND)
                } else {
                    Outcome::Ack
                }
            });
            let mut app = start(broker.clone(), script, Some(drain)).await;
            app.publish("orders", "1").unwrap();
            app.settle_down().await;
            let begun = now();
            app.pause().await.unwrap();
            assert!(begun.elapsed() <= 5 * SECOND);
            assert_eq!(published(&app, "orders"), 2);
            app.crash().await;
            while app.observer().take("orders").is_some() || app.observer().take("fulfil").is_some()
            {
            }
            app.observer().clear_events();
            app.observer().end_session("fulfil");
            drop(app);
        }
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn an_application_that_is_stopped_before_it_starts_ends_well() {
    for broker in brokers() {
        let starts = Starts::new();
        let script = starts.answer(fulfil(), |_| Outcome::Ack);
        let app = Script::app("shop", [script]).broker(broker);
        app.run_until(std::future::ready(())).await.unwrap();
        assert_eq!(starts.count(), 0);
    }
}

// spec: C4 C7
#[tokio::test(start_paused = true)]
async fn two_applications_on_one_broker_stop_without_losing_to_each_other() {
    for broker in [Memory::amqp(), Memory::rabbitmq()] {
        let starts = Starts::new();
        let script = |name: &str| {
            let script = Script::queue("orders")
                .named(name)
                .with(|options| options.competes = true);
            starts.answer(script, |_| Outcome::Ack)
        };
        let mut one = TestApp::start(broker.clone(), Script::app("one", [script("one")]))
            .await
            .unwrap();
        let two = TestApp::start(broker, Script::app("two", [script("two")]))
            .await
            .unwrap();
        for number in 0..100 {
            one.publish("orders", format!("{number}")).unwrap();
            if number == 50 {
                one.pause().await.unwrap();
            }
        }
        two.settled().await.unwrap();
        let mut payloads = starts.payloads();
        payloads.sort_unstable();
        payloads.dedup();
        assert_eq!(payloads.len(), 100);
    }
}
