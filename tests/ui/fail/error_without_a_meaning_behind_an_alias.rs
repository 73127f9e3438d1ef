use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::subscriber;

type Handled = Result<Outcome, String>;

#[subscriber(address = "orders")]
async fn handle(_: Bytes) -> Handled {
    Ok(Outcome::Ack)
}

fn main() {}
