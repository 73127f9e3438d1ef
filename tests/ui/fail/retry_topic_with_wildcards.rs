use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/+/state", retry_topic = "devices/+/state")]
async fn handle(_: Bytes) {}

fn main() {}
