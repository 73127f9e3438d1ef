//! Every message is accounted for, whatever goes wrong: seeded runs on the embedded broker.
//!
//! A run draws a policy, a broker, what handlers do and what goes wrong from its seed. At its end
//! each message was handled, dropped on purpose, dead-lettered, or is still at the broker; only a
//! copy that waited in memory may have died, with its process.
//!
//! To replay a run: `ATTACK_SEED=17 cargo test --test attack every_message`. To attack for longer:
//! `ATTACK_FROM=1000 ATTACK_RUNS=5000 cargo test --test attack every_message`.

use std::num::NonZeroU32;
use std::time::Duration;

use ruststream::broker::memory::Memory;
use ruststream::error::ErrorKind;
use ruststream::policy::Backoff;
use ruststream::policy::BatchOptions;
use ruststream::policy::Delay;
use ruststream::policy::OnFailure;
use ruststream::registration::MqttOptions;
use ruststream::registration::Options;
use ruststream::registration::QueueType;
use ruststream::registration::RabbitmqOptions;
use ruststream::testing::EventKind;
use ruststream::testing::Refuse;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use ruststream::testing::virtual_time;

use crate::chance::Chance;
use crate::record::Kind;
use crate::record::Record;
use crate::record::faults_of_the_framework;

/// The runs of the committed test.
const RUNS: u64 = 200;
/// More starts of one message than any policy, fault and script here add up to.
const MOST_STARTS: u32 = 120;
const DRAINS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(7),
    Duration::from_secs(25),
];

#[test]
fn every_message_is_accounted_for() {
    crate::record::watch_panics();
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (from, runs) = match number("ATTACK_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("ATTACK_FROM").unwrap_or(0),
            number("ATTACK_RUNS").unwrap_or(RUNS),
        ),
    };
    let mut failed = Vec::new();
    for seed in from..from + runs {
        let problems = virtual_time(Run::new(seed).go());
        if !problems.is_empty() {
            failed.push(format!("ATTACK_SEED={seed}: {}", problems.join("; ")));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {runs} runs failed:\n{}",
        failed.len(),
        failed[..failed.len().min(40)].join("\n")
    );
}

struct Run {
    seed: u64,
    chance: Chance,
    record: Record,
    policy: Policy,
    /// Whether something happened that a broker answers with another delivery.
    was_disturbed: bool,
    /// Whether a broker may have counted a delivery that was never started.
    was_charged: bool,
    holds_confirmations: bool,
    problems: Vec<String>,
    published: u32,
    refusals: Vec<&'static str>,
    log: Vec<String>,
}

/// What is drawn for the whole run.
struct Policy {
    rules: usize,
    options: Options,
    kind: Kind,
    drain: Duration,
    window: u32,
    messages: u32,
}

