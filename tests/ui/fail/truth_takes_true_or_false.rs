use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", dead_letter_headers = 0, competes = "yes")]
async fn handle(_: Bytes) {}

fn main() {}
