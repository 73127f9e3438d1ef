use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/+/state")]
async fn handle(_: Bytes) {}

fn main() {}
