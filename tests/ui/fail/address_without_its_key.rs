use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber("orders")]
async fn handle(_: Bytes) {}

#[subscriber("orders", "other")]
async fn handle_2(_: Bytes) {}

#[subscriber(7)]
async fn handle_3(_: Bytes) {}

fn main() {}
