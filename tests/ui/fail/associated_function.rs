use ruststream::Bytes;
use ruststream::subscriber;

struct Shop;

impl Shop {
    #[subscriber(address = "orders")]
    async fn handle(_: Bytes) {}
}

fn main() {}
