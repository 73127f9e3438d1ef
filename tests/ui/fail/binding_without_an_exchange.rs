use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", rabbitmq(routing_key = "orders.*"))]
async fn handle(_: Bytes) {}

#[subscriber(queue = "orders", rabbitmq(exchange_type = "topic"))]
async fn handle_2(_: Bytes) {}

fn main() {}
