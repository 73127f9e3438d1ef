use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", concurrency = 0, workers = 0)]
async fn handle(_: Bytes) {}

fn main() {}
