use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = orders, dead_letter = DEAD)]
async fn handle(_: Bytes) {}

fn main() {}
