use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", max_attempts = "3", address = "other", max_attempts = 3)]
async fn handle(_: Bytes) {}

fn main() {}
