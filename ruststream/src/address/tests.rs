use proptest::prelude::*;

use super::*;

#[test]
#[rustfmt::skip]
// spec: C21 M40
fn each_form_has_its_grammar() {
    use AddressError::*;
    type Check = fn(&str) -> Result<(), AddressError>;
    let rows: &[(&str, Check, &str, Result<(), AddressError>)] = &[
        ("address",    address,    "orders",          Ok(())),
        ("address",    address,    "orders.#",        Ok(())),
        ("address",    address,    "",                Err(Empty)),
        ("address",    address,    "a\0b",            Err(Nul { at: 1 })),
        ("topic",      topic,      "devices/7/state", Ok(())),
        ("topic",      topic,      "/",               Ok(())),
        ("topic",      topic,      " ",               Ok(())),
        ("topic",      topic,      "$SYS/broker",     Ok(())),
        ("topic",      topic,      "devices/+",       Err(Wildcard { at: 8 })),
        ("topic",      topic,      "a#",              Err(Wildcard { at: 1 })),
        ("filter",     filter,     "#",               Ok(())),
        ("filter",     filter,     "+",               Ok(())),
        ("filter",     filter,     "+/tennis/#",      Ok(())),
        ("filter",     filter,     "/+",              Ok(())),
        ("filter",     filter,     "sport//+",        Ok(())),
        ("filter",     filter,     "sport/tennis#",   Err(PartialWildcard { at: 12 })),
        ("filter",     filter,     "sport+",          Err(PartialWildcard { at: 5 })),
        ("filter",     filter,     "a/+b/c",          Err(PartialWildcard { at: 2 })),
        ("filter",     filter,     "sport/#/ranking", Err(NotLast { at: 6 })),
        ("filter",     filter,     "$share/g/a/+",    Err(Share)),
        ("filter",     filter,     "",                Err(Empty)),
        ("share_name", share_name, "workers",         Ok(())),
        ("share_name", share_name, "a/b",             Err(Slash { at: 1 })),
        ("share_name", share_name, "a+",              Err(Wildcard { at: 1 })),
    ];
    for (name, check, text, expected) in rows {
        assert_eq!(check(text), *expected, "{name}({text:?})");
    }
}

#[test]
fn the_length_is_counted_in_bytes() {
    assert_eq!(topic(&"ä".repeat(32_767)), Ok(()));
    assert_eq!(topic(&"a".repeat(MAX_LENGTH)), Ok(()));
    let error = AddressError::TooLong { length: 65_536 };
    assert_eq!(topic(&"ä".repeat(32_768)), Err(error));
    assert_eq!(filter(&"a".repeat(MAX_LENGTH + 1)), Err(error));
}

