use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", prefetch = 0)]
async fn handle(_: Bytes) {}

fn main() {}
