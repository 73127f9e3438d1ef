//! Stops, crashes, connections, order: section C, C7, C13-C15, and the field cases of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::error::ErrorKind;
use ruststream::extract::Shutdown;
use ruststream::policy::Delay;
use ruststream::registration::Options;
use ruststream::stats::Health;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::published;
use support::words;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn brokers() -> [Memory; 3] {
    [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()]
}

fn fulfil() -> Script {
    Script::address("orders").named("fulfil")
}

async fn start(broker: Memory, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts")
}

async fn start_with_drain(broker: Memory, drain: Duration, script: Script) -> TestApp {
    TestApp::start(broker, Script::app("shop", [script]).drain(drain))
        .await
        .expect("the application starts")
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
fn now() -> Instant {
    Instant::now()
}

// spec: C7
// case: I02
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_left_after_the_grace_period() {
    for broker in brokers() {
        let starts = Starts::new();
        let mut app = start_with_drain(broker, 2 * SECOND, starts.hang(fulfil())).await;
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        let begun = now();
        let error = app.pause().await.unwrap_err();
        assert!(begun.elapsed() < 3 * SECOND);
        assert!(
            matches!(
                error.kind(),
                ErrorKind::DrainTimeout {
                    unfinished: 1,
                    lost_copies: 0
                }
            ),
            "{error}"
        );
        assert_eq!(words(&app, "fulfil"), ["delivered"]);
        app.resume().await.unwrap();
        assert_eq!(starts.count(), 2, "delivered again");
        app.crash().await;
    }
}

// spec: C7
// case: I03
#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_handlers_finish_with_their_publishes_and_settlements() {
    for broker in brokers() {
        let script = fulfil().runs(|publisher: Publisher| async move {
            wait(SECOND).await;
            publisher.publish("out", "done").await.unwrap();
        });
        let mut app = start(broker, script).await;
        app.keep("out");
        app.publish("orders", "1").unwrap();
        app.advance(SECOND / 5).await;
        let begun = now();
        app.pause().await.unwrap();
        assert!(begun.elapsed() < SECOND);
        assert_eq!(app.messages("out").len(), 1);
        assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
        assert!(app.messages("orders").is_empty());
    }
}

// spec: C7
// case: I01
#[tokio::test(start_paused = true)]
async fn a_stop_ends_retry_rounds_and_leaves_the_message_to_the_broker() {
    for broker in brokers() {
        let starts = Starts::new();
        let options = |options: &mut Options| {
            options.max_attempts = Some(100);
            options.dead_letter = Some("orders.dead");
        };
        let script = starts.answer(fulfil().with(options), |_| Outcome::RetryAfter(SECOND));
        let mut app = start(broker, script).await;
        app.keep("orders.dead");
        app.publish("orders", "1").unwrap();
        app.advance(3 * SECOND).await;
        let begun = now();
        app.pause().await.unwrap();
        assert!(begun.elapsed() <= 25 * SECOND);
        assert!(app.messages("orders.dead").is_empty());
        let before = starts.count();
        app.resume().await.unwrap();
        assert_eq!(starts.count(), before + 1, "it was still there");
        app.crash().await;
    }
}

