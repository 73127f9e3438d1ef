use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(queue = "jobs", dead_letter = "/queues/jobs")]
async fn handle(_: Bytes) {}

fn main() {}
