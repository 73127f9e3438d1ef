use ruststream::Bytes;
use ruststream::subscriber;

const ATTEMPTS: usize = 3;
const ORDERS: u32 = 7;

#[subscriber(address = ORDERS, max_attempts = ATTEMPTS)]
async fn handle(_: Bytes) {}

fn main() {}
