//! Other attributes above and below, attribute macros among them.
#![deny(warnings)]

use ruststream::Bytes;
use ruststream::subscriber;

#[allow(unused_variables)]
#[subscriber(address = "a")]
#[inline]
async fn plain(payload: Bytes) {}

#[tracing::instrument(skip_all)]
#[subscriber(address = "b", max_attempts = 3)]
async fn instrumented_above(payload: Bytes) -> Result<(), String> {
    tracing::info!(size = payload.len());
    Err("no".into())
}

#[subscriber(address = "c", max_attempts = 3)]
#[tracing::instrument(skip_all, fields(size = payload.len()))]
async fn instrumented_below(payload: Bytes) -> Result<(), String> {
    Ok(drop(payload))
}

/// Documented.
#[subscriber(address = "d")]
#[doc = "Twice."]
#[deprecated(note = "but still mounted")]
#[must_use]
async fn deprecated(_: Bytes) {}

#[subscriber(address = "e", name = "from_e")]
#[subscriber(address = "f", name = "from_f")]
async fn two_addresses(_: Bytes) {}

fn main() {
    let count = ruststream::__private::inventory::iter::<ruststream::registration::Registration>().count();
    assert_eq!(count, 6);
}