#[test]
#[rustfmt::skip]
fn filters_match_as_mqtt_5_section_4_7_says() {
    let rows = [
        ("sport/tennis/player1/#", "sport/tennis/player1",         true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/#",                "sport",                        true),
        ("sport/#",                "sports",                       false),
        ("sport/tennis/+",         "sport/tennis/player1",         true),
        ("sport/tennis/+",         "sport/tennis/player1/ranking", false),
        ("sport/+",                "sport",                        false),
        ("sport/+",                "sport/",                       true),
        ("+/+",                    "/finance",                     true),
        ("/+",                     "/finance",                     true),
        ("+",                      "/finance",                     false),
        ("#",                      "$SYS/broker",                  false),
        ("+/monitor/Clients",      "$SYS/monitor/Clients",         false),
        ("$SYS/#",                 "$SYS/",                        true),
        ("$SYS/monitor/+",         "$SYS/monitor/Clients",         true),
        ("accounts",               "Accounts",                     false),
        ("a/b",                    "a/b",                          true),
        ("a/+/#",                  "a/b",                          true),
        ("a/+/#",                  "a",                            false),
        ("$share/workers/a/+",     "a/b",                          true),
        ("$share/workers/#",       "$SYS/x",                       false),
    ];
    for (filter, topic, expected) in rows {
        assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
    }
}

#[test]
#[rustfmt::skip]
fn filters_are_compared_with_each_other() {
    //  one        other        overlap covers covered
    let rows = [
        ("a/+",    "a/b",       true,   true,  false),
        ("a/+",    "+/b",       true,   false, false),
        ("a/#",    "a",         true,   true,  false),
        ("a/#",    "a/b/c",     true,   true,  false),
        ("a/#",    "a/+/c",     true,   true,  false),
        ("a/+",    "a/#",       true,   false, true),
        ("a/+",    "a/+/b",     false,  false, false),
        ("a/b",    "a/c",       false,  false, false),
        ("#",      "$SYS/#",    false,  false, false),
        ("+/b",    "$SYS/b",    false,  false, false),
        ("a/+/#",  "a",         false,  false, false),
        ("a",      "a",         true,   true,  true),
        ("$share/g/a/+", "a/b", true,   true,  false),
    ];
    for (one, other, overlap, covering, covered) in rows {
        assert_eq!(overlaps(one, other), overlap, "{one} overlaps {other}");
        assert_eq!(overlaps(other, one), overlap, "{other} overlaps {one}");
        assert_eq!(covers(one, other), covering, "{one} covers {other}");
        assert_eq!(covers(other, one), covered, "{other} covers {one}");
    }
}

#[test]
fn an_exact_address_that_reads_like_a_filter_is_noticed() {
    for filter in ["devices/+/state", "devices/#", "#", "+"] {
        assert!(looks_like_filter(filter), "{filter}");
    }
    for exact in [
        "orders",
        "orders.#",
        "a+b/c",
        "/exchange/amq.topic/#",
        "a/#/b",
    ] {
        assert!(!looks_like_filter(exact), "{exact}");
    }
}

#[test]
// case: C12
fn the_names_of_one_queue_are_the_same() {
    for alias in [
        "jobs",
        "/queues/jobs",
        "/queue/jobs",
        "/amq/queue/jobs",
        "queue://jobs",
    ] {
        assert!(same_queue("jobs", alias), "{alias}");
    }
    assert!(!same_queue("jobs", "jobs.dead"));
    assert!(!same_queue("queue://", ""));
}

fn level() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]?", Just("$s".to_owned())]
}

fn some_topic() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..5).prop_map(|levels| levels.join("/"))
}

fn some_filter() -> impl Strategy<Value = String> {
    let levels = prop::collection::vec(prop_oneof![level(), Just("+".to_owned())], 0..4);
    (levels, any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest || levels.is_empty() {
            levels.push("#".to_owned());
        }
        levels.join("/")
    })
}

proptest! {
    #[test]
    fn no_text_makes_a_check_panic(text in any::<String>(), other in any::<String>()) {
        for check in [address, topic, filter, share_name] {
            if let Err(error) = check(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
        prop_assert!(filter(&text).is_err() || address(&text).is_ok(), "a filter is an address");
        prop_assert!(topic(&text).is_err() || filter(&text).is_ok() || text.starts_with("$share/"));
        prop_assert!(same_queue(&text, &text));
        prop_assert_eq!(overlaps(&text, &other), overlaps(&other, &text));
        if covers(&text, &other) && topic(&other).is_ok() {
            prop_assert!(matches(&text, &other));
        }
        prop_assert!(looks_like_filter(&text) <= (text.contains('+') || text.contains('#')));
    }

    #[test]
    fn a_topic_matched_by_two_filters_makes_them_overlap(
        topic in some_topic(), one in some_filter(), other in some_filter(),
    ) {
        if matches(&one, &topic) && matches(&other, &topic) {
            prop_assert!(overlaps(&one, &other));
        }
        if covers(&one, &other) && matches(&other, &topic) {
            prop_assert!(matches(&one, &topic), "what covers a filter matches its topics");
        }
        if covers(&one, &other) {
            prop_assert!(overlaps(&one, &other), "a filter overlaps what it covers");
        }
    }

    #[test]
    fn a_topic_is_a_filter_for_itself_alone(one in some_topic(), other in some_topic()) {
        prop_assert_eq!(matches(&one, &other), one == other);
    }
}
