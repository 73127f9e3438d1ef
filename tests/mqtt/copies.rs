//! Where copies and dead letters go.

use super::*;

// spec: M8 M9 M23 M25 M33 M45 M46 M47
#[tokio::test(start_paused = true)]
async fn a_retry_under_a_cap_is_a_copy_published_at_once() {
    let (app, starts) = answering(cap(3), |_| Outcome::Retry).await;
    assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Dropped);
    assert_eq!(starts.attempts(), [1, 2, 3]);
    assert_eq!(
        words(&app, "record"),
        [
            "delivered",
            "accepted",
            "delivered",
            "accepted",
            "delivered",
            "accepted"
        ]
    );
    assert_eq!(published(&app, "plant/temp"), 3);
    assert_eq!(
        starts.all()[0].redelivery_count,
        None,
        "MQTT counts nothing"
    );
}

// spec: M10 M11 M24 M34 M35 M36 M38
#[tokio::test(start_paused = true)]
async fn a_delayed_retry_is_acknowledged_and_its_copy_is_published_when_the_delay_is_over() {
    for most in [None, Some(3)] {
        let later = |attempt| {
            if attempt == 1 {
                Outcome::RetryAfter(MINUTE)
            } else {
                Outcome::Ack
            }
        };
        let (app, starts) = answering(|options| options.max_attempts = most, later).await;
        app.publish("plant/temp", "1").unwrap();
        app.settle_down().await;
        assert_eq!(words(&app, "record"), ["delivered", "accepted"]);
        app.advance(MINUTE.saturating_sub(2 * MILLISECOND)).await;
        assert_eq!(published(&app, "plant/temp"), 1);
        app.advance(4 * MILLISECOND).await;
        assert_eq!(
            published(&app, "plant/temp"),
            2,
            "to the subscription's topic"
        );
        assert_eq!(starts.attempts(), [1, 2]);
    }
}

// spec: M26 M29 M30 M31 M32
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_at_qos_0_but_copies_leave() {
    let capped = |options: &mut Options| {
        qos(0)(options);
        options.max_attempts = Some(3);
    };
    let (app, starts) = answering(capped, |_| Outcome::Retry).await;
    app.send("plant/temp", "1").await;
    assert_eq!(starts.attempts(), [1, 2, 3]);
    assert_eq!(words(&app, "record"), ["delivered"; 3]);

    let later = |attempt| {
        if attempt == 1 {
            Outcome::RetryAfter(MINUTE)
        } else {
            Outcome::Ack
        }
    };
    let (app, starts) = answering(qos(0), later).await;
    app.publish("plant/temp", "1").unwrap();
    app.advance(MINUTE.saturating_sub(2 * MILLISECOND)).await;
    assert_eq!(published(&app, "plant/temp"), 1);
    app.advance(4 * MILLISECOND).await;
    assert_eq!((starts.count(), published(&app, "plant/temp")), (2, 2));
    assert_eq!(words(&app, "record"), ["delivered"; 2]);

    for outcome in [Outcome::Ack, Outcome::Drop, Outcome::Retry] {
        let (app, starts) = answering(qos(0), move |_| outcome).await;
        app.send("plant/temp", "1").await;
        assert_eq!(words(&app, "record"), ["delivered"], "{outcome:?}");
        assert_eq!(
            (starts.count(), published(&app, "plant/temp")),
            (1, 1),
            "{outcome:?}"
        );
    }

    let script = record()
        .with(qos(0))
        .runs(|settler: Settler| async move { drop(settler) });
    let app = start(broker(), script).await;
    app.send("plant/temp", "1").await;
    assert_eq!(words(&app, "record"), ["delivered"], "no outcome, no word");
}

// spec: M37
#[tokio::test(start_paused = true)]
async fn the_copies_of_a_shared_subscription_go_to_the_plain_topic() {
    let options = |options: &mut Options| {
        options.mqtt = Some(MqttOptions {
            shared: Some("workers"),
            ..MqttOptions::NONE
        });
        options.max_attempts = Some(2);
    };
    let (app, starts) = answering(options, |_| Outcome::Retry).await;
    app.send("plant/temp", "1").await;
    assert_eq!(starts.attempts(), [1, 2]);
    assert_eq!(published(&app, "plant/temp"), 2);
    assert!(
        app.events()
            .iter()
            .all(|event| !event.address.starts_with("$share")
                || matches!(
                    event.kind,
                    EventKind::Connected { .. } | EventKind::Disconnected
                ))
    );
}

