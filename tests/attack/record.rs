//! What handlers do, and the record of what they did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Once;
use std::sync::PoisonError;
use std::time::Duration;

use ruststream::Attempt;
use ruststream::Batch;
use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::policy::Delay;
use ruststream::policy::OnFailure;
use ruststream::registration::Options;
use ruststream::testing::Script;
use tokio::time::Instant;

use crate::chance::Chance;

/// After so many starts a message is acked, so that every run ends.
const LAST_START: u32 = 9;

/// How handlers take their messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    ByHand,
    Batch,
}

/// What became of a message, as far as handlers know.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Fate {
    pub(crate) starts: u32,
    pub(crate) was_acked: bool,
    /// Its handler, or the policy on its failure, dropped it.
    pub(crate) was_dropped: bool,
    /// Its last answer makes a copy wait.
    is_waiting: bool,
    /// A copy that waited may have died with its process.
    pub(crate) may_have_died: bool,
    said: Vec<&'static str>,
}

#[derive(Clone)]
pub(crate) struct Record(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    seed: u64,
    kind: Kind,
    options: Options,
    begun: Instant,
}

#[derive(Default)]
struct State {
    fates: BTreeMap<u32, Fate>,
    running: BTreeSet<u64>,
    dying: bool,
    problems: Vec<String>,
}

/// What a handler does with one message.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer(Outcome),
    SlowAnswer(Duration, Outcome),
    Fail,
    Panic,
    /// Longer than any timeout; without one it is a slow ack.
    Hang,
}

