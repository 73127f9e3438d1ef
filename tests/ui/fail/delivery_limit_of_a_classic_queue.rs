use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", rabbitmq(queue_type = classic, delivery_limit = 20))]
async fn handle(_: Bytes) {}

fn main() {}
