use std::collections::BTreeMap;

use super::*;

/// A `Result` behind an alias, which no macro can see through.
type Handled = Result<Outcome, Busy>;

#[derive(Debug)]
struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl Failure for Busy {
    fn outcome(&self) -> Outcome {
        Outcome::Retry
    }
}

/// What the expansion of a handler without a policy does.
macro_rules! strict {
    ($returned:expr) => {
        match Probe($returned).split() {
            Ok(value) => done(value),
            Err(error) => failed(&error),
        }
    };
}

/// What the expansion of a handler with a policy does.
macro_rules! with_policy {
    ($returned:expr) => {
        match Probe($returned).split() {
            Ok(value) => done(value),
            Err(error) => (&&Failing(&error)).verdict(),
        }
    };
}

/// What the expansion of a handler with `reply_to` does.
macro_rules! answered {
    ($returned:expr) => {
        match Probe($returned).split() {
            Ok(value) => (&&Answer::of(value)).verdict(),
            Err(error) => failed(&error),
        }
    };
}

fn said(verdict: Verdict) -> (Option<Outcome>, String) {
    match verdict {
        Verdict::Done(outcome) => (Some(outcome), String::new()),
        Verdict::Failed(failed) => (failed.outcome, failed.text),
        other => panic!("no outcome: {other:?}"),
    }
}

fn message(verdict: Verdict) -> Message {
    match verdict {
        Verdict::Answer(message) => *message,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn a_value_is_an_outcome() {
    assert_eq!(said(strict!(())), (Some(Outcome::Ack), String::new()));
    let drop = (Some(Outcome::Drop), String::new());
    assert_eq!(said(strict!(Outcome::Drop)), drop);
    assert_eq!(said(strict!(Handled::Ok(Outcome::Drop))), drop);
    assert_eq!(said(with_policy!(Outcome::Drop)), drop);
}

#[test]
// spec: C8
fn an_error_decides_for_itself_before_the_policy_does() {
    let retry = (Some(Outcome::Retry), "busy".to_owned());
    assert_eq!(said(strict!(Handled::Err(Busy))), retry);
    assert_eq!(said(with_policy!(Handled::Err(Busy))), retry);
    let boxed: Result<(), Box<Busy>> = Err(Box::new(Busy));
    assert_eq!(said(strict!(boxed)), retry);
}

#[test]
// spec: C8
fn an_error_without_a_meaning_leaves_it_to_the_policy() {
    let error: Result<(), String> = Err("no".to_owned());
    assert_eq!(said(with_policy!(error)), (None, "no".to_owned()));
}

#[test]
fn a_message_is_published_as_it_is() {
    let answer = Message::new("x").with_id("7");
    assert_eq!(message(answered!(answer.clone())), answer);
    let answer: Result<Message, Busy> = Ok(answer);
    assert_eq!(message(answered!(answer)).id(), Some("7"));
}

#[test]
#[cfg(feature = "json")]
fn any_other_value_is_published_as_json() {
    let plain = message(answered!(vec![1_u32, 2]));
    assert_eq!(plain.payload().as_ref(), b"[1,2]");
    assert_eq!(plain.content_type(), Some("application/json"));
    let result: Result<Option<u8>, Busy> = Ok(Some(7));
    assert_eq!(message(answered!(result)).payload().as_ref(), b"7");
}

#[test]
#[cfg(feature = "json")]
fn a_value_that_cannot_be_encoded_goes_to_the_dead_letter() {
    let no_json = BTreeMap::from([((1, 2), 3)]);
    let (outcome, text) = said(answered!(no_json));
    assert_eq!(outcome, Some(Outcome::DeadLetter));
    assert!(text.contains("encoded"), "{text}");
}

#[test]
fn questions_about_types_see_through_aliases() {
    type Orders = Batch<u8>;
    const {
        assert!(Of::<Handled>::FAILS && !Of::<Outcome>::FAILS && !Of::<()>::FAILS);
        assert!(Of::<Orders>::BATCH && !Of::<Vec<u8>>::BATCH);
    }
}

#[test]
fn the_same_key_is_the_same_number() {
    assert_eq!(hash_of("a"), hash_of("a"));
    assert_ne!(hash_of("a"), hash_of("b"));
}
