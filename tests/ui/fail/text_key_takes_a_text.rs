use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = 5, group = true)]
async fn handle(_: Bytes) {}

fn main() {}
