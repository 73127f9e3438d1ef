use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", address = "orders")]
async fn handle(_: Bytes) {}

fn main() {}
