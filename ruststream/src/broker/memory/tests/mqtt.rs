//! MQTT 5's rules.

use std::time::Duration;

use super::super::observe::EventKind;
use super::*;
use crate::registration::MqttOptions;

fn filter(filter: &'static str, options: MqttOptions) -> Subscription {
    Subscription {
        mqtt: Some(options),
        ..subscription(Form::Filter, filter, 8)
    }
}

fn named(mount: &'static str, subscription: Subscription) -> Subscription {
    Subscription {
        mount: mount.into(),
        ..subscription
    }
}

fn qos(qos: u8) -> MqttOptions {
    MqttOptions {
        qos: Some(qos),
        ..MqttOptions::NONE
    }
}

fn shared(group: &'static str) -> MqttOptions {
    MqttOptions {
        shared: Some(group),
        ..MqttOptions::NONE
    }
}

// spec: M3 M4 M5
#[test]
fn an_acknowledged_message_does_not_come_back_whichever_word_was_used() {
    for how in [Disposition::Accept, Disposition::Reject] {
        let broker = Memory::mqtt();
        let observer = broker.observe();
        let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
        publish(&broker, "a/b", "1");
        assert_eq!(reader.settle_all(how), ["1"]);
        observer.cut("reader");
        assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
        assert_eq!(reader.connected(), 2);
        assert_eq!(reader.payload(), None);
    }
}

// spec: M7 M15 M18 M19 M23
#[test]
fn an_unacknowledged_message_comes_back_only_when_the_session_resumes() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    publish(&broker, "a/b", "1");
    publish(&broker, "a/c", "2");
    let first = reader.next().expect("it is there");
    assert!(!first.is_redelivered());
    reader.leave(first);
    assert_eq!(reader.settle_all(Disposition::Accept), ["2"]);
    assert_eq!(reader.payload(), None, "never on this connection");
    observer.cut("reader");
    assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
    assert_eq!(reader.connected(), 2);
    let again = reader.next().expect("the session resumed");
    assert_eq!(text(&again), "1");
    assert!(again.is_redelivered());
    assert_eq!(again.counted, None, "MQTT does not count");
    assert_eq!(reader.payload(), None);
}

// spec: M19
#[test]
fn a_session_that_ended_gives_nothing_back() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    publish(&broker, "a/b", "1");
    assert_eq!(reader.payloads(), ["1"]);
    drop(reader);
    observer.end_session("reader");
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    assert_eq!(reader.payload(), None);
}

// spec: M6 M14 M16 M18
#[test]
fn a_return_has_no_word_and_the_message_stays_unacknowledged() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    publish(&broker, "a/b", "1");
    let mut delivery = reader.next().expect("it is there");
    assert_eq!(
        reader.settle(&mut delivery, Disposition::Return),
        Err(AckError::Unsupported)
    );
    assert_eq!(observer.unsettled("reader"), 1);
    assert_eq!(observer.stuck("reader"), 1);
}

// spec: M20 M21 M22
#[tokio::test(start_paused = true)]
async fn deliveries_left_unacknowledged_fill_the_window_and_qos_0_still_arrives() {
    let broker = Memory::mqtt();
    let mut reader = Reader::connect(
        &broker,
        Subscription {
            window: 2,
            ..filter("a/+", qos(1))
        },
    );
    for payload in ["1", "2", "3"] {
        publish(&broker, "a/b", payload);
    }
    for _ in 0..2 {
        let delivery = reader.next().expect("it is there");
        reader.leave(delivery);
    }
    assert_eq!(reader.payload(), None, "the window is full");
    publish(&broker.clone().with_publish_qos(0), "a/b", "free");
    let free = reader.next().expect("QoS 0 is outside the window");
    assert_eq!(text(&free), "free");
    assert!(free.token.is_none());
    assert_eq!(reader.payload(), None);
}

