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
    note = "derive it (`#[derive(ruststream::Failure)]`), or declare `on_error = retry`, `drop` or `dead_letter`, or `max_attempts`"
)]
pub trait Failure: fmt::Display {
    /// What this error means.
    fn outcome(&self) -> Outcome;
}
