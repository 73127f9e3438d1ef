use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", dead_letter = "orders")]
async fn handle(_: Bytes) {}

fn main() {}
