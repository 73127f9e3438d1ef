use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders")]
fn handle(_: Bytes) {}

fn main() {}
