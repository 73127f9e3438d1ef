use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", timeout = "30")]
async fn handle(_: Bytes) {}

#[subscriber(address = "orders", timeout = "30 seconds")]
async fn handle_2(_: Bytes) {}

#[subscriber(address = "orders", timeout = "30m1h")]
async fn handle_3(_: Bytes) {}

fn main() {}
