use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(filter = "devices/+x/state", retry_topic = "devices/retry")]
async fn handle(_: Bytes) {}

#[subscriber(filter = "devices/#/state", retry_topic = "devices/retry")]
async fn handle_2(_: Bytes) {}

#[subscriber(filter = "$share/workers/devices/+", retry_topic = "devices/retry")]
async fn handle_3(_: Bytes) {}

fn main() {}
