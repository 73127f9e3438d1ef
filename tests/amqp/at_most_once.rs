//! At-most-once, caps and dead letters.

use super::*;

// spec: A10 A11 A12 A39 A42 A46 A47 A48 C2
#[tokio::test(start_paused = true)]
async fn a_delayed_retry_is_a_rejection_and_a_copy_to_the_own_address_when_the_delay_is_over() {
    let later = |attempt| {
        if attempt == 1 {
            Outcome::RetryAfter(MINUTE)
        } else {
            Outcome::Ack
        }
    };
    let (app, starts) = answering(Memory::amqp().always_counting(), |_| {}, later).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    assert_eq!(words(&app, "fulfil"), ["delivered", "rejected"]);
    app.advance(MINUTE.saturating_sub(2 * MILLISECOND)).await;
    assert_eq!(
        published(&app, "orders"),
        1,
        "no copy before the delay is over"
    );
    app.advance(4 * MILLISECOND).await;
    assert_eq!(published(&app, "orders"), 2, "one copy after it");
    assert_eq!(starts.attempts(), [1, 2]);
    assert_eq!(
        delivered_counts(&app),
        [Some(0), Some(0)],
        "a copy inherits no count"
    );
    assert_eq!(
        words(&app, "fulfil"),
        ["delivered", "rejected", "delivered", "accepted"]
    );
}

// spec: A47 C2 C3
#[tokio::test(start_paused = true)]
async fn a_copy_carries_the_number_of_the_attempt_that_failed_and_its_handler() {
    let later = |_| Outcome::RetryAfter(MINUTE);
    let (mut app, _) = answering(Memory::amqp(), |_| {}, later).await;
    app.publish(
        "orders",
        ruststream::Message::new("1").with_header("x-ruststream-retry-count", 4),
    )
    .unwrap();
    app.settle_down().await;
    app.observer().keep_offline("fulfil");
    app.advance(2 * MINUTE).await;
    let copies = app.messages("orders");
    assert_eq!(copies.len(), 1);
    assert_eq!(
        header(&copies[0], "x-ruststream-retry-count").as_deref(),
        Some("5")
    );
    assert_eq!(
        header(&copies[0], "x-ruststream-handler").as_deref(),
        Some("fulfil")
    );
    app.crash().await;
}

// spec: A21 A30
#[tokio::test(start_paused = true)]
async fn at_most_once_settles_on_arrival_and_nothing_comes_again() {
    let starts = Starts::new();
    let mut app = start(Memory::amqp(), starts.hang(fulfil().with(at_most_once))).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    assert_eq!(starts.count(), 1, "the handler runs");
    let settled = EventKind::Delivered {
        count: None,
        redelivered: false,
        settled: true,
    };
    assert!(app.observer().events_of("fulfil").contains(&settled));
    assert_eq!(app.observer().unsettled("orders"), 0);
    app.crash().await;
    app.resume().await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 1, "the broker let go of it already");
}

// spec: A22 A23 A24 A25 C32
#[tokio::test(start_paused = true)]
async fn at_most_once_answers_unsupported_by_hand_and_the_subscription_goes_on() {
    let answers: Arc<Mutex<Vec<Result<(), AckError>>>> = Arc::default();
    let record = Arc::clone(&answers);
    let script = fulfil()
        .with(at_most_once)
        .runs(move |(payload, settler): (Bytes, Settler)| {
            let record = Arc::clone(&record);
            async move {
                let answer = match payload.as_ref() {
                    b"ack" => settler.ack().await,
                    b"drop" => settler.drop().await,
                    _ => settler.retry().await,
                };
                record.lock().unwrap().push(answer);
            }
        });
    let app = start(Memory::amqp(), script).await;
    for payload in ["ack", "drop", "retry"] {
        app.send("orders", payload).await;
    }
    assert_eq!(*answers.lock().unwrap(), [Err(AckError::Unsupported); 3]);
    assert_eq!(words(&app, "fulfil"), ["delivered"; 3], "nothing was said");
    assert!(
        app.stats("fulfil").unsupported >= 2,
        "drop and retry are counted"
    );
}

// spec: A25
#[tokio::test(start_paused = true)]
async fn at_most_once_outcomes_that_cannot_be_said_do_not_stop_the_subscription() {
    for outcome in [Outcome::Ack, Outcome::Drop, Outcome::Retry] {
        let (app, starts) = answering(Memory::amqp(), at_most_once, move |_| outcome).await;
        app.send("orders", "1").await;
        app.send("orders", "2").await;
        assert_eq!(starts.payloads(), ["1", "2"], "{outcome:?}");
    }
}