// spec: C7 M52
// case: H07
#[tokio::test(start_paused = true)]
async fn a_stop_publishes_what_waits_in_time_and_the_rest_early() {
    for broker in brokers() {
        for delay in [Delay::Process, Delay::Hold] {
            let starts = Starts::new();
            let options = |options: &mut Options| options.delay = Some(delay);
            let script = starts.answer(fulfil().with(options), |start| {
                match (start.attempt, start.payload.as_ref()) {
                    (1, b"soon") => Outcome::RetryAfter(10 * SECOND),
                    (1, _) => Outcome::RetryAfter(MINUTE),
                    _ => Outcome::Ack,
                }
            });
            let mut app = start(broker.client(), script).await;
            for number in 0..20 {
                app.publish("orders", number.to_string()).unwrap();
            }
            app.publish("orders", "soon").unwrap();
            app.advance(2 * SECOND).await;
            let begun = now();
            app.pause().await.unwrap();
            let took = begun.elapsed();
            assert!(
                (19 * SECOND..=25 * SECOND).contains(&took),
                "{delay:?}: {took:?}"
            );
            app.resume().await.unwrap();
            app.settled().await.unwrap();
            let again: BTreeSet<String> = starts.payloads().into_iter().collect();
            assert_eq!(
                (starts.count(), again.len()),
                (42, 21),
                "each once more: {delay:?}"
            );
            app.stop().await.unwrap();
        }
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn copies_that_leave_early_are_counted() {
    let starts = Starts::new();
    let script = starts.answer(fulfil(), |start| match start.payload.as_ref() {
        b"soon" => Outcome::RetryAfter(SECOND),
        _ => Outcome::RetryAfter(MINUTE),
    });
    let mut app = start(Memory::amqp(), script).await;
    for payload in ["soon", "late", "late too"] {
        app.publish("orders", payload).unwrap();
    }
    app.settle_down().await;
    app.pause().await.unwrap();
    assert_eq!(app.messages("orders").len(), 3);
    assert_eq!(app.stats("fulfil").flushed, 2);
}

// spec: C7 C24
// case: I07
#[tokio::test(start_paused = true)]
async fn nothing_is_settled_that_was_not_handled() {
    for broker in brokers() {
        for round in 0..20_u64 {
            let starts = Starts::new();
            let noted = starts.clone();
            let script = fulfil().with(|options| options.concurrency = Some(4)).runs(
                move |(payload, attempt): (Bytes, ruststream::Attempt)| {
                    let noted = noted.clone();
                    async move {
                        wait(Duration::from_millis(u64::from(payload[0] % 3))).await;
                        noted.note(&payload, attempt);
                    }
                },
            );
            let mut app = start(broker.client(), script).await;
            for number in 0..1000 {
                app.publish("orders", format!("{round}-{number}")).unwrap();
            }
            app.advance(Duration::from_millis(round * 7 % 50)).await;
            app.pause().await.unwrap();
            let handled: BTreeSet<String> = starts.payloads().into_iter().collect();
            let mut remaining = 0;
            // What remains is seen by whoever comes next.
            app.resume().await.unwrap();
            app.settled().await.unwrap();
            let all: BTreeSet<String> = starts.payloads().into_iter().collect();
            remaining += all.difference(&handled).count();
            assert_eq!(handled.len() + remaining, 1000);
            assert_eq!(starts.count(), 1000, "and none twice");
            app.stop().await.unwrap();
        }
    }
}

// case: I09
#[tokio::test(start_paused = true)]
async fn handlers_see_the_stop_before_the_drain_waits_for_them() {
    let script = fulfil().runs(|shutdown: Shutdown| async move {
        shutdown.requested().await;
    });
    let mut app = start(Memory::amqp(), script).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    let begun = now();
    app.pause().await.unwrap();
    assert!(begun.elapsed() < SECOND);
    assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
}

// case: I13
#[tokio::test(start_paused = true)]
async fn a_time_limit_frees_the_slots_of_handlers_that_hang() {
    for broker in brokers() {
        let options = |options: &mut Options| {
            options.concurrency = Some(2);
            options.timeout = Some(SECOND);
            options.max_attempts = Some(2);
            options.dead_letter = Some("orders.dead");
        };
        let script = fulfil().with(options).runs(|payload: Bytes| async move {
            if payload.starts_with(b"hang") {
                std::future::pending::<()>().await;
            }
        });
        let app = start(broker, script).await;
        app.keep("orders.dead");
        for payload in ["hang 1", "hang 2"] {
            app.publish("orders", payload).unwrap();
        }
        for number in 0..10 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.advance(5 * SECOND).await;
        assert_eq!(app.stats("fulfil").acked, 10);
        app.settled().await.unwrap();
        assert_eq!(app.messages("orders.dead").len(), 2);
    }
}

// spec: C13
#[tokio::test(start_paused = true)]
async fn a_settlement_of_an_earlier_connection_is_stale_and_never_reaches_the_wire() {
    for broker in brokers() {
        let kept: Arc<Mutex<Vec<Settler>>> = Arc::default();
        let keep = Arc::clone(&kept);
        let options = |options: &mut Options| options.concurrency = Some(2);
        let script = fulfil().with(options).runs(move |settler: Settler| {
            keep.lock().unwrap().push(settler);
            async {}
        });
        let app = start(broker, script).await;
        app.publish("orders", "1").unwrap();
        app.settle_down().await;
        app.cut("fulfil").await;
        let mut settlers = std::mem::take(&mut *kept.lock().unwrap());
        assert_eq!(settlers.len(), 2, "delivered again");
        let late = settlers.remove(0);
        assert_eq!(late.ack().await, Err(ruststream::AckError::Stale));
        app.settle_down().await;
        assert_eq!(app.settlements("fulfil").accepted, 0);
        assert_eq!(app.stats("fulfil").stale, 1);
        assert_eq!(settlers.remove(0).ack().await, Ok(()));
        assert_eq!(app.settlements("fulfil").accepted, 1);
    }
}

// spec: C13
// case: D01
#[tokio::test(start_paused = true)]
async fn a_handler_that_outlives_its_connection_settles_nothing_and_what_was_buffered_is_not_started()
 {
    for broker in brokers() {
        let starts = Starts::new();
        let noted = starts.clone();
        let script = fulfil().runs(move |(payload, attempt): (Bytes, ruststream::Attempt)| {
            noted.note(&payload, attempt);
            async move { wait(5 * SECOND).await }
        });
        let app = start(broker, script).await;
        for number in 0..10 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.advance(SECOND).await;
        app.cut("fulfil").await;
        app.settled().await.unwrap();
        assert_eq!(starts.count(), 11, "the first twice, the others once");
        assert_eq!(app.settlements("fulfil").accepted, 10);
        assert_eq!(
            app.observer().connects("fulfil"),
            2,
            "the new connection lives"
        );
    }
}

// spec: C14
#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_seen_in_health_and_comes_back_with_its_subscription() {
    for broker in brokers() {
        let starts = Starts::new();
        let app = start(broker, starts.answer(fulfil(), |_| Outcome::Ack)).await;
        assert_eq!(app.health("fulfil"), Some(Health::Up));
        app.observer().keep_offline("fulfil");
        app.settle_down().await;
        assert!(matches!(app.health("fulfil"), Some(Health::Down { .. })));
        app.publish("orders", "1").unwrap();
        app.advance(MINUTE).await;
        assert_eq!(starts.count(), 0);
        app.observer().let_online("fulfil");
        app.settled().await.unwrap();
        assert_eq!(
            (starts.count(), app.health("fulfil")),
            (1, Some(Health::Up))
        );
    }
}

// spec: C14
#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_seen_while_every_handler_is_busy() {
    for broker in brokers() {
        let script = fulfil().runs(|_: Bytes| std::future::pending::<()>());
        let app = start(broker, script).await;
        for number in 0..3 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.settle_down().await;
        app.observer().keep_offline("fulfil");
        app.settle_down().await;
        assert!(matches!(app.health("fulfil"), Some(Health::Down { .. })));
    }
}

