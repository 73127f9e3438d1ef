use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", auto_ack = true)]
async fn handle(_: Bytes) {}

fn main() {}
