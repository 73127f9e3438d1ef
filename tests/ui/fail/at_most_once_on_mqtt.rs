use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", settle = at_most_once, mqtt(retain_handling = 0))]
async fn handle(_: Bytes) {}

fn main() {}
