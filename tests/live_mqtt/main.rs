//! The MQTT driver on mosquitto, seen by a client that shares no code with it.
// needs: mosquitto

mod campaign;
mod cases;
mod conformance;
mod crashes;
mod limits;
mod sessions;
mod tls;

use std::time::Duration;

use support::PATIENCE;

/// Between two looks at something that has no signal.
async fn a_moment() {
    a_while(Duration::from_millis(5)).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real server has a clock of its own"
)]
async fn a_while(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "some tests say how long a thing may take"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Wait until something holds; fails the test when it takes too long.
async fn until(what: &str, holds: impl Fn() -> bool) {
    until_in(PATIENCE, what, holds).await;
}

async fn until_in(patience: Duration, what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            a_moment().await;
        }
    };
    let waited = tokio::time::timeout(patience, waiting).await;
    assert!(waited.is_ok(), "it did not come to pass in time: {what}");
}

/// In a scenario: TERM, from now on.
fn termination() -> impl Future<Output = ()> {
    use tokio::signal::unix::SignalKind;
    let signals = tokio::signal::unix::signal(SignalKind::terminate());
    let mut signals = signals.expect("a process may listen to its signals");
    async move {
        signals.recv().await;
    }
}

/// A task beside the test.
#[expect(
    clippy::disallowed_methods,
    reason = "each test awaits it, or ends with it"
)]
fn task<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}
