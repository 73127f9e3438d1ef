use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async unsafe fn dangerous(_: Bytes) {}

#[subscriber(address = "orders")]
async extern "C" fn foreign(_: Bytes) {}

fn main() {}