// spec: C7
#[tokio::test(start_paused = true)]
async fn a_stop_works_while_disconnected() {
    for broker in brokers() {
        let mut app = start(broker, fulfil()).await;
        app.observer().keep_offline("fulfil");
        app.settle_down().await;
        let begun = now();
        app.pause().await.unwrap();
        assert!(begun.elapsed() < SECOND);
    }
}

// spec: C15
#[tokio::test(start_paused = true)]
async fn unsettled_deliveries_never_exceed_the_window() {
    for broker in brokers() {
        let options = |options: &mut Options| {
            options.prefetch = Some(5);
            options.concurrency = Some(3);
        };
        let script = fulfil().with(options).runs(|payload: Bytes| async move {
            wait(Duration::from_millis(u64::from(payload[0]) % 7)).await;
        });
        let app = start(broker, script).await;
        for number in 0..200 {
            app.publish("orders", number.to_string()).unwrap();
        }
        for _ in 0..100 {
            app.advance(Duration::from_millis(3)).await;
            assert!(app.observer().unsettled("fulfil") <= 5);
        }
        app.settled().await.unwrap();
        assert_eq!(app.stats("fulfil").acked, 200);
    }
}

// case: J01
#[tokio::test(start_paused = true)]
async fn concurrency_1_handles_in_the_order_of_delivery() {
    for broker in brokers() {
        let order: Arc<Mutex<Vec<u32>>> = Arc::default();
        let noted = Arc::clone(&order);
        let script =
            fulfil()
                .with(|options| options.prefetch = Some(50))
                .runs(move |payload: Bytes| {
                    let noted = Arc::clone(&noted);
                    async move {
                        let number: u32 = std::str::from_utf8(&payload).unwrap().parse().unwrap();
                        wait(Duration::from_millis(u64::from(number * 7 % 3))).await;
                        noted.lock().unwrap().push(number);
                    }
                });
        let app = start(broker, script).await;
        for number in 1..=2000_u32 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.settled().await.unwrap();
        let expected: Vec<u32> = (1..=2000).collect();
        assert_eq!(*order.lock().unwrap(), expected);
    }
}

