//! Every key that takes a word, a flag or a function.
#![deny(warnings)]

use std::borrow::Cow;

use ruststream::Bytes;
use ruststream::Delivery;
use ruststream::policy::Delay;
use ruststream::policy::OnDecode;
use ruststream::policy::OnFailure;
use ruststream::registration::AckOrder;
use ruststream::registration::Form;
use ruststream::registration::QueueType;
use ruststream::registration::Registration;
use ruststream::registration::Unread;
use ruststream::settle::Settle;
use ruststream::subscriber;

fn retry_topic(delivery: &Delivery) -> Cow<'_, str> {
    Cow::Owned(format!("retry/{}", delivery.address()))
}

mod keys {
    use ruststream::Delivery;

    pub fn device(delivery: &Delivery) -> Option<&str> {
        delivery.address().split('/').nth(1)
    }
}

#[subscriber(
    filter = "devices/+/state",
    retry_topic_with = retry_topic,
    retry_topic_elsewhere,
    ordered_by = keys::device,
    dead_letter = "dead/state",
    dead_letter_headers = false,
    reads_dead_letters,
    competes = true,
    on_error = retry,
    on_panic = drop,
    on_timeout = dead_letter,
    on_decode = dead_letter,
    timeout = "1m30s",
    delay = journal,
    mqtt(
        retain_as_published,
        ack_order = completion,
        dead_letter_retain = true,
        dead_letter_unread = keep,
    ),
)]
async fn record(_: Bytes) -> Result<(), String> {
    Ok(())
}

#[subscriber(
    queue = "jobs",
    settle = at_most_once,
    amqp(durable = true, shared_subscription = false),
    rabbitmq(
        queue_type = quorum,
        declare,
        passive = false,
        durable,
        exclusive = false,
        single_active,
        arguments = [("x-max-length", "1000"), ("x-overflow", "reject-publish")],
    )
)]
async fn work(_: Bytes) {}

fn main() {
    let find = |name| {
        ruststream::__private::inventory::iter::<Registration>()
            .find(|it| it.name == name)
            .unwrap()
    };
    let record = find("record");
    assert_eq!(record.form, Form::Filter);
    let options = record.options;
    assert!(options.retry_topic_with.is_some() && options.ordered_by.is_some());
    assert!(options.retry_topic_elsewhere && options.reads_dead_letters && options.competes);
    assert_eq!(options.dead_letter_headers, Some(false));
    assert_eq!(options.on_error, Some(OnFailure::Retry));
    assert_eq!(options.on_panic, Some(OnFailure::Drop));
    assert_eq!(options.on_timeout, Some(OnFailure::DeadLetter));
    assert_eq!(options.on_decode, Some(OnDecode::DeadLetter));
    assert_eq!(options.delay, Some(Delay::Journal));
    let mqtt = options.mqtt.unwrap();
    assert_eq!(mqtt.ack_order, Some(AckOrder::Completion));
    assert_eq!(mqtt.dead_letter_unread, Some(Unread::Keep));
    assert_eq!(mqtt.retain_as_published, Some(true));
    assert_eq!(mqtt.qos, None);
    let work = find("work");
    assert_eq!(work.form, Form::Queue);
    assert!(!work.fails);
    assert_eq!(work.options.settle, Some(Settle::AtMostOnce));
    let rabbitmq = work.options.rabbitmq.unwrap();
    assert_eq!(rabbitmq.queue_type, Some(QueueType::Quorum));
    assert_eq!(rabbitmq.arguments.unwrap().len(), 2);
    assert_eq!((rabbitmq.declare, rabbitmq.passive), (Some(true), Some(false)));
}
