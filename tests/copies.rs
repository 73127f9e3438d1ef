//! Copies, dead letters and answers: section C, "Copies and dead letters".

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::broker::memory::Memory;
use ruststream::handler::Verdict;
use ruststream::registration::Options;
use ruststream::testing::EventKind;
use ruststream::testing::Fate;
use ruststream::testing::Refuse;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;
use support::header;
use support::published;
use support::words;

const MINUTE: Duration = Duration::from_mins(1);

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

async fn answering(
    broker: Memory,
    options: impl FnOnce(&mut Options),
    answer: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = starts.answer(fulfil().with(options), move |start| answer(start.attempt));
    (start(broker, script).await, starts)
}

// spec: C4
#[tokio::test(start_paused = true)]
async fn the_original_is_settled_only_after_its_copy_is_confirmed() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let (mut app, _) = answering(broker, dead_letter(1), |_| Outcome::Retry).await;
        app.observer().hold_confirmations("orders.dead");
        app.publish("orders", "1").unwrap();
        app.advance(MINUTE).await;
        assert_eq!(app.messages("orders.dead").len(), 1, "it is on its way");
        assert_eq!(
            words(&app, "fulfil"),
            ["delivered"],
            "and nothing is said before it is safe"
        );
        app.crash().await;
        app.observer().release_confirmations("orders.dead");
        app.resume().await.unwrap();
        app.settled().await.unwrap();
        assert_eq!(
            app.messages("orders.dead").len(),
            2,
            "a crash between gives a duplicate, not a loss"
        );
    }
}

// spec: C4
#[tokio::test(start_paused = true)]
async fn an_immediate_copy_is_confirmed_before_the_original_is_accepted() {
    let (app, _) = answering(Memory::mqtt(), dead_letter(2), |_| Outcome::Retry).await;
    app.observer().hold_confirmations("orders");
    app.publish("orders", "1").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(published(&app, "orders"), 2);
    assert_eq!(
        app.observer().unsettled("fulfil"),
        1,
        "the original waits, its copy is through"
    );
    app.observer().release_confirmations("orders");
    app.settled().await.unwrap();
    assert_eq!(app.settlements("fulfil").accepted, 2);
    assert_eq!(app.messages("orders.dead").len(), 1);
}

// spec: C5
// case: C01
#[tokio::test(start_paused = true)]
async fn a_publish_that_fails_twice_gives_exactly_one_dead_letter() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let (app, starts) = answering(broker, dead_letter(1), |_| Outcome::Retry).await;
        app.observer()
            .refuse_publishes("orders.dead", Refuse::Transient, Some(2));
        let journey = app.send("orders", "1").await;
        assert_eq!(
            journey.fate,
            Fate::DeadLettered {
                to: "orders.dead".into()
            }
        );
        assert_eq!(app.messages("orders.dead").len(), 1);
        assert_eq!(starts.count(), 1, "the handler is not run again");
        assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
        assert_eq!(app.stats("fulfil").failed_copies, 2);
    }
}

// spec: C5
#[tokio::test(start_paused = true)]
async fn a_failing_publish_is_tried_again_with_backoff_and_never_spins() {
    let (app, _) = answering(Memory::amqp(), dead_letter(1), |_| Outcome::Retry).await;
    app.observer()
        .refuse_publishes("orders.dead", Refuse::Transient, None);
    app.publish("orders", "1").unwrap();
    app.advance(10 * MINUTE).await;
    let tries = app.stats("fulfil").failed_copies;
    assert!((5..60).contains(&tries), "{tries} tries in ten minutes");
    assert_eq!(
        app.observer().unsettled("orders"),
        1,
        "the original is kept"
    );
    app.observer().take_publishes("orders.dead");
    app.settled().await.unwrap();
    assert_eq!(app.messages("orders.dead").len(), 1);
}

