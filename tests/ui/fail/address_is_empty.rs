use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "")]
async fn handle(_: Bytes) {}

#[subscriber(queue = "orders", group = "")]
async fn handle_2(_: Bytes) {}

fn main() {}
