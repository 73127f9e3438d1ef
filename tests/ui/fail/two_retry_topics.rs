use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/+/state", retry_topic = "devices/retry/state", retry_topic_with = path)]
async fn handle(_: Bytes) {}

fn main() {}
