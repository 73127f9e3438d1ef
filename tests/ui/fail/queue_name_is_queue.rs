use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue_name = "orders")]
async fn handle(_: Bytes) {}

fn main() {}
