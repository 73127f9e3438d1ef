use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", mqtt(shared = "workers", no_local))]
async fn handle(_: Bytes) {}

fn main() {}