// spec: A26 A28 A29 C18
#[tokio::test(start_paused = true)]
async fn at_most_once_retries_go_by_copy_under_a_cap_and_after_a_delay() {
    let capped = |options: &mut Options| {
        at_most_once(options);
        options.max_attempts = Some(3);
    };
    let (app, starts) = answering(Memory::amqp(), capped, |_| Outcome::Retry).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    assert!(published(&app, "orders") >= 2, "a copy at once");
    app.settled().await.unwrap();
    assert_eq!(starts.attempts(), [1, 2, 3]);
    assert_eq!(words(&app, "fulfil"), ["delivered"; 3]);

    let (app, starts) = answering(Memory::amqp(), at_most_once, |_| Outcome::Retry).await;
    app.send("orders", "1").await;
    assert_eq!(
        (starts.count(), published(&app, "orders")),
        (1, 1),
        "no copy without a cap"
    );

    let later = |attempt| {
        if attempt == 1 {
            Outcome::RetryAfter(MINUTE)
        } else {
            Outcome::Ack
        }
    };
    let (app, starts) = answering(Memory::amqp(), at_most_once, later).await;
    app.publish("orders", "1").unwrap();
    app.advance(MINUTE.saturating_sub(2 * MILLISECOND)).await;
    assert_eq!(published(&app, "orders"), 1);
    app.advance(4 * MILLISECOND).await;
    assert_eq!((starts.count(), published(&app, "orders")), (2, 2));
}

// spec: A27
#[tokio::test(start_paused = true)]
async fn at_most_once_with_a_count_makes_no_copy() {
    let broker = Memory::amqp();
    // A reader that crashes leaves a count behind.
    let mut crashing = start(broker.clone(), Starts::new().hang(fulfil())).await;
    crashing.publish("orders", "1").unwrap();
    crashing.settle_down().await;
    crashing.crash().await;
    let capped = |options: &mut Options| {
        at_most_once(options);
        options.max_attempts = Some(3);
    };
    let (app, starts) = answering(broker, capped, |_| Outcome::Retry).await;
    app.settled().await.unwrap();
    assert_eq!(starts.all()[0].redelivery_count, Some(2));
    assert_eq!((starts.count(), published(&app, "orders")), (1, 1));
}

// spec: A34 A36 C1
#[tokio::test(start_paused = true)]
async fn the_attempt_of_a_copy_comes_from_its_header() {
    let (app, starts) = answering(Memory::amqp(), |_| {}, |_| Outcome::Ack).await;
    for count in 0..3 {
        let copy = ruststream::Message::new("1").with_header("x-ruststream-retry-count", count);
        app.send("orders", copy).await;
    }
    assert_eq!(starts.attempts(), [1, 2, 3]);
    assert!(
        starts
            .all()
            .iter()
            .all(|start| start.redelivery_count.is_none())
    );
}

// spec: A38 A45
#[tokio::test(start_paused = true)]
async fn below_the_cap_a_counted_delivery_is_returned_and_a_copy_is_copied_again() {
    let first_later = |attempt| {
        if attempt == 1 {
            Outcome::RetryAfter(MINUTE)
        } else {
            Outcome::Retry
        }
    };
    let (app, starts) = answering(Memory::amqp(), cap(4), first_later).await;
    app.send("orders", "1").await;
    assert_eq!(starts.attempts(), [1, 2, 3, 4]);
    assert_eq!(
        words(&app, "fulfil"),
        // A delayed copy, then a copy of the copy at once, and so on to the cap.
        [
            "delivered",
            "rejected",
            "delivered",
            "accepted",
            "delivered",
            "accepted",
            "delivered",
            "rejected"
        ]
    );

    let (app, _) = answering(Memory::amqp().always_counting(), cap(3), |_| Outcome::Retry).await;
    app.send("orders", "1").await;
    assert_eq!(
        words(&app, "fulfil"),
        [
            "delivered",
            "returned",
            "delivered",
            "returned",
            "delivered",
            "rejected"
        ]
    );
    assert_eq!(published(&app, "orders"), 1, "the broker does the counting");
}

// spec: A40 A51 C4 C10
// case: A01 C11
#[tokio::test(start_paused = true)]
async fn at_the_cap_the_message_goes_to_the_dead_letter_as_it_arrived_and_the_original_is_accepted()
{
    let (app, starts) = answering(Memory::amqp(), cap_and_dead_letter(3), |_| Outcome::Retry).await;
    let message = ruststream::Message::new(r#"{"id":1}"#)
        .with_header("tenant", "a")
        .with_content_type("application/json")
        .with_id("m1");
    let journey = app.send("orders", message.clone()).await;
    assert_eq!(
        journey.fate,
        Fate::DeadLettered {
            to: "orders.dead".into()
        }
    );
    assert_eq!(starts.count(), 3);
    assert_eq!(words(&app, "fulfil").last(), Some(&"accepted"));
    assert!(app.messages("orders").is_empty());
    assert_eq!(app.observer().unsettled("orders"), 0);
    let dead = app.messages("orders.dead");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].payload(), message.payload());
    assert_eq!(header(&dead[0], "tenant").as_deref(), Some("a"));
    assert_eq!(
        (dead[0].content_type(), dead[0].id()),
        (message.content_type(), message.id())
    );
    assert_eq!(
        header(&dead[0], "x-ruststream-dead-reason").as_deref(),
        Some("max_attempts")
    );
    assert_eq!(
        header(&dead[0], "x-ruststream-dead-attempts").as_deref(),
        Some("3")
    );
}

