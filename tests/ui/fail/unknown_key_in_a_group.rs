use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", mqtt(qso = 1, max_attempts = 3, banana))]
async fn handle(_: Bytes) {}

fn main() {}
