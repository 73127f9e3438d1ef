//! Whether the application is stopping.

use tokio_util::sync::CancellationToken;

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;

/// Says when the application begins to stop, so that a long-running handler can come to an end.
///
/// From then on the handler has the drain time (25 s by default); after that its delivery is left to
/// the broker, which delivers it again.
///
/// # Examples
///
/// ```
/// use ruststream::Outcome;
/// use ruststream::Shutdown;
///
/// async fn import(shutdown: Shutdown) -> Outcome {
///     for _chapter in 0..1000 {
///         if shutdown.is_requested() {
///             return Outcome::retry();
///         }
///         // import a chapter
///     }
///     Outcome::ack()
/// }
/// # let _ = import(Shutdown::default());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A shutdown that `token` requests, for calling a handler in a test.
    #[must_use]
    pub fn new(token: CancellationToken) -> Self {
        Self(token)
    }

    /// Wait until the application begins to stop; at once if it has.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: made for `select!`.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Whether the application is stopping.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl Extract for Shutdown {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self(from.scope.shutdown.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    #[tokio::test]
    async fn a_handler_sees_the_stop_of_the_application() {
        let mut fixture = Fixture::new("");
        let shutdown: Shutdown = fixture.take().unwrap();
        assert!(!shutdown.is_requested());
        fixture.scope.shutdown.cancel();
        shutdown.requested().await;
        assert!(shutdown.is_requested());
    }

    #[test]
    fn a_handler_cannot_stop_the_application() {
        let mut fixture = Fixture::new("");
        drop(fixture.take::<Shutdown>().unwrap());
        assert!(!fixture.scope.shutdown.is_cancelled());
    }
}
