//! What every driver must pass, unchanged: the same handlers and messages, the same results.
//!
//! A driver's test implements [`Peer`], an independent client of the server, and calls [`check`].
//! What is counted is what a peer sees: messages at addresses and starts of handlers, never the
//! framework's own counters. Where a protocol differs by its nature the [`Rules`] say so, and the
//! expectation follows the specification's table for it.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;

use super::Script;
use crate::App;
use crate::Attempt;
use crate::Error;
use crate::Message;
use crate::Outcome;
use crate::broker::BoxFuture;
use crate::broker::memory::Memory;
use crate::broker::memory::observe::Observer;
use crate::registration::Form;
use crate::registration::Options;

/// An independent client of the server under test, and a hand on its connections.
pub trait Peer: Send + Sync {
    /// What the application under test connects with: given to [`App::broker`].
    fn connect(&self, app: App) -> App;

    /// How the driver's mount points are declared: the form of the address, and options of the protocol.
    fn declare(&self) -> (Form, Options);

    /// What the protocol can say.
    fn rules(&self) -> Rules;

    /// Make `address` keep what is published to it until somebody takes it.
    fn keep<'a>(&'a self, address: &'a str) -> BoxFuture<'a, ()>;

    /// Publish.
    fn publish<'a>(&'a self, address: &'a str, message: Message) -> BoxFuture<'a, ()>;

    /// Take everything that waits at `address`, as another reader would.
    fn take<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Vec<Message>>;

    /// How many messages of `address` the mount point `mount` has not settled, waiting ones included.
    fn left<'a>(&'a self, address: &'a str, mount: &'a str) -> BoxFuture<'a, usize>;

    /// Break the connection of `mount`. It may connect again at once.
    fn cut<'a>(&'a self, mount: &'a str) -> BoxFuture<'a, ()>;

    /// Let this much time pass: virtual where the server's clock is.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;
}

/// What a protocol can say, as far as results differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// A returned delivery comes again on the same connection (AMQP 1.0, RabbitMQ).
    Returning,
    /// It comes again only when the session resumes (MQTT).
    Resuming,
}

/// A result that is not what the specification says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
#[non_exhaustive]
pub struct Deviation {
    /// Which check, in words.
    pub what: String,
    /// What the specification says.
    pub expected: Found,
    /// What was found.
    pub found: Found,
}

/// What is found after a message has gone its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Starts of the handler.
    pub starts: usize,
    /// Messages at the dead letter.
    pub dead: usize,
    /// Messages that are still the mount point's.
    pub left: usize,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { starts, dead, left } = self;
        write!(f, "{starts} starts, {dead} dead letters, {left} left over")
    }
}

/// What a handler comes to in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ack,
    Drop,
    Retry,
    RetryAfter,
    Panic,
    DecodeFailure,
}

const ENDS: [End; 6] = [
    End::Ack,
    End::Drop,
    End::Retry,
    End::RetryAfter,
    End::Panic,
    End::DecodeFailure,
];

const CAP: u32 = 3;
/// An endless retry is let go on for so long, to see that it does.
const ENDLESS: Duration = Duration::from_secs(2);
const DELAY: Duration = Duration::from_millis(100);
/// The longest that a row takes to come to its end.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(20);

/// Run every check; returns all that deviates.
///
/// # Errors
///
/// When an application does not start or does not stop.
pub async fn check(peer: &dyn Peer) -> Result<Vec<Deviation>, Error> {
    let mut deviations = Vec::new();
    for (row, end) in ENDS.into_iter().enumerate() {
        for cap in [None, Some(CAP)] {
            for dead_letter in [false, true] {
                let place = format!("conformance.{row}.{}.{dead_letter}", cap.unwrap_or(0));
                deviations.extend(outcome(peer, &place, end, cap, dead_letter).await?);
            }
        }
    }
    deviations.extend(broken_connection(peer).await?);
    deviations.extend(many_at_once(peer).await?);
    Ok(deviations)
}

