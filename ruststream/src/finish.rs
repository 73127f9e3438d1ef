//! How a handler's return value becomes a [`Verdict`].
//!
//! Generated code knows the return type only as tokens, so it asks by *probe*: an inherent item of
//! [`Probe`] for the type at hand wins over the item of the same name in [`Fallback`]. That sees
//! through aliases, needs no bound and leaves no generic code behind. Bounds that a user can miss
//! stand on the items themselves, so each mistake is one error.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::marker::PhantomData;

use crate::Batch;
use crate::Failure;
use crate::IntoMessage;
use crate::IntoOutcome;
#[cfg(feature = "json")]
use crate::Json;
use crate::Message;
use crate::Outcome;
use crate::codec::EncodeError;
use crate::extract::Extract;
use crate::handler::Failed;
use crate::handler::Verdict;
use crate::registration::Requirements;

/// Asks about the type `T`, or holds a value of it.
#[derive(Debug)]
pub struct Probe<T>(pub T);

/// Like [`Probe`], of a type alone.
#[derive(Debug)]
pub struct Of<T>(PhantomData<T>);

/// What holds for every type that has nothing better.
pub trait Fallback {
    /// It is no `Result`.
    const FAILS: bool = false;
    /// It is no `Batch`.
    const BATCH: bool = false;

    /// It needs nothing: that it is no argument at all is told elsewhere.
    fn collect(needs: &mut Requirements) {
        let _ = needs;
    }
}

impl<T> Fallback for Of<T> {}

impl<T, E> Of<Result<T, E>> {
    /// It can be an error.
    pub const FAILS: bool = true;
}

impl<T: Extract> Of<T> {
    /// Collect what this argument needs.
    #[expect(
        clippy::inline_always,
        reason = "so that it is compiled with the handler's module, not again for all of them"
    )]
    #[inline(always)]
    pub fn collect(needs: &mut Requirements) {
        T::requires(needs);
    }
}

impl<T> Of<Batch<T>> {
    /// It is a batch.
    pub const BATCH: bool = true;
}

/// A return value that is no `Result` succeeded.
pub trait Plain<T> {
    /// The value.
    fn split(self) -> Result<T, Nothing>;
}

impl<T> Plain<T> for Probe<T> {
    fn split(self) -> Result<T, Nothing> {
        Ok(self.0)
    }
}

impl<T, E> Probe<Result<T, E>> {
    /// The value or the error.
    #[expect(
        clippy::missing_errors_doc,
        reason = "the error is the handler's, not this function's"
    )]
    pub fn split(self) -> Result<T, E> {
        self.0
    }
}

/// The error of a handler that returns no `Result`; never made.
#[derive(Debug)]
pub struct Nothing;

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

impl Failure for Nothing {
    fn outcome(&self) -> Outcome {
        Outcome::Drop
    }
}

/// A handler that succeeded.
#[inline]
pub fn done<T: IntoOutcome>(value: T) -> Verdict {
    Verdict::Done(value.into_outcome())
}

/// A handler without a policy failed: its error decides.
#[cold]
pub fn failed<E: Failure>(error: &E) -> Verdict {
    Failed::by_itself(error.outcome(), error)
}

/// An error of a handler with a policy: by its [`Failure`] impl if it has one, else by the policy.
#[derive(Debug)]
pub struct Failing<'a, E>(pub &'a E);

/// The error decides.
pub trait ByItself {
    /// What becomes of the delivery.
    fn verdict(&self) -> Verdict;
}

impl<E: Failure> ByItself for &Failing<'_, E> {
    fn verdict(&self) -> Verdict {
        Failed::by_itself(self.0.outcome(), self.0)
    }
}

/// The policy decides.
pub trait ByPolicy<E> {
    /// What becomes of the delivery.
    fn verdict(&self) -> Verdict
    where
        E: Reason;
}

impl<E> ByPolicy<E> for Failing<'_, E> {
    fn verdict(&self) -> Verdict
    where
        E: Reason,
    {
        Failed::by_policy(self.0.reason())
    }
}

/// An error with a text.
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` of a handler has no text",
    label = "does not implement `Display`",
    note = "the text becomes the reason in logs and on the dead letter: implement `std::fmt::Display`, or derive `thiserror::Error`"
)]
pub trait Reason {
    /// The text.
    fn reason(&self) -> &dyn fmt::Display;
}

#[diagnostic::do_not_recommend]
impl<E: fmt::Display> Reason for E {
    fn reason(&self) -> &dyn fmt::Display {
        self
    }
}

/// A value to publish.
pub struct Answer<T>(Cell<Option<T>>);

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl<T> Answer<T> {
    /// Of `value`.
    pub fn of(value: T) -> Self {
        Self(Cell::new(Some(value)))
    }
}

/// The value knows its message.
pub trait ByMessage {
    /// The answer.
    fn verdict(&self) -> Verdict;
}

impl<T: IntoMessage> ByMessage for &Answer<T> {
    fn verdict(&self) -> Verdict {
        answer(self.0.take().map(IntoMessage::into_message))
    }
}

/// The value is serialized.
pub trait BySerialize<T> {
    /// The answer.
    fn verdict(&self) -> Verdict
    where
        T: Publish;
}

impl<T> BySerialize<T> for Answer<T> {
    fn verdict(&self) -> Verdict
    where
        T: Publish,
    {
        answer(self.0.take().map(Publish::publish))
    }
}

/// A value that can be published without more being said.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published to `reply_to`",
    label = "cannot be serialized",
    note = "derive `serde::Serialize` for it, or return a `Message`; a handler with nothing to publish has no `reply_to`"
)]
pub trait Publish {
    /// The message.
    #[expect(clippy::missing_errors_doc, reason = "see `IntoMessage::into_message`")]
    fn publish(self) -> Result<Message, EncodeError>;
}

#[cfg(feature = "json")]
#[diagnostic::do_not_recommend]
impl<T: serde::Serialize> Publish for T {
    fn publish(self) -> Result<Message, EncodeError> {
        Json(self).into_message()
    }
}

/// Running the handler again would not help a value that cannot be encoded.
fn answer(message: Option<Result<Message, EncodeError>>) -> Verdict {
    match message {
        Some(Ok(message)) => Verdict::Answer(Box::new(message)),
        Some(Err(error)) => Failed::by_itself(Outcome::DeadLetter, &error),
        None => Verdict::Done(Outcome::Ack),
    }
}

/// The type of a function item, by which its registration is found.
#[must_use]
pub const fn type_of<F: 'static>(function: &F) -> TypeId {
    let _ = function;
    TypeId::of::<F>()
}

/// The same number for the same key, as long as the process lives.
#[must_use]
pub fn hash_of<K: Hash>(key: K) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
