use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", max_atempts = 3)]
async fn handle(_: Bytes) {}

fn main() {}
