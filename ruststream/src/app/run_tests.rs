//! Runs and stops, on the embedded broker and in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::testing::Fake;
use super::testing::bare;
use super::testing::handler;
use super::testing::only;
use crate::App;
use crate::Error;
use crate::Extract;
use crate::Outcome;
use crate::Publisher;
use crate::broker::Arrival;
use crate::broker::Broker;
use crate::broker::Publishing;
use crate::broker::Subscription;
use crate::broker::memory::Memory;
use crate::error::ErrorKind;
use crate::extract::Incoming;
use crate::handler::Slot;
use crate::handler::Typed;
use crate::handler::Verdict;
use crate::message::Message;
use crate::registration::Form;
use crate::settle::Settle;
use crate::stats::Health;

/// The most messages of a test.
const MESSAGES: usize = 1_000;

/// The payloads that handlers were started with.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(from: &Incoming<'_>) {
        let log = from.state::<Log>().unwrap();
        let text = String::from_utf8_lossy(from.delivery().payload()).into_owned();
        log.0.lock().unwrap().push(text);
    }

    fn starts(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A handler that acks at once.
fn acks() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        Log::note(from);
        Ok(async { Verdict::Done(Outcome::Ack) })
    })
}

/// A handler that works for a second, publishes to `out`, and acks.
fn works() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        Log::note(from);
        let publisher = Publisher::extract(from)?;
        Ok(async move {
            pass(Duration::from_secs(1)).await;
            match publisher.publish("out", "done").await {
                Ok(_) => Verdict::Done(Outcome::Ack),
                Err(_) => Verdict::Done(Outcome::Drop),
            }
        })
    })
}

/// A handler that never ends.
fn hangs() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        Log::note(from);
        Ok(std::future::pending())
    })
}

/// A handler that waits for the application's stop, then acks.
fn waits_for_the_stop() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        Log::note(from);
        let shutdown = from.scope.shutdown.clone();
        Ok(async move {
            shutdown.cancelled().await;
            Verdict::Done(Outcome::Ack)
        })
    })
}

/// A handler that always asks for another try in a second.
fn retries() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        Log::note(from);
        Ok(async { Verdict::Done(Outcome::RetryAfter(Duration::from_secs(1))) })
    })
}

/// Let virtual time pass.
async fn pass(time: Duration) {
    let never = tokio::time::timeout(time, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An application with one handler of `jobs` on `broker`.
fn app(broker: &Memory, log: &Log, slot: fn() -> Box<dyn Slot>) -> App {
    let handler = handler("work", "jobs").runs(slot).with(|options| {
        options.max_attempts = Some(100);
        options.dead_letter = Some("jobs.dead");
        options.concurrency = Some(4);
    });
    bare([handler]).broker(broker.clone()).state(log.clone())
}

async fn publish(broker: &Memory, to: &'static str, payload: impl Into<Message>) {
    match broker.sink().publish(to.into(), payload.into()) {
        Publishing::Done(done) => done.map(drop),
        Publishing::Pending(done) => done.await.map(drop),
    }
    .unwrap();
}

/// What a new reader of a queue is given now.
async fn left(broker: &Memory, address: &'static str) -> Vec<String> {
    let subscription = Subscription {
        app: "probe".into(),
        mount: "probe".into(),
        form: Form::Address,
        address: address.into(),
        window: 10_000,
        settle: Settle::AtLeastOnce,
        amqp: None,
        mqtt: None,
        rabbitmq: None,
    };
    let mut source = broker.subscribe(subscription).await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut found = Vec::new();
    while let Poll::Ready(arrival) = source.poll_next(&mut cx) {
        if let Arrival::Delivery(delivery) = arrival {
            found.push(String::from_utf8_lossy(delivery.payload()).into_owned());
        }
    }
    found
}

fn kind(result: Result<(), Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

// case: I03
#[tokio::test(start_paused = true)]
async fn a_stop_lets_handlers_publish_and_ack_before_it_closes() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let start = now();
    let stopped = app(&broker, &log, works)
        .run_until(pass(Duration::from_millis(200)))
        .await;
    assert_eq!(kind(stopped), None);
    assert_eq!(start.elapsed(), seconds(1));
    assert_eq!(left(&broker, "out").await, ["done"]);
    assert_eq!(left(&broker, "jobs").await, [""; 0]);
    assert_eq!(left(&broker, "jobs.dead").await, [""; 0]);
}

/// A handler that works for a second and notes how many brokers are closed by then.
fn notes_closed_brokers() -> Box<dyn Slot> {
    Typed::boxed(|from| {
        let log = from.state::<Log>().unwrap();
        let other = from.state::<Fake>().unwrap();
        Ok(async move {
            pass(seconds(1)).await;
            log.0
                .lock()
                .unwrap()
                .push(format!("{} closed", other.closed()));
            Verdict::Done(Outcome::Ack)
        })
    })
}

// case: I03
#[tokio::test(start_paused = true)]
async fn brokers_close_after_the_last_handler() {
    let (broker, log, other) = (Memory::amqp(), Log::default(), Fake::new());
    publish(&broker, "jobs", "a").await;
    let idle = handler("idle", "orders").with(|options| options.broker = Some("plant"));
    let app = bare([handler("work", "jobs").runs(notes_closed_brokers), idle])
        .broker(broker)
        .named_broker("plant", other.clone())
        .state(log.clone())
        .state(other.clone());
    let stopped = app.run_until(pass(Duration::from_millis(200))).await;
    assert_eq!(kind(stopped), None);
    assert_eq!(*log.0.lock().unwrap(), ["0 closed"]);
    assert_eq!(other.closed(), 1);
}

// case: I02
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_left_to_the_broker_after_the_drain() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let app = app(&broker, &log, hangs).drain(seconds(2));
    let handle = app.start().await.unwrap();
    pass(seconds(1)).await;
    let start = now();
    let expected = ErrorKind::DrainTimeout {
        unfinished: 1,
        lost_copies: 0,
    };
    assert_eq!(kind(handle.stop().await), Some(expected));
    assert!(start.elapsed() < seconds(3), "{:?}", start.elapsed());
    assert_eq!(left(&broker, "jobs").await, ["a"]);
}

// case: I09
#[tokio::test(start_paused = true)]
async fn handlers_see_the_stop_before_it_waits_for_them() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let handle = app(&broker, &log, waits_for_the_stop)
        .start()
        .await
        .unwrap();
    pass(seconds(1)).await;
    let start = now();
    assert_eq!(kind(handle.stop().await), None);
    assert!(start.elapsed() < seconds(1), "{:?}", start.elapsed());
    assert_eq!(left(&broker, "jobs").await, [""; 0]);
}

