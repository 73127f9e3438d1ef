use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", batch(size = 64))]
async fn handle(_: Bytes) {}

fn main() {}
