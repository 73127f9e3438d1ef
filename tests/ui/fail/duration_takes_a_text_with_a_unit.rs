use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", timeout = 30)]
async fn handle(_: Bytes) {}

fn main() {}