impl Policy {
    fn draw(chance: &mut Chance) -> Self {
        let rules = chance.below(7);
        let kind = *chance.of(&[Kind::Plain, Kind::Plain, Kind::ByHand, Kind::Batch]);
        let mut options = Options::NONE;
        options.max_attempts = *chance.of(&[None, Some(1), Some(2), Some(3), Some(5)]);
        options.dead_letter = *chance.of(&[None, Some("dead")]);
        let concurrency = *chance.of(&[1, 4]);
        options.concurrency = Some(concurrency);
        options.workers = (concurrency > 1).then(|| *chance.of(&[1, 2, 4]));
        let size = *chance.of(&[1, 2, 3, 8]);
        let batched = kind == Kind::Batch;
        options.batch = batched.then_some(BatchOptions {
            size,
            wait: Duration::from_millis(*chance.of(&[0, 10, 500])),
        });
        let window = *chance.of(&[2, 3, 5, 16]);
        let window = if batched { window.max(size) } else { window };
        options.prefetch = Some(window);
        if !batched && chance.one_in(3) {
            options.ordered_by = Some(|delivery| delivery.payload().len() as u64 % 2);
        }
        options.timeout = *chance.of(&[None, Some(Duration::from_millis(300))]);
        options.delay = Some(*chance.of(&[Delay::Process, Delay::Hold]));
        options.backoff = *chance.of(&[
            None,
            Some(Backoff {
                first: Duration::from_millis(50),
                max: Duration::from_secs(40),
            }),
        ]);
        let mut on =
            || Some(*chance.of(&[OnFailure::Retry, OnFailure::Drop, OnFailure::DeadLetter]));
        (options.on_error, options.on_panic, options.on_timeout) = (on(), on(), on());
        if options.dead_letter.is_none() {
            // Without a dead letter that policy does not pass the checks.
            let retry = |on: Option<OnFailure>| {
                on.map(|on| match on {
                    OnFailure::DeadLetter => OnFailure::Retry,
                    on => on,
                })
            };
            options.on_error = retry(options.on_error);
            options.on_panic = retry(options.on_panic);
            options.on_timeout = retry(options.on_timeout);
        }
        options.on_timeout = options.on_timeout.filter(|_| options.timeout.is_some());
        match rules {
            3 | 4 => {
                let mut mqtt = MqttOptions::NONE;
                mqtt.qos = Some(if rules == 3 { 1 } else { 2 });
                options.mqtt = Some(mqtt);
            }
            5 | 6 => {
                let mut rabbitmq = RabbitmqOptions::NONE;
                rabbitmq.queue_type = Some(if rules == 5 {
                    QueueType::Quorum
                } else {
                    QueueType::Classic
                });
                options.rabbitmq = Some(rabbitmq);
            }
            _ => {}
        }
        Self {
            rules,
            options,
            kind,
            drain: *chance.of(&DRAINS),
            window,
            messages: *chance.of(&[1, 2, 3, 5, 8, 14]),
        }
    }

    fn broker(&self) -> Memory {
        match self.rules {
            0 => Memory::amqp(),
            1 => Memory::amqp().always_counting(),
            2 => Memory::amqp().never_counting(),
            3 | 4 => Memory::mqtt().with_publish_qos(2),
            _ => Memory::rabbitmq(),
        }
    }

    fn cap(&self) -> Option<NonZeroU32> {
        let cap = self.options.max_attempts;
        let cap = cap.or(self.options.dead_letter.map(|_| 1));
        cap.and_then(NonZeroU32::new)
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let policy = Policy::draw(&mut chance);
        let record = Record::new(seed, policy.kind, &policy.options);
        Self {
            seed,
            chance,
            record,
            policy,
            was_disturbed: false,
            was_charged: false,
            holds_confirmations: false,
            problems: Vec::new(),
            published: 0,
            refusals: Vec::new(),
            log: Vec::new(),
        }
    }

    async fn go(mut self) -> Vec<String> {
        let script = Script::address("orders")
            .named("fulfil")
            .with(|options| *options = self.policy.options);
        let app = Script::app("shop", [self.record.script(script)]).drain(self.policy.drain);
        let mut app = match TestApp::start(self.policy.broker(), app).await {
            Ok(app) => app,
            Err(error) => return vec![format!("it does not start: {error}")],
        };
        app.keep("dead");
        for step in 0..6 + self.chance.below(30) {
            self.step(&mut app).await;
            self.look(&app, step);
        }
        self.calm_down(&mut app).await;
        self.account(&app);
        if std::env::var("ATTACK_SEED").is_ok() {
            self.show(&app);
        }
        self.problems
    }

