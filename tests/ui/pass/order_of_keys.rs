//! The order of the keys does not change what is registered.
// case: C16
#![deny(warnings)]

use ruststream::Bytes;
use ruststream::registration::Registration;
use ruststream::subscriber;

#[subscriber(address = "orders", max_attempts = 3, dead_letter = "dead", backoff = "1s", on_error = retry)]
async fn cap_first(_: Bytes) -> Result<(), String> {
    Ok(())
}

#[subscriber(on_error = retry, dead_letter = "dead", backoff = "1s", max_attempts = 3, address = "orders")]
async fn cap_last(_: Bytes) -> Result<(), String> {
    Ok(())
}

fn main() {
    let find = |name| {
        ruststream::__private::inventory::iter::<Registration>()
            .find(|it| it.name == name)
            .unwrap()
    };
    let (first, last) = (find("cap_first"), find("cap_last"));
    assert_eq!(format!("{:?}", first.options), format!("{:?}", last.options));
    assert_eq!((first.form, first.address), (last.form, last.address));
    assert!(first.fails && last.fails);
}
