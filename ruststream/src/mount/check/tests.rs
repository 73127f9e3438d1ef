use std::time::Duration;

use crate::App;
use crate::app::testing::Fake;
use crate::app::testing::Handler;
use crate::app::testing::app;
use crate::app::testing::bare;
use crate::app::testing::handler;
use crate::app::testing::only;
use crate::app::testing::problems;
use crate::app::testing::type_of;
use crate::app::testing::warnings;
use crate::broker::BrokerError;
use crate::config::Config;
use crate::error::ErrorKind;
use crate::policy::BatchOptions;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::registration::Requirements;

/// A handler that dead-letters to `dead`.
fn parks(name: &'static str, address: &'static str, dead: &'static str) -> Handler {
    handler(name, address).with(|options| {
        options.dead_letter = Some(dead);
        options.max_attempts = Some(3);
    })
}

/// A handler that reads a filter and retries to `retry`.
fn filters(name: &'static str, filter: &'static str, retry: &'static str) -> Handler {
    handler(name, filter)
        .form(Form::Filter)
        .with(|options| options.retry_topic = Some(retry))
}

#[track_caller]
fn fine(app: &App) {
    assert_eq!(problems(app), Vec::<String>::new());
}

// case: C12
#[test]
fn a_dead_letter_that_is_the_own_queue_under_another_name_is_refused() {
    only(
        problems(&app([parks("fulfil", "jobs", "/queues/jobs")])),
        &[
            "`fulfil` (shop::fulfil, src/shop.rs:7) at `jobs` on broker `default`",
            "come",
        ],
    );
}

// spec: C20
#[test]
fn a_dead_letter_that_another_handler_reads_needs_its_word() {
    let reader =
        || handler("reader", "dead").with(|options| options.on_decode = Some(OnDecode::Drop));
    let app = |reader: Handler| app([parks("fulfil", "jobs", "/queues/dead"), reader]);
    only(
        problems(&app(reader())),
        &[
            "`fulfil`",
            "`/queues/dead`",
            "`reader` (shop::reader, src/shop.rs:7)",
            "`reads_dead_letters`",
        ],
    );
    fine(&app(
        reader().with(|options| options.reads_dead_letters = true)
    ));
}

// spec: C20 M49 M50
#[test]
fn a_dead_letter_matched_by_a_live_filter_needs_its_word() {
    let watcher = || filters("watcher", "dead/+", "dead/retry");
    let app = |watcher: Handler| app([parks("fulfil", "jobs", "dead/jobs"), watcher]);
    only(problems(&app(watcher())), &["`dead/jobs`", "`watcher`"]);
    fine(&app(
        watcher().with(|options| options.reads_dead_letters = true)
    ));
}

// spec: C20
#[test]
fn a_reader_on_another_broker_makes_no_loop() {
    let reader = handler("reader", "dead").with(|options| options.broker = Some("plant"));
    fine(&app([parks("fulfil", "jobs", "dead"), reader]).named_broker("plant", Fake::new()));
}

// spec: C20
#[test]
fn a_retry_topic_must_be_read_by_someone_or_be_said_to_be_elsewhere() {
    let device = |retry| filters("device", "devices/+/state", retry);
    let elsewhere = |options: &mut Options| options.retry_topic_elsewhere = true;
    fine(&app([device("devices/retry/state")]));
    fine(&app([
        device("retries"),
        handler("again", "retries").form(Form::Topic),
    ]));
    fine(&app([device("retries").with(elsewhere)]));
    only(
        problems(&app([device("retries")])),
        &["`retries`", "`retry_topic_elsewhere`"],
    );
    let disabled = app([
        device("retries"),
        handler("again", "retries").form(Form::Topic),
    ])
    .config(Config::toml("handlers.again.enabled = false"));
    only(problems(&disabled), &["`device`", "`retries`"]);
}

// spec: C20
#[test]
fn an_overridden_address_is_checked_like_a_declared_one() {
    let app = app([parks("fulfil", "jobs", "jobs.dead")])
        .config(Config::toml("handlers.fulfil.dead_letter = \"jobs\""));
    only(
        problems(&app),
        &[
            "configuration text, key `handlers.fulfil.dead_letter`",
            "`fulfil`",
        ],
    );
}

#[test]
fn answers_to_the_own_address_are_noticed() {
    let app = app([handler("echo", "calls").with(|options| options.reply_to = Some("calls"))]);
    only(warnings(&app), &["its answers go to `calls`"]);
}

