use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/+", retry_topic = "parked", dead_letter = "parked")]
async fn handle(_: Bytes) {}

fn main() {}
