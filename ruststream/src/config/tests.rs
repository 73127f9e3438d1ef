use std::time::Duration;

use super::*;
use crate::App;
use crate::app::testing::Fake;
use crate::app::testing::app;
use crate::app::testing::bare;
use crate::app::testing::handler;
use crate::app::testing::only;
use crate::app::testing::problems;
use crate::app::testing::warnings;

async fn fulfil() {}

fn shop() -> App {
    app([
        handler("fulfil", "orders").with(|options| {
            options.max_attempts = Some(3);
            options.dead_letter = Some("orders.dead");
        }),
        handler("audit::log", "audit"),
    ])
}

/// The effective value of a key, and where it came from.
fn effective(app: &App, mount: &str, key: &str) -> (String, String) {
    let description = app.describe().unwrap();
    let value = description.mount(mount).unwrap().value(key).unwrap();
    (value.value.clone(), value.origin.to_string())
}

fn pair(value: &str, origin: &str) -> (String, String) {
    (value.to_owned(), origin.to_owned())
}

#[test]
fn the_builder_wins_over_variables_over_the_file_over_the_attribute() {
    const VARIABLE: &str = "RUSTSTREAM_HANDLERS__FULFIL__MAX_ATTEMPTS";
    let file = || Config::toml("[handlers.fulfil]\nmax_attempts = 4");
    let both = || file().with_variables([(VARIABLE, "5")]);
    let found = |app: App| effective(&app, "fulfil", "max_attempts");
    let mounted = app([handler("fulfil", "orders").is(|| crate::app::testing::type_of(fulfil))])
        .config(both())
        .mount_with(fulfil, |mount| mount.max_attempts(6));
    assert_eq!(found(shop()), pair("3", "attribute"));
    assert_eq!(
        found(shop().config(file())),
        pair(
            "4",
            "configuration text, key `handlers.fulfil.max_attempts`"
        )
    );
    assert_eq!(
        found(shop().config(both())),
        pair("5", &format!("variable `{VARIABLE}`"))
    );
    assert_eq!(found(mounted), pair("6", "builder"));
}

#[test]
fn what_nothing_says_has_its_default() {
    assert_eq!(
        effective(&shop(), "fulfil", "concurrency"),
        pair("1", "default")
    );
    assert_eq!(
        effective(&shop(), "fulfil", "delay"),
        pair("process", "default")
    );
}

// spec: A53
#[test]
fn a_dead_letter_without_a_cap_is_a_cap_of_one_and_says_so() {
    let app = app([handler("fulfil", "orders").with(|options| options.dead_letter = Some("d"))]);
    assert_eq!(
        effective(&app, "fulfil", "max_attempts"),
        pair("1", "a dead letter without a cap is a cap of 1")
    );
}

#[test]
fn a_configured_dead_letter_leaves_a_declared_cap_alone() {
    let app = app([handler("fulfil", "orders").with(|options| options.max_attempts = Some(4))])
        .config(Config::toml("handlers.fulfil.dead_letter = \"d\""));
    assert_eq!(
        effective(&app, "fulfil", "max_attempts"),
        pair("4", "attribute")
    );
}

