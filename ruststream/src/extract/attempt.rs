//! The number of this attempt.

use std::fmt;

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// The number of this attempt: 1 for the first (spec C1).
///
/// # Examples
///
/// ```
/// use ruststream::Attempt;
/// use ruststream::Outcome;
///
/// async fn handle(attempt: Attempt) -> Outcome {
///     if attempt.is_first() { Outcome::retry() } else { Outcome::ack() }
/// }
/// # let _ = handle(Attempt::new(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    redelivery_count: Option<u32>,
}

impl Attempt {
    /// Attempt `number` of a message that the broker does not count, for calling a handler in a test.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self {
            number,
            redelivery_count: None,
        }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Whether it is the first.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.number <= 1
    }

    /// The broker's own delivery count plus one, or `None` where it does not count (spec A31, A33).
    #[must_use]
    pub const fn redelivery_count(self) -> Option<u32> {
        self.redelivery_count
    }
}

impl Extract for Attempt {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        let delivery = from.delivery();
        Ok(Self {
            number: delivery.attempt(),
            redelivery_count: delivery.redelivery_count(),
        })
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Attempt");
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    // spec: A31 A33
    #[test]
    fn the_brokers_count_is_one_higher_and_absent_where_it_does_not_count() {
        let mut fixture = Fixture::new("");
        fixture.delivery.attempt = 4;
        let attempt: Attempt = fixture.take().unwrap();
        assert_eq!((attempt.number(), attempt.redelivery_count()), (4, None));
        assert!(!attempt.is_first());

        for (counted, seen) in [(0, 1), (6, 7), (u32::MAX, u32::MAX)] {
            fixture.delivery.counted = Some(counted);
            let attempt: Attempt = fixture.take().unwrap();
            assert_eq!(attempt.redelivery_count(), Some(seen));
        }
    }
}
