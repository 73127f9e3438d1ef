//! Many deliveries in one call, each with an outcome of its own (spec C31).

use std::fmt;
use std::ops::Deref;
use std::ops::DerefMut;
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use crate::Outcome;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::extract::absorb;
use crate::registration::Requirements;

use ledger::Answer;
pub(crate) use ledger::ItemOutcome;
pub(crate) use ledger::Ledger;

mod ledger;

/// The argument of a handler that declares `batch(…)`: many deliveries, each taken as a `T`.
///
/// A delivery that `T` cannot be taken from never enters: it goes the way of an undecodable one by
/// itself, and the handler is not called for a batch of such only. Arguments that belong to one
/// message go inside, as in `Batch<(Json<Order>, Attempt)>`.
///
/// # What becomes of the items
///
/// | the handler | an item that was answered | an item that was not |
/// |---|---|---|
/// | returns normally | as answered | [`Ack`](Outcome::Ack), however the item was consumed |
/// | abandons the batch, then returns | as answered | left without an outcome: nothing is said to the broker |
/// | fails, panics, or takes too long | as answered | a failed attempt |
///
/// Answers are carried out when the handler has returned. An answer given later, by a task that
/// outlives it, says nothing.
///
/// # Examples
///
/// ```
/// use ruststream::Batch;
/// use ruststream::Json;
///
/// async fn store(batch: Batch<Json<u64>>) {
///     for item in batch {
///         if **item > 1000 {
///             item.dead_letter();
///         }
///     }
/// }
/// # let _ = store(Batch::from_iter([Json(7)]));
/// ```
///
/// Giving up in the middle, so that what is left comes again when the broker says so:
///
/// ```
/// use ruststream::Batch;
/// use ruststream::Json;
///
/// async fn store(batch: Batch<Json<u64>>) {
///     let mut items = batch.into_iter();
///     while let Some(item) = items.next() {
///         if **item == 0 {
///             return items.abandon();
///         }
///         item.ack();
///     }
/// }
/// # let _ = store(Batch::from_iter([Json(7)]));
/// ```
pub struct Batch<T> {
    items: Vec<Item<T>>,
    ledger: Arc<Ledger>,
}

impl<T> Batch<T> {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none. A handler is never called with an empty batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items, to look at.
    pub fn iter(&self) -> slice::Iter<'_, Item<T>> {
        self.items.iter()
    }

    /// The items, to change their values.
    pub fn iter_mut(&mut self) -> slice::IterMut<'_, Item<T>> {
        self.items.iter_mut()
    }

    /// Leave every item without an outcome that has none (spec M12, M13): nothing is said to the
    /// broker, which keeps them until the connection ends.
    ///
    /// This counts for items that were taken out and not answered, too.
    pub fn abandon(self) {
        self.ledger.abandon();
    }
}

impl<T: Extract> Extract for Batch<T> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let Some(ledger) = from.ledger else {
            return Err(Rejection::failed(
                "`Batch` needs `batch(…)` in the handler's attribute",
            ));
        };
        let mut items = Vec::with_capacity(from.deliveries.len());
        for (index, delivery) in from.deliveries.iter_mut().enumerate() {
            let attempt = delivery.attempt();
            let mut one = Incoming::new(slice::from_mut(delivery), from.scope);
            match T::extract(&mut one) {
                Ok(value) => items.push(Item {
                    value,
                    attempt,
                    index,
                    ledger: Arc::clone(ledger),
                }),
                Err(rejection) => ledger.answer(index, Answer::Rejected(rejection)),
            }
        }
        if items.is_empty() {
            // Each has its own reason in the ledger.
            return Err(Rejection::undecodable(
                "no item of the batch could be taken",
            ));
        }
        Ok(Self {
            items,
            ledger: Arc::clone(ledger),
        })
    }

    fn requires(needs: &mut Requirements) {
        needs.batch();
        let mut inner = Requirements::default();
        T::requires(&mut inner);
        // Inside, an argument is of one message, which is what the mark asks for.
        inner.per_message.clear();
        if std::mem::take(&mut inner.settles) {
            needs.per_message("Settler");
        }
        if std::mem::take(&mut inner.batch) {
            needs.per_message("Batch in a Batch");
        }
        absorb(needs, inner);
    }
}

impl<T> IntoIterator for Batch<T> {
    type Item = Item<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter {
            items: self.items.into_iter(),
            ledger: self.ledger,
        }
    }
}

impl<'a, T> IntoIterator for &'a Batch<T> {
    type Item = &'a Item<T>;
    type IntoIter = slice::Iter<'a, Item<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Batch<T> {
    type Item = &'a mut Item<T>;
    type IntoIter = slice::IterMut<'a, Item<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// A batch of first attempts, for calling a handler in a test.
impl<T> FromIterator<T> for Batch<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let values: Vec<T> = values.into_iter().collect();
        let ledger = Arc::new(Ledger::new(values.len()));
        let items = values.into_iter().enumerate().map(|(index, value)| Item {
            value,
            attempt: 1,
            index,
            ledger: Arc::clone(&ledger),
        });
        Self {
            items: items.collect(),
            ledger,
        }
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}

/// The items of a batch, one by one.
pub struct IntoIter<T> {
    items: vec::IntoIter<Item<T>>,
    ledger: Arc<Ledger>,
}

impl<T> IntoIter<T> {
    /// Leave every item without an outcome that has none, as [`Batch::abandon`] does.
    pub fn abandon(self) {
        self.ledger.abandon();
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = Item<T>;

    fn next(&mut self) -> Option<Item<T>> {
        self.items.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<T> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<Item<T>> {
        self.items.next_back()
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.items.as_slice()).finish()
    }
}

/// One item of a batch: its value, and the right to say what becomes of it.
///
/// An answer takes the item, so there can be only one. An item that is dropped without any is acked
/// when the handler returns normally; to leave it without an outcome is explicit
/// ([`abandon`](Item::abandon)).
pub struct Item<T> {
    value: T,
    attempt: u32,
    index: usize,
    ledger: Arc<Ledger>,
}

impl<T> Item<T> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The value, giving up the right to answer: acked when the handler returns normally.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The number of this item's attempt, from 1 (spec C31).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Done.
    pub fn ack(self) {
        self.answer(Outcome::Ack);
    }

    /// Not wanted; see [`Outcome::Drop`].
    pub fn drop(self) {
        self.answer(Outcome::Drop);
    }

    /// Again, at once.
    pub fn retry(self) {
        self.answer(Outcome::Retry);
    }

    /// Again, after `delay`.
    pub fn retry_after(self, delay: Duration) {
        self.answer(Outcome::RetryAfter(delay));
    }

    /// To the declared dead letter now.
    pub fn dead_letter(self) {
        self.answer(Outcome::DeadLetter);
    }

    /// Any of these.
    pub fn answer(self, outcome: Outcome) {
        self.ledger.answer(self.index, Answer::Outcome(outcome));
    }

    /// Leave it without an outcome (spec M12, M13): nothing is said to the broker, which keeps it
    /// until the connection ends.
    pub fn abandon(self) {
        self.ledger.answer(self.index, Answer::Abandoned);
    }
}

impl<T> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Item<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Shows the place and the attempt, not the value.
impl<T> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("index", &self.index)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
