use std::fmt;

use ruststream::Bytes;
use ruststream::subscriber;

#[derive(Debug)]
struct OutOfStock;

impl fmt::Display for OutOfStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of stock")
    }
}

#[subscriber(address = "orders", dead_letter = "orders.dead")]
async fn handle(_: Bytes) -> Result<(), OutOfStock> {
    Err(OutOfStock)
}

fn main() {}