impl Record {
    pub(crate) fn new(seed: u64, kind: Kind, options: &Options) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            seed,
            kind,
            options: *options,
            begun: now(),
        }))
    }

    pub(crate) fn now(&self) -> Duration {
        now() - self.0.begun
    }

    pub(crate) fn fate(&self, number: u32) -> Fate {
        self.state().fates.get(&number).cloned().unwrap_or_default()
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    pub(crate) fn show(&self) -> String {
        let mut text = String::new();
        for (number, fate) in &self.state().fates {
            writeln!(text, "{number}: {fate:?}").ok();
        }
        text
    }

    /// The process is killed now: what waits in memory may be gone.
    pub(crate) fn crash(&self) {
        let mut state = self.state();
        for fate in state.fates.values_mut() {
            fate.may_have_died |= fate.is_waiting;
        }
        state.running.clear();
    }

    pub(crate) fn waiting(&self) -> Vec<u32> {
        let state = self.state();
        let waiting = state.fates.iter().filter(|(_, fate)| fate.is_waiting);
        waiting.map(|(number, _)| *number).collect()
    }

    /// A stop said that it lost copies: of these, or of what began to wait meanwhile.
    pub(crate) fn at_risk(&self, numbers: &[u32]) {
        let mut state = self.state();
        for (number, fate) in &mut state.fates {
            fate.may_have_died |= fate.is_waiting || numbers.contains(number);
        }
    }

    pub(crate) fn is_dying(&self, dying: bool) {
        self.state().dying = dying;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn script(&self, script: Script) -> Script {
        let record = self.clone();
        match self.0.kind {
            Kind::Plain => script.runs(move |(payload, _): (Bytes, Attempt)| {
                let (number, act) = record.begin(&payload);
                let record = record.clone();
                async move {
                    let guard = Guard::new(&record, vec![number], &payload);
                    let outcome = record.act(number, act).await;
                    guard.done();
                    outcome
                }
            }),
            Kind::ByHand => script.runs(move |(payload, settler): (Bytes, Settler)| {
                let (number, act) = record.begin(&payload);
                let record = record.clone();
                async move {
                    let guard = Guard::new(&record, vec![number], &payload);
                    let outcome = record.by_hand(number, act, settler).await;
                    guard.done();
                    outcome
                }
            }),
            Kind::Batch => script.runs(move |batch: Batch<Bytes>| {
                let acts: Vec<(u32, Act)> = batch.iter().map(|item| record.begin(item)).collect();
                let record = record.clone();
                async move {
                    let numbers = acts.iter().map(|(number, _)| *number).collect();
                    let guard = Guard::new(&record, numbers, b"");
                    let outcome = record.batch(&acts, batch).await;
                    guard.done();
                    outcome
                }
            }),
        }
    }

    fn begin(&self, payload: &[u8]) -> (u32, Act) {
        let number = number(payload);
        let start = {
            let mut state = self.state();
            let fate = state.fates.entry(number).or_default();
            fate.starts += 1;
            fate.is_waiting = false;
            fate.starts
        };
        let mut chance =
            Chance::new(self.0.seed ^ (u64::from(number) << 32) ^ u64::from(start) << 20);
        let delay = *chance.of(&[0, 1, 40, 700, 5_000, 90_000, 4_000_000]);
        let delay = Duration::from_millis(delay);
        let outcome = *chance.of(&[
            Outcome::Ack,
            Outcome::Drop,
            Outcome::Retry,
            Outcome::Retry,
            Outcome::retry_after(delay),
            Outcome::retry_after(delay),
            Outcome::retry_after(delay),
            Outcome::dead_letter(),
        ]);
        let slow = Duration::from_millis(*chance.of(&[1, 100, 250, 2_500]));
        let act = match chance.below(12) {
            _ if start >= LAST_START => Act::Answer(Outcome::Ack),
            0..=4 => Act::Answer(outcome),
            5..=7 => Act::SlowAnswer(slow, outcome),
            8 | 9 => Act::Fail,
            10 => Act::Panic,
            _ => Act::Hang,
        };
        (number, act)
    }

    async fn act(&self, number: u32, act: Act) -> Result<Outcome, String> {
        match act {
            Act::Answer(outcome) => {
                self.answered(number, outcome);
                Ok(outcome)
            }
            Act::SlowAnswer(time, outcome) => {
                sleep(time).await;
                self.answered(number, outcome);
                Ok(outcome)
            }
            Act::Fail => {
                self.failed(number, self.0.options.on_error, "fails");
                Err("no stock".to_owned())
            }
            Act::Panic => {
                self.failed(number, self.0.options.on_panic, "panics");
                panic!("a handler panics");
            }
            Act::Hang => {
                sleep(Duration::from_secs(3)).await;
                self.answered(number, Outcome::Ack);
                Ok(Outcome::Ack)
            }
        }
    }

    async fn by_hand(&self, number: u32, act: Act, settler: Settler) -> Result<Outcome, String> {
        let mut chance = Chance::new(self.0.seed ^ 0x77 ^ u64::from(number));
        let is_last = self.fate(number).starts >= LAST_START;
        match (act, if is_last { 5 } else { chance.below(6) }) {
            // Early, then on for a while.
            (Act::Answer(outcome), 0) => {
                self.settle(number, settler, outcome).await;
                sleep(Duration::from_millis(50)).await;
                Ok(Outcome::Retry)
            }
            // Early, then a failure, which says nothing any more.
            (Act::Answer(outcome), 1) => {
                self.settle(number, settler, outcome).await;
                Err("too late".to_owned())
            }
            // From a task of its own, after the handler.
            (Act::SlowAnswer(time, outcome), 0 | 1) => {
                self.takes_too_long(number, time);
                let record = self.clone();
                spawn(async move {
                    sleep(time).await;
                    record.settle(number, settler, outcome).await;
                });
                Ok(Outcome::Drop)
            }
            // From a task of its own, which drops it after a while.
            (Act::SlowAnswer(time, _), 2) => {
                self.takes_too_long(number, time);
                spawn(async move {
                    sleep(time).await;
                    drop(settler);
                });
                Ok(Outcome::Drop)
            }
            (Act::Answer(_), 2) => {
                drop(settler);
                Ok(Outcome::Drop)
            }
            // Said, and not waited for.
            (Act::SlowAnswer(time, outcome), 3) => {
                sleep(time).await;
                let said =
                    tokio::time::timeout(Duration::ZERO, self.settle(number, settler, outcome));
                said.await.ok();
                Ok(Outcome::Drop)
            }
            (Act::Answer(outcome) | Act::SlowAnswer(_, outcome), _) => {
                self.settle(number, settler, outcome).await;
                Ok(Outcome::Drop)
            }
            (act, even) => {
                let settler = Some(settler).filter(|_| even % 2 == 0);
                let outcome = self.act(number, act).await?;
                if let Some(settler) = settler {
                    self.settle(number, settler, outcome).await;
                }
                Ok(outcome)
            }
        }
    }

    async fn settle(&self, number: u32, settler: Settler, outcome: Outcome) {
        self.answered(number, outcome);
        let said = match outcome {
            Outcome::Ack => settler.ack().await,
            Outcome::Drop => settler.drop().await,
            Outcome::Retry => settler.retry().await,
            Outcome::RetryAfter(delay) => settler.retry_after(delay).await,
            _ => settler.dead_letter().await,
        };
        said.ok();
    }

    async fn batch(&self, acts: &[(u32, Act)], batch: Batch<Bytes>) -> Result<Outcome, String> {
        let mut rest = None;
        for (item, (number, act)) in batch.into_iter().zip(acts) {
            match act {
                Act::Answer(outcome) => {
                    self.answered(*number, *outcome);
                    item.answer(*outcome);
                }
                Act::SlowAnswer(time, _) => {
                    sleep(*time).await;
                    item.abandon();
                }
                act => rest = Some(*act),
            }
        }
        let Some(act) = rest else {
            return Ok(Outcome::Ack);
        };
        // What the batch comes to is what its unanswered items come to.
        for (number, other) in acts {
            if matches!(other, Act::Fail | Act::Panic | Act::Hang) {
                match act {
                    Act::Fail => self.failed(*number, self.0.options.on_error, "fails"),
                    Act::Panic => self.failed(*number, self.0.options.on_panic, "panics"),
                    _ => {}
                }
            }
        }
        match act {
            Act::Fail => Err("no stock".to_owned()),
            Act::Panic => panic!("a handler panics"),
            _ => {
                sleep(Duration::from_secs(3)).await;
                for (number, other) in acts {
                    if matches!(other, Act::Fail | Act::Panic | Act::Hang) {
                        self.answered(*number, Outcome::Ack);
                    }
                }
                Ok(Outcome::Ack)
            }
        }
    }

    fn answered(&self, number: u32, outcome: Outcome) {
        let mut state = self.state();
        let is_dying = state.dying;
        let has_dead_letter = self.0.options.dead_letter.is_some();
        let fate = state.fates.entry(number).or_default();
        fate.said.push(outcome.as_str());
        match outcome {
            Outcome::Ack => fate.was_acked = true,
            Outcome::Drop => fate.was_dropped = true,
            Outcome::DeadLetter if !has_dead_letter => fate.was_dropped = true,
            Outcome::RetryAfter(_) => {
                self.waits(fate, is_dying);
            }
            _ => {}
        }
    }

    fn failed(&self, number: u32, on: Option<OnFailure>, how: &'static str) {
        let mut state = self.state();
        let is_dying = state.dying;
        let fate = state.fates.entry(number).or_default();
        fate.said.push(how);
        self.comes_to(fate, on, is_dying);
    }

    /// The timeout runs until a settler has spoken.
    fn takes_too_long(&self, number: u32, time: Duration) {
        if self
            .0
            .options
            .timeout
            .is_some_and(|timeout| timeout <= time)
        {
            self.failed(number, self.0.options.on_timeout, "times out");
        }
    }

    fn comes_to(&self, fate: &mut Fate, on: Option<OnFailure>, is_dying: bool) {
        match on {
            Some(OnFailure::Drop) => fate.was_dropped = true,
            Some(OnFailure::DeadLetter) => {
                fate.was_dropped |= self.0.options.dead_letter.is_none();
            }
            _ if self.0.options.backoff.is_some() => self.waits(fate, is_dying),
            _ => {}
        }
    }

    fn waits(&self, fate: &mut Fate, is_dying: bool) {
        if self.0.options.delay == Some(Delay::Process) {
            fate.is_waiting = true;
            fate.may_have_died |= is_dying;
        }
    }
}

/// Notices that a handler is dropped before its end, and that two of one key run at once.
struct Guard {
    record: Record,
    numbers: Vec<u32>,
    key: Option<u64>,
    is_done: bool,
}

impl Guard {
    fn new(record: &Record, numbers: Vec<u32>, payload: &[u8]) -> Self {
        let is_alone = record.0.options.workers.is_none_or(|workers| workers < 2);
        let key = record
            .0
            .options
            .ordered_by
            .filter(|_| is_alone)
            .map(|_| payload.len() as u64 % 2);
        if let Some(key) = key
            && !record.state().running.insert(key)
        {
            let problem = format!("two of one key run at once: {numbers:?}");
            record.state().problems.push(problem);
        }
        Self {
            record: record.clone(),
            numbers,
            key,
            is_done: false,
        }
    }

    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let options = &self.record.0.options;
        let mut state = self.record.state();
        if let Some(key) = self.key {
            state.running.remove(&key);
        }
        // A panic has been written down already.
        if self.is_done || std::thread::panicking() {
            return;
        }
        let is_dying = state.dying;
        for number in &self.numbers {
            if let Some(fate) = state.fates.get_mut(number)
                && options.timeout.is_some()
            {
                fate.said.push("interrupted");
                self.record.comes_to(fate, options.on_timeout, is_dying);
            }
        }
    }
}

/// The number that a payload is.
pub(crate) fn number(payload: &[u8]) -> u32 {
    std::str::from_utf8(payload)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(u32::MAX)
}

thread_local! {
    /// Of this test: a run takes place in one thread.
    static FAULTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Panics of handlers are quiet from now on; all others are remembered.
pub(crate) fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = panic
                .location()
                .is_some_and(|at| at.file().contains("attack"));
            if !is_ours {
                FAULTS.with_borrow_mut(|faults| faults.push(panic.to_string()));
            } else if panic.payload_as_str() == Some("a handler panics") {
                return;
            }
            before(panic);
        }));
    });
}

/// The panics that no handler made, since last asked.
pub(crate) fn faults_of_the_framework() -> Vec<String> {
    FAULTS.take()
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task that outlives its handler is what is tested"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

#[expect(clippy::disallowed_methods, reason = "the clock of a test is paused")]
fn now() -> Instant {
    Instant::now()
}
