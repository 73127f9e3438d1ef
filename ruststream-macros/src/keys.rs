//! The keys of `#[subscriber]`: one table, which the parser matches on and the messages quote.

/// A key and what it takes.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How it is written, for messages.
    pub(crate) example: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A `&'static str` constant expression.
    Text(Check),
    /// A `u32` constant expression.
    Number(Check),
    /// An `i32` constant expression.
    Integer,
    /// A text that is a duration.
    Duration(Check),
    /// A text that is a backoff.
    Backoff,
    /// One of a few words, each with its variant of the enum.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    /// True when it is there.
    Flag,
    /// `true` or `false`; alone it is `true`.
    Truth,
    /// A path to a function.
    Function,
    /// A constant list of pairs.
    Pairs,
    /// Keys of its own, for a field of this type.
    Group(&'static str, &'static [Key]),
    /// The path of the crate.
    Crate,
}

/// Which rule of the runtime crate a value is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// None.
    Any,
    /// `source`: the own address, which is checked with its form.
    Source,
    /// `target`: something is published there.
    Target,
    /// `dead_letter`.
    DeadLetter,
    /// `retry_topic`.
    RetryTopic,
    /// `name`.
    Name,
    /// `share_name`.
    ShareName,
    /// `short_name`.
    ShortName,
    /// `at_least_one`.
    AtLeastOne,
    /// `at_most_two`, stored as a small number.
    AtMostTwo,
    /// `positive_duration`.
    Positive,
    /// `any_duration`.
    MayBeZero,
}

const fn key(name: &'static str, kind: Kind, example: &'static str) -> Key {
    Key {
        name,
        kind,
        example,
    }
}

/// The four forms of the address.
pub(crate) const FORMS: [&str; 4] = ["address", "queue", "topic", "filter"];

const FAILURES: &[(&str, &str)] = &[
    ("retry", "Retry"),
    ("drop", "Drop"),
    ("dead_letter", "DeadLetter"),
];

const DECODE_FAILURES: &[(&str, &str)] = &[("drop", "Drop"), ("dead_letter", "DeadLetter")];

const DELAYS: &[(&str, &str)] = &[
    ("process", "Process"),
    ("journal", "Journal"),
    ("hold", "Hold"),
    ("broker", "Broker"),
];

const SETTLE: &[(&str, &str)] = &[
    ("at_least_once", "AtLeastOnce"),
    ("at_most_once", "AtMostOnce"),
];

const ACK_ORDER: &[(&str, &str)] = &[("arrival", "Arrival"), ("completion", "Completion")];

const UNREAD: &[(&str, &str)] = &[("accept", "Accept"), ("keep", "Keep")];

const QUEUE_TYPES: &[(&str, &str)] = &[
    ("quorum", "Quorum"),
    ("classic", "Classic"),
    ("stream", "Stream"),
];