// spec: A41 A52
#[tokio::test(start_paused = true)]
async fn at_the_cap_without_a_dead_letter_the_brokers_own_policy_takes_the_message() {
    for outcome in [Outcome::Retry, Outcome::RetryAfter(MINUTE)] {
        let broker = Memory::amqp().with_dead_letter_policy("orders", "parked");
        let (app, _) = answering(broker, cap(1), move |_| outcome).await;
        assert_eq!(
            app.send("orders", "1").await.fate,
            Fate::DeadLettered {
                to: "parked".into()
            }
        );
        assert_eq!(words(&app, "fulfil"), ["delivered", "rejected"]);
        assert_eq!(published(&app, "orders"), 1, "no copy");
    }
}

// spec: A43
#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_is_lost_with_the_process() {
    let (mut app, starts) =
        answering(Memory::amqp(), |_| {}, |_| Outcome::RetryAfter(MINUTE)).await;
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    app.crash().await;
    app.resume().await.unwrap();
    app.advance(2 * MINUTE).await;
    assert_eq!(starts.count(), 1);
    assert!(app.messages("orders").is_empty());
}

// spec: A49
#[tokio::test(start_paused = true)]
async fn a_copy_on_a_queue_goes_to_exactly_one_of_the_competing_readers() {
    let broker = Memory::amqp();
    let starts = Starts::new();
    let script = |name: &str| {
        starts.answer(Script::queue("orders").named(name), |start| {
            match start.attempt {
                1 => Outcome::RetryAfter(MINUTE),
                _ => Outcome::Ack,
            }
        })
    };
    let one = start(broker.clone(), script("fulfil")).await;
    let other = start(broker, script("fulfil")).await;
    for payload in ["1", "2", "3", "4"] {
        one.publish("orders", payload).unwrap();
    }
    one.advance(2 * MINUTE).await;
    other.settled().await.unwrap();
    assert_eq!(starts.count(), 8, "each message once, and each copy once");
}

// spec: A50
#[tokio::test(start_paused = true)]
async fn a_copy_on_a_topic_reaches_every_subscription() {
    let (first, second) = (Starts::new(), Starts::new());
    let retrying = first.answer(
        Script::topic("prices").named("first"),
        |start| match start.attempt {
            1 => Outcome::RetryAfter(MINUTE),
            _ => Outcome::Ack,
        },
    );
    let acking = second.answer(Script::topic("prices").named("second"), |_| Outcome::Ack);
    let app = TestApp::start(Memory::amqp(), Script::app("shop", [retrying, acking]))
        .await
        .unwrap();
    app.send("prices", "1").await;
    assert_eq!((first.count(), second.count()), (2, 2));
    assert_eq!(
        second.attempts(),
        [1, 1],
        "another handler's count is not its own"
    );
}

// spec: A53
// case: A08 A12
#[tokio::test(start_paused = true)]
async fn a_dead_letter_without_a_cap_is_a_cap_of_1() {
    for outcome in [Outcome::Retry, Outcome::RetryAfter(MINUTE)] {
        for most in [None, Some(1)] {
            let options = |options: &mut Options| {
                options.dead_letter = Some("orders.dead");
                options.max_attempts = most;
            };
            let (app, starts) = answering(Memory::amqp(), options, move |_| outcome).await;
            let journey = app.send("orders", "1").await;
            assert_eq!(
                journey.fate,
                Fate::DeadLettered {
                    to: "orders.dead".into()
                }
            );
            assert_eq!(starts.count(), 1);
            // A later retry: a copy that says so.
            let copy = ruststream::Message::new("2").with_header("x-ruststream-retry-count", 0);
            let journey = app.send("orders", copy).await;
            assert_eq!(
                journey.fate,
                Fate::DeadLettered {
                    to: "orders.dead".into()
                }
            );
        }
    }
    let (_, starts) = {
        let made = answering(Memory::amqp(), cap_and_dead_letter(4), |_| Outcome::Retry).await;
        made.0.send("orders", "1").await;
        made
    };
    assert_eq!(
        starts.count(),
        4,
        "a declared cap counts with a dead letter too"
    );
}
