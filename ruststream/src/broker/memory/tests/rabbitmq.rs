//! RabbitMQ's rules.

use super::*;
use crate::broker::Returns;
use crate::registration::QueueType;
use crate::registration::RabbitmqOptions;

fn queue(options: RabbitmqOptions) -> Subscription {
    Subscription {
        rabbitmq: Some(options),
        ..subscription(Form::Queue, "orders", 8)
    }
}

fn quorum() -> RabbitmqOptions {
    RabbitmqOptions {
        queue_type: Some(QueueType::Quorum),
        ..RabbitmqOptions::NONE
    }
}

fn classic() -> RabbitmqOptions {
    RabbitmqOptions {
        queue_type: Some(QueueType::Classic),
        ..RabbitmqOptions::NONE
    }
}

// spec: R8 R22
#[test]
fn an_acknowledgement_settles_that_delivery_only_and_discards_its_message() {
    let broker = Memory::rabbitmq();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, queue(quorum()));
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    let _first = reader.next().expect("it is there");
    let mut second = reader.next().expect("it is there");
    reader
        .settle(&mut second, Disposition::Accept)
        .expect("acknowledged");
    assert_eq!(observer.unsettled("orders"), 1);
    drop(reader);
    assert_eq!(observer.queue_depth("orders"), 1);
}

// spec: R9
#[test]
fn a_rejected_message_goes_away_or_to_the_dead_letter_exchange() {
    for (has_policy, dead) in [(false, 0), (true, 1)] {
        let mut broker = Memory::rabbitmq();
        if has_policy {
            broker = broker.with_dead_letter_policy("orders", "dead");
        }
        let observer = broker.observe();
        let mut reader = Reader::connect(&broker, queue(quorum()));
        publish(&broker, "orders", "1");
        assert_eq!(reader.settle_all(Disposition::Reject), ["1"]);
        assert_eq!(observer.queue_depth("orders"), 0);
        assert_eq!(observer.unsettled("orders"), 0);
        assert_eq!(observer.queue_depth("dead"), dead);
    }
}

// spec: R11 R15
#[test]
fn with_automatic_acknowledgement_what_was_sent_is_lost_and_prefetch_has_no_effect() {
    let broker = Memory::rabbitmq();
    let observer = broker.observe();
    let automatic = Subscription {
        settle: Settle::AtMostOnce,
        window: 1,
        ..queue(quorum())
    };
    let mut reader = Reader::connect(&broker, automatic);
    assert_eq!(reader.payload(), None);
    for payload in ["1", "2", "3"] {
        publish(&broker, "orders", payload);
    }
    assert_eq!(observer.queue_depth("orders"), 0, "all of it was sent");
    assert!(reader.next().expect("it is there").token.is_none());
    drop(reader);
    assert_eq!(observer.queue_depth("orders"), 0);
}

// spec: R16
#[test]
fn the_buffer_of_automatic_acknowledgement_is_bounded() {
    let broker = Memory::rabbitmq();
    let observer = broker.observe();
    let automatic = Subscription {
        settle: Settle::AtMostOnce,
        ..queue(quorum())
    };
    let mut reader = Reader::connect(&broker, automatic);
    assert_eq!(reader.payload(), None);
    for _ in 0..1030 {
        publish(&broker, "orders", "1");
    }
    assert_eq!(observer.queue_depth("orders"), 6);
    assert_eq!(reader.payloads().len(), 1030);
}

// spec: R12
#[test]
fn with_manual_acknowledgement_what_was_not_processed_is_requeued() {
    let broker = Memory::rabbitmq();
    let mut reader = Reader::connect(&broker, queue(quorum()));
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    assert_eq!(reader.payload().as_deref(), Some("1"));
    drop(reader);
    let mut reader = Reader::connect(&broker, queue(quorum()));
    for payload in ["1", "2"] {
        let delivery = reader.next().expect("it is back");
        assert_eq!(text(&delivery), payload);
        assert!(delivery.is_redelivered());
        assert_eq!(delivery.counted, Some(1));
    }
}

// spec: R14
#[test]
fn prefetch_bounds_what_is_unacknowledged() {
    let broker = Memory::rabbitmq();
    let mut reader = Reader::connect(
        &broker,
        Subscription {
            window: 2,
            ..queue(quorum())
        },
    );
    for payload in ["1", "2", "3"] {
        publish(&broker, "orders", payload);
    }
    assert_eq!(reader.payloads(), ["1", "2"]);
}

// spec: C26
#[test]
fn a_quorum_queue_counts_from_the_first_redelivery_and_lets_go_at_its_limit() {
    let broker = Memory::rabbitmq().with_dead_letter_policy("orders", "dead");
    let observer = broker.observe();
    let options = RabbitmqOptions {
        delivery_limit: Some(3),
        ..quorum()
    };
    let capabilities = broker.capabilities(&queue(options)).expect("served");
    assert_eq!(capabilities.returns, Returns::Counted);
    assert_eq!(capabilities.delivery_limit, Some(3));
    let mut reader = Reader::connect(&broker, queue(options));
    publish(&broker, "orders", "1");
    for counted in [None, Some(1), Some(2), Some(3)] {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, counted);
        assert_eq!(delivery.is_redelivered(), counted.is_some());
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("requeued");
    }
    assert_eq!(reader.payload(), None);
    assert_eq!(observer.queue_depth("dead"), 1);
}