// case: J03
#[tokio::test(start_paused = true)]
async fn the_concurrency_limit_is_exact() {
    for broker in brokers() {
        for limit in [1, 3, 16] {
            let inside = Arc::new(AtomicUsize::new(0));
            let most = Arc::new(AtomicUsize::new(0));
            let (now_inside, highest) = (Arc::clone(&inside), Arc::clone(&most));
            let options = |options: &mut Options| options.concurrency = Some(limit);
            let script = fulfil().with(options).runs(move |_: Bytes| {
                let (inside, most) = (Arc::clone(&now_inside), Arc::clone(&highest));
                async move {
                    most.fetch_max(
                        inside.fetch_add(1, Ordering::Relaxed) + 1,
                        Ordering::Relaxed,
                    );
                    wait(Duration::from_millis(5)).await;
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            });
            let app = start(broker.client(), script).await;
            for number in 0..200 {
                app.publish("orders", number.to_string()).unwrap();
            }
            app.settled().await.unwrap();
            assert_eq!(most.load(Ordering::Relaxed), limit as usize);
            app.stop().await.unwrap();
        }
    }
}

// spec: C34
// case: K14
#[tokio::test(start_paused = true)]
async fn two_handlers_on_one_queue_are_refused_unless_one_says_so() {
    let two = |options: fn(&mut Options)| {
        [
            fulfil(),
            Script::address("orders").named("bill").with(options),
        ]
    };
    let error = TestApp::start(Memory::amqp(), Script::app("shop", two(|_| {})))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("`bill`") && error.to_string().contains("`fulfil`"),
        "{error}"
    );
    let app = TestApp::start(
        Memory::amqp(),
        Script::app("shop", two(|options| options.competes = true)),
    )
    .await
    .unwrap();
    assert_eq!(app.send("orders", "1").await.fate, Fate::Handled);
    assert_eq!(published(&app, "orders"), 1);
}

// spec: C17
#[tokio::test(start_paused = true)]
async fn each_mount_point_has_a_session_and_a_window_of_its_own_on_mqtt() {
    let (full, free) = (Starts::new(), Starts::new());
    let narrow = |options: &mut Options| options.prefetch = Some(2);
    let scripts = [
        full.answer(
            Script::topic("plant/temp").named("full").with(narrow),
            |_| Outcome::Retry,
        ),
        free.answer(
            Script::topic("plant/temp").named("free").with(narrow),
            |_| Outcome::Ack,
        ),
    ];
    let app = TestApp::start(Memory::mqtt(), Script::app("plant", scripts))
        .await
        .unwrap();
    for payload in ["1", "2", "3", "4"] {
        app.publish("plant/temp", payload).unwrap();
    }
    app.advance(SECOND).await;
    assert_eq!(
        (full.count(), free.count()),
        (2, 4),
        "a full window holds up nobody else"
    );
    app.cut("full").await;
    assert_eq!(
        (
            app.observer().connects("full"),
            app.observer().connects("free")
        ),
        (2, 1)
    );
}

// spec: C33
#[tokio::test(start_paused = true)]
async fn an_overloaded_automatic_consumer_stops_nobody_else() {
    let (slow, quick) = (Starts::new(), Starts::new());
    let automatic = |options: &mut Options| options.settle = Some(ruststream::Settle::AtMostOnce);
    let scripts = [
        slow.hang(Script::queue("slow").named("slow").with(automatic)),
        quick.answer(Script::queue("quick").named("quick"), |_| Outcome::Ack),
    ];
    let app = TestApp::start(Memory::rabbitmq(), Script::app("shop", scripts))
        .await
        .unwrap();
    for number in 0..20_000 {
        app.publish("slow", number.to_string()).unwrap();
    }
    for number in 0..100 {
        app.publish("quick", number.to_string()).unwrap();
    }
    app.advance(SECOND).await;
    assert!(
        !app.messages("slow").is_empty(),
        "the broker is stopped by the bounded buffer"
    );
    assert_eq!(quick.count(), 100);
}

// case: C16
#[tokio::test(start_paused = true)]
async fn the_order_of_declarations_does_not_change_the_result() {
    let cap = |options: &mut Options| options.max_attempts = Some(3);
    let dead = |options: &mut Options| options.dead_letter = Some("orders.dead");
    for script in [fulfil().with(cap).with(dead), fulfil().with(dead).with(cap)] {
        let starts = Starts::new();
        let app = start(Memory::amqp(), starts.answer(script, |_| Outcome::Retry)).await;
        app.send("orders", "1").await;
        assert_eq!((starts.count(), app.messages("orders.dead").len()), (3, 1));
    }
}

// spec: C35
#[tokio::test(start_paused = true)]
async fn the_rules_of_the_embedded_broker_follow_the_form_of_the_registration() {
    let starts = Starts::new();
    let options = |options: &mut Options| options.retry_topic = Some("orders");
    let scripts = [
        starts.answer(Script::address("a+b").named("exact"), |_| Outcome::Ack),
        starts.answer(
            Script::filter("plant/+")
                .named("filter")
                .with(options)
                .with(|options| options.retry_topic_elsewhere = true),
            |_| Outcome::Ack,
        ),
    ];
    let app = TestApp::start(Memory::new(), Script::app("shop", scripts))
        .await
        .unwrap();
    app.send("a+b", "1").await;
    app.send("plant/7", "2").await;
    app.send("aab", "3").await;
    assert_eq!(
        starts.payloads(),
        ["1", "2"],
        "`address` is never a pattern"
    );
}
