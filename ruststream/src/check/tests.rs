use super::*;

#[test]
#[rustfmt::skip]
// spec: C20 C21
// case: C12
fn a_dead_letter_must_not_come_back() {
    let rows = [
        (Form::Address, "orders", "orders",         false),
        (Form::Address, "orders", "orders.dead",    true),
        (Form::Queue,   "jobs",   "/queues/jobs",   false),
        (Form::Filter,  "a/+",    "a/dead",         false),
        (Form::Filter,  "a/+",    "dead/a",         true),
        (Form::Filter,  "#",      "$dead/a",        true),
    ];
    for (form, own, dead, allowed) in rows {
        let mqtt = form == Form::Filter;
        assert_eq!(dead_letter(form, mqtt, own, dead).is_ok(), allowed, "{own} {dead}");
    }
}

#[test]
fn a_message_names_key_value_and_cure() {
    let problem = source(Form::Address, false, "devices/+/state").unwrap_err();
    assert_eq!(problem.key(), "address");
    assert_eq!(
        problem.to_string(),
        "`address = \"devices/+/state\"` has wildcards, but `address` is exact: \
         write `filter = \"devices/+/state\"` to read every topic it matches"
    );
    let problem = dead_letter(Form::Queue, false, "jobs", "queue://jobs").unwrap_err();
    assert_eq!(
        problem.to_string(),
        "`dead_letter = \"queue://jobs\"` is this handler's own queue, so dead letters would come \
         straight back: name another one, as in `dead_letter = \"jobs.dead\"`"
    );
}

#[test]
// spec: C21
fn nothing_is_published_to_a_wildcard() {
    for key in ["retry_topic", "dead_letter", "reply_to"] {
        for value in ["dead/+", "dead/#"] {
            let problem = target(key, false, value).unwrap_err();
            assert_eq!(problem, Problem::PublishWildcard { key, value });
        }
        assert!(
            target(key, true, "a+b").is_err(),
            "MQTT knows no other use of `+`"
        );
        assert!(
            target(key, false, "a+b").is_ok(),
            "an AMQP address may have a `+`"
        );
    }
}
