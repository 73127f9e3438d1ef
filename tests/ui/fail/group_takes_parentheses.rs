use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", mqtt = 1)]
async fn handle(_: Bytes) {}

fn main() {}
