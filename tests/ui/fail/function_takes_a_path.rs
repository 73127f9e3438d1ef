use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", ordered_by = "customer")]
async fn handle(_: Bytes) {}

#[subscriber(filter = "a/+", retry_topic_with = "a/retry")]
async fn handle_2(_: Bytes) {}

fn main() {}