// spec: C5 C13
#[tokio::test(start_paused = true)]
async fn a_failing_publish_stays_with_the_broker_when_the_connection_is_lost() {
    let (app, starts) = answering(Memory::amqp(), dead_letter(1), |_| Outcome::Retry).await;
    app.observer()
        .refuse_publishes("orders.dead", Refuse::Transient, None);
    app.publish("orders", "1").unwrap();
    app.settle_down().await;
    app.observer().keep_offline("fulfil");
    app.advance(MINUTE).await;
    assert_eq!(app.messages("orders").len(), 1, "it is back on the queue");
    app.observer().take_publishes("orders.dead");
    app.observer().let_online("fulfil");
    app.settled().await.unwrap();
    assert_eq!(app.messages("orders.dead").len(), 1);
    assert_eq!(starts.count(), 1, "its cap was spent");
}

// spec: C5
#[tokio::test(start_paused = true)]
async fn a_permanent_refusal_is_tried_once_bare_then_as_a_dead_letter_then_left() {
    // A dead letter that is refused: with headers, without them, then it is left.
    let (app, _) = answering(Memory::amqp(), dead_letter(1), |_| Outcome::Retry).await;
    app.observer()
        .refuse_publishes("orders.dead", Refuse::Permanent, None);
    assert_eq!(app.send("orders", "1").await.fate, Fate::Left);
    assert_eq!(app.stats("fulfil").failed_copies, 2);
    assert_eq!(app.observer().unsettled("orders"), 1);

    // A dead letter that is refused for its headers only.
    let (app, _) = answering(Memory::amqp(), dead_letter(1), |_| Outcome::Retry).await;
    app.observer()
        .refuse_publishes("orders.dead", Refuse::Permanent, Some(1));
    app.send("orders", "1").await;
    let dead = app.messages("orders.dead");
    assert_eq!(dead.len(), 1);
    assert_eq!(header(&dead[0], "x-ruststream-dead-reason"), None);

    // A retry copy that is refused twice becomes a dead letter.
    let (app, _) = answering(Memory::mqtt(), dead_letter(3), |_| Outcome::Retry).await;
    app.publish("orders", "1").unwrap();
    app.observer()
        .refuse_publishes("orders", Refuse::Permanent, None);
    app.settled().await.unwrap();
    assert_eq!(app.messages("orders.dead").len(), 1);
    assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
}

// spec: C10 C11
#[tokio::test(start_paused = true)]
async fn a_dead_letter_says_why_where_and_when_and_does_not_expire() {
    let (app, _) = answering(Memory::amqp(), dead_letter(1), |_| Outcome::Retry).await;
    let message = Message::new("1")
        .with_time_to_live(Duration::from_secs(2))
        .with_priority(5);
    app.send("orders", message).await;
    app.advance(MINUTE).await;
    let dead = app.messages("orders.dead");
    assert_eq!(dead.len(), 1, "it does not expire");
    let said = |name: &str| header(&dead[0], &format!("x-ruststream-dead-{name}"));
    assert_eq!(said("reason").as_deref(), Some("max_attempts"));
    assert_eq!(said("attempts").as_deref(), Some("1"));
    assert_eq!(said("address").as_deref(), Some("orders"));
    assert_eq!(said("handler").as_deref(), Some("fulfil"));
    let at = said("at").unwrap();
    assert!(
        at.len() >= 20 && at.ends_with('Z') && &at[10..11] == "T",
        "{at}"
    );
    assert_eq!(
        (dead[0].time_to_live(), dead[0].priority()),
        (None, Some(5))
    );
}

// spec: C10
#[tokio::test(start_paused = true)]
async fn diagnostic_headers_can_be_turned_off() {
    let bare = |options: &mut Options| {
        dead_letter(1)(options);
        options.dead_letter_headers = Some(false);
    };
    let (app, _) = answering(Memory::amqp(), bare, |_| Outcome::Retry).await;
    app.send("orders", Message::new("1").with_header("tenant", "a"))
        .await;
    let dead = app.messages("orders.dead");
    let names: Vec<String> = dead[0]
        .headers()
        .iter()
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(names, ["tenant"]);
}

