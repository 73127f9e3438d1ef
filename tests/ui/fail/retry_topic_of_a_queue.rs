use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", retry_topic = "orders.retry")]
async fn handle(_: Bytes) {}

fn main() {}
