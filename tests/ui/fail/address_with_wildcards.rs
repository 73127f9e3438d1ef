use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "devices/+/state")]
async fn handle(_: Bytes) {}

#[subscriber(topic = "devices/#")]
async fn handle_2(_: Bytes) {}

#[subscriber(topic = "devices+state", mqtt(qos = 1))]
async fn handle_3(_: Bytes) {}

fn main() {}
