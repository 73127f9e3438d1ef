//! A crate with strict lints.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, unreachable_pub, rust_2018_idioms)]
#![deny(missing_debug_implementations, unused_results, single_use_lifetimes, let_underscore_drop)]
#![deny(clippy::all, clippy::pedantic)]

use std::fmt;

use ruststream::Bytes;
use ruststream::Delivery;
use ruststream::Extract;
use ruststream::Failure;
use ruststream::Outcome;
use ruststream::extract::Incoming;
use ruststream::extract::Rejection;
use ruststream::subscriber;

/// An argument.
#[derive(Debug)]
pub struct Size(usize);

impl Extract for Size {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self(from.delivery().payload().len()))
    }
}

/// An error.
#[derive(Debug, Failure)]
pub enum Problem {
    /// Too small.
    #[failure(drop)]
    Small,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too small")
    }
}

fn first(delivery: &Delivery) -> Option<&u8> {
    delivery.payload().first()
}

/// A handler.
#[subscriber(address = "orders", max_attempts = 3, dead_letter = "dead", ordered_by = first)]
pub async fn handle(payload: Bytes, size: Size) -> Result<Outcome, Problem> {
    if payload.is_empty() || size.0 == 0 {
        return Err(Problem::Small);
    }
    Ok(Outcome::Ack)
}

#[subscriber(queue = "orders", reply_to = "answers")]
async fn answer(payload: Bytes) -> Bytes {
    payload
}

fn main() {}
