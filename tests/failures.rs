//! Errors, panics, timeouts, what cannot be decoded, settlers: section C, "Failures".

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use ruststream::AckError;
use ruststream::Attempt;
use ruststream::Batch;
use ruststream::Bytes;
use ruststream::Json;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::policy::Backoff;
use ruststream::policy::BatchOptions;
use ruststream::policy::OnDecode;
use ruststream::policy::OnFailure;
use ruststream::registration::Options;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::header;
use support::words;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn brokers() -> [Memory; 3] {
    [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()]
}

fn fulfil() -> Script {
    Script::address("orders").named("fulfil")
}

fn dead_letter(most: u32) -> impl Fn(&mut Options) + Copy {
    move |options| {
        options.max_attempts = Some(most);
        options.dead_letter = Some("orders.dead");
    }
}

async fn start(broker: Memory, script: Script) -> TestApp {
    let app = TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts");
    app.keep("orders.dead");
    app
}

fn parked() -> Fate {
    Fate::DeadLettered {
        to: "orders.dead".into(),
    }
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Fails by an error, a panic at once, a panic after an await, a panic with a value that is no
/// text, or a timeout, as the payload says; acks everything else.
fn failing(starts: &Starts) -> Script {
    let starts = starts.clone();
    fulfil().runs(move |(payload, attempt): (Bytes, Attempt)| {
        starts.note(&payload, attempt);
        async move {
            match payload.as_ref() {
                b"error" => Err("no stock"),
                b"panic" => panic!("no stock"),
                b"late panic" => {
                    wait(SECOND).await;
                    panic!("no stock")
                }
                b"odd panic" => std::panic::panic_any(7_u8),
                b"timeout" => {
                    wait(MINUTE).await;
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    })
}

const FAILURES: [(&str, &str); 5] = [
    ("error", "error"),
    ("panic", "panic"),
    ("late panic", "panic"),
    ("odd panic", "panic"),
    ("timeout", "timeout"),
];

// spec: C8 C10
// case: I11 I13
#[tokio::test(start_paused = true)]
async fn an_error_a_panic_and_a_timeout_are_failed_attempts_and_the_pump_goes_on() {
    for broker in brokers() {
        for (payload, reason) in FAILURES {
            let starts = Starts::new();
            let options = |options: &mut Options| {
                dead_letter(2)(options);
                options.timeout = Some(10 * SECOND);
            };
            let app = start(broker.clone(), failing(&starts).with(options)).await;
            assert_eq!(
                app.send("orders", payload).await.fate,
                parked(),
                "{payload}"
            );
            assert_eq!(starts.attempts(), [1, 2], "{payload}");
            assert_eq!(app.stats("fulfil").failures, 2, "{payload}");
            for after in ["a", "b"] {
                assert_eq!(app.send("orders", after).await.fate, Fate::Handled);
            }
            let dead = app.observer().take("orders.dead").unwrap().message;
            assert_eq!(
                header(&dead, "x-ruststream-dead-reason").as_deref(),
                Some(reason)
            );
            let text = header(&dead, "x-ruststream-dead-error").unwrap();
            let expected = if reason == "timeout" || payload == "odd panic" {
                "the handler"
            } else {
                "no stock"
            };
            assert!(text.starts_with(expected), "{payload}: {text}");
            app.stop().await.unwrap();
        }
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn each_kind_of_failure_can_be_told_what_it_means() {
    for (payload, reason) in FAILURES {
        for on in [OnFailure::Retry, OnFailure::Drop, OnFailure::DeadLetter] {
            let starts = Starts::new();
            let options = |options: &mut Options| {
                dead_letter(3)(options);
                options.timeout = Some(10 * SECOND);
                match reason {
                    "error" => options.on_error = Some(on),
                    "panic" => options.on_panic = Some(on),
                    _ => options.on_timeout = Some(on),
                }
            };
            let app = start(Memory::amqp(), failing(&starts).with(options)).await;
            let fate = app.send("orders", payload).await.fate;
            let expected = match on {
                OnFailure::Retry => (parked(), 3),
                OnFailure::Drop => (Fate::Dropped, 1),
                _ => (parked(), 1),
            };
            assert_eq!((fate, starts.count()), expected, "{payload} {on:?}");
        }
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn a_backoff_delays_the_retries_of_failures() {
    let starts = Starts::new();
    let options = |options: &mut Options| {
        dead_letter(3)(options);
        options.backoff = Some(Backoff {
            first: 5 * SECOND,
            max: 5 * SECOND,
        });
    };
    let app = start(Memory::amqp(), failing(&starts).with(options)).await;
    app.send("orders", "error").await;
    let at: Vec<u64> = starts
        .all()
        .iter()
        .map(|start| start.at.as_secs())
        .collect();
    assert_eq!(at, [at[0], at[0] + 5, at[0] + 10]);
}

// spec: C8
// case: A25 E02 E04 E06
#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_dies_once_without_a_start() {
    for broker in brokers() {
        for payload in [&b""[..], b"not json", b"\xff\xfe\x80", br#"{"unknown":1}"#] {
            let starts: Arc<Mutex<u32>> = Arc::default();
            let noted = Arc::clone(&starts);
            let script = fulfil().with(dead_letter(5)).runs(move |_: Json<u32>| {
                *noted.lock().unwrap() += 1;
                async {}
            });
            let app = start(broker.clone(), script).await;
            let begun = now();
            app.publish("orders", Message::new(payload)).unwrap();
            app.settled().await.unwrap();
            assert!(begun.elapsed() <= SECOND);
            let dead = app.observer().take("orders.dead").unwrap().message;
            assert_eq!(dead.payload().as_ref(), payload, "unchanged");
            assert_eq!(
                header(&dead, "x-ruststream-dead-reason").as_deref(),
                Some("decode")
            );
            assert!(app.observer().take("orders.dead").is_none(), "once");
            assert_eq!(app.send("orders", "7").await.fate, Fate::Handled);
            assert_eq!(*starts.lock().unwrap(), 1, "of the good one");
            app.stop().await.unwrap();
        }
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_dropped_where_nothing_else_is_declared() {
    for on in [None, Some(OnDecode::Drop)] {
        let options = |options: &mut Options| {
            options.on_decode = on;
            if on.is_some() {
                dead_letter(3)(options);
            }
        };
        let app = start(
            Memory::amqp(),
            fulfil().with(options).runs(|_: Json<u32>| async {}),
        )
        .await;
        let journey = app.send("orders", "not json").await;
        assert_eq!((journey.fate, journey.starts), (Fate::Dropped, 0));
        assert_eq!(app.stats("fulfil").undecodable, 1);
    }
}

// case: E02
#[tokio::test(start_paused = true)]
async fn a_handler_of_bytes_takes_an_empty_payload() {
    let starts = Starts::new();
    let app = start(Memory::amqp(), starts.answer(fulfil(), |_| Outcome::Ack)).await;
    app.publish("orders", "").unwrap();
    app.settled().await.unwrap();
    assert_eq!(starts.payloads(), [""]);
}

// case: E09
#[tokio::test(start_paused = true)]
async fn a_type_that_a_peer_names_starts_no_other_handler() {
    let (a, b) = (Starts::new(), Starts::new());
    let first = a.answer(Script::address("a").named("a"), |_| Outcome::Ack);
    let second = b.answer(Script::address("b").named("b"), |_| Outcome::Ack);
    let app = TestApp::start(Memory::rabbitmq(), Script::app("shop", [first, second]))
        .await
        .unwrap();
    for kind in ["b", "", "junk::Type"] {
        app.send(
            "a",
            Message::new("1").with_kind(kind).with_header("type", kind),
        )
        .await;
    }
    assert_eq!((a.count(), b.count()), (3, 0));
}

// spec: C12
#[tokio::test(start_paused = true)]
async fn immediate_retries_are_paced_per_message() {
    for broker in brokers() {
        let starts = Starts::new();
        let script = starts.answer(fulfil().with(dead_letter(6)), |start| {
            match start.payload.as_ref() {
                b"poison" => Outcome::Retry,
                _ => Outcome::Ack,
            }
        });
        let app = start(broker, script).await;
        app.publish("orders", "poison").unwrap();
        app.settle_down().await;
        app.publish("orders", "good").unwrap();
        app.settle_down().await;
        assert_eq!(app.stats("fulfil").acked, 1, "others are not slowed");
        app.settled().await.unwrap();
        let poison: Vec<_> = starts
            .all()
            .into_iter()
            .filter(|start| start.payload.as_ref() == b"poison")
            .collect();
        let gaps: Vec<u128> = poison
            .windows(2)
            .map(|pair| pair[1].at.saturating_sub(pair[0].at).as_millis())
            .collect();
        for (gap, least) in gaps.iter().zip([0, 10, 20, 40, 80]) {
            assert!((least..least + 5).contains(gap), "{gaps:?}");
        }
        assert_eq!(gaps.len(), 5);
    }
}

// spec: C30
// case: D04
#[tokio::test(start_paused = true)]
async fn what_was_settled_by_hand_is_settled_once_whatever_the_handler_does_then() {
    for broker in brokers() {
        for then in ["ack", "retry", "drop", "error", "panic"] {
            let script = fulfil()
                .with(dead_letter(3))
                .runs(move |settler: Settler| async move {
                    settler.ack().await.unwrap();
                    match then {
                        "ack" => Ok(Outcome::Ack),
                        "retry" => Ok(Outcome::Retry),
                        "drop" => Ok(Outcome::Drop),
                        "error" => Err("too late"),
                        _ => panic!("too late"),
                    }
                });
            let app = start(broker.clone(), script).await;
            app.send("orders", then).await;
            assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"], "{then}");
            app.stop().await.unwrap();
            broker.observe().clear_events();
        }
    }
}

// spec: C30
#[tokio::test(start_paused = true)]
async fn an_unused_settler_is_a_failed_attempt_after_an_error_and_no_outcome_after_a_return() {
    for (how, fate) in [
        ("error", parked()),
        ("panic", parked()),
        ("timeout", parked()),
        ("return", Fate::Left),
    ] {
        let options = |options: &mut Options| {
            dead_letter(2)(options);
            options.timeout = Some(SECOND);
        };
        let script = fulfil()
            .with(options)
            .runs(move |settler: Settler| async move {
                let unused = settler;
                match how {
                    "error" => return Err("failed"),
                    "panic" => panic!("failed"),
                    "timeout" => std::future::pending().await,
                    _ => {}
                }
                drop(unused);
                Ok(())
            });
        let app = start(Memory::amqp(), script).await;
        assert_eq!(app.send("orders", "1").await.fate, fate, "{how}");
    }
}

// spec: C30
#[tokio::test(start_paused = true)]
async fn the_timeout_runs_until_the_delivery_is_settled() {
    let kept: Arc<Mutex<Vec<Settler>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let options = |options: &mut Options| {
        dead_letter(2)(options);
        options.timeout = Some(10 * SECOND);
    };
    let script = fulfil().with(options).runs(move |settler: Settler| {
        keep.lock().unwrap().push(settler);
        async {}
    });
    let app = start(Memory::amqp(), script).await;
    assert_eq!(app.send("orders", "1").await.fate, parked());
    let settler = kept.lock().unwrap().pop().unwrap();
    assert_eq!(
        settler.ack().await,
        Err(AckError::Closed),
        "the right was taken back"
    );
}

fn batching(size: u32) -> impl Fn(&mut Options) + Copy {
    move |options| {
        dead_letter(3)(options);
        options.batch = Some(BatchOptions {
            size,
            wait: Duration::from_millis(20),
        });
    }
}

// spec: C31
#[tokio::test(start_paused = true)]
async fn items_of_a_batch_have_outcomes_of_their_own_and_the_rest_is_acked() {
    for broker in brokers() {
        let script = fulfil()
            .with(batching(4))
            .runs(|batch: Batch<Bytes>| async move {
                for item in batch {
                    match item.value().as_ref() {
                        b"dead" => item.dead_letter(),
                        b"drop" => item.drop(),
                        b"retry" if item.attempt() == 1 => item.retry(),
                        _ => {}
                    }
                }
            });
        let app = start(broker, script).await;
        for payload in ["ok", "dead", "drop", "retry"] {
            app.publish("orders", payload).unwrap();
        }
        app.settled().await.unwrap();
        let stats = app.stats("fulfil");
        assert_eq!(
            (
                stats.acked,
                stats.dropped,
                stats.retried,
                stats.dead_lettered
            ),
            (2, 1, 1, 1)
        );
    }
}

/// The payloads of a batch, and their attempts.
type Items = Vec<(String, u32)>;

// spec: C31
#[tokio::test(start_paused = true)]
async fn one_poison_item_does_not_spend_its_neighbours_attempts() {
    for broker in brokers() {
        let batches: Arc<Mutex<Vec<Items>>> = Arc::default();
        let noted = Arc::clone(&batches);
        let script = fulfil().with(batching(3)).runs(move |batch: Batch<Bytes>| {
            let items: Items = batch
                .iter()
                .map(|item| {
                    (
                        String::from_utf8_lossy(item.value()).into_owned(),
                        item.attempt(),
                    )
                })
                .collect();
            let is_poisoned = items.iter().any(|(payload, _)| payload == "poison");
            noted.lock().unwrap().push(items);
            async move { if is_poisoned { Err("poisoned") } else { Ok(()) } }
        });
        let app = start(broker, script).await;
        for payload in ["a", "poison", "b"] {
            app.publish("orders", payload).unwrap();
        }
        app.settled().await.unwrap();
        let batches = batches.lock().unwrap().clone();
        assert_eq!(batches[0].len(), 3);
        assert!(
            batches[1..].iter().all(|batch| batch.len() == 1),
            "singly: {batches:?}"
        );
        assert_eq!(app.stats("fulfil").acked, 2);
        assert_eq!(app.messages("orders.dead").len(), 1);
        let healthy = batches
            .iter()
            .flatten()
            .filter(|(payload, _)| payload != "poison");
        assert_eq!(healthy.map(|(_, attempt)| *attempt).max(), Some(2));
    }
}

// spec: C31
#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_never_enters_a_batch() {
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let script = fulfil()
        .with(batching(3))
        .runs(move |batch: Batch<Json<u32>>| {
            noted.lock().unwrap().push(batch.len());
            async {}
        });
    let app = start(Memory::amqp(), script).await;
    for payload in ["1", "x", "2"] {
        app.publish("orders", payload).unwrap();
    }
    app.settled().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [2]);
    assert_eq!(
        (app.stats("fulfil").acked, app.messages("orders.dead").len()),
        (2, 1)
    );
}

// spec: C32 M17 A25
#[tokio::test(start_paused = true)]
async fn a_refused_outcome_is_counted_and_an_implicit_ack_is_not() {
    let qos_0 = |options: &mut Options| options.settle = Some(ruststream::Settle::AtMostOnce);
    for (outcome, expected) in [(Outcome::Ack, 0), (Outcome::Drop, 1), (Outcome::Retry, 1)] {
        let app = start(
            Memory::amqp(),
            fulfil()
                .with(qos_0)
                .runs(move |_: Bytes| async move { outcome }),
        )
        .await;
        app.send("orders", "1").await;
        assert_eq!(app.stats("fulfil").unsupported, expected, "{outcome:?}");
    }
}

// case: M04
#[tokio::test(start_paused = true)]
async fn a_wait_ends_for_every_fate_of_a_message_and_tells_it() {
    for broker in brokers() {
        let starts = Starts::new();
        let script = failing(&starts).with(|options| options.max_attempts = Some(2));
        let app = start(broker.clone(), script).await;
        let begun = now();
        assert_eq!(app.send("orders", "ok").await.fate, Fate::Handled);
        assert_eq!(app.send("orders", "panic").await.fate, Fate::Dropped);
        assert_eq!(app.send("orders", "error").await.fate, Fate::Dropped);
        let nowhere = app.send("nowhere", "1").await.fate;
        assert!(
            matches!(
                nowhere,
                Fate::Waiting { .. } | Fate::Unread { .. } | Fate::Refused { .. }
            ),
            "{nowhere:?}"
        );
        assert!(begun.elapsed() < SECOND);
        app.stop().await.unwrap();
    }
    let app = start(
        Memory::amqp(),
        fulfil().runs(|_: Bytes| std::future::pending::<()>()),
    )
    .await;
    app.publish("orders", "1").unwrap();
    let unsettled = app.settled_within(SECOND).await.unwrap_err();
    assert!(
        unsettled.to_string().contains("`fulfil` has 1 in hand"),
        "{unsettled}"
    );
}
