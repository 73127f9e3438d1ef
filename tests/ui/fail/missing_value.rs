use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address)]
async fn handle(_: Bytes) {}

#[subscriber(address = , max_attempts)]
async fn handle_2(_: Bytes) {}

#[subscriber(address("orders"))]
async fn handle_3(_: Bytes) {}

fn main() {}