/// One row of the matrix outcome × cap × dead letter.
async fn outcome(
    peer: &dyn Peer,
    place: &str,
    end: End,
    cap: Option<u32>,
    dead_letter: bool,
) -> Result<Option<Deviation>, Error> {
    let dead = format!("{place}.dead");
    let record = Record::default();
    let script = script(peer, place, &record, end, |options| {
        options.max_attempts = cap;
        if dead_letter {
            options.dead_letter = Some(crate::config::kind::keep(&dead));
        }
    });
    peer.keep(&dead).await;
    let running = peer
        .connect(Script::app("conformance", [script]))
        .start()
        .await?;
    peer.publish(place, Message::new("payload")).await;
    let expected = expectation(peer.rules(), end, cap, dead_letter);
    let mut found = Found::default();
    let what = format!("{end:?}, cap {cap:?}, dead letter {dead_letter}");
    let Some(expected) = expected else {
        // Endless: it goes on, paced, and nothing is lost.
        peer.pass(ENDLESS).await;
        found.starts = record.starts();
        found.left = peer.left(place, place).await;
        found.dead = peer.take(&dead).await.len();
        running.stop().await?;
        let most = 150;
        let holds = (2..most).contains(&found.starts) && found.dead == 0;
        let expected = Found {
            starts: 2,
            dead: 0,
            left: 1,
        };
        return Ok((!holds).then_some(Deviation {
            what: format!("{what}, endless"),
            expected,
            found,
        }));
    };
    let mut waited = Duration::ZERO;
    let mut dead_letters = 0;
    while waited < PATIENCE {
        peer.pass(STEP).await;
        waited += STEP;
        dead_letters += peer.take(&dead).await.len();
        found = Found {
            starts: record.starts(),
            dead: dead_letters,
            left: peer.left(place, place).await,
        };
        if found == expected {
            break;
        }
    }
    // What is right must stay so: one more of anything would show by now.
    peer.pass(DELAY * 5).await;
    found = Found {
        starts: record.starts(),
        dead: dead_letters + peer.take(&dead).await.len(),
        left: peer.left(place, place).await,
    };
    running.stop().await?;
    Ok((found != expected).then_some(Deviation {
        what,
        expected,
        found,
    }))
}

/// What the specification says; `None` for a retry without end.
fn expectation(rules: Rules, end: End, cap: Option<u32>, dead_letter: bool) -> Option<Found> {
    // A dead letter without a cap is a cap of 1 (spec A53).
    let cap = cap.or(dead_letter.then_some(1));
    let at_the_cap = |cap: u32| Found {
        starts: cap as usize,
        dead: usize::from(dead_letter),
        left: 0,
    };
    match (end, cap) {
        (End::Ack | End::Drop, _) => Some(Found {
            starts: 1,
            dead: 0,
            left: 0,
        }),
        (End::DecodeFailure, _) => Some(Found {
            starts: 0,
            dead: usize::from(dead_letter),
            left: 0,
        }),
        (End::Retry | End::RetryAfter | End::Panic, Some(cap)) => Some(at_the_cap(cap)),
        // MQTT cannot return it: it stays, until the session resumes (spec M6, M18).
        (End::Retry | End::Panic, None) if rules == Rules::Resuming => Some(Found {
            starts: 1,
            dead: 0,
            left: 1,
        }),
        (End::Retry | End::RetryAfter | End::Panic, None) => None,
    }
}

/// What is unsettled when the connection breaks comes again, and is settled once.
async fn broken_connection(peer: &dyn Peer) -> Result<Option<Deviation>, Error> {
    let place = "conformance.broken";
    let record = Record::default();
    let noted = record.clone();
    let (form, mut options) = peer.declare();
    options.concurrency = Some(2);
    let script = Script::of(form, place)
        .named(place)
        .with(|declared| *declared = options)
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            let is_first = noted.note(&payload, attempt) == 1;
            async move {
                // The first delivery is never done: its connection goes first.
                if is_first {
                    std::future::pending::<()>().await;
                }
            }
        });
    let running = peer
        .connect(Script::app("conformance", [script]).drain(STEP))
        .start()
        .await?;
    peer.publish(place, Message::new("payload")).await;
    wait_for(peer, || record.starts() == 1).await;
    peer.cut(place).await;
    wait_for(peer, || record.starts() == 2).await;
    peer.pass(DELAY).await;
    let found = Found {
        starts: record.starts(),
        dead: 0,
        left: peer.left(place, place).await,
    };
    // The first handler still hangs, so this is not an end in time; the message is done.
    drop(running.stop().await);
    let expected = Found {
        starts: 2,
        dead: 0,
        left: 0,
    };
    let what = "a connection that broke while a handler ran".to_owned();
    Ok((found != expected).then_some(Deviation {
        what,
        expected,
        found,
    }))
}

/// Many failing messages at once: each dies once, and none stays.
async fn many_at_once(peer: &dyn Peer) -> Result<Option<Deviation>, Error> {
    let (place, dead) = ("conformance.many", "conformance.many.dead");
    let record = Record::default();
    let script = script(peer, place, &record, End::Retry, |options| {
        options.max_attempts = Some(2);
        options.concurrency = Some(8);
        options.dead_letter = Some(dead);
    });
    peer.keep(dead).await;
    let running = peer
        .connect(Script::app("conformance", [script]))
        .start()
        .await?;
    for number in 0..100 {
        peer.publish(place, Message::new(format!("payload {number}")))
            .await;
    }
    let mut letters = Vec::new();
    let mut waited = Duration::ZERO;
    while waited < PATIENCE && letters.len() < 100 {
        peer.pass(STEP).await;
        waited += STEP;
        letters.extend(peer.take(dead).await);
    }
    peer.pass(DELAY).await;
    letters.extend(peer.take(dead).await);
    letters.sort_by(|one, other| one.payload().cmp(other.payload()));
    letters.dedup_by(|one, other| one.payload() == other.payload());
    let found = Found {
        starts: record.starts(),
        dead: letters.len(),
        left: peer.left(place, place).await,
    };
    running.stop().await?;
    let expected = Found {
        starts: 200,
        dead: 100,
        left: 0,
    };
    let what = "a hundred failing messages, eight at once".to_owned();
    Ok((found != expected).then_some(Deviation {
        what,
        expected,
        found,
    }))
}

