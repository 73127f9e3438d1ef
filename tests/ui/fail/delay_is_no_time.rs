use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", delay = "5s")]
async fn handle(_: Bytes) {}

fn main() {}
