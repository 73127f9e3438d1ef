//! What `#[subscriber]` leaves behind, as the application finds it.

use std::fmt;

use ruststream::Bytes;
use ruststream::Failure;
use ruststream::Outcome;
use ruststream::Registry;
use ruststream::registration::Form;
use ruststream::registration::Options;
use ruststream::subscriber;

#[derive(Debug, Failure)]
#[failure(retry)]
struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

mod orders {
    use super::*;

    #[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
    pub(super) async fn fulfil(payload: Bytes) -> Result<(), Busy> {
        if payload.is_empty() {
            return Err(Busy);
        }
        Ok(())
    }
}

#[subscriber(
    filter = "devices/+/state",
    retry_topic = "devices/retry/state",
    name = "recorder"
)]
async fn record(_: Bytes) -> Outcome {
    Outcome::Ack
}

async fn no_handler(_: Bytes) {}

#[test]
fn a_registration_is_found_by_its_function() {
    let registry = Registry::linked();
    assert_eq!(registry.len(), 2);
    let fulfil = registry.find(orders::fulfil).unwrap();
    assert_eq!(
        (fulfil.name, fulfil.module),
        ("fulfil", "subscriber::orders")
    );
    assert_eq!((fulfil.form, fulfil.address), (Form::Address, "orders"));
    assert!(
        fulfil.file.ends_with("tests/subscriber.rs"),
        "{}",
        fulfil.file
    );
    assert!(fulfil.fails);
    let record = registry.find(record).unwrap();
    assert_eq!((record.name, record.form), ("recorder", Form::Filter));
    assert!(!record.fails);
    assert!(registry.find(no_handler).is_none());
}

#[test]
fn what_is_not_declared_is_not_set() {
    let fulfil = Registry::linked().find(orders::fulfil).unwrap();
    let expected = Options {
        max_attempts: Some(3),
        dead_letter: Some("orders.dead"),
        ..Options::NONE
    };
    assert_eq!(format!("{:?}", fulfil.options), format!("{expected:?}"));
}