async fn wait_for(peer: &dyn Peer, holds: impl Fn() -> bool) {
    let mut waited = Duration::ZERO;
    while !holds() && waited < PATIENCE {
        peer.pass(STEP).await;
        waited += STEP;
    }
}

fn script(
    peer: &dyn Peer,
    place: &str,
    record: &Record,
    end: End,
    change: impl FnOnce(&mut Options),
) -> Script {
    let (form, mut options) = peer.declare();
    change(&mut options);
    let script = Script::of(form, place)
        .named(place)
        .with(|declared| *declared = options);
    let record = record.clone();
    if end == End::DecodeFailure {
        return script.runs(move |_: Undecodable| {
            record.note(&Bytes::new(), Attempt::new(1));
            async { Outcome::Ack }
        });
    }
    script.runs(move |(payload, attempt): (Bytes, Attempt)| {
        record.note(&payload, attempt);
        async move {
            match end {
                End::Ack | End::DecodeFailure => Outcome::Ack,
                End::Drop => Outcome::Drop,
                End::Retry => Outcome::Retry,
                End::RetryAfter => Outcome::RetryAfter(DELAY),
                End::Panic => {
                    std::panic::resume_unwind(Box::new("a panic of the conformance suite"))
                }
            }
        }
    })
}

/// An argument that no payload decodes to.
struct Undecodable;

impl crate::Extract for Undecodable {
    fn extract(_: &mut crate::extract::Incoming<'_>) -> Result<Self, crate::extract::Rejection> {
        Err(crate::extract::Rejection::undecodable(
            "nothing decodes to this",
        ))
    }
}

/// How often the handler was started.
#[derive(Clone, Debug, Default)]
struct Record(Arc<Mutex<Vec<(Bytes, Attempt)>>>);

impl Record {
    fn note(&self, payload: &Bytes, attempt: Attempt) -> usize {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.push((payload.clone(), attempt));
        starts.len()
    }

    fn starts(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The embedded broker as the server under test.
#[derive(Debug)]
pub struct MemoryPeer {
    broker: Memory,
    observer: Observer,
    rules: Rules,
    form: Form,
    options: Options,
}

impl MemoryPeer {
    /// A peer of `broker`, which answers by `rules`.
    #[must_use]
    pub fn new(broker: Memory, rules: Rules) -> Self {
        Self {
            observer: broker.observe(),
            broker,
            rules,
            form: Form::Address,
            options: Options::NONE,
        }
    }

    /// Have mount points declare this.
    #[must_use]
    pub fn declaring(mut self, form: Form, change: impl FnOnce(&mut Options)) -> Self {
        self.form = form;
        change(&mut self.options);
        self
    }
}

impl Peer for MemoryPeer {
    fn connect(&self, app: App) -> App {
        app.broker(self.broker.clone())
    }

    fn declare(&self) -> (Form, Options) {
        (self.form, self.options)
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn keep<'a>(&'a self, address: &'a str) -> BoxFuture<'a, ()> {
        self.broker.declare(address);
        Box::pin(std::future::ready(()))
    }

    fn publish<'a>(&'a self, address: &'a str, message: Message) -> BoxFuture<'a, ()> {
        // A refusal shows as a message that never arrives.
        drop(self.observer.publish(address, message));
        Box::pin(std::future::ready(()))
    }

    fn take<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Vec<Message>> {
        let taken = std::iter::from_fn(|| self.observer.take(address));
        let messages = taken.map(|waiting| waiting.message).collect();
        Box::pin(std::future::ready(messages))
    }

    fn left<'a>(&'a self, _address: &'a str, mount: &'a str) -> BoxFuture<'a, usize> {
        let left = self.observer.queue_depth(mount) + self.observer.unsettled(mount);
        Box::pin(std::future::ready(left))
    }

    fn cut<'a>(&'a self, mount: &'a str) -> BoxFuture<'a, ()> {
        self.observer.cut(mount);
        Box::pin(std::future::ready(()))
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        #[expect(clippy::disallowed_methods, reason = "virtual time")]
        Box::pin(tokio::time::sleep(time))
    }
}
