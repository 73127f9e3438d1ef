//! `ordered_by`: first deliveries of one key run one after the other, in the order of arrival.

use std::collections::VecDeque;

use crate::delivery::Delivery;

/// Deliveries that wait for an earlier one of their key.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(u64, Delivery)>);

impl Waiting {
    pub(super) fn push(&mut self, key: u64, delivery: Delivery) {
        self.0.push_back((key, delivery));
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.0.iter().any(|(waiting, _)| *waiting == key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(feature = "testing")]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first delivery whose key is not at work.
    pub(super) fn next(&mut self, is_at_work: impl Fn(u64) -> bool) -> Option<(u64, Delivery)> {
        let index = self.0.iter().position(|(key, _)| !is_at_work(*key))?;
        self.0.remove(index)
    }

    pub(super) fn pop(&mut self) -> Option<Delivery> {
        self.0.pop_front().map(|(_, delivery)| delivery)
    }

    /// Discard the deliveries of a lost connection: the broker delivers them again (spec C13).
    pub(super) fn discard_unsettled(&mut self) {
        self.0.retain(|(_, delivery)| delivery.token.is_none());
    }
}