// spec: C34
// case: K14
#[test]
fn two_handlers_on_one_queue_are_refused_and_both_are_named() {
    let mut other = handler("other", "/queues/jobs");
    other.line = 42;
    let two = |other: Handler| app([handler("one", "jobs"), other]);
    only(
        problems(&two(other)),
        &[
            "(shop::one, src/shop.rs:7)",
            "(shop::other, src/shop.rs:42)",
            "`competes`",
        ],
    );
    fine(&two(other.with(|options| options.competes = true)));
    fine(&two(other.form(Form::Topic)));
    fine(&two(other.with(|options| options.broker = Some("b"))).named_broker("b", Fake::new()));
}

// spec: C34
#[test]
fn two_members_of_one_shared_group_split_its_messages() {
    let member = |name, group| {
        filters(name, "a/+", "a/retry").with(|options| {
            options.mqtt = Some(MqttOptions {
                shared: Some(group),
                ..MqttOptions::NONE
            });
        })
    };
    only(
        problems(&app([member("one", "g"), member("two", "g")])),
        &["`one`", "`two`"],
    );
    fine(&app([member("one", "g"), member("two", "h")]));
    fine(&app([
        filters("one", "a/+", "a/retry"),
        filters("two", "a/+", "a/retry"),
    ]));
}

#[test]
fn two_handlers_of_one_name_are_refused() {
    let mut other = handler("fulfil", "b");
    other.line = 9;
    only(
        problems(&app([handler("fulfil", "a"), other])),
        &["src/shop.rs:7", "src/shop.rs:9", "same name"],
    );
}

#[test]
fn state_that_a_handler_takes_must_be_there() {
    struct Db;
    let needs = || app([handler("fulfil", "jobs").needs(Requirements::state::<Db>)]);
    only(problems(&needs()), &["State<", "Db>", "`App::state`"]);
    fine(&needs().state(Db));
}

#[test]
fn a_batch_is_both_declared_and_taken_or_neither() {
    let batch = Some(BatchOptions {
        size: 8,
        wait: Duration::ZERO,
    });
    let takes = || handler("fulfil", "jobs").needs(Requirements::batch);
    fine(&app([takes().with(|options| options.batch = batch)]));
    only(problems(&app([takes()])), &["batch", "`fulfil`"]);
    only(
        problems(&app([
            handler("fulfil", "jobs").with(|options| options.batch = batch)
        ])),
        &["batch"],
    );
    let mixed = takes()
        .with(|options| options.batch = batch)
        .needs(|needs| {
            needs.batch();
            needs.per_message("Attempt");
        });
    only(problems(&app([mixed])), &["`Attempt`"]);
}

// spec: C8
#[test]
fn a_decoding_handler_that_says_nothing_of_the_undecodable_is_told() {
    let decodes = || handler("fulfil", "jobs").needs(Requirements::decodes);
    only(
        warnings(&app([decodes()])),
        &["cannot be decoded is dropped", "`fulfil`"],
    );
    let told = |handler| assert_eq!(warnings(&app([handler])), Vec::<String>::new());
    told(decodes().with(|options| options.on_decode = Some(OnDecode::Drop)));
    told(decodes().with(|options| options.dead_letter = Some("dead")));
    told(handler("fulfil", "jobs"));
    let configured = app([decodes()]).config(Config::toml("handlers.fulfil.on_decode = \"drop\""));
    assert_eq!(warnings(&configured), Vec::<String>::new());
}

// spec: C6
#[test]
fn a_delay_that_cannot_be_had_is_refused() {
    let delays =
        |delay| bare([handler("fulfil", "jobs").with(|options| options.delay = Some(delay))]);
    let settled = || Fake::new().with(|can| can.settled = true);
    only(
        problems(&delays(Delay::Journal).broker(Fake::new())),
        &["not in this build"],
    );
    only(
        problems(&delays(Delay::Broker).broker(Fake::new())),
        &["cannot delay"],
    );
    only(
        problems(&delays(Delay::Hold).broker(settled())),
        &["settled on arrival"],
    );
    fine(&delays(Delay::Hold).broker(Fake::new()));
    fine(&delays(Delay::Process).broker(settled()));
    fine(&delays(Delay::Broker).broker(Fake::new().with(|can| can.delays = true)));
}

// spec: C6
#[test]
fn rejected_originals_that_the_broker_keeps_are_told() {
    let app =
        bare([handler("fulfil", "jobs")]).broker(Fake::new().with(|can| can.keeps_rejected = true));
    only(warnings(&app), &["rejected original", "hold", "journal"]);
}

// spec: C26
#[test]
fn a_broker_limit_below_the_cap_is_told() {
    let cap = |cap| {
        bare([handler("fulfil", "jobs").with(|options| options.max_attempts = Some(cap))])
            .broker(Fake::new().with(|can| can.delivery_limit = Some(20)))
    };
    only(warnings(&cap(30)), &["20 deliveries", "30 attempts"]);
    assert_eq!(warnings(&cap(20)), Vec::<String>::new());
}

