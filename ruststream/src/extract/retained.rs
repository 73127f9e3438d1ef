//! Whether a message was kept for later subscribers.

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// Whether the broker kept the message and sends it because of the subscription (MQTT 5 section
/// 3.3.1.3): it says what is, not what has just happened.
///
/// With `mqtt(retain_as_published)` it is the flag that the message was published with.
///
/// # Examples
///
/// ```
/// use ruststream::Retained;
/// use ruststream::Text;
///
/// async fn configure(value: Text, retained: Retained) {
///     if retained.is_retained() {
///         // the value at the start
///     }
/// #   let _ = value;
/// }
/// # let _ = configure(Text("hello".into()), Retained::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Retained(bool);

impl Retained {
    /// A message that was kept, for calling a handler in a test. `default` is one that was not.
    #[must_use]
    pub const fn kept() -> Self {
        Self(true)
    }

    /// Whether it was kept.
    #[must_use]
    pub const fn is_retained(self) -> bool {
        self.0
    }
}

impl Extract for Retained {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self(from.delivery().is_retained()))
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Retained");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    #[test]
    fn a_handler_sees_whether_the_broker_had_kept_the_message() {
        let mut fixture = Fixture::new("");
        assert_eq!(fixture.take::<Retained>().unwrap(), Retained::default());
        fixture.delivery.retained = true;
        assert_eq!(fixture.take::<Retained>().unwrap(), Retained::kept());
    }
}
