use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "orders", codec = "json")]
async fn handle(_: Bytes) {}

fn main() {}
