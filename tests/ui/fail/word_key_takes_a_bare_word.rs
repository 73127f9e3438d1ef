use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", on_error = "retry", on_panic = ignore, settle = Settle::AtMostOnce, on_timeout = rety, timeout = "5s")]
async fn handle(_: Bytes) {}

fn main() {}