fn filter() -> Script {
    Script::filter("plant/+/temp").named("record")
}

// spec: M39 M40 M43 C27
// case: C14
#[tokio::test(start_paused = true)]
async fn a_filters_copies_go_to_the_named_topic_and_never_to_a_wildcard() {
    let starts = Starts::new();
    let named = |options: &mut Options| {
        options.retry_topic = Some("plant/retry/temp");
        options.max_attempts = Some(2);
        options.dead_letter = Some("plant-dead");
    };
    let app = start(
        broker(),
        starts.answer(filter().with(named), |_| Outcome::Retry),
    )
    .await;
    app.keep("plant-dead");
    let journey = app.send("plant/7/temp", "1").await;
    assert_eq!(
        journey.fate,
        Fate::DeadLettered {
            to: "plant-dead".into()
        }
    );
    assert_eq!(
        (starts.count(), published(&app, "plant/retry/temp")),
        (2, 1)
    );
    let dead = app.messages("plant-dead");
    assert_eq!(dead.len(), 1);
    assert_eq!(
        header(&dead[0], "x-ruststream-topic").as_deref(),
        Some("plant/7/temp")
    );
    assert_eq!(
        header(&dead[0], "x-ruststream-dead-address").as_deref(),
        Some("plant/7/temp")
    );
    let is_publish =
        |kind: &EventKind| matches!(kind, EventKind::Published { .. } | EventKind::Unread);
    assert!(
        app.events()
            .iter()
            .all(|event| !is_publish(&event.kind) || !event.address.contains(['+', '#']))
    );
}

// spec: M39
#[tokio::test(start_paused = true)]
async fn a_filters_copies_go_where_a_function_says_for_each_delivery() {
    let starts = Starts::new();
    let with = |options: &mut Options| {
        options.retry_topic_with = Some(|delivery| Cow::Owned(delivery.address().to_owned()));
        options.max_attempts = Some(2);
    };
    let app = start(
        broker(),
        starts.answer(filter().with(with), |_| Outcome::Retry),
    )
    .await;
    app.send("plant/7/temp", "1").await;
    app.send("plant/8/temp", "2").await;
    assert_eq!(starts.attempts(), [1, 2, 1, 2]);
    assert_eq!(
        (
            published(&app, "plant/7/temp"),
            published(&app, "plant/8/temp")
        ),
        (2, 2)
    );
}

// spec: M40
// case: F08
#[tokio::test(start_paused = true)]
async fn a_wildcard_cannot_be_published_to_and_the_connection_lives() {
    let results: Arc<Mutex<Vec<bool>>> = Arc::default();
    let noted = Arc::clone(&results);
    let script = record().runs(move |publisher: Publisher| {
        let noted = Arc::clone(&noted);
        async move {
            for to in ["a/+", "a/#", "", "a/b"] {
                let published = publisher.publish(to, "x").await;
                noted.lock().unwrap().push(published.is_ok());
            }
        }
    });
    let app = start(broker(), script).await;
    app.keep("a/b");
    assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Handled);
    assert_eq!(*results.lock().unwrap(), [false, false, false, true]);
    assert_eq!(app.observer().connects("record"), 1);
}

// spec: M42 M43 M44
#[tokio::test(start_paused = true)]
async fn at_the_cap_the_message_goes_to_the_dead_letter_topic_or_is_abandoned() {
    for outcome in [Outcome::Retry, Outcome::RetryAfter(MINUTE)] {
        let options = |options: &mut Options| {
            options.max_attempts = Some(2);
            options.dead_letter = Some("dead/temp");
        };
        let (app, starts) = answering(options, move |_| outcome).await;
        app.keep("dead/temp");
        let journey = app.send("plant/temp", "1").await;
        assert_eq!(
            journey.fate,
            Fate::DeadLettered {
                to: "dead/temp".into()
            }
        );
        assert_eq!(starts.count(), 2);
        assert_eq!(app.messages("dead/temp")[0].payload().as_ref(), b"1");
        assert_eq!(app.observer().unsettled("record"), 0);

        let (app, starts) = answering(cap(2), move |_| outcome).await;
        assert_eq!(app.send("plant/temp", "1").await.fate, Fate::Dropped);
        assert_eq!(
            (starts.count(), words(&app, "record").last()),
            (2, Some(&"accepted"))
        );
    }
}

