//! A small shop on the embedded broker: `cargo run --example orders`. No server is needed.
//!
//! ```text
//! orders ─> accept ─> payments ─> charge ─> parcels ─> ship
//!              └──────────────────────┴─> dead ─> file <─┘
//! ```
//!
//! Every order goes this way, and not every order has it easy: some are tried again at once, some
//! later, some are dropped, some end as dead letters. The program tells what happens to each, ends
//! by itself, and checks that its totals add up.
#![allow(clippy::print_stdout, reason = "it tells what happens")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ruststream::app::{Monitor, MountStatus};
use ruststream::broker::memory::Memory;
use ruststream::extract::Rejection;
use ruststream::stats::Stats;
use ruststream::{
    App, Attempt, DeadLetter, Failure, IntoMessage, Json, Message, MessageId, Outcome,
    PublishError, Publisher, State, subscriber,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let book = Arc::new(Book::open());
    let shop = App::new("shop")
        .broker(Memory::new())
        .state(Arc::clone(&book))
        .start()
        .await?;

    let orders = orders()?;
    let published = orders.len();
    for order in orders {
        shop.publisher().publish("orders", order).await?;
    }
    timeout(Duration::from_secs(15), book.closed(published)).await?;

    let monitor = shop.monitor();
    shop.stop().await?;
    settle_accounts(published, &book, &monitor)
}

// ---- The handlers ------------------------------------------------------------------------------

/// Accepts an order: publishes it to the next queue, and says what becomes of the delivery.
#[subscriber(queue = "orders", max_attempts = 3, dead_letter = "dead")]
async fn accept(
    order: Json<Order>,
    attempt: Attempt,
    publisher: Publisher,
    book: State<Arc<Book>>,
) -> Result<Outcome, PublishError> {
    if order.quantity == 0 {
        book.write(&order.id, "accept", attempt, "nothing is ordered: dropped");
        book.close(&order.id, Fate::Dropped);
        return Ok(Outcome::drop());
    }
    publisher.publish("payments", &order).await?;
    let goods = format!("{} x {}", order.quantity, order.item);
    book.write(&order.id, "accept", attempt, goods);
    Ok(Outcome::ack())
}

/// Charges the card. The order it returns is published to the next queue; what its errors mean is
/// said where they are declared.
#[subscriber(
    queue = "payments",
    reply_to = "parcels",
    max_attempts = 4,
    dead_letter = "dead"
)]
async fn charge(
    order: Json<Order>,
    attempt: Attempt,
    book: State<Arc<Book>>,
) -> Result<Json<Order>, Declined> {
    match ask_the_bank(order.card, attempt) {
        Ok(()) => {
            book.write(&order.id, "charge", attempt, "paid");
            Ok(order)
        }
        Err(declined) => {
            book.write(&order.id, "charge", attempt, &declined);
            Err(declined)
        }
    }
}

/// Why a card is not charged, and what that means for the order.
#[derive(Debug, Failure, thiserror::Error)]
enum Declined {
    #[failure(retry_after = "1s")]
    #[error("the bank is busy")]
    BankIsBusy,
    #[failure(retry_after = "800ms")]
    #[error("there is no money on the card")]
    NoMoney,
    #[failure(dead_letter)]
    #[error("the card is stolen")]
    Stolen,
}

/// Hands the parcel over, and rings again at once if nobody opens.
#[subscriber(queue = "parcels", max_attempts = 3, dead_letter = "dead")]
async fn ship(order: Json<Order>, attempt: Attempt, book: State<Arc<Book>>) -> Outcome {
    match order.door {
        Door::OpensLate if attempt.is_first() => {
            book.write(&order.id, "ship", attempt, "nobody opens");
            Outcome::retry()
        }
        Door::NeverOpens => {
            book.write(&order.id, "ship", attempt, "nobody opens");
            Outcome::retry()
        }
        Door::Opens | Door::OpensLate => {
            book.write(&order.id, "ship", attempt, "delivered");
            book.close(&order.id, Fate::Fulfilled);
            Outcome::ack()
        }
    }
}

/// Files the dead letters of the others. An order that nobody can read is known by its message's id.
#[subscriber(queue = "dead", reads_dead_letters)]
async fn file(
    order: Result<Json<Order>, Rejection>,
    id: MessageId,
    letter: DeadLetter,
    attempt: Attempt,
    book: State<Arc<Book>>,
) {
    let id = match &order {
        Ok(order) => &order.id,
        Err(_) => id.as_str().unwrap_or("?"),
    };
    book.write(id, "file", attempt, letter);
    book.close(id, Fate::DeadLettered);
}

