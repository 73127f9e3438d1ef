use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async fn number(_: Bytes) -> u32 {
    7
}

#[subscriber(address = "orders", on_error = drop)]
async fn number_or_error(_: Bytes) -> Result<u32, String> {
    Ok(7)
}

fn main() {}
