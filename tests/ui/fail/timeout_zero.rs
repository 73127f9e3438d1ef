use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", timeout = "0s")]
async fn handle(_: Bytes) {}

fn main() {}
