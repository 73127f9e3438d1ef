use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", dlq = "orders.dead")]
async fn handle(_: Bytes) {}

fn main() {}
