use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", on_timeout = drop)]
async fn handle(_: Bytes) {}

fn main() {}