// case: I01
#[tokio::test(start_paused = true)]
async fn a_stop_ends_retry_rounds_and_leaves_the_message_to_the_broker() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let handle = app(&broker, &log, retries).start().await.unwrap();
    pass(Duration::from_millis(3_500)).await;
    assert_eq!(log.starts(), 4);
    let start = now();
    assert_eq!(kind(handle.stop().await), None);
    assert!(start.elapsed() <= seconds(25), "{:?}", start.elapsed());
    assert_eq!(log.starts(), 4);
    assert_eq!(left(&broker, "jobs").await, ["a"]);
    assert_eq!(left(&broker, "jobs.dead").await, [""; 0]);
}

// case: I06
#[tokio::test(start_paused = true)]
async fn a_second_request_ends_it_at_once_and_messages_come_back() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let running = {
        let app = app(&broker, &log, hangs);
        let plan = app.plan().unwrap();
        super::run::start(plan, &app.state).await.unwrap()
    };
    pass(seconds(1)).await;
    let start = now();
    let stopped = running.stop(pass(seconds(1))).await;
    assert_eq!(kind(stopped), Some(ErrorKind::Interrupted));
    assert!(start.elapsed() < seconds(2), "{:?}", start.elapsed());
    assert_eq!(left(&broker, "jobs").await, ["a"]);
}

