use ruststream::Bytes;
use ruststream::subscriber;

const FILTER: &str = "devices/#";
const DEAD_LETTER: &str = concat!("devices/", "dead");
const ATTEMPTS: u32 = 1 - 1;

#[subscriber(filter = FILTER, retry_topic = "devices/retry", dead_letter = DEAD_LETTER, max_attempts = ATTEMPTS)]
async fn handle(_: Bytes) {}

fn main() {}
