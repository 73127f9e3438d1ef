use super::testing::Fake;
use super::testing::app;
use super::testing::bare;
use super::testing::handler;
use super::testing::only;
use super::testing::problems;
use super::testing::type_of;
use crate::App;
use crate::Registry;

async fn fulfil() {}
async fn record() {}
async fn stranger() {}

fn shop() -> App {
    app([
        handler("record", "readings").is(|| type_of(record)),
        handler("fulfil", "orders").is(|| type_of(fulfil)),
    ])
}

/// What runs, in order.
fn names(app: &App) -> Vec<String> {
    let description = app.describe().unwrap();
    description
        .mounts
        .iter()
        .map(|mount| mount.place.mount.clone())
        .collect()
}

#[test]
fn handlers_are_found_and_sorted_by_broker_address_and_name() {
    assert_eq!(names(&shop()), ["fulfil", "record"]);
    let plant = handler("a", "a").with(|options| options.broker = Some("plant"));
    let app = app([plant, handler("c", "z"), handler("b", "y")]).named_broker("plant", Fake::new());
    assert_eq!(names(&app), ["b", "c", "a"]);
}

#[test]
fn only_narrows_and_a_mount_turns_finding_off() {
    assert_eq!(names(&shop().only((record,))), ["record"]);
    assert_eq!(names(&shop().only((record, fulfil))), ["fulfil", "record"]);
    assert_eq!(names(&shop().mount(fulfil)), ["fulfil"]);
    assert_eq!(
        names(&shop().only((record,)).mount(fulfil)),
        ["fulfil", "record"]
    );
}

#[test]
fn a_handler_may_be_mounted_twice_under_different_names() {
    let twice = |name: &'static str| {
        shop()
            .mount(fulfil)
            .mount_with(fulfil, move |mount| mount.name(name).address("eu.orders"))
    };
    assert_eq!(names(&twice("fulfil-eu")), ["fulfil", "fulfil-eu"]);
    only(problems(&twice("fulfil")), &["same name"]);
}

#[test]
fn a_function_that_is_no_handler_is_an_error() {
    only(
        problems(&shop().mount(stranger)),
        &["stranger` is not a handler", "#[subscriber(…)]"],
    );
}

#[test]
fn a_group_narrows_and_an_unknown_one_is_an_error() {
    let of = |group| move |options: &mut crate::registration::Options| options.group = Some(group);
    let shop = || {
        app([
            handler("a", "a").with(of("billing")),
            handler("b", "b").with(of("audit")),
            handler("c", "c"),
        ])
    };
    assert_eq!(names(&shop().group("billing")), ["a"]);
    assert_eq!(names(&shop().group("billing").group("audit")), ["a", "b"]);
    only(
        problems(&shop().group("biling")),
        &["`biling`", "did you mean `billing`?"],
    );
}

// case: K01
#[test]
fn no_handler_at_all_is_an_error_that_explains_itself() {
    only(
        problems(&app([])),
        &[
            "no handler is linked",
            "use handlers as _;",
            "#[subscriber]",
        ],
    );
}

#[test]
fn a_missing_broker_is_said_with_the_nearest_known_one() {
    let app = || bare([handler("fulfil", "orders").with(|options| options.broker = Some("audti"))]);
    only(
        problems(&app().named_broker("audit", Fake::new())),
        &[
            "no broker `audti`",
            "did you mean `audit`?",
            "`brokers.audti.url`",
            "(shop::fulfil, src/shop.rs:7)",
        ],
    );
    only(
        problems(&bare([handler("fulfil", "orders")])),
        &["no default broker", "`App::broker`", "brokers.default.url"],
    );
}

#[test]
fn two_brokers_of_one_name_are_an_error() {
    only(
        problems(&shop().broker(Fake::new())),
        &["two brokers are called `default`"],
    );
}

#[test]
fn checking_connects_to_nothing() {
    let fake = Fake::new();
    let app = bare([handler("fulfil", "orders")]).broker(fake.clone());
    assert!(app.check().is_ok());
    assert_eq!(fake.subscriptions(), 0);
}

#[test]
fn a_description_reads_as_an_account() {
    let app = app([handler("fulfil", "orders").with(|options| {
        options.max_attempts = Some(3);
        options.dead_letter = Some("orders.dead");
    })]);
    let text = app.describe().unwrap().to_string();
    for line in [
        "shop: drain 25s (default)",
        "broker default: fake at fake://here",
        "`fulfil` (shop::fulfil, src/shop.rs:7) at `orders` on broker `default`",
        "dead_letter         = \"orders.dead\"  (attribute)",
        "in a crash: unsettled deliveries are delivered again, waiting copies are lost",
    ] {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
}

#[test]
fn the_registry_is_filterable_and_finds_functions() {
    let registry = shop().registry;
    assert_eq!(registry.len(), 2);
    assert_eq!(
        registry.find(record).map(|handler| handler.name),
        Some("record")
    );
    assert!(registry.find(stranger).is_none());
    let narrowed: Registry = registry.filter(|handler| handler.address == "orders");
    assert_eq!(
        narrowed
            .iter()
            .map(|handler| handler.name)
            .collect::<Vec<_>>(),
        ["fulfil"]
    );
}