#[test]
fn numbers_that_do_not_fit_together_are_refused() {
    let with = |change: fn(&mut Options)| app([handler("fulfil", "jobs").with(change)]);
    let hold = with(|options| {
        options.delay = Some(Delay::Hold);
        options.prefetch = Some(1);
    });
    only(problems(&hold), &["half of 1 is none"]);
    let workers = with(|options| {
        options.workers = Some(4);
        options.concurrency = Some(2);
    });
    only(problems(&workers), &["`workers` is 4"]);
    fine(&with(|options| options.workers = Some(4)));
    let window = with(|options| {
        options.concurrency = Some(8);
        options.prefetch = Some(4);
    });
    only(warnings(&window), &["a window of 4"]);
    let batch = app([handler("fulfil", "jobs")
        .needs(Requirements::batch)
        .with(|options| {
            options.batch = Some(BatchOptions {
                size: 8,
                wait: Duration::ZERO,
            });
            options.prefetch = Some(4);
        })]);
    only(problems(&batch), &["a batch of 8 never fills"]);
}

#[test]
fn a_handler_that_outlives_a_stop_is_told() {
    let app =
        app([handler("fulfil", "jobs")
            .with(|options| options.timeout = Some(Duration::from_mins(1)))]);
    only(warnings(&app), &["1m,", "25s", "`drain`"]);
}

#[test]
fn what_a_broker_cannot_serve_is_said_with_the_handler() {
    let broker = Fake {
        capabilities: Err(BrokerError::permanent("there are no filters here")),
        ..Fake::new()
    };
    only(
        problems(&bare([handler("fulfil", "jobs")]).broker(broker)),
        &["`fulfil` (shop::fulfil, src/shop.rs:7)", "no filters here"],
    );
}

/// A handler of a filter, whose filter the configuration or the program overrides.
fn device() -> Handler {
    async fn device() {}
    filters("device", "devices/+/state", "devices/retry/state")
        .with(|options| options.retry_topic_elsewhere = true)
        .is(|| type_of(device))
}

// case: F06
#[test]
fn an_overridden_filter_is_held_to_the_grammar() {
    let with = |filter: &str| {
        app([device()]).config(Config::toml(format!(
            "handlers.device.address = \"{filter}\""
        )))
    };
    for filter in ["a/#/b", "a#", "#a", "+a", "a+", "a/b+/c", "a/#/"] {
        only(
            problems(&with(filter)),
            &[
                "key `handlers.device.address`",
                "`device` (shop::device, src/shop.rs:7)",
                filter,
            ],
        );
    }
    for filter in ["#", "+", "/", "a//b", "+/+/#", "/+", "a/+/c"] {
        fine(&with(filter));
    }
}

// case: F05
#[tokio::test]
async fn an_address_that_a_broker_would_hang_up_on_is_refused_before_connecting() {
    async fn jobs() {}
    for address in ["", "a\0b", &"x".repeat(65_536)] {
        let fake = Fake::new();
        let app = || {
            bare([handler("fulfil", "jobs").is(|| type_of(jobs))])
                .broker(fake.clone())
                .mount_with(jobs, |mount| mount.address(address))
        };
        only(
            problems(&app()),
            &["`fulfil` (shop::fulfil, src/shop.rs:7)"],
        );
        let error = app().run_until(std::future::pending()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(fake.subscriptions(), 0, "nothing was connected");
    }
}

// case: F08
#[test]
fn a_configured_dead_letter_with_a_wildcard_is_refused() {
    for key in ["dead_letter", "retry_topic", "reply_to"] {
        let config = Config::toml(format!("handlers.device.{key} = \"dead/#\""));
        only(
            problems(&app([device()]).config(config)),
            &[key, "dead/#", "`device`"],
        );
    }
}

#[test]
fn a_prefix_that_breaks_a_filter_is_said_where_it_stands() {
    let config = |prefix: &str| {
        let reads = handler("all", "#").form(Form::Filter).with(|options| {
            options.retry_topic = Some("again");
        });
        app([reads]).config(Config::toml(format!("prefix = \"{prefix}\"")))
    };
    only(
        problems(&config("staging.")),
        &["key `prefix`", "staging.#"],
    );
    fine(&config("staging/"));
}

#[test]
fn names_must_be_something() {
    async fn jobs() {}
    let app = app([handler("fulfil", "jobs").is(|| type_of(jobs))])
        .mount_with(jobs, |mount| mount.name(""));
    only(problems(&app), &["name"]);
}
