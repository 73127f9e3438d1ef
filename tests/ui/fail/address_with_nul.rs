use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "ord\0ers")]
async fn handle(_: Bytes) {}

fn main() {}
