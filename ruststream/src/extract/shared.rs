//! Shared state.

use std::any::type_name;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::extract::Extract;
use crate::extract::ExtractOptional;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// Shared state of type `T`, given to the application with `App::state`.
///
/// A share of one value; that it was given is checked at start-up.
///
/// # Examples
///
/// ```
/// use ruststream::State;
///
/// struct Prices { default: u32 }
///
/// async fn handle(prices: State<Prices>) {
///     assert_eq!(prices.default, 7);
/// }
/// # let _ = handle(State::new(Prices { default: 7 }));
/// ```
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// State for calling a handler in a test.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The share itself, to keep.
    #[must_use]
    pub fn into_arc(self) -> Arc<T> {
        self.0
    }
}

impl<T: Send + Sync + 'static> Extract for State<T> {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        from.state().map(Self).ok_or_else(missing::<T>)
    }

    fn requires(needs: &mut Requirements) {
        needs.state::<T>();
    }
}

impl<T: Send + Sync + 'static> ExtractOptional for State<T> {
    fn extract_optional(from: &mut Incoming<'_>) -> Result<Option<Self>, Rejection> {
        Ok(from.state().map(Self))
    }
}

#[cold]
fn missing<T>() -> Rejection {
    let name = type_name::<T>();
    Rejection::failed(format_args!(
        "the application has no state of type `{name}`; give it with `App::state`"
    ))
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<Arc<T>> for State<T> {
    fn from(shared: Arc<T>) -> Self {
        Self(shared)
    }
}

/// Shows the type, not the value: state holds credentials too.
impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State<{}>", type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    #[test]
    fn state_is_shared_not_copied() {
        let mut fixture = Fixture::new("");
        fixture.scope.state.insert(String::from("once"));
        let first: State<String> = fixture.take().unwrap();
        let second: State<String> = fixture.take().unwrap();
        assert!(Arc::ptr_eq(&first.into_arc(), &second.into_arc()));
    }

    #[test]
    fn missing_state_is_a_failed_attempt_that_names_the_type() {
        let refused = Fixture::new("").take::<State<Vec<u8>>>().unwrap_err();
        assert!(!refused.is_undecodable());
        assert!(refused.reason().contains("Vec<u8>"), "{refused}");
    }

    #[test]
    fn state_is_asked_for_before_start() {
        let mut needs = Requirements::default();
        State::<String>::requires(&mut needs);
        assert_eq!(needs.states[0].0, std::any::TypeId::of::<String>());
        assert!(needs.per_message.is_empty(), "a batch may take it");
    }
}