/// Every key of the attribute.
#[rustfmt::skip]
pub(crate) const TOP: &[Key] = &[
    key("address", Kind::Text(Check::Source), r#"address = "orders""#),
    key("queue", Kind::Text(Check::Source), r#"queue = "orders""#),
    key("topic", Kind::Text(Check::Source), r#"topic = "orders/created""#),
    key("filter", Kind::Text(Check::Source), r#"filter = "orders/+/created""#),
    key("retry_topic", Kind::Text(Check::RetryTopic), r#"retry_topic = "orders/retry/created""#),
    key("retry_topic_with", Kind::Function, "retry_topic_with = retry_topic"),
    key("max_attempts", Kind::Number(Check::AtLeastOne), "max_attempts = 3"),
    key("dead_letter", Kind::Text(Check::DeadLetter), r#"dead_letter = "orders.dead""#),
    key("reads_dead_letters", Kind::Flag, "reads_dead_letters"),
    key("retry_topic_elsewhere", Kind::Flag, "retry_topic_elsewhere"),
    key("competes", Kind::Flag, "competes"),
    key("dead_letter_headers", Kind::Truth, "dead_letter_headers = false"),
    key("backoff", Kind::Backoff, r#"backoff = "100ms..30s""#),
    key("on_error", Kind::Word("OnFailure", FAILURES), "on_error = retry"),
    key("on_panic", Kind::Word("OnFailure", FAILURES), "on_panic = retry"),
    key("on_timeout", Kind::Word("OnFailure", FAILURES), "on_timeout = retry"),
    key("on_decode", Kind::Word("OnDecode", DECODE_FAILURES), "on_decode = drop"),
    key("timeout", Kind::Duration(Check::Positive), r#"timeout = "30s""#),
    key("delay", Kind::Word("Delay", DELAYS), "delay = process"),
    key("settle", Kind::Word("Settle", SETTLE), "settle = at_least_once"),
    key("concurrency", Kind::Number(Check::AtLeastOne), "concurrency = 4"),
    key("workers", Kind::Number(Check::AtLeastOne), "workers = 2"),
    key("ordered_by", Kind::Function, "ordered_by = customer"),
    key("prefetch", Kind::Number(Check::AtLeastOne), "prefetch = 100"),
    key("batch", Kind::Group("BatchOptions", BATCH), r#"batch(size = 64, wait = "20ms")"#),
    key("reply_to", Kind::Text(Check::Target), r#"reply_to = "answers""#),
    key("replies", Kind::Flag, "replies"),
    key("broker", Kind::Text(Check::Name), r#"broker = "main""#),
    key("group", Kind::Text(Check::Name), r#"group = "billing""#),
    key("name", Kind::Text(Check::Name), r#"name = "fulfil""#),
    key("amqp", Kind::Group("AmqpOptions", AMQP), "amqp(durable = true)"),
    key("mqtt", Kind::Group("MqttOptions", MQTT), "mqtt(qos = 1)"),
    key("rabbitmq", Kind::Group("RabbitmqOptions", RABBITMQ), "rabbitmq(queue_type = quorum)"),
    key("crate", Kind::Crate, "crate = ::ruststream"),
];

#[rustfmt::skip]
const BATCH: &[Key] = &[
    key("size", Kind::Number(Check::AtLeastOne), "size = 64"),
    key("wait", Kind::Duration(Check::MayBeZero), r#"wait = "20ms""#),
];

#[rustfmt::skip]
const AMQP: &[Key] = &[
    key("durable", Kind::Truth, "durable = true"),
    key("selector", Kind::Text(Check::Any), r#"selector = "colour = 'red'""#),
    key("subscription", Kind::Text(Check::Name), r#"subscription = "billing""#),
    key("shared_subscription", Kind::Truth, "shared_subscription = true"),
];

#[rustfmt::skip]
const MQTT: &[Key] = &[
    key("qos", Kind::Number(Check::AtMostTwo), "qos = 1"),
    key("shared", Kind::Text(Check::ShareName), r#"shared = "workers""#),
    key("no_local", Kind::Truth, "no_local = true"),
    key("retain_handling", Kind::Number(Check::AtMostTwo), "retain_handling = 0"),
    key("retain_as_published", Kind::Truth, "retain_as_published = true"),
    key("connection", Kind::Text(Check::Name), r#"connection = "shared""#),
    key("client_id", Kind::Text(Check::Name), r#"client_id = "orders-1""#),
    key("session_expiry", Kind::Duration(Check::Positive), r#"session_expiry = "1h""#),
    key("ack_order", Kind::Word("AckOrder", ACK_ORDER), "ack_order = arrival"),
    key("dead_letter_retain", Kind::Truth, "dead_letter_retain = true"),
    key("dead_letter_unread", Kind::Word("Unread", UNREAD), "dead_letter_unread = keep"),
];

#[rustfmt::skip]
const RABBITMQ: &[Key] = &[
    key("queue_type", Kind::Word("QueueType", QUEUE_TYPES), "queue_type = quorum"),
    key("exchange", Kind::Text(Check::ShortName), r#"exchange = "shop""#),
    key("exchange_type", Kind::Text(Check::ShortName), r#"exchange_type = "topic""#),
    key("routing_key", Kind::Text(Check::ShortName), r#"routing_key = "orders.*""#),
    key("declare", Kind::Truth, "declare = true"),
    key("passive", Kind::Truth, "passive = true"),
    key("durable", Kind::Truth, "durable = true"),
    key("exclusive", Kind::Truth, "exclusive = true"),
    key("delivery_limit", Kind::Number(Check::Any), "delivery_limit = 20"),
    key("priority", Kind::Integer, "priority = 10"),
    key("single_active", Kind::Truth, "single_active = true"),
    key("arguments", Kind::Pairs, r#"arguments = [("x-max-length", "1000")]"#),
];

/// Names that mean something elsewhere, each with what it is called here.
#[rustfmt::skip]
pub(crate) const HABITS: &[(&[&str], &str)] = &[
    (&["retries", "max_retries", "retry_count", "max_retry", "retry_limit", "retry", "attempts", "max_deliveries"],
     "say how often the handler may start: `max_attempts = 3`, where the first delivery counts too"),
    (&["dlq", "dlx", "dead_letter_queue", "dead_letter_topic", "dead_letter_address", "dead_letter_exchange", "dead_letter_to", "deadletter", "poison", "error_queue"],
     "spent deliveries go to `dead_letter = \"orders.dead\"`"),
    (&["queue_name", "from_queue"], "a queue is named by `queue = \"orders\"`"),
    (&["topic_name"], "a topic is named by `topic = \"orders/created\"`"),
    (&["topic_filter", "pattern", "subscribe", "wildcard", "topics"],
     "topics with wildcards are read by `filter = \"orders/+/created\"`"),
    (&["source", "subject", "channel", "stream", "destination", "path", "on", "from"],
     "where messages come from is `address = \"orders\"` (or `queue`, `topic`, `filter`)"),
    (&["auto_ack", "no_ack", "autoack", "ack", "ack_mode", "mode", "acknowledge", "settlement"],
     "when a delivery is settled is `settle = at_least_once` or `settle = at_most_once`"),
    (&["retry_delay", "retry_after", "delay_ms", "backoff_ms", "retry_backoff", "exponential_backoff", "retry_interval"],
     "the delay of retries is `backoff = \"5s\"`, or `backoff = \"100ms..30s\"` to let it grow"),
    (&["parallelism", "max_concurrency", "concurrent", "consumers", "max_in_flight", "max_concurrent"],
     "the number of handlers at once is `concurrency = 4`"),
    (&["threads", "tasks"], "the number of tasks is `workers = 2`"),
    (&["prefetch_count", "credit", "receive_maximum", "window", "qos_prefetch", "prefetch_size"],
     "the most unsettled deliveries are `prefetch = 100`"),
    (&["order_by", "ordering", "ordering_key", "partition_by", "partition_key", "key", "ordered"],
     "deliveries of one key stay in order by `ordered_by = path`, to a `fn(&Delivery) -> K`"),
    (&["on_failure", "error_policy", "on_err"], "what an `Err` means is `on_error = retry`, `drop` or `dead_letter`"),
    (&["codec", "format", "encoding", "content_type", "decode", "payload"],
     "the codec is the type of the argument: take the payload as `Json<T>`, `Cbor<T>` or `Bytes`"),
    (&["state", "context", "inject"], "shared state is an argument: take it as `State<T>`"),
    (&["reply", "respond_to", "response_topic", "publish_to", "answer_to", "output", "to"],
     "returned values are published by `reply_to = \"answers\"`"),
    (&["consumer_group", "group_id", "share", "share_group", "shared_group"],
     "competing MQTT subscribers are `mqtt(shared = \"workers\")`; queues are shared by nature"),
    (&["deadline", "timeout_ms", "max_duration", "handler_timeout"], "the longest run of the handler is `timeout = \"30s\"`"),
    (&["batch_size", "max_batch", "batch_timeout"], "batches are `batch(size = 64, wait = \"20ms\")`"),
    (&["url", "host", "port", "server", "connection_string"],
     "brokers belong to the application: `App::broker`, and `broker = \"name\"` here"),
    (&["krate", "crate_path", "crate_name"], "the path of the crate is `crate = path`"),
];

/// The groups that have a key of this name, with its way of writing.
pub(crate) fn groups_with(name: &str) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for group in TOP {
        if let Kind::Group(_, keys) = group.kind {
            let of_name = keys.iter().filter(|key| key.name == name);
            found.extend(of_name.map(|key| (group.name, key.example)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_habit_hides_a_key() {
        for (names, cure) in HABITS {
            assert!(!cure.ends_with('.'), "{cure}");
            for name in *names {
                assert!(TOP.iter().all(|key| key.name != *name), "{name}");
                assert!(groups_with(name).is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn examples_begin_with_their_key() {
        for key in TOP {
            assert!(key.example.starts_with(key.name), "{}", key.name);
            if let Kind::Group(_, keys) = key.kind {
                for key in keys {
                    assert!(key.example.starts_with(key.name), "{}", key.name);
                }
            }
        }
    }
}
