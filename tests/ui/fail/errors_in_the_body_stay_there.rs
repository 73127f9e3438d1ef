use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async fn handle(_: Bytes) {
    let number: u32 = "text";
    no_such_macro!();
}

fn main() {}
