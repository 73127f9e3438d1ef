use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", on_error = dead_letter, on_panic = dead_letter, on_decode = dead_letter)]
async fn handle(_: Bytes) {}

fn main() {}
