//! The macros of ruststream: `#[subscriber]` and `#[derive(Failure)]`.
//!
//! They are used through the `ruststream` crate, which documents them.

use proc_macro::TokenStream;

mod args;
mod cfg;
mod check;
mod diagnostics;
mod expand;
mod failure;
mod handler;
mod keys;
mod subscriber;

/// Registers a free `async fn` as a message handler.
///
/// The function stays what it is: it can be called, documented and put under other attributes. Beside it a
/// registration is left behind, which `App` finds by itself, wherever the function stands. A crate
/// of handlers has to be linked for that: `use handlers as _;` in the program.
///
/// # Arguments and return value
///
/// Every argument is an extractor: a payload in a codec (`Json<T>`, `Bytes`), `State<T>`, `Attempt`, a header. Several of
/// one kind may be taken, in any order, and none at all. Arguments own what they take; a handler is not generic.
///
/// It returns `()`, an `Outcome`, a `Result` of one of them, or with `reply_to` a value to publish. What an error means says
/// its `Failure` impl, else `on_error`, else it is retried if `max_attempts` is declared; a handler that can fail
/// and has none of the three does not compile.
///
/// # Keys
///
/// Texts are constant expressions of type `&'static str`, numbers of type `u32`. Durations are texts: numbers with a unit
/// (`us`, `ms`, `s`, `m`, `h`, `d`), the largest first, as in `250ms`, `30s` or `1h30m`. Words are written bare. Exactly one of
/// the first four keys is needed.
///
/// | key | takes | by default | meaning |
/// |---|---|---|---|
/// | `address` | text | | an exact address, sent as it is |
/// | `queue` | text | | a queue: each message to one of its readers |
/// | `topic` | text | | an exact topic: each message to every reader |
/// | `filter` | text | | an MQTT topic filter; needs `retry_topic` or `retry_topic_with` |
/// | `retry_topic` | text | the own address | where copies for a retry go; for `topic` and `filter` |
/// | `retry_topic_with` | path to `fn(&Delivery) -> Cow<'_, str>` | | the same, for each delivery |
/// | `retry_topic_elsewhere` | flag | | another program reads the retry topic |
/// | `max_attempts` | number, 1 or more | no cap | the most starts for one message; the first delivery counts |
/// | `dead_letter` | text | none | where spent deliveries go; without a cap it is a cap of 1 |
/// | `dead_letter_headers` | `true` or `false` | `true` | the reason is told in headers of the dead letter |
/// | `reads_dead_letters` | flag | | this handler reads the dead letters of another one |
/// | `competes` | flag | | another handler reads the same queue, and they share its messages |
/// | `backoff` | `"100ms..30s"` or `"5s"` | none | the delay of retries that come from failures: doubling between two bounds with full jitter, or constant |
/// | `on_error` | `retry`, `drop`, `dead_letter` | `retry` | what an `Err` without a `Failure` impl means |
/// | `on_panic` | `retry`, `drop`, `dead_letter` | `retry` | what a panic means |
/// | `on_timeout` | `retry`, `drop`, `dead_letter` | `retry` | what reaching the `timeout` means |
/// | `on_decode` | `drop`, `dead_letter` | `dead_letter` if one is declared, else `drop` | what an undecodable payload means |
/// | `timeout` | duration above zero | none | the longest run of the handler |
/// | `delay` | `process`, `journal`, `hold`, `broker` | `process` | how a delayed retry waits |
/// | `settle` | `at_least_once`, `at_most_once` | `at_least_once` | when a delivery is settled; not for MQTT, which has `qos` |
/// | `concurrency` | number, 1 or more | 1, or `workers` | handlers at once |
/// | `workers` | number, 1 or more | 1 | tasks they are spread over |
/// | `ordered_by` | path to `fn(&Delivery) -> K`, `K: Hash` | | first deliveries of one key stay in order |
/// | `prefetch` | number, 1 or more | 64, or twice what runs at once | the most unsettled deliveries |
/// | `batch` | `batch(size = 64, wait = "20ms")` | | the handler takes a `Batch<T>` of at most `size`; its first item waits `wait` for others, not at all by default |
/// | `reply_to` | text | | where a returned value is published: a message as it is, anything else as JSON |
/// | `replies` | flag | | a returned value goes to the reply address of the delivery, as a request has one; to `reply_to` where it has none |
/// | `broker` | text | the default broker (`App::broker`) | which named broker |
/// | `group` | text | none | which part of the application |
/// | `name` | text | the function's name | the handler's name in logs and configuration |
/// | `crate` | path | `::ruststream` | the crate, when it is renamed or reached through another one |
///
/// `mqtt(…)` is read on MQTT only, and makes the values above follow MQTT's rules:
///
/// | key | takes | by default | meaning |
/// |---|---|---|---|
/// | `qos` | 0, 1 or 2 | 1 | quality of service of the subscription |
/// | `shared` | text | none | the group of competing subscribers |
/// | `no_local` | `true` or `false` | `false` | not what this connection published; never with `shared` or anything that makes copies |
/// | `retain_handling` | 0, 1 or 2 | 0 | whether retained messages come with the subscription |
/// | `retain_as_published` | `true` or `false` | `false` | keep the retain flag |
/// | `connection` | text | one of its own | handlers with the same name share a connection |
/// | `client_id` | text | from application, host and handler | the client id |
/// | `session_expiry` | duration above zero | the driver's | how long the session outlives its connection |
/// | `ack_order` | `arrival`, `completion` | `arrival` | the order in which acknowledgements leave |
/// | `dead_letter_retain` | `true` or `false` | `false` | the server keeps the last dead letter |
/// | `dead_letter_unread` | `accept`, `keep` | `accept` | what a dead letter that nobody reads means |
///
/// `amqp(…)` is read on AMQP 1.0 only:
///
/// | key | takes | by default | meaning |
/// |---|---|---|---|
/// | `durable` | `true` or `false` | the driver's | a subscription that outlives its link |
/// | `selector` | text | none | a filter in the broker's language |
/// | `subscription` | text | from application and handler | the name of the subscription |
/// | `shared_subscription` | `true` or `false` | the driver's | other processes share it |
///
/// `rabbitmq(…)` is read on AMQP 0-9-1 only:
///
/// | key | takes | by default | meaning |
/// |---|---|---|---|
/// | `queue_type` | `quorum`, `classic`, `stream` | the broker's | the kind of queue |
/// | `exchange`, `exchange_type`, `routing_key` | text, at most 255 bytes | none | the binding of the queue |
/// | `declare`, `passive` | `true` or `false` | `false` | make the queue, or only look whether it is there |
/// | `durable`, `exclusive`, `single_active` | `true` or `false` | the broker's | as RabbitMQ has it |
/// | `delivery_limit` | number | the broker's | the queue's own limit; for quorum queues |
/// | `priority` | `i32` | none | the consumer's priority |
/// | `arguments` | `[("x-max-length", "1000")]` | none | further arguments of the queue |
///
/// A flag, and a key that takes `true` or `false`, may stand alone for `true`.
///
/// # What is checked
///
/// Everything that shows while the crate is compiled: grammar of addresses, filters and durations, also of constants; values of zero;
/// a dead letter that the handler would read itself; policies that contradict each other; arguments and return value.
/// What only shows at start-up is told by `App::check`.
///
/// Put it on free functions only. On a function in an `impl` the compiler says that it cannot find the function.
#[proc_macro_attribute]
pub fn subscriber(attribute: TokenStream, item: TokenStream) -> TokenStream {
    subscriber::expand(attribute.into(), item.into()).into()
}

/// Derives `Failure`: what each error means for its delivery.
///
/// Every variant of an enum, or the struct itself, says one of these. The type has to implement `Display`; its text becomes
/// the reason on the dead letter.
///
/// | attribute | outcome |
/// |---|---|
/// | `#[failure(retry)]` | again, at once |
/// | `#[failure(retry_after = "5s")]` | again, after that long: a constant text, above zero |
/// | `#[failure(drop)]` | not wanted: the broker's own policy decides |
/// | `#[failure(dead_letter)]` | to the declared dead letter now |
///
/// On the type itself, `#[failure(crate = path)]` says where the crate is when it is renamed.
#[proc_macro_derive(Failure, attributes(failure))]
pub fn derive_failure(input: TokenStream) -> TokenStream {
    failure::expand(input.into()).into()
}