// ---- What they work on -------------------------------------------------------------------------

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Order {
    id: String,
    item: String,
    quantity: u32,
    card: Card,
    door: Door,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Card {
    Good,
    Slow,
    Empty,
    Stolen,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Door {
    Opens,
    OpensLate,
    NeverOpens,
}

/// The bank answers for a slow card at the third time of asking.
fn ask_the_bank(card: Card, attempt: Attempt) -> Result<(), Declined> {
    match card {
        Card::Slow if attempt.number() < 3 => Err(Declined::BankIsBusy),
        Card::Good | Card::Slow => Ok(()),
        Card::Empty => Err(Declined::NoMoney),
        Card::Stolen => Err(Declined::Stolen),
    }
}

/// The orders of the day, as messages.
fn orders() -> Result<Vec<Message>, Box<dyn Error>> {
    #[rustfmt::skip]
    let orders = [
        ("1001", "lamp",    1, Card::Good,   Door::Opens),
        ("1002", "chair",   4, Card::Good,   Door::Opens),
        ("1003", "table",   1, Card::Slow,   Door::Opens),
        ("1004", "mirror",  1, Card::Good,   Door::OpensLate),
        ("1005", "carpet",  0, Card::Good,   Door::Opens),
        ("1006", "teapot",  2, Card::Empty,  Door::Opens),
        ("1007", "clock",   1, Card::Stolen, Door::Opens),
        ("1008", "vase",    3, Card::Good,   Door::NeverOpens),
        ("1009", "shelf",   2, Card::Slow,   Door::OpensLate),
        ("1010", "candle", 12, Card::Good,   Door::Opens),
    ];
    let mut messages = Vec::new();
    for (id, item, quantity, card, door) in orders {
        let order = Order {
            id: id.to_owned(),
            item: item.to_owned(),
            quantity,
            card,
            door,
        };
        messages.push(Json(order).into_message()?.with_id(id));
    }
    messages.push(Message::new("one sofa, please").with_id("1011"));
    Ok(messages)
}

// ---- The book ----------------------------------------------------------------------------------

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fulfilled,
    Dropped,
    DeadLettered,
}

/// What the shop writes down. Handlers share it as `State<Arc<Book>>`.
struct Book {
    opened: Instant,
    fates: Mutex<BTreeMap<String, Vec<Fate>>>,
    changed: Notify,
}

impl Book {
    #[expect(
        clippy::disallowed_methods,
        reason = "the account shows what delays do"
    )]
    fn open() -> Self {
        println!("   time  order  handler  attempt  what happened");
        Self {
            opened: Instant::now(),
            fates: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// One line about one attempt.
    fn write(&self, order: &str, handler: &str, attempt: Attempt, what: impl Display) {
        let time = self.opened.elapsed().as_secs_f32();
        println!("{time:5.2} s  {order:5}  {handler:7}  {attempt:>7}  {what}");
    }

    /// An order has come to its end.
    fn close(&self, order: &str, fate: Fate) {
        self.with_fates(|fates| fates.entry(order.to_owned()).or_default().push(fate));
        self.changed.notify_one();
    }

    /// Wait until so many orders have come to their end.
    async fn closed(&self, count: usize) {
        while self.with_fates(|fates| fates.len()) < count {
            self.changed.notified().await;
        }
    }

    /// How often an order ended so.
    fn count(&self, fate: Fate) -> usize {
        let is_it = |it: &&Fate| **it == fate;
        self.with_fates(|fates| fates.values().flatten().filter(is_it).count())
    }

    /// Whether no order ended twice.
    fn is_consistent(&self) -> bool {
        self.with_fates(|fates| fates.values().all(|fates| fates.len() == 1))
    }

    fn with_fates<R>(&self, work: impl FnOnce(&mut BTreeMap<String, Vec<Fate>>) -> R) -> R {
        work(&mut self.fates.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// ---- The totals --------------------------------------------------------------------------------

/// Print the totals, of orders and of deliveries, and hold them against each other.
fn settle_accounts(published: usize, book: &Book, monitor: &Monitor) -> Result<(), Box<dyn Error>> {
    let road = ["accept", "charge", "ship", "file"];
    let mounts = road.map(|name| {
        monitor
            .mount(name)
            .expect("it is a handler of this program")
    });
    println!();
    println!("handler  delivered  started  acked  retried  dropped  dead-lettered");
    for MountStatus { name, stats, .. } in &mounts {
        println!(
            "{name:7}  {:9}  {:7}  {:5}  {:7}  {:7}  {:13}",
            stats.deliveries,
            stats.starts,
            stats.acked,
            stats.retried,
            stats.dropped,
            stats.dead_lettered
        );
    }

    let fulfilled = book.count(Fate::Fulfilled);
    let dropped = book.count(Fate::Dropped);
    let dead_lettered = book.count(Fate::DeadLettered);
    println!();
    println!("{published:3} published");
    println!("{fulfilled:3} fulfilled");
    println!("{dropped:3} dropped");
    println!("{dead_lettered:3} dead-lettered");

    let sum = |of: fn(&Stats) -> u64| -> u64 { mounts.iter().map(|it| of(&it.stats)).sum() };
    let checks = [
        (
            "each order ended once",
            book.is_consistent() && fulfilled + dropped + dead_lettered == published,
        ),
        (
            "each delivery was settled once",
            mounts.iter().all(|MountStatus { stats, .. }| {
                stats.acked + stats.retried + stats.dropped + stats.dead_lettered
                    == stats.deliveries
            }),
        ),
        (
            "what was dropped was meant to be",
            sum(|stats| stats.dropped) == dropped as u64,
        ),
        (
            "each dead letter was filed",
            sum(|stats| stats.dead_lettered) == dead_lettered as u64,
        ),
    ];
    println!();
    for (what, holds) in checks {
        println!("{} {what}", if holds { "yes:" } else { " NO:" });
    }
    if checks.iter().all(|(_, holds)| *holds) {
        Ok(())
    } else {
        Err("the totals do not add up".into())
    }
}
