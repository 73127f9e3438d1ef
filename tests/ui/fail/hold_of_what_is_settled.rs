use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", settle = at_most_once, delay = hold)]
async fn handle(_: Bytes) {}

#[subscriber(topic = "orders", delay = hold, mqtt(qos = 0))]
async fn handle_2(_: Bytes) {}

fn main() {}
