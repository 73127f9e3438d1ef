use ruststream::Bytes;
use ruststream::IntoOutcome;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async fn handle(_: Bytes) -> impl IntoOutcome {}

fn main() {}
