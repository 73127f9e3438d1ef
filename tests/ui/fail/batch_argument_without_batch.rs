use ruststream::Batch;
use ruststream::Bytes;
use ruststream::subscriber;

type Orders = Batch<Bytes>;

#[subscriber(address = "orders")]
async fn handle(_: Batch<Bytes>) {}

#[subscriber(address = "orders")]
async fn alias(_: Orders) {}

fn main() {}
