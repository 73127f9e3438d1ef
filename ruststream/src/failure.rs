//! What an error of a handler means for its delivery.

use std::fmt;

use crate::Outcome;

/// An error that says what should become of the delivery.
///
/// Usually derived: `#[derive(Failure)]` with `#[failure(retry)]`, `#[failure(retry_after = "5s")]`,
/// `#[failure(drop)]` or `#[failure(dead_letter)]` on each variant. The error's text becomes the
/// reason on the dead letter (spec C10), cut to 1 KiB.
///
/// An error without this trait is fine when the handler declares `on_error` or `max_attempts`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what should become of the delivery",
    label = "not a `Failure`",
    note = "derive it, `#[derive(ruststream::Failure)]` with `#[failure(retry)]` or another word on each variant; or say it for every error in the attribute: `on_error = retry`, `on_error = drop`, `on_error = dead_letter`, or `max_attempts = 3` to retry"
)]
pub trait Failure: fmt::Display {
    /// What this error means.
    fn outcome(&self) -> Outcome;
}

impl<E: Failure + ?Sized> Failure for Box<E> {
    fn outcome(&self) -> Outcome {
        (**self).outcome()
    }
}
