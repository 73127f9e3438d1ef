//! Every text key takes a constant expression, and every number too.
#![deny(warnings)]

use ruststream::Batch;
use ruststream::Bytes;
use ruststream::subscriber;

mod names {
    pub const PREFIX: &str = "devices";
    pub const FILTER: &str = "devices/+/state";
    pub const RETRY: &str = concat!("devices/", "retry/", "state");
    pub const DEAD: &str = pick(true);
    pub const COUNT: u32 = 3;

    pub const fn pick(first: bool) -> &'static str {
        if first { "dead/a" } else { "dead/b" }
    }
}

struct Limits;

impl Limits {
    const TIMEOUT: &'static str = "5s";
    const PREFETCH: u32 = names::COUNT * 10;
}

const QUEUE: &str = "jobs";
const TOPIC: &str = "jobs/new";
const SHARED: &str = "workers";

#[subscriber(
    filter = names::FILTER,
    retry_topic = names::RETRY,
    dead_letter = names::DEAD,
    max_attempts = names::COUNT,
    timeout = Limits::TIMEOUT,
    backoff = { "1s..2s" },
    prefetch = Limits::PREFETCH,
    concurrency = { names::COUNT + 1 },
    workers = if names::COUNT > 2 { 2 } else { 1 },
    broker = names::PREFIX,
    group = names::PREFIX,
    name = names::PREFIX,
    mqtt(
        qos = { names::COUNT - 2 },
        shared = SHARED,
        retain_handling = names::COUNT - 1,
        connection = names::PREFIX,
        client_id = names::PREFIX,
        session_expiry = Limits::TIMEOUT,
    ),
)]
async fn record(_: Bytes) -> Result<(), String> {
    Ok(())
}

#[subscriber(queue = QUEUE, reply_to = TOPIC, rabbitmq(
    exchange = names::PREFIX,
    exchange_type = SHARED,
    routing_key = TOPIC,
    delivery_limit = names::COUNT,
    priority = -7,
    arguments = ARGUMENTS,
))]
async fn answer(payload: Bytes) -> Bytes {
    payload
}

const ARGUMENTS: &[(&str, &str)] = &[("x-max-length", "1000")];

#[subscriber(topic = TOPIC, batch(size = names::COUNT, wait = Limits::TIMEOUT), amqp(
    selector = names::PREFIX,
    subscription = names::PREFIX,
))]
async fn store(_: Batch<Bytes>) {}

fn main() {
    let registrations = ruststream::__private::inventory::iter::<ruststream::registration::Registration>;
    let record = registrations().find(|it| it.name == "devices").unwrap();
    assert_eq!(record.address, "devices/+/state");
    assert_eq!(record.options.retry_topic, Some("devices/retry/state"));
    assert_eq!(record.options.dead_letter, Some("dead/a"));
    assert_eq!(record.options.concurrency, Some(4));
    assert_eq!(record.options.timeout, Some(std::time::Duration::from_secs(5)));
    assert_eq!(record.options.mqtt.unwrap().qos, Some(1));
    assert_eq!(record.options.mqtt.unwrap().retain_handling, Some(2));
    let answer = registrations().find(|it| it.name == "answer").unwrap();
    assert_eq!(answer.options.rabbitmq.unwrap().priority, Some(-7));
    assert_eq!(answer.options.rabbitmq.unwrap().arguments, Some(ARGUMENTS));
    let store = registrations().find(|it| it.name == "store").unwrap();
    assert_eq!(store.options.batch.unwrap().size, 3);
}