// spec: C15
#[tokio::test(start_paused = true)]
async fn a_full_window_of_left_deliveries_connects_again_once_a_minute() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let mut reader = Reader::connect(
        &broker,
        Subscription {
            window: 1,
            ..filter("a/+", qos(1))
        },
    );
    publish(&broker, "a/b", "1");
    for epoch in 2..5 {
        let delivery = reader.next().expect("it is there");
        reader.leave(delivery);
        assert!(reader.arrival().is_none());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(reader.arrival().is_none(), "the minute is not over");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
        assert_eq!(reader.connected(), epoch);
    }
    assert_eq!(observer.connects("reader"), 4);
}

// spec: C25
#[test]
fn a_publish_that_nobody_reads_is_taken_and_gone() {
    let broker = Memory::mqtt();
    assert_eq!(
        try_publish(&broker, "a/b", "1").expect("taken"),
        Published::Unread
    );
    assert_eq!(broker.observe().queue_depth("a/b"), 0);
}

// spec: M40
#[test]
fn a_wildcard_cannot_be_published_to() {
    let broker = Memory::mqtt();
    for topic in ["a/+", "a/#", ""] {
        let error = try_publish(&broker, topic, "1").expect_err("refused");
        assert!(!error.is_transient());
    }
}

// spec: M48
#[test]
fn a_message_reaches_every_session_whose_filter_matches() {
    let broker = Memory::mqtt();
    let mut one = Reader::connect(&broker, named("one", filter("a/+", qos(1))));
    let mut all = Reader::connect(&broker, named("all", filter("#", qos(2))));
    let mut exact = Reader::connect(&broker, named("exact", subscription(Form::Topic, "a/b", 8)));
    publish(&broker, "a/b", "1");
    publish(&broker, "a/b/c", "2");
    assert_eq!(one.settle_all(Disposition::Accept), ["1"]);
    assert_eq!(all.settle_all(Disposition::Accept), ["1", "2"]);
    assert_eq!(exact.settle_all(Disposition::Accept), ["1"]);
}

#[test]
fn a_session_keeps_what_is_published_while_it_is_away_but_not_at_qos_0() {
    let broker = Memory::mqtt();
    let first = Reader::connect(&broker, named("first", filter("a/+", qos(1))));
    let second = Reader::connect(&broker, named("second", filter("a/+", qos(0))));
    first.close();
    second.close();
    publish(&broker, "a/b", "1");
    let mut first = Reader::connect(&broker, named("first", filter("a/+", qos(1))));
    let mut second = Reader::connect(&broker, named("second", filter("a/+", qos(0))));
    let delivery = first.next().expect("it was kept");
    assert!(!delivery.is_redelivered(), "it was never sent");
    assert_eq!(second.payload(), None);
}

