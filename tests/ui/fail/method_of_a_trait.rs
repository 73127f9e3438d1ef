use ruststream::Bytes;
use ruststream::subscriber;

trait Shop {
    #[subscriber(address = "orders")]
    async fn handle(_: Bytes);
}

fn main() {}
