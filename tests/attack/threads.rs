//! Several threads at once: workers, settlers in tasks of their own, timeouts and cut connections
//! race, and every message is accounted for.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::registration::Options;
use ruststream::testing::Script;

use crate::chance::Chance;
use crate::record::number;
use crate::record::watch_panics;

const MESSAGES: u32 = 3_000;
const CAP: u32 = 3;

/// What handlers did, by message.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u32, Fate>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    starts: u32,
    was_dropped: bool,
    was_acked: bool,
}

impl Seen {
    fn with<T>(&self, number: u32, note: impl FnOnce(&mut Fate) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        note(all.entry(number).or_default())
    }

    fn start(&self, payload: &[u8], seed: u64) -> (u32, Chance) {
        let number = number(payload);
        let start = self.with(number, |fate| {
            fate.starts += 1;
            fate.starts
        });
        (
            number,
            Chance::new(seed ^ (u64::from(number) << 32) ^ u64::from(start)),
        )
    }

    fn says(&self, number: u32, outcome: Outcome) {
        self.with(number, |fate| match outcome {
            Outcome::Ack => fate.was_acked = true,
            Outcome::Drop => fate.was_dropped = true,
            _ => {}
        });
    }
}

fn outcome(chance: &mut Chance) -> Outcome {
    *chance.of(&[
        Outcome::Ack,
        Outcome::Ack,
        Outcome::Drop,
        Outcome::Retry,
        Outcome::retry_after(Duration::from_millis(1)),
        Outcome::dead_letter(),
    ])
}

async fn work(chance: &mut Chance) {
    for _ in 0..chance.below(6) {
        tokio::task::yield_now().await;
    }
    match chance.below(12) {
        0 => panic!("a handler panics"),
        1 => std::future::pending().await,
        _ => {}
    }
}

fn threaded(options: &mut Options) {
    options.max_attempts = Some(CAP);
    options.dead_letter = Some("dead");
    options.concurrency = Some(16);
    options.workers = Some(4);
    options.prefetch = Some(64);
    options.timeout = Some(Duration::from_millis(2));
}

fn by_return(fates: &Seen, seed: u64) -> Script {
    let fates = fates.clone();
    Script::address("orders")
        .named("fulfil")
        .with(threaded)
        .runs(move |payload: Bytes| {
            let fates = fates.clone();
            async move {
                let (number, mut chance) = fates.start(&payload, seed);
                work(&mut chance).await;
                let outcome = outcome(&mut chance);
                fates.says(number, outcome);
                outcome
            }
        })
}

fn by_hand(fates: &Seen, seed: u64) -> Script {
    let fates = fates.clone();
    let script = Script::address("orders").named("fulfil").with(threaded);
    script.runs(move |(payload, settler): (Bytes, Settler)| {
        let fates = fates.clone();
        async move {
            let (number, mut chance) = fates.start(&payload, seed);
            let is_elsewhere = chance.one_in(2);
            work(&mut chance).await;
            let outcome = outcome(&mut chance);
            fates.says(number, outcome);
            let settles = async move {
                for _ in 0..chance.below(40) {
                    tokio::task::yield_now().await;
                }
                settle(settler, outcome).await;
            };
            if is_elsewhere {
                spawn(settles);
            } else {
                settles.await;
            }
        }
    })
}

async fn settle(settler: Settler, outcome: Outcome) {
    let said = match outcome {
        Outcome::Ack => settler.ack().await,
        Outcome::Drop => settler.drop().await,
        Outcome::Retry => settler.retry().await,
        Outcome::RetryAfter(delay) => settler.retry_after(delay).await,
        _ => settler.dead_letter().await,
    };
    // A timeout or a cut may have been first.
    said.ok();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task that outlives its handler is what is tested"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Runs to the end; what is wrong with the accounts.
async fn problems(broker: Memory, script: Script, fates: &Seen, cuts: u32) -> Vec<String> {
    let observer = broker.observe();
    let app = Script::app("shop", [script]).broker(broker);
    let handle = app.start().await.expect("it starts");
    for number in 0..MESSAGES {
        let published = observer.publish("orders", number.to_string());
        published.expect("the broker takes it");
        if cuts > 0 && number % (MESSAGES / cuts) == 0 {
            observer.cut("fulfil");
            tokio::task::yield_now().await;
        }
    }
    let ended = observer
        .until(|observer| observer.queue_depth("orders") + observer.unsettled("orders") == 0);
    let is_over = tokio::time::timeout(Duration::from_secs(20), ended)
        .await
        .is_ok();
    let stats = handle.stats();
    let (waiting, unsettled, left) = (
        observer.queue_depth("orders"),
        observer.unsettled("orders"),
        observer.stuck("fulfil"),
    );
    let stopped = handle.stop().await;
    // Copies that waited in memory at that moment left with the stop.
    let kept = ["dead", "orders"].map(|queue| observer.messages(queue));
    let kept: BTreeSet<u32> = kept
        .iter()
        .flatten()
        .map(|waiting| number(waiting.message.payload()))
        .collect();
    let mut problems = Vec::new();
    if !is_over || stopped.is_err() {
        problems.push(format!(
            "in time: {is_over}, stopped: {stopped:?}, {waiting} waiting, {unsettled} unsettled, {left} left; {stats:?}"
        ));
    }
    for at in 0..MESSAGES {
        let fate = fates.with(at, |fate| *fate);
        if !(fate.was_acked || fate.was_dropped || kept.contains(&at)) {
            problems.push(format!("{at} is lost: {fate:?}"));
        }
        if cuts == 0 && fate.starts > CAP {
            problems.push(format!("{at}: {} starts", fate.starts));
        }
    }
    problems
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_race_lose_no_message_and_start_none_too_often() {
    watch_panics();
    for seed in seeds() {
        for cuts in [0, 20] {
            for (kind, script) in [
                ("by return", by_return as fn(&Seen, u64) -> Script),
                ("by hand", by_hand),
            ] {
                let fates = Seen::default();
                let script = script(&fates, seed);
                let problems = problems(Memory::amqp(), script, &fates, cuts).await;
                assert!(
                    problems.is_empty(),
                    "seed {seed}, {kind}, {cuts} cuts: {problems:?}"
                );
            }
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let from = number("ATTACK_SEED").or_else(|| number("ATTACK_FROM"));
    let from = from.unwrap_or(0);
    from..from + number("ATTACK_THREAD_RUNS").unwrap_or(1)
}
