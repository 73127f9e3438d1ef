//! What observers make go wrong.

use super::super::observe::EventKind;
use super::super::observe::Refuse;
use super::*;

fn orders() -> Subscription {
    subscription(Form::Queue, "orders", 8)
}

// spec: C13
#[test]
fn a_token_of_an_earlier_connection_settles_nothing() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders());
    publish(&broker, "orders", "1");
    let mut old = reader.next().expect("it is there");
    observer.cut("reader");
    let before = reader.settle(&mut old, Disposition::Accept);
    assert_eq!(before, Err(AckError::Stale), "even before it is told");
    assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
    assert_eq!(reader.connected(), 2);
    let mut new = reader.next().expect("it is back");
    assert_eq!(observer.unsettled("orders"), 1);
    reader
        .settle(&mut new, Disposition::Accept)
        .expect("accepted");
    assert!(observer.events_of("reader").contains(&EventKind::Stale));
    assert_eq!(observer.connects("reader"), 2);
}

// spec: C14
#[test]
fn a_reader_that_is_kept_offline_connects_when_it_is_let() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders());
    observer.keep_offline("reader");
    publish(&broker, "orders", "1");
    assert!(matches!(reader.arrival(), Some(Arrival::Disconnected(_))));
    assert!(reader.arrival().is_none());
    let wakes = reader.wakes();
    observer.let_online("reader");
    assert_eq!(reader.wakes(), wakes + 1);
    assert_eq!(reader.connected(), 2);
    assert_eq!(reader.payloads(), ["1"]);
}

#[test]
fn a_stopped_reader_that_loses_its_connection_gives_everything_back() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders());
    publish(&broker, "orders", "1");
    let mut delivery = reader.next().expect("it is there");
    reader.stop();
    observer.cut("reader");
    assert_eq!(
        reader.settle(&mut delivery, Disposition::Accept),
        Err(AckError::Stale)
    );
    assert!(matches!(reader.arrival(), Some(Arrival::Ended)));
    assert_eq!(observer.queue_depth("orders"), 1);
}

#[test]
fn a_refused_publish_leaves_nothing_behind() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    observer.refuse_publishes("orders", Refuse::Transient, Some(2));
    for _ in 0..2 {
        assert!(
            try_publish(&broker, "orders", "1")
                .expect_err("refused")
                .is_transient()
        );
    }
    publish(&broker, "orders", "2");
    assert_eq!(observer.queue_depth("orders"), 1);
    observer.refuse_publishes("orders", Refuse::Permanent, None);
    for _ in 0..3 {
        let error = try_publish(&broker, "orders", "3").expect_err("refused");
        assert!(!error.is_transient());
        assert!(error.to_string().contains("`orders`"), "{error}");
    }
    observer.take_publishes("orders");
    publish(&broker, "orders", "4");
    assert_eq!(observer.queue_depth("orders"), 2);
}

#[test]
fn a_held_confirmation_waits_until_it_is_released() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    observer.hold_confirmations("orders");
    let Publishing::Pending(mut publishing) = broker.sink().publish("orders".into(), "1".into())
    else {
        panic!("it is held");
    };
    let mut cx = Context::from_waker(Waker::noop());
    assert!(publishing.as_mut().poll(&mut cx).is_pending());
    assert_eq!(observer.queue_depth("orders"), 1);
    observer.release_confirmations("orders");
    assert!(matches!(
        publishing.as_mut().poll(&mut cx),
        Poll::Ready(Ok(Published::Confirmed))
    ));
    publish(&broker, "orders", "2");
}

#[test]
fn a_failed_settlement_leaves_the_delivery_unsettled() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders());
    publish(&broker, "orders", "1");
    observer.fail_settlements("reader", 1);
    let mut delivery = reader.next().expect("it is there");
    assert_eq!(
        reader.settle(&mut delivery, Disposition::Accept),
        Err(AckError::Refused)
    );
    assert_eq!(observer.unsettled("orders"), 1);
    publish(&broker, "orders", "2");
    assert_eq!(reader.settle_all(Disposition::Accept), ["2"]);
}

