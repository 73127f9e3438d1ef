use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", max_attempts = 3, mqtt(no_local = true))]
async fn handle(_: Bytes) {}

#[subscriber(filter = "a/+", retry_topic = "a/retry", mqtt(no_local))]
async fn handle_2(_: Bytes) {}

fn main() {}
