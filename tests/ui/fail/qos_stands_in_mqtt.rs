use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", qos = 1)]
async fn handle(_: Bytes) {}

#[subscriber(queue = "orders", durable = true)]
async fn handle_2(_: Bytes) {}

fn main() {}
