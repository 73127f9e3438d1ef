//! AMQP 1.0's rules.

use super::*;
use crate::registration::AmqpOptions;

fn orders(window: u32) -> Subscription {
    subscription(Form::Queue, "orders", window)
}

fn named(mount: &'static str, subscription: Subscription) -> Subscription {
    Subscription {
        mount: mount.into(),
        ..subscription
    }
}

// spec: A2
#[test]
fn an_accepted_message_is_gone() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    assert_eq!(first.settle_all(Disposition::Accept), ["1"]);
    first.close();
    let mut second = Reader::connect(&broker, orders(8));
    assert_eq!(second.payload(), None);
    assert_eq!(broker.observe().queue_depth("orders"), 0);
}

// spec: A5 A9 A33
#[test]
fn a_returned_message_comes_back_counted_once_more() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, subscription(Form::Address, "orders", 8));
    publish(&broker, "orders", "1");
    for counted in [None, Some(1), Some(2), Some(3)] {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, counted);
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("returned");
    }
}

// spec: A31 A32
#[test]
fn only_a_publisher_that_asks_for_a_header_section_gets_a_count_of_zero() {
    #[rustfmt::skip]
    let rows = [
        ("nothing",      Message::new("1"), None),
        ("durable",      Message::new("1").with_durable(false), Some(0)),
        ("priority",     Message::new("1").with_priority(4), Some(0)),
        ("time to live", Message::new("1").with_time_to_live(std::time::Duration::from_hours(1)), Some(0)),
        ("a header",     Message::new("1").with_header("a", "b"), None),
    ];
    for (what, message, counted) in rows {
        let broker = Memory::amqp();
        let mut reader = Reader::connect(&broker, orders(8));
        publish(&broker, "orders", message);
        assert_eq!(reader.next().expect(what).counted, counted, "{what}");
    }
}

// spec: A7
#[test]
fn a_released_message_comes_back_and_no_cap_would_ever_trip() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", Message::new("1").with_durable(true));
    for _ in 0..64 {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, Some(0));
        reader
            .settle(&mut delivery, Disposition::Release)
            .expect("released");
    }
}

#[test]
fn a_server_that_counts_everything_counts_from_zero() {
    let broker = Memory::amqp().always_counting();
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    for counted in 0..3 {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, Some(counted));
        assert_eq!(delivery.is_redelivered(), counted > 0);
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("returned");
    }
}

#[test]
fn a_server_that_does_not_count_says_zero_for_ever() {
    let broker = Memory::amqp().never_counting();
    let capabilities = broker.capabilities(&orders(8)).expect("served");
    assert_eq!(capabilities.returns, crate::broker::Returns::Uncounted);
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    for round in 0..3 {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, Some(0));
        assert_eq!(delivery.is_redelivered(), round > 0);
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("returned");
    }
}

#[test]
fn a_returned_message_keeps_its_place() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, orders(3));
    for payload in ["1", "2", "3", "4", "5"] {
        publish(&broker, "orders", payload);
    }
    let mut held: Vec<Delivery> = std::iter::from_fn(|| reader.next()).collect();
    reader.set_window(1);
    for at in [1, 0, 2] {
        reader
            .settle(&mut held[at], Disposition::Return)
            .expect("returned");
    }
    assert_eq!(
        reader.settle_all(Disposition::Accept),
        ["1", "2", "3", "4", "5"]
    );
}

#[test]
fn a_rejected_message_goes_where_the_policy_says_and_nowhere_else() {
    let broker = Memory::amqp().with_dead_letter_policy("orders", "dlq");
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders(8));
    let mut other = Reader::connect(
        &broker,
        named("other", subscription(Form::Queue, "bills", 8)),
    );
    publish(
        &broker,
        "orders",
        Message::new("1").with_header("a", "b").with_durable(true),
    );
    publish(&broker, "bills", "2");
    let mut delivery = reader.next().expect("it is there");
    reader
        .settle(&mut delivery, Disposition::Return)
        .expect("returned");
    assert_eq!(reader.settle_all(Disposition::Reject), ["1"]);
    assert_eq!(other.settle_all(Disposition::Reject), ["2"]);
    let dead = observer.messages("dlq");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message.payload().as_ref(), b"1");
    assert!(dead[0].message.headers().first("a").is_some());
    assert_eq!(dead[0].count, 0);
    assert_eq!(
        observer.queue_depth("bills") + observer.unsettled("bills"),
        0
    );
}