#[test]
fn the_limit_of_a_quorum_queue_is_twenty_unless_told_otherwise() {
    let broker = Memory::rabbitmq();
    let mut reader = Reader::connect(&broker, queue(quorum()));
    publish(&broker, "orders", "1");
    assert_eq!(reader.settle_all(Disposition::Return).len(), 21);
}

// spec: C22
#[test]
fn a_classic_queue_only_flags_redeliveries() {
    let broker = Memory::rabbitmq();
    let capabilities = broker.capabilities(&queue(classic())).expect("served");
    assert_eq!(capabilities.returns, Returns::Uncounted);
    assert_eq!(capabilities.delivery_limit, None);
    let mut reader = Reader::connect(&broker, queue(classic()));
    publish(&broker, "orders", "1");
    for round in 0..30 {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, None);
        assert_eq!(delivery.is_redelivered(), round > 0);
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("requeued");
    }
}

#[test]
fn a_publish_without_a_queue_is_unroutable_and_the_error_names_it() {
    let broker = Memory::rabbitmq();
    let error = try_publish(&broker, "orders", "1").expect_err("unroutable");
    assert!(!error.is_transient());
    assert!(error.to_string().contains("`orders`"), "{error}");
    broker.declare("orders");
    publish(&broker, "orders", "1");
    assert_eq!(broker.observe().queue_depth("orders"), 1);
}

#[test]
fn a_topic_is_a_binding_and_every_reader_gets_its_own_queue() {
    let broker = Memory::rabbitmq();
    let topic = |mount: &'static str, pattern: &'static str| Subscription {
        mount: mount.into(),
        ..subscription(Form::Topic, pattern, 8)
    };
    let mut one = Reader::connect(&broker, topic("one", "orders.*"));
    let mut all = Reader::connect(&broker, topic("all", "#"));
    publish(&broker, "orders.created", "1");
    publish(&broker, "bills", "2");
    assert_eq!(one.settle_all(Disposition::Accept), ["1"]);
    assert_eq!(all.settle_all(Disposition::Accept), ["1", "2"]);
    assert_eq!(broker.observe().queue_depth("app.one"), 0);
}

#[test]
fn an_exchange_routes_by_its_kind() {
    let broker = Memory::rabbitmq();
    let bound = |name: &'static str, kind: &'static str, key: &'static str| Subscription {
        mount: name.into(),
        rabbitmq: Some(RabbitmqOptions {
            exchange: Some("shop"),
            exchange_type: Some(kind),
            routing_key: Some(key),
            ..RabbitmqOptions::NONE
        }),
        ..subscription(Form::Queue, name, 8)
    };
    let mut direct = Reader::connect(&broker, bound("direct", "direct", "created"));
    let mut fanout = Reader::connect(&broker, bound("fanout", "fanout", ""));
    publish(&broker, "shop/created", "1");
    publish(&broker, "shop/paid", "2");
    assert_eq!(direct.settle_all(Disposition::Accept), ["1"]);
    assert_eq!(fanout.settle_all(Disposition::Accept), ["1", "2"]);
    let unknown = bound("headers", "headers", "");
    assert!(Reader::try_subscribe(&broker, unknown).is_err());
}

#[test]
fn what_a_subscription_says_of_its_queue_must_hold() {
    let passive = RabbitmqOptions {
        passive: Some(true),
        ..quorum()
    };
    let exclusive = RabbitmqOptions {
        exclusive: Some(true),
        ..quorum()
    };
    let broker = Memory::rabbitmq();
    let refused = |options| {
        let error = Reader::try_subscribe(&broker, queue(options)).err();
        error.expect("refused").to_string()
    };
    assert!(refused(passive).contains("there is no queue `orders`"));
    let _reader = Reader::connect(&broker, queue(quorum()));
    assert!(refused(classic()).contains("queue_type"));
    assert!(refused(exclusive).contains("exclusive"));
    assert!(Reader::try_subscribe(&broker, queue(passive)).is_ok());
}

#[test]
fn a_single_active_reader_gets_everything_until_it_leaves() {
    let broker = Memory::rabbitmq();
    let single = RabbitmqOptions {
        single_active: Some(true),
        ..quorum()
    };
    let mut first = Reader::connect(&broker, queue(single));
    let mut second = Reader::connect(&broker, queue(single));
    assert_eq!((first.payload(), second.payload()), (None, None));
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    assert_eq!(second.payload(), None);
    assert_eq!(first.settle_all(Disposition::Accept), ["1", "2"]);
    first.close();
    publish(&broker, "orders", "3");
    assert_eq!(second.settle_all(Disposition::Accept), ["3"]);
}