// spec: C11
// case: C10
#[tokio::test(start_paused = true)]
async fn bytes_are_never_encoded_again() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let body: Vec<u8> = (0..=u8::MAX).cycle().take(2560).collect();
        let (app, starts) =
            answering(broker, dead_letter(4), |_| Outcome::RetryAfter(MINUTE)).await;
        app.send("orders", Message::new(body.clone())).await;
        assert_eq!(starts.count(), 4);
        assert!(starts.all().iter().all(|start| start.payload == body));
        assert_eq!(app.messages("orders.dead")[0].payload(), &body);
    }
}

/// The address and the id that a handler saw.
type Seen = (String, Option<String>);

// spec: C27
#[tokio::test(start_paused = true)]
async fn copies_say_where_the_first_delivery_came_from_and_share_an_id() {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let script = fulfil().with(dead_letter(3)).runs(
        move |(address, id): (ruststream::extract::Address, ruststream::extract::MessageId)| {
            let id = id.as_str().map(str::to_owned);
            noted.lock().unwrap().push((address.to_string(), id));
            async { Outcome::RetryAfter(MINUTE) }
        },
    );
    let app = start(Memory::amqp(), script).await;
    app.send("orders", "1").await;
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(address, _)| address == "orders"));
    assert_eq!(seen[0].1, None);
    assert!(seen[1].1.is_some() && seen[1].1 == seen[2].1);
}

// spec: C11
// case: A21
#[tokio::test(start_paused = true)]
async fn every_retry_copy_of_a_message_with_an_id_is_delivered() {
    let (app, starts) = answering(Memory::amqp(), dead_letter(5), |_| {
        Outcome::RetryAfter(Duration::ZERO)
    })
    .await;
    app.send("orders", Message::new("1").with_id("m1")).await;
    assert_eq!(starts.count(), 5);
    assert_eq!(app.messages("orders.dead")[0].id(), Some("m1"));
}

fn asking() -> Message {
    Message::new("1").with_reply_to("answers").with_id("q1")
}

fn responder() -> Script {
    fulfil().runs(|_: Bytes| async { Verdict::Answer(Box::new(Message::new("answer"))) })
}

// spec: C28
#[tokio::test(start_paused = true)]
async fn an_answer_is_confirmed_before_the_ack_and_the_handler_is_not_run_again() {
    let app = start(Memory::amqp(), responder()).await;
    app.keep("answers");
    app.observer()
        .refuse_publishes("answers", Refuse::Transient, Some(3));
    app.publish("orders", asking()).unwrap();
    app.settle_down().await;
    assert_eq!(
        words(&app, "fulfil"),
        ["delivered"],
        "not before the answer is there"
    );
    app.settled().await.unwrap();
    assert_eq!(words(&app, "fulfil"), ["delivered", "accepted"]);
    assert_eq!(app.stats("fulfil").starts, 1);
    let answers = app.messages("answers");
    assert_eq!(answers.len(), 1);
    assert_eq!(
        answers[0].correlation_id().map(AsRef::as_ref),
        Some(&b"q1"[..])
    );
}

// spec: C28
#[tokio::test(start_paused = true)]
async fn a_declared_answer_address_goes_before_the_deliverys_own() {
    let app = start(
        Memory::amqp(),
        responder().with(|options| options.reply_to = Some("declared")),
    )
    .await;
    app.send("orders", asking().with_correlation_id("c1")).await;
    let answers = app.messages("declared");
    assert_eq!(
        answers[0].correlation_id().map(AsRef::as_ref),
        Some(&b"c1"[..])
    );
}

