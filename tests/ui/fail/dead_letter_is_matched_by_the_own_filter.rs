use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/#", retry_topic = "devices/retry", dead_letter = "devices/dead")]
async fn handle(_: Bytes) {}

fn main() {}
