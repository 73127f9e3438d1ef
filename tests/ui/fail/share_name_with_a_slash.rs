use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", mqtt(shared = "a/b"))]
async fn handle(_: Bytes) {}

fn main() {}
