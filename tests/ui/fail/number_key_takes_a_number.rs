use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", max_attempts = "3", prefetch = -1)]
async fn handle(_: Bytes) {}

fn main() {}
