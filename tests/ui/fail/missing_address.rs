use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber]
async fn nothing(_: Bytes) {}

#[subscriber()]
async fn empty(_: Bytes) {}

#[subscriber(max_attempts = 3)]
async fn only_a_cap(_: Bytes) {}

fn main() {}
