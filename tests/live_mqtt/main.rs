//! The MQTT driver on mosquitto, seen by a client that shares no code with it.
// needs: mosquitto

mod campaign;
mod crashes;
mod limits;

use std::time::Duration;

use support::PATIENCE;

/// Between two looks at something that has no signal.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server has a clock of its own"
)]
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Wait until something holds; fails the test when it takes too long.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            a_moment().await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("it did not come to pass in time: {what}");
    }
}

/// In a scenario: wait for TERM.
async fn terminated() {
    use tokio::signal::unix::SignalKind;
    let mut signals = tokio::signal::unix::signal(SignalKind::terminate()).expect("it can be had");
    signals.recv().await;
}
