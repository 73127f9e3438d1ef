//! What `#[subscriber]` leaves behind.

use std::borrow::Cow;
use std::fmt;

use ruststream::Bytes;
use ruststream::Delivery;
use ruststream::Extract;
use ruststream::Failure;
use ruststream::Outcome;
use ruststream::extract::Incoming;
use ruststream::extract::Rejection;
use ruststream::subscriber;

struct Payload(Bytes);

impl Extract for Payload {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self(from.delivery().payload().clone()))
    }
}

#[derive(Debug, Failure)]
enum Problem {
    #[failure(retry_after = "5s")]
    Busy,
    #[failure(dead_letter)]
    Broken(u32),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn retry_to(delivery: &Delivery) -> Cow<'_, str> {
    Cow::Borrowed(delivery.address())
}

fn customer(delivery: &Delivery) -> &[u8] {
    delivery.payload()
}

#[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
async fn fulfil(payload: Payload) -> Result<(), Problem> {
    match payload.0.len() {
        0 => Err(Problem::Broken(1)),
        1 => Err(Problem::Busy),
        _ => Ok(()),
    }
}

#[subscriber(filter = "a/+", retry_topic_with = retry_to, ordered_by = customer, mqtt(qos = 1, shared = "w"), timeout = "5s", backoff = "1s..2s")]
async fn record(_: Payload) -> Outcome {
    Outcome::Ack
}

#[subscriber(queue = "q", reply_to = "answers")]
async fn answer(_: Payload) -> Result<u32, Problem> {
    Ok(1)
}
#[subscriber(queue = "q", reply_to = "answers", on_error = drop)]
async fn answer_2(_: Payload) -> Result<u32, String> {
    Ok(1)
}

#[test]
fn all_are_registered() {
    assert_eq!(
        ruststream::__private::inventory::iter::<ruststream::registration::Registration>().count(),
        4
    );
}