// spec: M25
#[tokio::test(start_paused = true)]
async fn a_dead_letter_topic_without_a_cap_takes_the_first_retry_at_once() {
    let options = |options: &mut Options| options.dead_letter = Some("dead/temp");
    let (app, starts) = answering(options, |_| Outcome::Retry).await;
    app.keep("dead/temp");
    app.publish("plant/temp", "1").unwrap();
    app.settle_down().await;
    assert_eq!((starts.count(), app.messages("dead/temp").len()), (1, 1));
}

// spec: M48
#[tokio::test(start_paused = true)]
async fn a_copy_reaches_every_subscription_whose_filter_matches() {
    let memory = broker();
    let (first, second, third) = (Starts::new(), Starts::new(), Starts::new());
    let retrying = first.answer(record().with(cap(2)), |start| match start.attempt {
        1 => Outcome::Retry,
        _ => Outcome::Ack,
    });
    let wide = |options: &mut Options| options.retry_topic = Some("plant/temp");
    let beside = second.answer(Script::filter("plant/#").named("beside").with(wide), |_| {
        Outcome::Ack
    });
    let elsewhere = third.answer(Script::topic("plant/temp").named("elsewhere"), |_| {
        Outcome::Ack
    });
    let app = TestApp::start(memory.clone(), Script::app("plant", [retrying, beside]))
        .await
        .unwrap();
    let other = TestApp::start(memory, Script::app("office", [elsewhere]))
        .await
        .unwrap();
    app.send("plant/temp", "1").await;
    other.settled().await.unwrap();
    assert_eq!((first.count(), second.count(), third.count()), (2, 2, 2));
    assert_eq!(second.attempts(), [1, 1]);
}

// spec: M49
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_a_live_filter_elsewhere_matches_comes_to_it() {
    let memory = broker();
    let (first, second) = (Starts::new(), Starts::new());
    let options = |options: &mut Options| options.dead_letter = Some("plant/dead");
    let app = start(
        memory.clone(),
        first.answer(record().with(options), |_| Outcome::Retry),
    )
    .await;
    let wide = |options: &mut Options| options.retry_topic = Some("plant/x");
    let script = second.answer(Script::filter("plant/+").named("wide").with(wide), |_| {
        Outcome::Ack
    });
    let other = start(memory, script).await;
    app.send("plant/temp", "1").await;
    other.settled().await.unwrap();
    assert_eq!(
        (first.count(), second.count()),
        (1, 2),
        "the message and its dead letter"
    );
}

// spec: M51 M53
#[tokio::test(start_paused = true)]
async fn a_crash_loses_a_waiting_copy() {
    let (mut app, starts) = answering(|_| {}, |_| Outcome::RetryAfter(MINUTE)).await;
    app.publish("plant/temp", "1").unwrap();
    app.settle_down().await;
    app.crash().await;
    app.resume().await.unwrap();
    app.advance(2 * MINUTE).await;
    assert_eq!((starts.count(), published(&app, "plant/temp")), (1, 1));
}

// spec: M52 C7
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_waiting_copies() {
    for (delay, most) in [(Duration::from_secs(10), 11), (MINUTE, 26)] {
        let (mut app, starts) = answering(|_| {}, move |_| Outcome::RetryAfter(delay)).await;
        app.publish("plant/temp", "1").unwrap();
        app.settle_down().await;
        let begun = now();
        app.pause().await.unwrap();
        assert!(
            begun.elapsed() <= Duration::from_secs(most),
            "within the drain"
        );
        assert_eq!(
            published(&app, "plant/temp"),
            2,
            "early is better than lost"
        );
        app.resume().await.unwrap();
        assert_eq!(starts.attempts(), [1, 2], "the session kept it");
    }
}

// spec: C25
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_nobody_reads_is_accepted_and_counted_unless_it_is_to_be_kept() {
    let options = |options: &mut Options| options.dead_letter = Some("dead/temp");
    let (app, _) = answering(options, |_| Outcome::Retry).await;
    let journey = app.send("plant/temp", "1").await;
    assert_eq!(
        journey.fate,
        Fate::Unread {
            to: "dead/temp".into()
        }
    );
    assert_eq!(words(&app, "record"), ["delivered", "accepted"]);
    assert_eq!(app.stats("record").unread_dead_letters, 1);

    let kept = |options: &mut Options| {
        options.dead_letter = Some("dead/temp");
        options.mqtt = Some(MqttOptions {
            dead_letter_unread: Some(ruststream::registration::Unread::Keep),
            ..MqttOptions::NONE
        });
    };
    let (app, _) = answering(kept, |_| Outcome::Retry).await;
    app.publish("plant/temp", "1").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(words(&app, "record"), ["delivered"], "the original is kept");
    app.keep("dead/temp");
    app.settled().await.unwrap();
    assert_eq!(app.messages("dead/temp").len(), 1, "it heals");
    assert_eq!(words(&app, "record"), ["delivered", "accepted"]);
}

