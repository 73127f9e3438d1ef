use ruststream::Bytes;
use ruststream::subscriber;

struct Db;

#[subscriber(address = "orders")]
async fn handle(_: Bytes, _: &Db) {}

fn main() {}