// spec: A20
#[test]
fn an_unsettled_message_stays_with_its_reader_while_the_link_is_up() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, orders(8));
    assert_eq!(first.payload(), None);
    publish(&broker, "orders", "1");
    assert_eq!(first.payload().as_deref(), Some("1"));
    let mut second = Reader::connect(&broker, orders(8));
    assert_eq!(second.payload(), None);
    assert_eq!(broker.observe().unsettled("orders"), 1);
}

// spec: A15
#[test]
fn a_link_that_closes_gives_its_messages_back_uncounted_and_in_order() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, orders(8));
    for payload in ["1", "2", "3"] {
        publish(&broker, "orders", payload);
    }
    assert_eq!(first.payloads(), ["1", "2", "3"]);
    first.stop();
    first.close();
    let mut second = Reader::connect(&broker, orders(8));
    for payload in ["1", "2", "3"] {
        let delivery = second.next().expect("it is back");
        assert_eq!(text(&delivery), payload);
        assert_eq!(delivery.counted, None);
    }
}

// spec: A14 A16
#[test]
fn a_connection_that_drops_gives_its_messages_back_counted_and_in_order() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders(2));
    for payload in ["1", "2", "3"] {
        publish(&broker, "orders", payload);
    }
    assert_eq!(reader.payloads(), ["1", "2"]);
    observer.cut("reader");
    assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
    assert_eq!(reader.connected(), 2);
    reader.set_window(8);
    for (payload, counted) in [("1", Some(1)), ("2", Some(1)), ("3", None)] {
        let delivery = reader.next().expect("it is back");
        assert_eq!(text(&delivery), payload);
        assert_eq!(delivery.counted, counted);
    }
    let said = observer.events_of("reader");
    assert!(!said.iter().any(|kind| {
        use super::super::observe::EventKind::*;
        matches!(kind, Accepted | Rejected | Returned | Released)
    }));
}

#[test]
fn a_reader_that_is_dropped_is_a_connection_that_broke() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    assert_eq!(first.payload().as_deref(), Some("1"));
    drop(first);
    let mut second = Reader::connect(&broker, orders(8));
    assert_eq!(second.next().expect("it is back").counted, Some(1));
}

// spec: A30
#[test]
fn a_message_that_was_settled_on_arrival_is_never_redelivered() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let at_most_once = Subscription {
        settle: Settle::AtMostOnce,
        ..orders(8)
    };
    assert!(broker.capabilities(&at_most_once).expect("served").settled);
    let mut reader = Reader::connect(&broker, at_most_once);
    publish(&broker, "orders", "1");
    let delivery = reader.next().expect("it is there");
    assert!(delivery.token.is_none() && delivery.settled);
    drop(reader);
    assert_eq!(
        observer.queue_depth("orders") + observer.unsettled("orders"),
        0
    );
}

// spec: A12
#[test]
fn a_copy_inherits_no_count() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", Message::new("1").with_durable(true));
    let mut delivery = reader.next().expect("it is there");
    reader
        .settle(&mut delivery, Disposition::Return)
        .expect("returned");
    let mut delivery = reader.next().expect("it is back");
    assert_eq!(delivery.counted, Some(1));
    let copy = crate::message::Copy {
        original: Arc::clone(&delivery.native),
        to: "orders".into(),
        kind: crate::message::CopyKind::Retry,
        set: crate::headers::HeaderMap::new(),
        without: &[],
        retain: false,
    };
    assert!(matches!(
        broker.sink().publish_copy(copy),
        Publishing::Done(Ok(Published::Confirmed))
    ));
    reader
        .settle(&mut delivery, Disposition::Accept)
        .expect("accepted");
    assert_eq!(reader.next().expect("the copy").counted, Some(0));
}

