//! Delayed retries: section C, "Delays and stopping", C6.

use std::time::Duration;

use ruststream::Outcome;
use ruststream::broker::memory::Memory;
use ruststream::policy::Delay;
use ruststream::registration::Options;
use ruststream::testing::Fate;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Start;
use support::Starts;
use support::published;
use support::words;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn brokers() -> [Memory; 3] {
    [Memory::amqp(), Memory::mqtt(), Memory::rabbitmq()]
}

async fn answering(
    broker: Memory,
    options: impl FnOnce(&mut Options),
    answer: impl Fn(&Start) -> Outcome + Send + Sync + 'static,
) -> (TestApp, Starts) {
    let starts = Starts::new();
    let script = Script::address("orders").named("fulfil").with(options);
    let script = starts.answer(script, answer);
    let app = TestApp::start(broker, Script::app("shop", [script]))
        .await
        .expect("the application starts");
    app.keep("orders.dead");
    (app, starts)
}

fn hold(options: &mut Options) {
    options.delay = Some(Delay::Hold);
}

fn first_after(delay: Duration) -> impl Fn(&Start) -> Outcome + Send + Sync {
    move |start| match start.attempt {
        1 => Outcome::RetryAfter(delay),
        _ => Outcome::Ack,
    }
}

// spec: C6
#[tokio::test(start_paused = true)]
async fn hold_keeps_the_original_until_the_copy_is_confirmed_and_survives_a_crash() {
    for broker in brokers() {
        let (mut app, starts) = answering(broker, hold, first_after(MINUTE)).await;
        app.publish("orders", "1").unwrap();
        app.advance(MINUTE.saturating_sub(SECOND)).await;
        assert_eq!(words(&app, "fulfil"), ["delivered"]);
        assert_eq!(app.observer().unsettled("fulfil"), 1);
        app.advance(2 * SECOND).await;
        assert_eq!(
            words(&app, "fulfil"),
            ["delivered", "accepted", "delivered", "accepted"]
        );
        assert_eq!(starts.attempts(), [1, 2]);

        app.publish("orders", "2").unwrap();
        app.advance(SECOND).await;
        app.crash().await;
        app.resume().await.unwrap();
        assert_eq!(starts.count(), 4, "a crash loses nothing");
    }
}

// spec: C6
#[tokio::test(start_paused = true)]
async fn hold_never_holds_more_than_half_the_window() {
    let options = |options: &mut Options| {
        hold(options);
        options.prefetch = Some(8);
    };
    for broker in brokers() {
        let (app, starts) = answering(broker, options, first_after(HOUR)).await;
        for number in 0..8 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.advance(SECOND).await;
        assert_eq!(app.observer().unsettled("fulfil"), 4);
        assert_eq!(starts.count(), 12, "the others were retried at once");
        app.publish("orders", "normal").unwrap();
        app.advance(SECOND).await;
        assert!(
            starts.payloads().contains(&"normal".to_owned()),
            "there is room"
        );
    }
}

// spec: C6
// case: H06
#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_an_immediate_copy() {
    for broker in brokers() {
        for delay in [Delay::Process, Delay::Hold] {
            let options = |options: &mut Options| {
                options.delay = Some(delay);
                options.max_attempts = Some(3);
                options.dead_letter = Some("orders.dead");
            };
            let (app, starts) = answering(broker.clone(), options, |_| {
                Outcome::RetryAfter(Duration::ZERO)
            })
            .await;
            let journey = app.send("orders", "1").await;
            assert_eq!(
                journey.fate,
                Fate::DeadLettered {
                    to: "orders.dead".into()
                }
            );
            assert_eq!(starts.attempts(), [1, 2, 3]);
            assert_eq!(app.messages("orders.dead").len(), 1);
            assert!(app.observer().take("orders.dead").is_some());
            app.stop().await.unwrap();
        }
    }
}

// spec: C6
// case: H01
#[tokio::test(start_paused = true)]
async fn a_delay_of_many_days_is_not_cut() {
    for delay in [
        Duration::from_hours(60 * 24),
        Duration::from_millis(4_294_967_296),
    ] {
        for how in [Delay::Process, Delay::Hold] {
            let options = |options: &mut Options| options.delay = Some(how);
            let (app, starts) = answering(Memory::amqp(), options, first_after(delay)).await;
            app.publish("orders", "1").unwrap();
            app.advance(delay.saturating_sub(SECOND)).await;
            assert_eq!(starts.count(), 1, "{delay:?}");
            app.advance(2 * SECOND).await;
            assert_eq!(starts.count(), 2, "{delay:?}");
        }
    }
}

// case: H03
#[tokio::test(start_paused = true)]
async fn a_long_delay_does_not_hold_back_a_shorter_one() {
    for broker in brokers() {
        let (app, starts) = answering(
            broker,
            |_| {},
            |start| match (start.attempt, start.payload.as_ref()) {
                (1, b"long") => Outcome::RetryAfter(10 * SECOND),
                (1, _) => Outcome::RetryAfter(SECOND),
                _ => Outcome::Ack,
            },
        )
        .await;
        app.publish("orders", "long").unwrap();
        app.publish("orders", "short").unwrap();
        app.advance(2 * SECOND).await;
        assert_eq!(starts.payloads(), ["long", "short", "short"]);
        app.advance(9 * SECOND).await;
        assert_eq!(starts.count(), 4);
    }
}

// spec: C6 C15
// case: H10
#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_in_memory_takes_no_room() {
    for broker in brokers() {
        let narrow = |options: &mut Options| options.prefetch = Some(10);
        let (app, starts) = answering(broker, narrow, |start| match start.payload.as_ref() {
            b"normal" => Outcome::Ack,
            _ => Outcome::RetryAfter(HOUR),
        })
        .await;
        for number in 0..10 {
            app.publish("orders", number.to_string()).unwrap();
        }
        app.publish("orders", "normal").unwrap();
        app.advance(SECOND).await;
        assert_eq!(starts.payloads().last().map(String::as_str), Some("normal"));
        assert_eq!(app.observer().unsettled("fulfil"), 0);
    }
}

// spec: C6
#[tokio::test(start_paused = true)]
async fn a_delay_that_the_broker_or_this_build_cannot_keep_is_refused_at_start_up() {
    for delay in [Delay::Journal, Delay::Broker] {
        let script = Script::address("orders").with(|options| options.delay = Some(delay));
        let error = TestApp::start(Memory::amqp(), Script::app("shop", [script]))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("delay"), "{error}");
    }
}

// spec: A11 C12
// case: H05
#[tokio::test(start_paused = true)]
async fn each_retry_waits_as_long_as_the_handler_asks() {
    let (app, starts) = answering(
        Memory::amqp(),
        |_| {},
        |start| match start.attempt {
            1..=3 => Outcome::RetryAfter(SECOND),
            _ => Outcome::Ack,
        },
    )
    .await;
    app.publish(
        "orders",
        ruststream::Message::new("1").with_header("x-delay", -5000),
    )
    .unwrap();
    app.settled().await.unwrap();
    let at: Vec<Duration> = starts.all().iter().map(|start| start.at).collect();
    for pair in at.windows(2) {
        let gap = pair[1].saturating_sub(pair[0]);
        assert!(
            (SECOND..SECOND + Duration::from_millis(5)).contains(&gap),
            "{gap:?}"
        );
    }
    assert_eq!(published(&app, "orders"), 4);
}
