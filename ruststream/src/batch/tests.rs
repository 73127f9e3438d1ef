//! What the pump reads after a batch handler did this or that.

use std::any::TypeId;

use super::*;
use crate::delivery::Delivery;
use crate::extract::Attempt;
use crate::extract::State;
use crate::extract::testing::Fixture;
use crate::extract::testing::delivery;

/// Even numbers only, from payloads of one byte.
#[derive(Debug, PartialEq)]
struct Even(u8);

impl Extract for Even {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        match from.delivery().payload().first() {
            Some(byte) if byte % 2 == 0 => Ok(Self(*byte)),
            _ => Err(Rejection::undecodable("odd")),
        }
    }
}

struct Run {
    deliveries: Vec<Delivery>,
    ledger: Arc<Ledger>,
}

impl Run {
    fn new(payloads: &[u8]) -> Self {
        let deliveries = payloads.iter().map(|byte| delivery(vec![*byte])).collect();
        let ledger = Arc::new(Ledger::new(payloads.len()));
        Self { deliveries, ledger }
    }

    fn take<E: Extract>(&mut self) -> Result<E, Rejection> {
        let fixture = Fixture::new("");
        E::extract(&mut Incoming::batch(
            &mut self.deliveries,
            &fixture.scope,
            &self.ledger,
        ))
    }

    fn read(&self) -> Vec<String> {
        let read = |at| match self.ledger.outcome(at) {
            ItemOutcome::Outcome(outcome) => outcome.as_str().to_owned(),
            ItemOutcome::Rejected(rejection) => format!("rejected: {rejection}"),
            ItemOutcome::Unanswered => "unanswered".to_owned(),
            ItemOutcome::Abandoned => "abandoned".to_owned(),
        };
        (0..self.deliveries.len()).map(read).collect()
    }
}

// spec: C31
#[test]
fn each_item_has_an_outcome_of_its_own() {
    let mut run = Run::new(&[0, 2, 4, 6, 8, 10, 12]);
    let mut items = run.take::<Batch<Even>>().unwrap().into_iter();
    items.next().unwrap().ack();
    items.next().unwrap().drop();
    items.next().unwrap().retry();
    items.next().unwrap().retry_after(Duration::from_secs(5));
    items.next().unwrap().dead_letter();
    items.next().unwrap().abandon();
    assert_eq!(items.next().unwrap().into_inner(), Even(12));

    let expected = [
        "ack",
        "drop",
        "retry",
        "retry_after",
        "dead_letter",
        "abandoned",
        "unanswered",
    ];
    assert_eq!(run.read(), expected);
    assert!(matches!(
        run.ledger.outcome(3),
        ItemOutcome::Outcome(Outcome::RetryAfter(delay)) if delay == Duration::from_secs(5)
    ));
}

// spec: C31
// case: E06
#[test]
fn an_undecodable_item_never_enters_and_keeps_its_reason_and_place() {
    let mut run = Run::new(&[1, 2, 3, 4]);
    let batch = run.take::<Batch<Even>>().unwrap();
    assert_eq!(batch.len(), 2);
    batch.into_iter().last().unwrap().retry();
    assert_eq!(
        run.read(),
        ["rejected: odd", "unanswered", "rejected: odd", "retry"]
    );
}

#[test]
fn a_batch_of_undecodable_items_only_does_not_reach_the_handler() {
    let mut run = Run::new(&[1, 3]);
    assert!(run.take::<Batch<Even>>().unwrap_err().is_undecodable());
    assert_eq!(run.read(), ["rejected: odd", "rejected: odd"]);
}

#[test]
fn an_abandoned_batch_leaves_what_has_no_outcome_without_one() {
    let mut run = Run::new(&[2, 4, 6, 7]);
    let mut items = run.take::<Batch<Even>>().unwrap().into_iter();
    items.next().unwrap().ack();
    drop(items.next());
    items.abandon();
    assert_eq!(
        run.read(),
        ["ack", "abandoned", "abandoned", "rejected: odd"]
    );

    let mut run = Run::new(&[2, 4]);
    run.take::<Batch<Even>>().unwrap().abandon();
    assert_eq!(run.read(), ["abandoned", "abandoned"]);
}

#[test]
fn a_batch_that_is_dropped_whole_is_unanswered() {
    let mut run = Run::new(&[2, 4]);
    drop(run.take::<Batch<Even>>().unwrap());
    assert_eq!(run.read(), ["unanswered", "unanswered"]);
}

#[test]
fn a_ledger_is_used_again_in_its_own_memory() {
    let mut ledger = Arc::new(Ledger::new(2));
    let memory = Arc::as_ptr(&ledger);
    ledger.answer(0, Answer::Outcome(Outcome::Retry));
    ledger.abandon();
    Ledger::reset(&mut ledger, 2);
    assert_eq!(Arc::as_ptr(&ledger), memory);
    assert!(matches!(ledger.outcome(0), ItemOutcome::Unanswered));
    assert!(matches!(ledger.outcome(1), ItemOutcome::Unanswered));
}

#[test]
fn an_item_that_outlives_its_batch_says_nothing_about_the_next() {
    let mut run = Run::new(&[2, 4]);
    let late = run.take::<Batch<Even>>().unwrap().into_iter().next();
    Ledger::reset(&mut run.ledger, 2);
    late.unwrap().dead_letter();
    assert_eq!(run.read(), ["unanswered", "unanswered"]);
}

// spec: C31
#[test]
fn the_attempt_is_of_the_item() {
    let mut run = Run::new(&[2, 4]);
    run.deliveries[1].attempt = 3;
    let batch = run.take::<Batch<(Even, Attempt)>>().unwrap();
    let attempts: Vec<_> = batch.iter().map(Item::attempt).collect();
    assert_eq!(attempts, [1, 3]);
    let inside: Vec<_> = batch.iter().map(|item| item.1.number()).collect();
    assert_eq!(inside, [1, 3]);
}

#[test]
fn values_can_be_changed_in_place() {
    let mut batch = Batch::from_iter([1, 2]);
    for item in &mut batch {
        **item += 1;
    }
    let values: Vec<i32> = batch.into_iter().map(Item::into_inner).collect();
    assert_eq!(values, [2, 3]);
}

#[test]
fn without_the_attributes_key_a_batch_is_a_failed_attempt() {
    let refused = Fixture::new("").take::<Batch<Even>>().unwrap_err();
    assert!(!refused.is_undecodable());
}

#[test]
fn inside_a_batch_an_argument_of_one_message_is_fine_and_state_is_still_asked_for() {
    let mut needs = Requirements::default();
    Batch::<(Attempt, State<String>)>::requires(&mut needs);
    assert!(needs.batch && needs.per_message.is_empty());
    assert_eq!(needs.states[0].0, TypeId::of::<String>());

    let mut needs = Requirements::default();
    Batch::<Batch<Attempt>>::requires(&mut needs);
    assert_eq!(needs.per_message, ["Batch in a Batch"]);
}