// spec: C25
#[tokio::test(start_paused = true)]
async fn a_retry_copy_that_nobody_reads_is_a_failed_publish() {
    let starts = Starts::new();
    let options = |options: &mut Options| {
        options.retry_topic = Some("elsewhere");
        options.retry_topic_elsewhere = true;
        options.max_attempts = Some(3);
    };
    let app = start(
        broker(),
        starts.answer(filter().with(options), |_| Outcome::Retry),
    )
    .await;
    app.publish("plant/7/temp", "1").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(words(&app, "record"), ["delivered"], "the original is kept");
    app.keep("elsewhere");
    app.settled().await.unwrap();
    assert_eq!(app.messages("elsewhere").len(), 1);
    assert_eq!(words(&app, "record"), ["delivered", "accepted"]);
}

// spec: C29
#[tokio::test(start_paused = true)]
async fn a_stop_leaves_a_shared_group_to_its_other_members_and_keeps_plain_sessions() {
    let memory = broker();
    let shared = |client: &'static str| {
        move |options: &mut Options| {
            options.mqtt = Some(MqttOptions {
                shared: Some("workers"),
                client_id: Some(client),
                ..MqttOptions::NONE
            });
        }
    };
    let (one, two) = (Starts::new(), Starts::new());
    let mut first = start(
        memory.clone(),
        one.answer(record().with(shared("one")), |_| Outcome::Ack),
    )
    .await;
    let second = start(
        memory.clone(),
        two.answer(record().with(shared("two")), |_| Outcome::Ack),
    )
    .await;
    first.pause().await.unwrap();
    for payload in ["1", "2", "3"] {
        second.publish("plant/temp", payload).unwrap();
    }
    second.settled().await.unwrap();
    assert_eq!((one.count(), two.count()), (0, 3));

    let starts = Starts::new();
    let script = starts.answer(Script::topic("plant/wind").named("wind"), |_| Outcome::Ack);
    let mut plain = start(memory, script).await;
    plain.pause().await.unwrap();
    plain.publish("plant/wind", "1").unwrap();
    plain.resume().await.unwrap();
    assert_eq!(starts.count(), 1, "its session kept it");
}

// spec: C11
// case: C07 B13
#[tokio::test(start_paused = true)]
async fn a_copy_keeps_the_properties_of_its_message() {
    let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let options = |options: &mut Options| {
        options.max_attempts = Some(2);
        options.dead_letter = Some("dead/temp");
    };
    let script = record().with(options).runs(move |message: Message| {
        noted.lock().unwrap().push(message);
        async { Outcome::Retry }
    });
    let app = start(broker(), script).await;
    app.keep("dead/temp");
    let message = Message::new("1")
        .with_content_type("text/plain")
        .with_reply_to("answers")
        .with_correlation_id(&b"\xff\x00"[..])
        .marked_as_text()
        .with_header("tag", "a")
        .with_header("tag", "")
        .with_header("tag", "b")
        .with_header("other", "1");
    app.send("plant/temp", message.clone()).await;
    let mut all = seen.lock().unwrap().clone();
    all.extend(app.messages("dead/temp"));
    assert_eq!(all.len(), 3, "two attempts and the dead letter");
    let own = |message: &Message| -> Vec<(String, String)> {
        let headers = message.headers().iter();
        headers
            .filter(|(name, _)| !name.starts_with("x-ruststream-"))
            .map(|(name, value)| (name.to_owned(), format!("{value:?}")))
            .collect()
    };
    for copy in &all {
        assert_eq!(own(copy), own(&message), "repeats and order stay");
        assert_eq!(
            (
                copy.content_type(),
                copy.reply_to(),
                copy.correlation_id(),
                copy.is_text()
            ),
            (
                message.content_type(),
                message.reply_to(),
                message.correlation_id(),
                true
            )
        );
    }
}
