use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = format!("orders.{}", 1))]
async fn handle(_: Bytes) {}

fn main() {}
