//! Section M of the specification, seen at the broker.

mod copies;
mod requests;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use ruststream::AckError;
use ruststream::Batch;
use ruststream::Bytes;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::policy::BatchOptions;
use ruststream::registration::MqttOptions;
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

fn record() -> Script {
    Script::topic("plant/temp").named("record")
}

fn qos(qos: u8) -> impl Fn(&mut Options) + Copy {
    move |options| {
        options.mqtt = Some(MqttOptions {
            qos: Some(qos),
            ..MqttOptions::NONE
        });
    }
}

async fn start(broker: Memory, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("plant", [script]))
        .await
        .expect("the application starts")
}

/// A broker whose clients publish at the highest quality, so that the subscription's counts.
fn broker() -> Memory {
    Memory::mqtt().with_publish_qos(2)
}

async fn answering(
    options: impl FnOnce(&mut Options),
    answer: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = starts.answer(record().with(options), move |start| answer(start.attempt));
    (start(broker(), script).await, starts)
}

fn cap(most: u32) -> impl FnOnce(&mut Options) {
    move |options| options.max_attempts = Some(most)
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

// spec: M1 M2 M3 M14
#[tokio::test(start_paused = true)]
async fn an_ack_is_one_acknowledgement_and_nothing_comes_when_the_session_resumes() {
    for level in [1, 2] {
        let (mut app, starts) = answering(qos(level), |_| Outcome::Ack).await;
        assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Handled);
        assert_eq!(
            words(&app, "record"),
            ["delivered", "accepted"],
            "QoS {level}"
        );
        app.crash().await;
        app.resume().await.unwrap();
        app.advance(MINUTE).await;
        assert_eq!(starts.count(), 1);
    }
}

// spec: M4 M5 M14
#[tokio::test(start_paused = true)]
async fn a_drop_is_acknowledged_and_abandoned() {
    for level in [1, 2] {
        let (mut app, starts) = answering(qos(level), |_| Outcome::Drop).await;
        assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Dropped);
        assert_eq!(
            words(&app, "record"),
            ["delivered", "accepted"],
            "QoS {level}"
        );
        app.crash().await;
        app.resume().await.unwrap();
        app.advance(MINUTE).await;
        assert_eq!((starts.count(), published(&app, "plant/temp")), (1, 1));
    }
}

// spec: M6 M7 M15 M17 M18 M19
#[tokio::test(start_paused = true)]
async fn an_undeclared_retry_says_nothing_and_comes_again_when_the_session_resumes() {
    let (mut app, starts) = answering(|_| {}, |_| Outcome::Retry).await;
    assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Left);
    app.advance(60 * MINUTE).await;
    assert_eq!(starts.count(), 1, "not on this connection");
    assert_eq!(words(&app, "record"), ["delivered", "left"]);
    assert_eq!(app.observer().unsettled("record"), 1);
    assert_eq!(
        (app.stats("record").unsupported, app.stats("record").stuck),
        (1, 1)
    );
    app.cut("record").await;
    assert_eq!(starts.count(), 2, "with the resumed session");
    app.crash().await;
    app.resume().await.unwrap();
    assert_eq!(starts.count(), 3, "in a new process too");
}

// spec: M19
#[tokio::test(start_paused = true)]
async fn a_clean_start_brings_nothing_back() {
    let (app, starts) = answering(|_| {}, |_| Outcome::Retry).await;
    app.send("plant/temp", "1").await;
    app.observer().keep_offline("record");
    app.observer().end_session("record");
    app.observer().let_online("record");
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 1);
}

// spec: M12 M13
#[tokio::test(start_paused = true)]
async fn an_abandoned_batch_says_nothing_and_comes_again_when_the_session_resumes() {
    let batches: Arc<Mutex<Vec<usize>>> = Arc::default();
    let record_of = Arc::clone(&batches);
    let batch = |options: &mut Options| {
        options.batch = Some(BatchOptions {
            size: 3,
            wait: Duration::from_millis(20),
        });
    };
    let script = record().with(batch).runs(move |batch: Batch<Bytes>| {
        record_of.lock().unwrap().push(batch.len());
        batch.abandon();
        async {}
    });
    let app = start(broker(), script).await;
    for payload in ["1", "2", "3"] {
        app.publish("plant/temp", payload).unwrap();
    }
    app.advance(60 * MINUTE).await;
    assert_eq!(*batches.lock().unwrap(), [3]);
    assert_eq!(
        words(&app, "record"),
        [
            "delivered",
            "delivered",
            "delivered",
            "left",
            "left",
            "left"
        ]
    );
    app.cut("record").await;
    app.advance(MINUTE).await;
    let seen: usize = batches.lock().unwrap().iter().sum();
    assert_eq!(seen, 6, "each of them once more");
}

// spec: M16 M27 M28
#[tokio::test(start_paused = true)]
async fn what_cannot_be_said_by_hand_is_unsupported() {
    for (level, expected) in [
        (1, [Ok(()), Ok(()), Err(AckError::Unsupported)]),
        (0, [Err(AckError::Unsupported); 3]),
    ] {
        let answers: Arc<Mutex<Vec<Result<(), AckError>>>> = Arc::default();
        let noted = Arc::clone(&answers);
        let script = record()
            .with(qos(level))
            .runs(move |(payload, settler): (Bytes, Settler)| {
                let noted = Arc::clone(&noted);
                async move {
                    let answer = match payload.as_ref() {
                        b"ack" => settler.ack().await,
                        b"drop" => settler.drop().await,
                        _ => settler.retry().await,
                    };
                    noted.lock().unwrap().push(answer);
                }
            });
        let app = start(broker(), script).await;
        for payload in ["ack", "drop", "retry"] {
            app.send("plant/temp", payload).await;
        }
        assert_eq!(*answers.lock().unwrap(), expected, "QoS {level}");
    }
}

// spec: M20 M21 M22 C15
#[tokio::test(start_paused = true)]
async fn deliveries_left_unsettled_fill_the_receive_maximum_but_qos_0_still_arrives() {
    let starts = Starts::new();
    let options = |options: &mut Options| {
        qos(1)(options);
        options.prefetch = Some(2);
    };
    let memory = broker();
    let script = starts.answer(record().with(options), |_| Outcome::Retry);
    let app = start(memory.clone(), script).await;
    for payload in ["1", "2", "3"] {
        app.publish("plant/temp", payload).unwrap();
    }
    app.settle_down().await;
    assert_eq!(starts.payloads(), ["1", "2"], "the third waits");
    let quick = memory.client().with_publish_qos(0).observe();
    quick.publish("plant/temp", "quick").unwrap();
    app.settle_down().await;
    assert_eq!(starts.payloads(), ["1", "2", "quick"]);
    app.advance(2 * MINUTE).await;
    assert!(
        app.observer().connects("record") >= 2,
        "the full session was resumed"
    );
    assert!(
        app.observer().connects("record") <= 3,
        "at most once a minute"
    );
}

// spec: C16
#[tokio::test(start_paused = true)]
async fn a_delivery_left_unacknowledged_does_not_hold_up_later_ones() {
    let starts = Starts::new();
    let script = starts.answer(record(), |start| match start.payload.as_ref() {
        b"1" => Outcome::Retry,
        _ => Outcome::Ack,
    });
    let app = start(broker(), script).await;
    for payload in ["1", "2", "3"] {
        app.publish("plant/temp", payload).unwrap();
    }
    app.settled().await.unwrap();
    assert_eq!(
        words(&app, "record"),
        [
            "delivered",
            "left",
            "delivered",
            "accepted",
            "delivered",
            "accepted"
        ]
    );
}
