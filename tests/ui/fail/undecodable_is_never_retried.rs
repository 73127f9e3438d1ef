use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", on_decode = retry)]
async fn handle(_: Bytes) {}

fn main() {}
