use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", mqtt(qos = 1))]
async fn handle(_: Bytes) {}

fn main() {}
