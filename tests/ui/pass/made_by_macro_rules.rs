//! Handlers made by a macro, whose tokens have spans of their own.
#![deny(warnings)]

use ruststream::Bytes;
use ruststream::subscriber;

macro_rules! handler {
    ($name:ident, $address:expr, $payload:ty, $returned:ty, $body:block) => {
        #[subscriber(address = $address, max_attempts = 3, dead_letter = concat!($address, ".dead"))]
        async fn $name(payload: $payload) -> $returned {
            drop(payload);
            $body
        }
    };
}

macro_rules! fixed {
    () => {
        #[subscriber(filter = "a/+", retry_topic = "a/retry", timeout = "5s", mqtt(qos = 1))]
        async fn fixed(payload: Bytes) {
            drop(payload);
        }
    };
}

macro_rules! reexported {
    () => {
        #[$crate::rs::subscriber(crate = $crate::rs, address = "reexported")]
        async fn reexported(_: $crate::rs::Bytes) {}
    };
}

#[allow(unused_imports)]
pub(crate) use ruststream as rs;

handler!(one, "one", Bytes, (), {});
handler!(two, "two", Bytes, Result<(), String>, { Ok(()) });
fixed!();
reexported!();

fn main() {
    let count = ruststream::__private::inventory::iter::<ruststream::registration::Registration>().count();
    assert_eq!(count, 4);
}