#[test]
fn a_queue_gives_each_message_to_one_reader_in_turn() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, orders(8));
    let mut second = Reader::connect(&broker, named("second", orders(8)));
    assert_eq!((first.payload(), second.payload()), (None, None));
    for payload in ["1", "2", "3", "4"] {
        publish(&broker, "orders", payload);
    }
    let mut both = first.payloads();
    assert_eq!(both.len(), 2);
    both.extend(second.payloads());
    both.sort();
    assert_eq!(both, ["1", "2", "3", "4"]);
}

// spec: A50
#[test]
fn a_topic_gives_each_message_to_every_reader() {
    let broker = Memory::amqp();
    let topic = subscription(Form::Topic, "news", 8);
    assert!(broker.capabilities(&topic).expect("served").fan_out);
    let mut first = Reader::connect(&broker, topic.clone());
    let mut second = Reader::connect(&broker, named("second", topic));
    publish(&broker, "news", "1");
    assert_eq!(first.settle_all(Disposition::Accept), ["1"]);
    assert_eq!(second.settle_all(Disposition::Accept), ["1"]);
}

#[test]
fn a_durable_subscription_keeps_what_is_published_while_it_is_away() {
    let broker = Memory::amqp();
    let topic = subscription(Form::Topic, "news", 8);
    let fleeting = Subscription {
        mount: "fleeting".into(),
        amqp: Some(AmqpOptions {
            durable: Some(false),
            ..AmqpOptions::NONE
        }),
        ..topic.clone()
    };
    let first = Reader::connect(&broker, topic.clone());
    let second = Reader::connect(&broker, fleeting.clone());
    first.close();
    second.close();
    publish(&broker, "news", "1");
    assert_eq!(Reader::connect(&broker, topic).payloads(), ["1"]);
    assert_eq!(Reader::connect(&broker, fleeting).payload(), None);
}

// spec: A18
#[test]
fn the_window_is_exact() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders(2));
    for payload in ["1", "2", "3", "4"] {
        publish(&broker, "orders", payload);
    }
    let mut first = reader.next().expect("it is there");
    assert_eq!(reader.payloads(), ["2"]);
    assert_eq!(observer.unsettled("orders"), 2);
    reader
        .settle(&mut first, Disposition::Accept)
        .expect("accepted");
    assert_eq!(reader.payloads(), ["3"]);
    reader.set_window(3);
    assert_eq!(reader.payloads(), ["4"]);
}

#[test]
fn a_window_that_shrinks_gives_back_what_was_not_handed_out() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders(4));
    for payload in ["1", "2", "3", "4"] {
        publish(&broker, "orders", payload);
    }
    assert_eq!(reader.payload().as_deref(), Some("1"));
    reader.set_window(1);
    assert_eq!(observer.unsettled("orders"), 1);
    assert_eq!(reader.payload(), None);
    reader.set_window(4);
    let rest: Vec<_> = std::iter::from_fn(|| reader.next()).collect();
    let shown: Vec<_> = rest.iter().map(|one| (text(one), one.counted)).collect();
    assert_eq!(
        shown,
        [
            ("2".to_owned(), None),
            ("3".to_owned(), None),
            ("4".to_owned(), None)
        ]
    );
}

#[test]
fn a_window_set_before_the_first_delivery_of_a_connection_is_the_one_that_counts() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    let mut reader = Reader::subscribe(&broker, orders(8));
    assert_eq!(reader.connected(), 1);
    reader.set_window(1);
    assert_eq!(reader.payloads(), ["1"]);
    assert_eq!(observer.unsettled("orders"), 1);
    assert_eq!(observer.queue_depth("orders"), 1);
}