#[test]
fn a_held_settlement_arrives_under_its_ticket_when_it_is_released() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let mut reader = Reader::connect(&broker, orders());
    publish(&broker, "orders", "1");
    publish(&broker, "orders", "2");
    observer.hold_settlements("reader");
    let mut first = reader.next().expect("it is there");
    let mut second = reader.next().expect("it is there");
    for (ticket, delivery) in [(7, &mut first), (9, &mut second)] {
        let token = delivery.token.take().expect("it has one");
        let settling = reader.source.settle(token, Disposition::Accept, ticket);
        assert!(settling.is_pending());
    }
    let waker = Waker::from(Arc::clone(&reader.wakes));
    let mut cx = Context::from_waker(&waker);
    assert!(reader.source.poll_settled(&mut cx).is_pending());
    assert_eq!(observer.unsettled("orders"), 2);
    observer.release_settlements("reader");
    assert_eq!(reader.wakes(), 1);
    assert_eq!(
        reader.source.poll_settled(&mut cx),
        Poll::Ready((7, Ok(())))
    );
    assert_eq!(
        reader.source.poll_settled(&mut cx),
        Poll::Ready((9, Ok(())))
    );
    assert!(reader.source.poll_settled(&mut cx).is_pending());
    assert_eq!(observer.unsettled("orders"), 0);
}

#[tokio::test]
async fn an_observer_waits_for_what_happens() {
    let broker = Memory::amqp();
    let observer = broker.observe();
    let waiting = observer.until(|observer| observer.queue_depth("orders") == 2);
    let publishing = async {
        publish(&broker, "orders", "1");
        tokio::task::yield_now().await;
        publish(&broker, "orders", "2");
    };
    tokio::join!(waiting, publishing);
    assert_eq!(observer.queue_depth("orders"), 2);
}

#[test]
fn a_named_broker_is_the_same_whoever_asks() {
    let one = Memory::named("faults-shop", None);
    let other = Memory::named("faults-shop", Some(Rules::Amqp));
    let stranger = Memory::named("faults-bank", None);
    publish(&one, "orders", "1");
    assert_eq!(other.observe().queue_depth("orders"), 1);
    assert_eq!(stranger.observe().queue_depth("orders"), 0);
}

// spec: C35
#[test]
fn rules_follow_the_form_unless_they_are_forced() {
    use crate::broker::Returns;
    use crate::registration::MqttOptions;
    use crate::registration::RabbitmqOptions;

    let broker = Memory::new();
    let plain = orders();
    let filter = subscription(Form::Filter, "a/+", 8);
    let mqtt = Subscription {
        mqtt: Some(MqttOptions::NONE),
        ..subscription(Form::Topic, "a/b", 8)
    };
    let rabbitmq = Subscription {
        rabbitmq: Some(RabbitmqOptions {
            queue_type: Some(crate::registration::QueueType::Classic),
            ..RabbitmqOptions::NONE
        }),
        ..orders()
    };
    #[rustfmt::skip]
    let rows = [
        ("plain",    &plain,    Returns::Counted,   true),
        ("filter",   &filter,   Returns::OnResume,  false),
        ("mqtt",     &mqtt,     Returns::OnResume,  false),
        ("rabbitmq", &rabbitmq, Returns::Uncounted, true),
    ];
    for (what, subscription, returns, rejects) in rows {
        let capabilities = broker.capabilities(subscription).expect(what);
        assert_eq!(capabilities.returns, returns, "{what}");
        assert_eq!(capabilities.rejects, rejects, "{what}");
    }
    let forced = Memory::mqtt();
    let topic = subscription(Form::Topic, "a/b", 8);
    let capabilities = forced.capabilities(&topic).expect("served");
    assert_eq!(capabilities.returns, Returns::OnResume);
    assert!(Memory::amqp().capabilities(&filter).is_err());
    assert!(Memory::rabbitmq().capabilities(&filter).is_err());
    assert!(
        forced.capabilities(&orders()).is_err(),
        "MQTT has no queues"
    );
}
