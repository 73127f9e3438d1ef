use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", mqtt(qos = 3, retain_handling = 3))]
async fn handle(_: Bytes) {}

fn main() {}