#[test]
fn a_stop_gives_back_what_was_not_handed_out_and_settling_goes_on() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders(8));
    for payload in ["1", "2", "3"] {
        publish(&broker, "orders", payload);
    }
    let mut first = reader.next().expect("it is there");
    reader.stop();
    let waiting = observer.messages("orders");
    let shown: Vec<_> = waiting
        .iter()
        .map(|one| (one.message.payload().as_ref(), one.count))
        .collect();
    assert_eq!(shown, [(b"2".as_slice(), 0), (b"3".as_slice(), 0)]);
    reader
        .settle(&mut first, Disposition::Accept)
        .expect("settling goes on");
    reader.close();
    assert_eq!(observer.queue_depth("orders"), 2);
}

#[test]
fn a_message_that_nobody_reads_is_kept_in_a_queue_of_its_name() {
    let broker = Memory::amqp();
    publish(&broker, "orders.dead", "1");
    assert_eq!(broker.observe().queue_depth("orders.dead"), 1);
    let mut reader = Reader::connect(&broker, subscription(Form::Queue, "orders.dead", 8));
    assert_eq!(reader.settle_all(Disposition::Accept), ["1"]);
}

#[test]
fn a_queue_that_keeps_what_nobody_read_takes_nothing_that_a_topic_takes() {
    let broker = Memory::amqp();
    publish(&broker, "news", "early");
    let mut reader = Reader::connect(&broker, subscription(Form::Topic, "news", 8));
    publish(&broker, "news", "1");
    assert_eq!(reader.settle_all(Disposition::Accept), ["1"]);
    assert_eq!(broker.observe().queue_depth("news"), 1);
}

#[test]
fn a_full_queue_refuses_until_there_is_room() {
    let broker = Memory::amqp().with_queue_length(2);
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    let error = try_publish(&broker, "orders", "3").expect_err("it is full");
    assert!(error.is_transient());
    assert!(error.to_string().contains("queue full"), "{error}");
    assert!(broker.observe().take("orders").is_some());
    publish(&broker, "orders", "3");
}

#[test]
fn a_waiting_reader_is_woken_once_and_a_busy_one_not_at_all() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    assert_eq!(reader.wakes(), 0);
    assert_eq!(reader.payloads(), ["1"]);
    publish(&broker, "orders", "2");
    publish(&broker, "orders", "3");
    assert_eq!(reader.wakes(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_message_is_not_delivered_and_goes_where_the_policy_says() {
    let broker = Memory::amqp().with_dead_letter_policy("orders", "dlq");
    let second = std::time::Duration::from_secs(1);
    publish(
        &broker,
        "orders",
        Message::new("1").with_time_to_live(second),
    );
    publish(
        &broker,
        "orders",
        Message::new("2").with_time_to_live(second * 9),
    );
    tokio::time::advance(second).await;
    let mut reader = Reader::connect(&broker, orders(8));
    assert_eq!(reader.payloads(), ["2"]);
    assert_eq!(broker.observe().queue_depth("dlq"), 1);
}

#[test]
fn a_settlement_is_taken_once() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, orders(8));
    publish(&broker, "orders", "1");
    let delivery = reader.next().expect("it is there");
    let Token { epoch, key } = *delivery.token.as_ref().expect("it has one");
    let token = || Token { epoch, key };
    reader
        .settle_token(token(), Disposition::Accept)
        .expect("accepted");
    // The next delivery uses the same slot: the spent token must not settle it.
    publish(&broker, "orders", "2");
    assert_eq!(reader.payload().as_deref(), Some("2"));
    assert_eq!(
        reader.settle_token(token(), Disposition::Return),
        Err(AckError::Stale)
    );
    // Accepted is collected and said later, and settles nothing then either.
    reader.settle_token(token(), Disposition::Accept).ok();
    reader.idle();
    assert_eq!(broker.observe().unsettled("orders"), 1);
}