    async fn step(&mut self, app: &mut TestApp) {
        let step = self.chance.below(24);
        self.log.push(format!("{step}"));
        match step {
            0..=6 => self.publish(app, 4).await,
            7..=10 => {
                let millis = *self.chance.of(&[0, 1, 20, 300, 2_000, 70_000]);
                app.advance(Duration::from_millis(millis)).await;
            }
            11 | 12 => {
                self.was_disturbed = true;
                app.cut("fulfil").await;
            }
            13 => {
                self.was_disturbed = true;
                self.record.crash();
                app.crash().await;
                if self.chance.one_in(2) {
                    app.advance(Duration::from_secs(3)).await;
                }
                self.resume(app).await;
            }
            14 | 15 => self.stop(app).await,
            16 | 17 => {
                let address = *self.chance.of(&["orders", "dead"]);
                let how = *self.chance.of(&[Refuse::Transient, Refuse::Permanent]);
                let times = *self.chance.of(&[Some(1), Some(2), Some(7), None]);
                app.observer().refuse_publishes(address, how, times);
                self.refusals.push(address);
            }
            18 => self.take_publishes(app),
            19 => {
                let address = *self.chance.of(&["orders", "dead"]);
                app.observer().hold_confirmations(address);
                self.holds_confirmations = true;
            }
            20 => self.release_confirmations(app),
            21 => {
                self.was_disturbed = true;
                app.observer()
                    .fail_settlements("fulfil", *self.chance.of(&[1, 2, 3]));
            }
            22 => app.observer().hold_settlements("fulfil"),
            _ => app.observer().release_settlements("fulfil"),
        }
    }

    async fn publish(&mut self, app: &TestApp, most: usize) {
        for _ in 0..=self.chance.below(most) {
            if self.published == self.policy.messages {
                return;
            }
            // Of two lengths, so that `ordered_by` has two keys.
            let number = self.published;
            let payload = if number.is_multiple_of(2) {
                format!("{number:03}")
            } else {
                format!("{number:04}")
            };
            if app.publish("orders", payload).is_ok() {
                self.published += 1;
            }
        }
        if self.chance.one_in(2) {
            app.settle_down().await;
        }
    }

    /// Stop in order, or be killed while stopping; then start again.
    async fn stop(&mut self, app: &mut TestApp) {
        if self.chance.one_in(4) {
            self.was_disturbed = true;
            self.record.crash();
            // What begins to wait while it stops may die as well.
            self.record.is_dying(true);
            let patience = Duration::from_millis(700);
            tokio::time::timeout(patience, app.pause()).await.ok();
            self.record.crash();
            self.record.is_dying(false);
            app.settle_down().await;
        } else {
            self.stop_in_order(app).await;
        }
        self.resume(app).await;
    }

    async fn stop_in_order(&mut self, app: &mut TestApp) {
        let (begun, waiting) = (self.record.now(), self.record.waiting());
        if let Err(error) = app.pause().await {
            match error.kind() {
                ErrorKind::DrainTimeout {
                    unfinished,
                    lost_copies,
                } => {
                    self.was_disturbed |= unfinished > 0;
                    if lost_copies > 0 {
                        self.lost_by_a_stop(lost_copies, &waiting);
                    }
                }
                _ => self.problems.push(format!("stopped: {error}: {error:?}")),
            }
        }
        let took = self.record.now().saturating_sub(begun);
        if took > self.policy.drain + Duration::from_secs(5) {
            let drain = self.policy.drain;
            self.problems
                .push(format!("a stop took {took:?} of {drain:?}"));
        }
        // A delivery that was handed out and never started may be counted by the broker.
        self.was_charged = true;
    }

    /// A stop may lose a copy that no broker takes, and says so.
    fn lost_by_a_stop(&mut self, copies: usize, waiting: &[u32]) {
        self.record.at_risk(waiting);
        if self.refusals.is_empty() && !self.holds_confirmations {
            self.problems
                .push(format!("{copies} copies lost for nothing"));
        }
        if self.policy.options.delay == Some(Delay::Hold) {
            self.problems
                .push(format!("{copies} copies lost under `hold`"));
        }
    }

    async fn resume(&mut self, app: &mut TestApp) {
        if let Err(error) = app.resume().await {
            self.problems
                .push(format!("it does not start again: {error}"));
        }
    }

