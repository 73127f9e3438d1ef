use ruststream::Batch;
use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", batch(size = 8), reply_to = "answers")]
async fn handle(_: Batch<Bytes>) -> u32 {
    7
}

fn main() {}
