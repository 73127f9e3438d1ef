use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders", reply_to = "answers")]
async fn nothing(_: Bytes) {}

#[subscriber(address = "orders", reply_to = "answers", on_error = drop)]
async fn unit(_: Bytes) -> Result<(), String> {
    Ok(())
}

fn main() {}
