use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", banana = 3)]
async fn handle(_: Bytes) {}

fn main() {}
