use std::rc::Rc;

use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async fn handle(_: Bytes) {
    let shared = Rc::new(1);
    std::future::ready(()).await;
    drop(shared);
}

fn main() {}
