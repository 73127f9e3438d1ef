//! The window of 1 after a connection is lost (spec C24) keeps nobody away for long.

use std::time::Duration;

use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::policy::Delay;
use ruststream::registration::Options;
use ruststream::testing::Refuse;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;

fn capped(options: &mut Options) {
    options.max_attempts = Some(5);
    options.prefetch = Some(8);
}

/// Lets `first` arrive, cuts its connection so that it arrives again, and publishes another.
async fn start_with_a_redelivery(script: Script) -> TestApp {
    let app = TestApp::start(Memory::amqp(), Script::app("shop", [script]))
        .await
        .expect("it works without faults");
    app.publish("orders", "first")
        .expect("it works without faults");
    app.settle_down().await;
    app.cut("fulfil").await;
    app.publish("orders", "second")
        .expect("it works without faults");
    app.advance(Duration::from_secs(10)).await;
    app
}

// spec: C24
#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_left_does_not_fill_the_window_after_a_reconnect() {
    let starts = Starts::new();
    let noted = starts.clone();
    let script = Script::address("orders").named("fulfil").with(capped).runs(
        move |(payload, attempt, settler): (Bytes, ruststream::Attempt, Settler)| {
            noted.note(&payload, attempt);
            async move {
                if payload == "first" {
                    drop(settler);
                } else {
                    settler.ack().await.unwrap();
                }
            }
        },
    );
    let _app = start_with_a_redelivery(script).await;
    assert_eq!(starts.payloads(), ["first", "first", "second"]);
}

// spec: C24 C6
#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_held_does_not_fill_the_window_after_a_reconnect() {
    let starts = Starts::new();
    let script = Script::address("orders").named("fulfil").with(|options| {
        capped(options);
        options.delay = Some(Delay::Hold);
    });
    let script = starts.answer(script, |start| {
        if start.payload == "first" {
            Outcome::retry_after(Duration::from_hours(1))
        } else {
            Outcome::Ack
        }
    });
    let _app = start_with_a_redelivery(script).await;
    assert_eq!(starts.payloads(), ["first", "first", "second"]);
}

// spec: C24 C5
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_refused_does_not_fill_the_window_after_a_reconnect() {
    for how in [Refuse::Transient, Refuse::Permanent] {
        let broker = Memory::amqp();
        broker.observe().refuse_publishes("dead", how, None);
        let starts = Starts::new();
        let script = Script::address("orders").named("fulfil").with(|options| {
            capped(options);
            options.dead_letter = Some("dead");
        });
        let script = starts.answer(script, |start| {
            if start.payload == "first" {
                Outcome::dead_letter()
            } else {
                Outcome::Ack
            }
        });
        let app = TestApp::start(broker, Script::app("shop", [script]))
            .await
            .unwrap();
        app.publish("orders", "first").unwrap();
        app.settle_down().await;
        app.cut("fulfil").await;
        app.publish("orders", "second").unwrap();
        app.advance(Duration::from_secs(10)).await;
        assert_eq!(starts.payloads(), ["first", "first", "second"], "{how:?}");
    }
}

// spec: C24
#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_refused_does_not_fill_the_window_after_a_reconnect() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    observer.fail_settlements("fulfil", 2);
    let starts = Starts::new();
    let script = Script::address("orders").named("fulfil").with(capped);
    let script = starts.answer(script, |_| Outcome::Ack);
    let app = TestApp::start(broker, Script::app("shop", [script]))
        .await
        .unwrap();
    app.publish("orders", "first").unwrap();
    app.settle_down().await;
    app.cut("fulfil").await;
    app.publish("orders", "second").unwrap();
    app.advance(Duration::from_secs(10)).await;
    assert_eq!(starts.payloads(), ["first", "first", "second"]);
}
