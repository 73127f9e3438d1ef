//! `cfg` on a handler governs its registration, and within one it works as without the macro.
// case: K12 K13
#![deny(warnings)]

use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::extract::Attempt;
use ruststream::subscriber;

#[cfg(any())]
#[subscriber(address = "no")]
async fn above_and_off(_: Missing) {}

#[subscriber(address = "no")]
#[cfg(any())]
async fn below_and_off(_: Missing) {}

#[cfg(test)]
#[subscriber(address = "no")]
async fn in_tests_only(_: Missing) {}

#[cfg(unix)]
#[subscriber(address = "above")]
async fn above_and_on(_: Bytes) {}

#[subscriber(address = "below")]
#[cfg(unix)]
async fn below_and_on(_: Bytes) {}

#[cfg_attr(all(), subscriber(address = "attr"))]
#[cfg_attr(all(), doc = "documented")]
async fn by_cfg_attr(_: Bytes) {}

#[subscriber(address = "arguments")]
#[cfg_attr(any(), cfg(any()))]
async fn arguments(
    #[cfg(any())] missing: Missing,
    #[cfg(all())] present: Bytes,
    #[cfg_attr(any(), cfg(any()))] attempt: Attempt,
    #[cfg_attr(all(), cfg(any()))] _absent: Missing,
    #[allow(unused_variables)] unused: Bytes,
) -> Outcome {
    #[cfg(any())]
    compile_error!("this is not here");
    #[cfg(any())]
    let outcome = missing;
    #[cfg(all())]
    let outcome = Outcome::Ack;
    let _ = (present, attempt);
    outcome
}

fn main() {
    let registrations = ruststream::__private::inventory::iter::<ruststream::registration::Registration>();
    let mut names: Vec<_> = registrations.map(|it| it.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["above_and_on", "arguments", "below_and_on", "by_cfg_attr"]);
}