    fn take_publishes(&mut self, app: &TestApp) {
        for address in self.refusals.drain(..) {
            app.observer().take_publishes(address);
        }
    }

    fn release_confirmations(&mut self, app: &TestApp) {
        self.holds_confirmations = false;
        app.observer().release_confirmations("orders");
        app.observer().release_confirmations("dead");
    }

    /// What must hold at every moment.
    fn look(&mut self, app: &TestApp, step: usize) {
        let unsettled = app.observer().unsettled("fulfil");
        if unsettled > self.policy.window as usize {
            self.problems.push(format!(
                "step {step}: {unsettled} unsettled in a window of {}",
                self.policy.window
            ));
        }
    }

    /// Nothing goes wrong any more: everything comes to an end.
    async fn calm_down(&mut self, app: &mut TestApp) {
        self.take_publishes(app);
        self.release_confirmations(app);
        app.observer().release_settlements("fulfil");
        app.observer().fail_settlements("fulfil", 0);
        while self.published < self.policy.messages {
            self.publish(app, 9).await;
        }
        let settled = app.settled().await;
        // What was left for good may fill the window; only MQTT's sessions resume by themselves.
        let is_full = app.observer().unsettled("fulfil") >= self.policy.window as usize;
        if let Err(unsettled) = settled
            && !is_full
        {
            self.problems.push(format!("not settled: {unsettled}"));
        }
        self.look(app, usize::MAX);
        // A session whose window was full of what was left has resumed by itself.
        let resumed = |kind: &EventKind| matches!(kind, EventKind::Requeued);
        self.was_disturbed |= app.events().iter().any(|event| resumed(&event.kind));
        // What is left unsettled is at the broker again.
        app.crash().await;
    }

    fn account(&mut self, app: &TestApp) {
        let read = |queue: &str| -> Vec<u32> {
            let messages = app.messages(queue);
            messages
                .iter()
                .map(|message| crate::record::number(message.payload()))
                .collect()
        };
        let (left, dead) = (read("orders"), read("dead"));
        let left: Vec<u32> = left.into_iter().chain(read("fulfil")).collect();
        for number in 0..self.policy.messages {
            let fate = self.record.fate(number);
            if fate.starts > MOST_STARTS {
                self.problems
                    .push(format!("{number} was started {} times", fate.starts));
            }
            let cap = self.policy.cap().map_or(u32::MAX, NonZeroU32::get);
            if fate.starts > cap && !self.was_disturbed {
                self.problems.push(format!(
                    "{number}: {} starts with a cap of {cap}",
                    fate.starts
                ));
            }
            let is_spent = self.policy.options.dead_letter.is_none()
                && (fate.starts >= cap
                    || (cap < u32::MAX && (self.was_disturbed || self.was_charged)));
            let is_kept = fate.was_acked
                || fate.was_dropped
                || is_spent
                || left.contains(&number)
                || dead.contains(&number);
            if !is_kept && !fate.may_have_died {
                self.problems.push(format!("{number} is lost: {fate:?}"));
            }
        }
        self.problems.extend(self.record.problems());
        let panics = faults_of_the_framework();
        if !panics.is_empty() {
            self.problems.push(format!("panics: {panics:?}"));
        }
        for event in app.events() {
            if let EventKind::Discarded { reason } = event.kind
                && reason != "rejected"
            {
                self.problems.push(format!(
                    "{} discarded: {reason}",
                    crate::record::number(&event.payload)
                ));
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "a replay shows what happened")]
    fn show(&self, app: &TestApp) {
        eprintln!("seed {} steps {:?}", self.seed, self.log);
        eprintln!(
            "rules {} kind {:?} drain {:?} {:#?}",
            self.policy.rules, self.policy.kind, self.policy.drain, self.policy.options
        );
        for event in app.events() {
            eprintln!(
                "{} {} {:?}",
                event.address,
                String::from_utf8_lossy(&event.payload),
                event.kind
            );
        }
        eprintln!("{}", self.record.show());
    }
}
