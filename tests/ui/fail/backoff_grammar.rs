use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", backoff = "30s..1s")]
async fn handle(_: Bytes) {}

#[subscriber(address = "orders", backoff = "0s")]
async fn handle_2(_: Bytes) {}

#[subscriber(address = "orders", backoff = "soon")]
async fn handle_3(_: Bytes) {}

fn main() {}
