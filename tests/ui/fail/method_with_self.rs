use ruststream::Bytes;
use ruststream::subscriber;

struct Shop;

impl Shop {
    #[subscriber(address = "orders")]
    async fn handle(&self, _: Bytes) {}
}

fn main() {}
