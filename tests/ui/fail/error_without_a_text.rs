use ruststream::Bytes;
use ruststream::subscriber;

struct OutOfStock;

#[subscriber(address = "orders", max_attempts = 3)]
async fn handle(_: Bytes) -> Result<(), OutOfStock> {
    Err(OutOfStock)
}

fn main() {}
