use ruststream::Bytes;
use ruststream::subscriber;

struct Receipt;

#[subscriber(address = "orders", reply_to = "answers")]
async fn handle(_: Bytes) -> Receipt {
    Receipt
}

fn main() {}
