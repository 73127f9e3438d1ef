//! Batches (spec C31): formed here, answered item by item.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use super::shell::Shell;
use crate::Outcome;
use crate::batch::ItemOutcome;
use crate::batch::Ledger;
use crate::delivery::Delivery;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::handler::Verdict;
use crate::policy::BatchOptions;
use crate::settlement::Reason;

/// What the items without an answer of their own come to.
enum Rest<'a> {
    Done(Outcome),
    Failed(Reason, Option<Outcome>, &'a str),
    Rejected(&'a Rejection),
}

impl Shell {
    /// A delivery joins the forming batch, or goes alone when it failed before: one poison item
    /// must not spend the attempts of its neighbours.
    pub(super) fn join_batch(&mut self, delivery: Delivery, batch: BatchOptions) {
        if delivery.attempt > 1 {
            return self.start_batch(vec![delivery]);
        }
        if self.forming.is_empty() {
            self.forming_until = Some(self.now().saturating_add(batch.wait));
        }
        self.forming.push(delivery);
        if self.forming.len() >= usize::try_from(batch.size).unwrap_or(usize::MAX) {
            self.start_forming();
        }
    }

    /// Start the forming batch, if a lane is free.
    pub(super) fn start_forming(&mut self) -> bool {
        if self.forming.is_empty() {
            // A lost connection may have emptied it: there is nothing to be due any more.
            self.forming_until = None;
            return false;
        }
        if self.free.is_empty() {
            return false;
        }
        self.forming_until = None;
        let batch = std::mem::take(&mut self.forming);
        self.start_batch(batch);
        true
    }

    fn start_batch(&mut self, mut batch: Vec<Delivery>) {
        for delivery in &mut batch {
            delivery.id = self.admit(delivery.settled, delivery.payload().len());
        }
        let index = self
            .free
            .pop()
            .expect("a batch starts only while a lane is free");
        let span = self.span(&batch[0]);
        let lane = &mut self.lanes[index];
        lane.is_busy = true;
        let spare = std::mem::replace(&mut lane.deliveries, batch);
        // The lane's own memory becomes that of the next forming batch, unless one is forming
        // already, beside an item that goes alone.
        if self.forming.is_empty() {
            self.forming = spare;
        }
        Ledger::reset(&mut lane.ledger, lane.deliveries.len());
        let entered = span.as_ref().map(tracing::Span::enter);
        let mut incoming = Incoming::batch(&mut lane.deliveries, &self.pump.scope, &lane.ledger);
        let slot = &mut lane.slot;
        let started = catch_unwind(AssertUnwindSafe(|| slot.start(&mut incoming)));
        drop(entered);
        lane.span = span;
        match started {
            Ok(Ok(())) => {
                self.pump.counters.starts.add(1);
                self.run(index);
            }
            Ok(Err(rejection)) => self.rejected(index, &rejection),
            Err(panic) => self.panicked(index, panic),
        }
    }

    pub(super) fn batch_returned(&mut self, index: usize, verdict: &Verdict) {
        match verdict {
            Verdict::Done(outcome) => self.conclude_batch(index, &Rest::Done(*outcome)),
            Verdict::Failed(failed) => self.conclude_batch(
                index,
                &Rest::Failed(Reason::Error, failed.outcome, &failed.text),
            ),
            Verdict::Rejected(rejection) => self.conclude_batch(index, &Rest::Rejected(rejection)),
            // A batch has no one to answer to: `reply_to` and `batch` exclude each other.
            Verdict::Answer(_) => self.conclude_batch(index, &Rest::Done(Outcome::Ack)),
        }
    }

    pub(super) fn batch_rejected(&mut self, index: usize, rejection: &Rejection) {
        self.conclude_batch(index, &Rest::Rejected(rejection));
    }

    pub(super) fn batch_interrupted(&mut self, index: usize, reason: Reason, text: &str) {
        self.conclude_batch(index, &Rest::Failed(reason, None, text));
    }

    /// Answer every item: by its own outcome, else by what the whole batch came to.
    fn conclude_batch(&mut self, index: usize, rest: &Rest<'_>) {
        let ledger = Arc::clone(&self.lanes[index].ledger);
        let deliveries = self.release_all(index);
        for (place, delivery) in deliveries.into_iter().enumerate() {
            let id = delivery.id;
            match (ledger.outcome(place), rest) {
                (ItemOutcome::Outcome(outcome), _)
                | (ItemOutcome::Unanswered, &Rest::Done(outcome)) => {
                    self.done(id, delivery, outcome);
                }
                (ItemOutcome::Rejected(rejection), _)
                | (ItemOutcome::Unanswered, &Rest::Rejected(rejection)) => {
                    self.refused_by_argument(id, delivery, rejection);
                }
                (ItemOutcome::Abandoned, _) => self.left_without_outcome(id, delivery),
                (ItemOutcome::Unanswered, &Rest::Failed(reason, own, text)) => {
                    self.failed(id, delivery, reason, own, text);
                }
            }
        }
    }

    /// Free a lane; returns all that it worked on.
    pub(super) fn release_all(&mut self, index: usize) -> Vec<Delivery> {
        let deliveries = std::mem::take(&mut self.lanes[index].deliveries);
        self.free_lane(index, deliveries.first());
        deliveries
    }
}
