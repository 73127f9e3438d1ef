use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(adress = "orders", max_attempts = "3", on_timeout = drop, dlq = "dead")]
fn handle(_: &Bytes) {}

fn main() {}