// case: I07
#[tokio::test(start_paused = true)]
async fn nothing_is_settled_that_was_not_handled() {
    for round in 0..20_u64 {
        let (broker, log) = (Memory::amqp(), Log::default());
        for message in 0..MESSAGES {
            publish(&broker, "jobs", message.to_string()).await;
        }
        let handle = app(&broker, &log, acks).start().await.unwrap();
        // So many turns of the scheduler, a different number each round.
        for _ in 0..round * 7 {
            tokio::task::yield_now().await;
        }
        assert_eq!(kind(handle.stop().await), None);
        let handled: BTreeSet<String> = log.0.lock().unwrap().iter().cloned().collect();
        let remaining = left(&broker, "jobs").await;
        assert_eq!(handled.len() + remaining.len(), MESSAGES, "round {round}");
        assert!(remaining.iter().all(|message| !handled.contains(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handle_ends_it_at_once_and_messages_come_back() {
    let (broker, log) = (Memory::amqp(), Log::default());
    publish(&broker, "jobs", "a").await;
    let handle = app(&broker, &log, hangs).start().await.unwrap();
    pass(seconds(1)).await;
    assert_eq!(log.starts(), 1);
    drop(handle);
    pass(seconds(1)).await;
    assert_eq!(left(&broker, "jobs").await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_handle_publishes_counts_and_knows_who_receives() {
    let (broker, log) = (Memory::amqp(), Log::default());
    let handle = app(&broker, &log, acks).start().await.unwrap();
    handle.publisher().publish("jobs", "a").await.unwrap();
    pass(seconds(1)).await;
    let monitor = handle.monitor();
    assert_eq!(handle.health()["work"], Health::Up);
    assert!(monitor.is_up());
    assert_eq!(
        (handle.stats()["work"].starts, handle.stats()["work"].acked),
        (1, 1)
    );
    assert_eq!(kind(handle.stop().await), None);
    assert_eq!(monitor.mount("work").unwrap().health, Health::Stopped);
    assert!(!monitor.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_handle_publishes_to_every_named_broker() {
    let (broker, other, log) = (Memory::amqp(), Memory::amqp(), Log::default());
    let app = app(&broker, &log, acks).named_broker("audit", other.clone());
    let handle = app.start().await.unwrap();
    let audit = handle.publisher().on("audit").unwrap();
    audit.publish("trail", "x").await.unwrap();
    assert!(handle.publisher().on("audti").is_err());
    assert_eq!(left(&other, "trail").await, ["x"]);
}

// spec: C14
#[tokio::test(start_paused = true)]
async fn a_refusal_at_start_names_the_mount_point_and_closes_the_brokers() {
    let fake = Fake {
        refuses: Some("gone"),
        ..Fake::new()
    };
    let app = bare([handler("fulfil", "orders"), handler("record", "gone")]).broker(fake.clone());
    let error = app.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let problems = error.problems().iter().map(ToString::to_string).collect();
    only(
        problems,
        &[
            "`record` (shop::record, src/shop.rs:7) at `gone`",
            "fake://here",
            "no such queue",
        ],
    );
    assert_eq!(fake.closed(), 1);
}

// spec: C14
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_wait_for_a_broker_that_is_away() {
    let fake = Fake {
        refuses: Some("gone"),
        hangs: Some("away"),
        ..Fake::new()
    };
    let app = bare([handler("fulfil", "away"), handler("record", "gone")]).broker(fake);
    assert_eq!(kind(app.start().await.map(drop)), Some(ErrorKind::Refused));
}

#[tokio::test(start_paused = true)]
async fn a_stop_works_before_anything_is_connected() {
    let fake = Fake {
        hangs: Some("away"),
        ..Fake::new()
    };
    let app = bare([handler("fulfil", "away")]).broker(fake.clone());
    let start = now();
    assert_eq!(kind(app.run_until(pass(seconds(3))).await), None);
    assert_eq!(start.elapsed(), seconds(3));
    assert_eq!(fake.closed(), 1);
}

// case: F23
#[tokio::test(start_paused = true)]
async fn no_delivery_is_taken_before_every_handler_is_in_place() {
    let (broker, log) = (Memory::amqp(), Log::default());
    let away = Fake {
        hangs: Some("away"),
        ..Fake::new()
    };
    publish(&broker, "jobs", "a").await;
    let late = handler("late", "away").with(|options| options.broker = Some("plant"));
    let app = bare([handler("work", "jobs").runs(acks), late])
        .broker(broker.clone())
        .named_broker("plant", away)
        .state(log.clone());
    assert_eq!(kind(app.run_until(pass(seconds(3))).await), None);
    assert_eq!(log.starts(), 0);
    assert_eq!(left(&broker, "jobs").await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_mount_point_that_dies_ends_the_run_and_is_named() {
    let fake = Fake {
        panics: true,
        ..Fake::new()
    };
    let (broker, log) = (Memory::amqp(), Log::default());
    let faulty = handler("faulty", "orders").with(|options| options.broker = Some("plant"));
    let app = bare([handler("work", "jobs").runs(acks), faulty])
        .broker(broker)
        .named_broker("plant", fake.clone())
        .state(log);
    let error = app.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(fake.closed(), 1, "the others are stopped in order");
    let problems = error.problems().iter().map(ToString::to_string).collect();
    only(
        problems,
        &["`faulty`", "its pump panicked", "please report"],
    );
}

#[tokio::test(start_paused = true)]
async fn a_mount_point_that_died_unwatched_is_told_at_the_stop() {
    let fake = Fake {
        panics: true,
        ..Fake::new()
    };
    let app = bare([handler("faulty", "orders")]).broker(fake);
    let handle = app.start().await.unwrap();
    pass(seconds(1)).await;
    let error = handle.stop().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains("`faulty`"), "{error}");
}
