use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", rabbitmq(declare, passive))]
async fn handle(_: Bytes) {}

fn main() {}
