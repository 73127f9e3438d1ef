use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", retry_topic_elsewhere)]
async fn handle(_: Bytes) {}

fn main() {}
