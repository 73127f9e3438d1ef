//! Arguments made of others: optional ones, refusals to look at, tuples.

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// An argument that may be absent: `Option<Self>` is a handler argument then.
///
/// `None` means that it is not there. What is there and wrong is refused all the same; to look at
/// a refusal take a `Result<Self, Rejection>`, which every extractor allows.
///
/// # Examples
///
/// ```
/// use ruststream::Json;
/// use ruststream::Outcome;
/// use ruststream::extract::Rejection;
///
/// async fn handle(order: Result<Json<u64>, Rejection>) -> Outcome {
///     match order {
///         Ok(_) => Outcome::ack(),
///         Err(_) => Outcome::drop(),
///     }
/// }
/// # let _ = handle(Ok(Json(7)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` is not a `#[subscriber]` handler argument",
    label = "is never absent",
    note = "take `{Self}`, or `Result<{Self}, Rejection>` to look at a refusal"
)]
pub trait ExtractOptional: Extract {
    /// Take it from a delivery, if it is there.
    ///
    /// # Errors
    ///
    /// It is there, and wrong.
    fn extract_optional(from: &mut Incoming<'_>) -> Result<Option<Self>, Rejection>;
}

impl<T: ExtractOptional> Extract for Option<T> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        T::extract_optional(from)
    }

    fn requires(needs: &mut Requirements) {
        let mut inner = Requirements::default();
        T::requires(&mut inner);
        inner.states.clear();
        absorb(needs, inner);
    }
}

impl<T: Extract> Extract for Result<T, Rejection> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(T::extract(from))
    }

    fn requires(needs: &mut Requirements) {
        let mut inner = Requirements::default();
        T::requires(&mut inner);
        // The handler sees to it.
        inner.decodes = false;
        inner.states.clear();
        absorb(needs, inner);
    }
}

macro_rules! tuples {
    ($(($($name:ident),*);)*) => { $(
        impl<$($name: Extract),*> Extract for ($($name,)*) {
            fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
                Ok(($($name::extract(from)?,)*))
            }

            fn requires(needs: &mut Requirements) {
                $($name::requires(needs);)*
            }
        }
    )* };
}

tuples! {
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
}

/// Add what a part of an argument needs to what the whole needs.
pub(crate) fn absorb(needs: &mut Requirements, inner: Requirements) {
    needs.states.extend(inner.states);
    needs.decodes |= inner.decodes;
    needs.settles |= inner.settles;
    needs.batch |= inner.batch;
    needs.per_message.extend(inner.per_message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::Attempt;
    use crate::extract::State;
    use crate::extract::testing::Fixture;

    #[test]
    fn a_tuple_takes_each_of_its_parts() {
        let (attempt, payload): (Attempt, bytes::Bytes) = Fixture::new("x").take().unwrap();
        assert_eq!((attempt.number(), payload.len()), (1, 1));

        let mut needs = Requirements::default();
        <(Attempt, bytes::Bytes)>::requires(&mut needs);
        assert_eq!(needs.per_message, ["Attempt", "Bytes"]);
    }

    #[test]
    fn optional_state_is_not_asked_for_at_start_up() {
        let mut needs = Requirements::default();
        Option::<State<String>>::requires(&mut needs);
        assert!(needs.states.is_empty());

        let mut fixture = Fixture::new("");
        assert!(fixture.take::<Option<State<String>>>().unwrap().is_none());
        fixture.scope.state.insert(String::new());
        assert!(fixture.take::<Option<State<String>>>().unwrap().is_some());
    }

    #[cfg(feature = "json")]
    #[test]
    fn a_refusal_that_the_handler_looks_at_does_not_count_as_undecodable() {
        use crate::Json;

        let seen: Result<Json<u32>, Rejection> = Fixture::new("x").take().unwrap();
        assert!(seen.unwrap_err().is_undecodable());

        let mut needs = Requirements::default();
        Result::<Json<u32>, Rejection>::requires(&mut needs);
        assert!(!needs.decodes);
        assert_eq!(needs.per_message, ["Json"]);
    }
}