// spec: C9
#[tokio::test(start_paused = true)]
async fn a_dead_letter_outcome_goes_there_at_once_and_a_drop_never_does() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let (app, starts) =
            answering(broker.clone(), dead_letter(5), |_| Outcome::DeadLetter).await;
        let journey = app.send("orders", "1").await;
        assert_eq!(
            journey.fate,
            Fate::DeadLettered {
                to: "orders.dead".into()
            }
        );
        assert_eq!(starts.count(), 1);
        let dead = app.observer().take("orders.dead").unwrap().message;
        assert_eq!(
            header(&dead, "x-ruststream-dead-reason").as_deref(),
            Some("outcome")
        );
        app.stop().await.unwrap();

        let (app, _) = answering(broker.clone(), dead_letter(1), |_| Outcome::Drop).await;
        assert_eq!(app.send("orders", "2").await.fate, Fate::Dropped);
        app.stop().await.unwrap();

        let (app, _) = answering(broker, |_| {}, |_| Outcome::DeadLetter).await;
        assert_eq!(app.send("orders", "3").await.fate, Fate::Dropped);
    }
}

// spec: C4 A40
// case: C11
#[tokio::test(start_paused = true)]
async fn a_hundred_failing_messages_give_a_hundred_dead_letters() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let options = |options: &mut Options| {
            dead_letter(1)(options);
            options.concurrency = Some(8);
        };
        let (app, _) = answering(broker, options, |_| Outcome::Retry).await;
        for number in 0..100 {
            app.publish("orders", Message::new("x").with_id(number.to_string()))
                .unwrap();
        }
        app.settled().await.unwrap();
        let ids: std::collections::BTreeSet<String> = app
            .messages("orders.dead")
            .iter()
            .filter_map(|dead| dead.id().map(str::to_owned))
            .collect();
        assert_eq!((app.messages("orders.dead").len(), ids.len()), (100, 100));
        assert_eq!(app.observer().unsettled("fulfil"), 0);
        assert_eq!(app.observer().queue_depth("fulfil"), 0);
    }
}

// spec: C4
// case: C17
#[tokio::test(start_paused = true)]
async fn a_delayed_retry_does_not_double() {
    for broker in [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()] {
        let half = Duration::from_millis(500);
        let cap = |options: &mut Options| options.max_attempts = Some(4);
        let (app, starts) = answering(broker, cap, move |_| Outcome::RetryAfter(half)).await;
        app.publish("orders", "1").unwrap();
        app.advance(Duration::from_millis(200)).await;
        assert_eq!(app.observer().unsettled("fulfil"), 0);
        app.settled().await.unwrap();
        assert_eq!(starts.count(), 4);
    }
}

// spec: C20
// case: C12
#[tokio::test(start_paused = true)]
async fn a_dead_letter_to_the_own_address_is_refused_at_start_up() {
    let script = fulfil().with(|options| options.dead_letter = Some("orders"));
    let error = TestApp::start(Memory::amqp(), Script::app("shop", [script]))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("fulfil"), "{error}");
    assert!(error.to_string().contains("own address"), "{error}");
}

// case: F08
#[tokio::test(start_paused = true)]
async fn a_publish_to_nowhere_fails_at_once() {
    let script = fulfil().runs(|publisher: Publisher| async move {
        match publisher.publish("", "x").await {
            Ok(_) => Outcome::Ack,
            Err(_) => Outcome::Drop,
        }
    });
    let app = start(Memory::amqp(), script).await;
    assert_eq!(app.send("orders", "1").await.fate, Fate::Dropped);
}

// spec: C5
// case: C20
#[tokio::test(start_paused = true)]
async fn a_window_full_of_failing_dead_letters_does_not_spin() {
    let options = |options: &mut Options| {
        dead_letter(1)(options);
        options.concurrency = Some(8);
    };
    let (app, starts) = answering(Memory::amqp(), options, |_| Outcome::Retry).await;
    app.observer()
        .refuse_publishes("orders.dead", Refuse::Transient, None);
    for number in 0..10_000 {
        app.publish("orders", number.to_string()).unwrap();
    }
    app.advance(MINUTE).await;
    assert_eq!(starts.count(), 64, "no more than the window");
    let refused = app
        .events()
        .iter()
        .filter(|event| event.kind == EventKind::Refused)
        .count();
    assert!(refused < 64 * 20, "{refused} tries in a minute");
}
