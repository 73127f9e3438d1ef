use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", rabbitmq(queue_type = quorum, exclusive))]
async fn handle(_: Bytes) {}

fn main() {}
