use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "a/+", retry_topic = "a/retry", rabbitmq(declare))]
async fn handle(_: Bytes) {}

fn main() {}