#[test]
fn keys_of_protocols_and_odd_names_can_be_configured() {
    let app = shop().config(
        Config::toml(
            "[handlers.\"audit::log\"]\nmqtt = { qos = 2, session_expiry = \"1h\" }\n\
             rabbitmq.arguments = { x-max-length = 10 }",
        )
        .with_variables([("RUSTSTREAM_HANDLERS__AUDIT_LOG__AMQP__DURABLE", "true")]),
    );
    let value = |key| effective(&app, "audit::log", key).0;
    assert_eq!(value("mqtt.qos"), "2");
    assert_eq!(value("mqtt.session_expiry"), "1h");
    assert_eq!(value("amqp.durable"), "true");
    assert_eq!(value("rabbitmq.arguments"), "{ x-max-length = \"10\" }");
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let app = shop().config(
        Config::toml(
            "colour = 1\n[handlers.fulfill]\ntimeout = \"1s\"\n[handlers.fulfil]\nmax_attemps = 3\n\
             max_attempts = \"many\"\nmqtt.qoss = 1\nqos = 1\non_decode = \"retry\"\nmqtt.qos = 3",
        )
        .with_variables([
            ("RUSTSTREAM_HANDLERS__FULFIL__TIMEOUT", "0s"),
            ("RUSTSTREAM_HANDLERS__FULFIL__DEAD_LETTER", ""),
            ("RUSTSTREAM_HANDLERS__RECORD__TIMEOUT", "1s"),
            ("RUSTSTREAM_DRAIN", "soon"),
            ("RUSTSTREAM_HANDLRS__X__Y", "1"),
        ]),
    );
    let found = problems(&app);
    #[rustfmt::skip]
    let expected: &[&[&str]] = &[
        &["key `colour`", "there is no key `colour`", "known: `brokers`, `drain`"],
        &["variable `RUSTSTREAM_HANDLERS__RECORD__TIMEOUT`", "no handler `record`", "known: "],
        &["key `handlers.fulfill`", "no handler `fulfill`", "did you mean `fulfil`?"],
        &["key `handlers.fulfil.max_attemps`", "did you mean `max_attempts`?"],
        &["key `handlers.fulfil.max_attempts`", "a whole number from 1", "found \"many\""],
        &["key `handlers.fulfil.mqtt.qoss`", "did you mean `qos`?"],
        &["key `handlers.fulfil.qos`", "`mqtt.qos`"],
        &["key `handlers.fulfil.on_decode`", "`drop` or `dead_letter`", "found \"retry\""],
        &["key `handlers.fulfil.mqtt.qos`", "0, 1 or 2", "found 3"],
        &["variable `RUSTSTREAM_HANDLERS__FULFIL__TIMEOUT`", "a time above zero", "found \"0s\""],
        &["variable `RUSTSTREAM_HANDLERS__FULFIL__DEAD_LETTER`", "text, not empty"],
        &["variable `RUSTSTREAM_DRAIN`", "a time", "found \"soon\""],
        &["variable `RUSTSTREAM_HANDLRS__X__Y`", "did you mean `handlers`?"],
    ];
    for parts in expected {
        let hit = found
            .iter()
            .any(|text| parts.iter().all(|part| text.contains(part)));
        assert!(hit, "{parts:?} is not in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn a_table_where_a_value_belongs_and_the_reverse_are_said() {
    let found = problems(&shop().config(Config::toml(
        "brokers = 1\n[handlers]\nfulfil = 3\n\"audit::log\" = { mqtt = 1, address = { a = 1 } }",
    )));
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn a_name_that_a_variable_cannot_tell_apart_is_a_problem() {
    let app = app([handler("a.b", "one"), handler("a-b", "two")])
        .config(Config::none().with_variables([("RUSTSTREAM_HANDLERS__A_B__TIMEOUT", "1s")]));
    only(
        problems(&app),
        &["`a_b` means several handlers", "`a.b`", "`a-b`"],
    );
}

#[test]
fn a_file_may_speak_of_handlers_that_run_elsewhere_and_is_checked_all_the_same() {
    let of = |group| move |options: &mut crate::registration::Options| options.group = Some(group);
    let shop = || {
        app([
            handler("one", "1").with(of("a")),
            handler("two", "2").with(of("b")),
        ])
        .group("a")
    };
    let known = shop().config(Config::toml("handlers.two.max_attempts = 2"));
    assert_eq!(problems(&known), Vec::<String>::new());
    let wrong = shop().config(Config::toml("handlers.two.max_attempts = 0"));
    only(problems(&wrong), &["`handlers.two.max_attempts`"]);
}

#[test]
fn a_prefix_goes_before_declared_addresses_only() {
    let app = shop().config(Config::toml(
        "prefix = \"staging.\"\nhandlers.fulfil.dead_letter = \"shared.dead\"",
    ));
    let (address, origin) = effective(&app, "fulfil", "address");
    assert_eq!(address, "\"staging.orders\"");
    assert_eq!(
        origin,
        "attribute with the prefix of configuration text, key `prefix`"
    );
    assert_eq!(
        effective(&app, "fulfil", "dead_letter").0,
        "\"shared.dead\""
    );
}

#[test]
fn a_brokers_own_prefix_takes_the_place_of_the_general_one() {
    let app = app([
        handler("one", "1"),
        handler("two", "2").with(|options| options.broker = Some("plant")),
    ])
    .named_broker("plant", Fake::new())
    .config(Config::toml(
        "prefix = \"staging.\"\nbrokers.plant.prefix = \"staging/\"",
    ));
    assert_eq!(effective(&app, "one", "address").0, "\"staging.1\"");
    assert_eq!(effective(&app, "two", "address").0, "\"staging/2\"");
}

#[test]
fn a_disabled_handler_does_not_run() {
    let app = shop().config(Config::toml("handlers.fulfil.enabled = false"));
    assert!(app.describe().unwrap().mount("fulfil").is_none());
    let none = app_without_enabled();
    only(problems(&none), &["all 2 handlers are disabled"]);
}

fn app_without_enabled() -> App {
    shop().config(Config::toml(
        "handlers.fulfil.enabled = false\nhandlers.\"audit::log\".enabled = false",
    ))
}

#[test]
fn a_drain_from_the_file_is_used_and_the_builder_wins() {
    let configured = || shop().config(Config::toml("drain = \"3s\""));
    assert_eq!(
        configured().describe().unwrap().drain.0,
        Duration::from_secs(3)
    );
    let said = configured()
        .drain(Duration::from_secs(9))
        .describe()
        .unwrap();
    assert_eq!(said.drain, (Duration::from_secs(9), Origin::Builder));
    assert_eq!(
        shop().describe().unwrap().drain,
        (Duration::from_secs(25), Origin::Default)
    );
}

#[test]
fn a_missing_file_is_a_problem_only_when_it_was_named() {
    let app = shop().config(Config::file("no/such/file.toml").without_variables());
    only(problems(&app), &["no/such/file.toml", "cannot be read"]);
}

#[test]
fn a_url_for_a_broker_that_the_program_sets_is_not_used_and_says_so() {
    let app = shop().config(Config::toml(
        "brokers.default.url = \"amqp://svc:secret@elsewhere\"",
    ));
    only(
        warnings(&app),
        &["`brokers.default.url`", "is not used", "`default`"],
    );
}

#[test]
fn a_broker_that_no_handler_uses_is_noticed() {
    let app = shop().config(Config::toml("brokers.defualt.prefix = \"x\""));
    only(
        warnings(&app),
        &[
            "no handler uses the broker `defualt`",
            "did you mean `default`?",
        ],
    );
}

// case: L01
#[test]
fn no_credential_is_ever_shown() {
    const SECRET: &str = "p%40ss-W0rd";
    let url = format!("amqp://svc:{SECRET}@host/v");
    let text = format!(
        "brokers.default.url = \"{url}\"\nbrokers.default.password = \"{SECRET}\"\nbrokers.b.url = {{ x = \"{SECRET}\" }}\n\
         handlers.fulfil.max_attempts = \"{url}\"\nhandlers.fulfil.address_url = \"{url}\""
    );
    let broker = Fake {
        location: "amqp://svc:p%40ss-W0rd@host/v",
        ..Fake::new()
    };
    let config = Config::toml(text);
    let without = bare([handler("fulfil", "orders")]).config(config.clone());
    let with = bare([handler("fulfil", "orders")]).broker(broker);
    let mut shown = vec![
        format!("{config:?}"),
        format!("{without:?}"),
        problems(&without).join("\n"),
        format!("{:?}", without.check().unwrap_err()),
        format!("{}", with.describe().unwrap()),
        format!("{:?}", with.describe().unwrap()),
    ];
    shown.extend(warnings(&with));
    for text in shown {
        assert!(!text.contains("p%40ss") && !text.contains("p@ss"), "{text}");
    }
}
