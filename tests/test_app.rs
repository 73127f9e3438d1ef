//! How an application is tested: its own handlers, the embedded broker, virtual time.

use std::time::Duration;

use ruststream::App;
use ruststream::Attempt;
use ruststream::Json;
use ruststream::Outcome;
use ruststream::State;
use ruststream::broker::memory::Memory;
use ruststream::config::Config;
use ruststream::subscriber;
use ruststream::testing::Fate;
use ruststream::testing::TestApp;

const MINUTE: Duration = Duration::from_mins(1);

/// How long a reservation takes to try again; zero in stock is never enough.
struct Stock {
    left: u32,
}

/// Takes an order when there is enough in stock, tries again later when not, and thrice at most.
#[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
async fn fulfil(amount: Json<u32>, attempt: Attempt, stock: State<Stock>) -> Outcome {
    match *amount {
        0 => Outcome::drop(),
        amount if amount <= stock.left => Outcome::ack(),
        _ => Outcome::retry_after(MINUTE * attempt.number()),
    }
}

/// Records readings of every plant.
#[subscriber(
    filter = "plant/+/temp",
    retry_topic = "plant/retry/temp",
    max_attempts = 2
)]
async fn record(reading: Json<i32>) -> Result<(), String> {
    if *reading < -273 {
        return Err(format!("{} is below absolute zero", *reading));
    }
    Ok(())
}

fn shop() -> App {
    App::new("shop")
        .config(Config::none())
        .only((fulfil,))
        .state(Stock { left: 10 })
}

fn plant() -> App {
    App::new("plant").config(Config::none()).only((record,))
}

#[tokio::test(start_paused = true)]
async fn an_order_in_stock_is_fulfilled() {
    let app = TestApp::start(Memory::amqp(), shop()).await.unwrap();
    let journey = app.send("orders", "7").await;
    assert_eq!((journey.fate, journey.starts), (Fate::Handled, 1));
    assert_eq!(app.settlements("fulfil").accepted, 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_out_of_stock_is_tried_thrice_and_then_parked() {
    let app = TestApp::start(Memory::amqp(), shop()).await.unwrap();
    app.publish("orders", "11").unwrap();
    app.advance(MINUTE / 2).await;
    assert_eq!(
        app.stats("fulfil").starts,
        1,
        "the second attempt is not due"
    );
    app.advance(MINUTE).await;
    assert_eq!(app.stats("fulfil").starts, 2);
    app.settled().await.unwrap();
    assert_eq!(app.stats("fulfil").starts, 3);
    assert_eq!(app.messages("orders.dead").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_of_nothing_is_dropped() {
    let app = TestApp::start(Memory::rabbitmq(), shop()).await.unwrap();
    assert_eq!(app.send("orders", "0").await.fate, Fate::Dropped);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_order_is_parked_without_a_start() {
    let app = TestApp::start(Memory::amqp(), shop()).await.unwrap();
    let journey = app.send("orders", "many").await;
    let parked = Fate::DeadLettered {
        to: "orders.dead".into(),
    };
    assert_eq!((journey.fate, journey.starts), (parked, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_a_waiting_retry_and_a_stop_does_not() {
    for crash in [true, false] {
        let mut app = TestApp::start(Memory::amqp(), shop()).await.unwrap();
        app.publish("orders", "11").unwrap();
        app.advance(MINUTE / 2).await;
        if crash {
            app.crash().await;
        } else {
            app.pause().await.unwrap();
        }
        assert_eq!(app.messages("orders").len(), usize::from(!crash));
        app.resume().await.unwrap();
        app.settled().await.unwrap();
        assert_eq!(app.messages("orders.dead").len(), usize::from(!crash));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_survives_a_broken_connection() {
    let app = TestApp::start(Memory::mqtt(), plant()).await.unwrap();
    app.observer().keep_offline("record");
    app.publish("plant/7/temp", "21").unwrap();
    app.advance(MINUTE).await;
    assert_eq!(app.stats("record").starts, 0);
    app.observer().let_online("record");
    app.settled().await.unwrap();
    assert_eq!(app.stats("record").acked, 1);
}

#[tokio::test(start_paused = true)]
async fn an_impossible_reading_is_tried_again_by_copy_and_then_abandoned() {
    let app = TestApp::start(Memory::mqtt(), plant()).await.unwrap();
    let journey = app.send("plant/7/temp", "-300").await;
    assert_eq!((journey.fate, journey.starts), (Fate::Dropped, 2));
}
