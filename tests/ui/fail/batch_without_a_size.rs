use ruststream::Batch;
use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", batch(wait = "20ms"))]
async fn none(_: Batch<Bytes>) {}

#[subscriber(address = "orders", batch(size = 0))]
async fn zero(_: Batch<Bytes>) {}

fn main() {}
