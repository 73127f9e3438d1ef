//! What was said about each item of a batch. Written by items, read by the pump.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use crate::Outcome;
use crate::extract::Rejection;

/// What was said about each item of a batch, by the delivery's place in it.
///
/// Shared by the batch, its items and the pump; each place is written once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    answers: Vec<OnceLock<Answer>>,
    abandoned: AtomicBool,
}

/// What is written down for an item.
#[derive(Debug)]
pub(super) enum Answer {
    Outcome(Outcome),
    Rejected(Rejection),
    Abandoned,
}

/// What the pump reads for an item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemOutcome<'a> {
    /// The handler answered it.
    Outcome(Outcome),
    /// It never entered the batch.
    Rejected(&'a Rejection),
    /// Nothing was said: ack after a normal return, a failed attempt after a failure.
    Unanswered,
    /// It was left without an outcome, explicitly.
    Abandoned,
}

impl Ledger {
    pub(crate) fn new(items: usize) -> Self {
        let mut ledger = Self::default();
        ledger.clear(items);
        ledger
    }

    /// Make `ledger` a blank one for `items`, in its own memory unless an item of the batch before
    /// still holds it: what that one says must not reach this batch.
    pub(crate) fn reset(ledger: &mut Arc<Self>, items: usize) {
        match Arc::get_mut(ledger) {
            Some(own) => own.clear(items),
            None => *ledger = Arc::new(Self::new(items)),
        }
    }

    /// What was said about the item at `index`.
    pub(crate) fn outcome(&self, index: usize) -> ItemOutcome<'_> {
        match self.answers.get(index).and_then(OnceLock::get) {
            Some(Answer::Outcome(outcome)) => ItemOutcome::Outcome(*outcome),
            Some(Answer::Rejected(rejection)) => ItemOutcome::Rejected(rejection),
            Some(Answer::Abandoned) => ItemOutcome::Abandoned,
            None if self.abandoned.load(Ordering::Acquire) => ItemOutcome::Abandoned,
            None => ItemOutcome::Unanswered,
        }
    }

    /// The first answer counts; the items' types allow no second one.
    pub(super) fn answer(&self, index: usize, answer: Answer) {
        if let Some(place) = self.answers.get(index) {
            place.get_or_init(|| answer);
        }
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    fn clear(&mut self, items: usize) {
        self.answers.clear();
        self.answers.resize_with(items, OnceLock::new);
        *self.abandoned.get_mut() = false;
    }
}
