//! Testing a handler: `cargo run --example testing_a_handler`.
//!
//! A handler is still the function that you wrote, so a unit test calls it. What becomes of its
//! messages is seen in a `TestApp`: the whole application on the embedded broker, in virtual time,
//! by the rules of the protocol that it will meet. Here `main` runs what would be `#[test]`s.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::error::Error;
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::policy::Delay;
use ruststream::testing::{Fate, TestApp, virtual_time};
use ruststream::{App, Attempt, Json, Outcome, State, subscriber};

/// The handler under test: reserves what is in stock, and waits for what is not.
#[subscriber(queue = "reservations", max_attempts = 3, dead_letter = "unavailable")]
async fn reserve(pieces: Json<u32>, attempt: Attempt, stock: State<Stock>) -> Outcome {
    let missing = pieces.saturating_sub(stock.pieces);
    match missing {
        0 => Outcome::ack(),
        _ if *pieces > stock.most => Outcome::drop(),
        _ => Outcome::retry_after(HOUR * attempt.number()),
    }
}

struct Stock {
    pieces: u32,
    most: u32,
}

impl Stock {
    const fn for_tests() -> Self {
        Self {
            pieces: 10,
            most: 100,
        }
    }
}

const HOUR: Duration = Duration::from_hours(1);

/// A unit test calls the function, with arguments made by hand.
async fn the_second_attempt_waits_longer() {
    let stock = State::new(Stock::for_tests());
    let outcome = reserve(Json(11), Attempt::new(2), stock).await;
    assert_eq!(outcome, Outcome::retry_after(2 * HOUR));
}

/// What the function answered is one thing, what becomes of the message another.
async fn what_never_comes_in_is_told_to_purchasing() -> Result<(), Box<dyn Error>> {
    let app = App::new("shop").state(Stock::for_tests()).only((reserve,));
    let app = TestApp::start(Memory::amqp(), app).await?;

    let reserved = app.send("reservations", "3").await;
    assert_eq!(reserved.fate, Fate::Handled);

    app.publish("reservations", "11")?;
    app.advance(2 * HOUR).await;
    assert!(app.messages("unavailable").is_empty(), "it is still tried");
    app.advance(2 * HOUR).await;
    assert_eq!(
        app.messages("unavailable").len(),
        1,
        "three attempts, three hours"
    );

    let absurd = app.send("reservations", "1000").await;
    assert_eq!(absurd.fate, Fate::Dropped);
    assert_eq!(absurd.starts, 1);
    Ok(app.stop().await?)
}

/// Faults are part of the test: this one is why `delay = hold` exists.
async fn a_crash_loses_what_waits_in_the_process_and_not_what_is_held() -> Result<(), Box<dyn Error>>
{
    for (delay, left) in [(Delay::Process, 0), (Delay::Hold, 1)] {
        let app = App::new("shop")
            .state(Stock::for_tests())
            .mount_with(reserve, |mount| mount.delay(delay));
        let mut app = TestApp::start(Memory::amqp(), app).await?;
        app.publish("reservations", "11")?;
        app.settle_down().await;
        assert_eq!(app.stats("reserve").starts, 1);

        app.crash().await;
        app.resume().await?;
        app.advance(12 * HOUR).await;
        assert_eq!(app.messages("unavailable").len(), left, "{delay:?}");
        app.stop().await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    virtual_time(the_second_attempt_waits_longer());
    virtual_time(what_never_comes_in_is_told_to_purchasing())?;
    virtual_time(a_crash_loses_what_waits_in_the_process_and_not_what_is_held())?;
    println!("three tests passed, and a day and more took no time");
    Ok(())
}
