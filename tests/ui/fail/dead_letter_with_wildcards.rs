use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", dead_letter = "dead/#")]
async fn handle(_: Bytes) {}

#[subscriber(topic = "orders", dead_letter = "dead+", mqtt(qos = 1))]
async fn handle_2(_: Bytes) {}

fn main() {}