// spec: M31
#[test]
fn at_qos_0_everything_is_settled_on_arrival() {
    let broker = Memory::mqtt();
    let subscription = filter("a/+", qos(0));
    assert!(broker.capabilities(&subscription).expect("served").settled);
    let mut reader = Reader::connect(&broker, subscription);
    publish(&broker, "a/b", "1");
    let delivery = reader.next().expect("it is there");
    assert!(delivery.token.is_none());
    assert_eq!(broker.observe().unsettled("reader"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_as_long_as_it_asked_for() {
    for (away, expected) in [(59, vec!["1"]), (60, vec![])] {
        let broker = Memory::mqtt();
        let options = MqttOptions {
            session_expiry: Some(Duration::from_mins(1)),
            ..MqttOptions::NONE
        };
        Reader::connect(&broker, filter("a/+", options)).close();
        send(&broker, "a/b", "1");
        tokio::time::advance(Duration::from_secs(away)).await;
        let mut reader = Reader::connect(&broker, filter("a/+", options));
        assert_eq!(reader.payloads(), expected, "{away} s");
    }
}

#[test]
fn a_session_without_expiry_ends_with_its_connection() {
    let broker = Memory::mqtt();
    let options = MqttOptions {
        session_expiry: Some(Duration::ZERO),
        ..MqttOptions::NONE
    };
    let mut reader = Reader::connect(&broker, filter("a/+", options));
    publish(&broker, "a/b", "1");
    assert_eq!(reader.payloads(), ["1"]);
    broker.observe().cut("reader");
    assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
    assert_eq!(reader.connected(), 2);
    assert_eq!(reader.payload(), None);
}

#[test]
fn a_shared_group_gives_each_message_to_one_member() {
    let broker = Memory::mqtt();
    assert!(
        !broker
            .capabilities(&filter("a/+", shared("g")))
            .expect("served")
            .fan_out
    );
    let mut one = Reader::connect(&broker, named("one", filter("a/+", shared("g"))));
    let mut two = Reader::connect(&broker, named("two", filter("a/+", shared("g"))));
    let mut other = Reader::connect(&broker, named("other", filter("a/+", shared("h"))));
    for payload in ["1", "2", "3", "4"] {
        publish(&broker, "a/b", payload);
    }
    let mut both = one.settle_all(Disposition::Accept);
    assert_eq!(both.len(), 2);
    both.extend(two.settle_all(Disposition::Accept));
    both.sort();
    assert_eq!(both, ["1", "2", "3", "4"]);
    assert_eq!(other.settle_all(Disposition::Accept).len(), 4);
}

#[test]
fn a_group_prefers_members_that_are_connected() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let mut one = Reader::connect(&broker, named("one", filter("a/+", shared("g"))));
    let _two = Reader::connect(&broker, named("two", filter("a/+", shared("g"))));
    observer.keep_offline("two");
    for payload in ["1", "2", "3"] {
        publish(&broker, "a/b", payload);
    }
    assert_eq!(one.settle_all(Disposition::Accept), ["1", "2", "3"]);
}

// spec: C29
#[test]
fn a_member_that_stops_leaves_its_share_to_the_others() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    let narrow = |mount| Subscription {
        window: 1,
        ..named(mount, filter("a/+", shared("g")))
    };
    let mut one = Reader::connect(&broker, narrow("one"));
    let mut two = Reader::connect(&broker, narrow("two"));
    for payload in ["1", "2", "3", "4"] {
        publish(&broker, "a/b", payload);
    }
    let mut working = one.next().expect("it is there");
    one.stop();
    one.settle(&mut working, Disposition::Accept)
        .expect("accepted");
    one.close();
    publish(&broker, "a/b", "5");
    let mut rest = two.settle_all(Disposition::Accept);
    rest.push(text(&working));
    rest.sort();
    assert_eq!(rest, ["1", "2", "3", "4", "5"]);
    assert_eq!(observer.queue_depth("one"), 0);
}

// spec: C29
#[test]
fn a_member_that_stops_with_something_unacknowledged_keeps_its_session() {
    let broker = Memory::mqtt();
    let mut one = Reader::connect(&broker, named("one", filter("a/+", shared("g"))));
    publish(&broker, "a/b", "1");
    let delivery = one.next().expect("it is there");
    one.leave(delivery);
    one.stop();
    one.close();
    assert_eq!(
        try_publish(&broker, "a/b", "2").expect("taken"),
        Published::Unread,
        "it has left the group"
    );
    let mut one = Reader::connect(&broker, named("one", filter("a/+", shared("g"))));
    assert_eq!(one.payloads(), ["1"]);
}

#[test]
fn a_plain_filter_keeps_its_session_over_a_stop() {
    let broker = Memory::mqtt();
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    reader.stop();
    reader.close();
    publish(&broker, "a/b", "1");
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    assert_eq!(reader.payloads(), ["1"]);
}

#[test]
fn what_a_client_published_itself_is_kept_from_it_when_it_asked() {
    let broker = Memory::mqtt();
    let options = MqttOptions {
        no_local: Some(true),
        ..MqttOptions::NONE
    };
    let mut reader = Reader::connect(&broker, filter("a/+", options));
    assert_eq!(
        try_publish(&broker, "a/b", "own").expect("taken"),
        Published::Unread
    );
    publish(&broker.client(), "a/b", "foreign");
    assert_eq!(reader.payloads(), ["foreign"]);
}

#[test]
fn retained_messages_come_with_the_subscription_as_it_asked() {
    #[rustfmt::skip]
    let rows: [(u8, &[&str], &[&str]); 3] = [
        (0, &["kept"], &["kept"]),
        (1, &["kept"], &[]),
        (2, &[],       &[]),
    ];
    for (handling, at_first, at_resume) in rows {
        let broker = Memory::mqtt();
        let options = MqttOptions {
            retain_handling: Some(handling),
            ..MqttOptions::NONE
        };
        send(&broker, "a/b", Message::new("kept").retained());
        let mut reader = Reader::connect(&broker, filter("a/+", options));
        for (expected, epoch) in [(at_first, 2), (at_resume, 3)] {
            let found = reader.settle_all(Disposition::Accept);
            assert_eq!(found, expected, "{handling}");
            broker.observe().cut("reader");
            assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
            assert_eq!(reader.connected(), epoch);
        }
    }
}

#[test]
fn a_retained_message_is_flagged_with_the_subscription_and_as_published_only_when_asked() {
    let broker = Memory::mqtt();
    send(&broker, "a/b", Message::new("kept").retained());
    let as_published = MqttOptions {
        retain_as_published: Some(true),
        ..MqttOptions::NONE
    };
    let mut plain = Reader::connect(&broker, named("plain", filter("a/+", qos(1))));
    let mut asked = Reader::connect(&broker, named("asked", filter("a/+", as_published)));
    let mut group = Reader::connect(&broker, named("group", filter("a/+", shared("g"))));
    assert!(plain.next().expect("kept").is_retained());
    assert!(asked.next().expect("kept").is_retained());
    assert_eq!(group.payload(), None, "never for a shared subscription");
    publish(&broker, "a/b", Message::new("new").retained());
    assert!(!plain.next().expect("new").is_retained());
    assert!(asked.next().expect("new").is_retained());
}

#[test]
fn an_empty_retained_message_removes_what_was_kept() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    send(&broker, "a/b", Message::new("kept").retained());
    assert!(observer.retained("a/b").is_some());
    send(&broker, "a/b", Message::new("").retained());
    assert!(observer.retained("a/b").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expiring_message_says_what_is_left_and_is_gone_at_its_end() {
    let broker = Memory::mqtt();
    let observer = broker.observe();
    Reader::connect(&broker, filter("a/+", qos(1))).close();
    let lives = |text: &'static str, seconds| {
        Message::new(text).with_time_to_live(Duration::from_secs(seconds))
    };
    publish(&broker, "a/b", lives("short", 2));
    publish(&broker, "a/b", lives("long", 60));
    tokio::time::advance(Duration::from_secs(2)).await;
    let mut reader = Reader::connect(&broker, filter("a/+", qos(1)));
    let delivery = reader.next().expect("one is left");
    assert_eq!(text(&delivery), "long");
    assert_eq!(
        delivery.message().time_to_live(),
        Some(Duration::from_secs(58))
    );
    assert_eq!(reader.payload(), None);
    let expired = EventKind::Discarded { reason: "expired" };
    assert!(observer.events().iter().any(|event| event.kind == expired));
}

#[test]
fn a_session_belongs_to_the_connection_that_came_last() {
    let broker = Memory::mqtt();
    let options = MqttOptions {
        client_id: Some("client"),
        ..MqttOptions::NONE
    };
    let mut old = Reader::connect(&broker, named("old", filter("a/+", options)));
    let mut new = Reader::connect(&broker, named("new", filter("a/+", options)));
    let Some(Arrival::Disconnected(error)) = old.arrival() else {
        panic!("it is told");
    };
    assert!(error.to_string().contains("client_id"), "{error}");
    assert!(old.arrival().is_none(), "it waits");
    publish(&broker, "a/b", "1");
    assert_eq!(new.settle_all(Disposition::Accept), ["1"]);
    new.close();
    assert_eq!(old.connected(), 2);
}

// spec: M37
#[test]
fn a_copy_of_a_shared_delivery_goes_to_the_plain_topic() {
    let broker = Memory::mqtt();
    let mut member = Reader::connect(&broker, named("member", filter("a/+", shared("g"))));
    let mut plain = Reader::connect(&broker, named("plain", filter("a/b", qos(1))));
    publish(&broker, "a/b", "1");
    let delivery = member.next().expect("it is there");
    assert_eq!(delivery.native.address(), "a/b", "no `$share` in it");
    assert_eq!(plain.payloads(), ["1"]);
}
