//! A service in a process of its own, which a test may kill.
//!
//! The test binary runs itself again and there runs one test, a scenario, which the runner else
//! passes by:
//!
//! ```ignore
//! #[tokio::test]
//! async fn a_killed_service_loses_nothing() {
//!     let service = child::scenario("orders_service", &[("URL", &server.url())]);
//!     service.line_with("started 7").await;
//!     service.kill().await;
//! }
//!
//! #[tokio::test]
//! #[ignore = "a scenario, run by a test in a process of its own"]
//! async fn orders_service() {
//!     let url = child::argument("URL");
//!     child::say("started 7");
//! }
//! ```
//!
//! A scenario is ignored and not left out, so that the test runner knows it by name.

use std::io::Write;
use std::process::Command;

use crate::process::Process;

/// Start a scenario: the path of an ignored test in this very binary, such as `crash::service`, with
/// what it is to know. Kill it with [`Process::kill`], end it with [`Process::term`].
#[must_use]
pub fn scenario(test: &str, arguments: &[(&str, &str)]) -> Process {
    let program = std::env::current_exe().expect("the test knows where it is");
    let mut command = Command::new(program);
    command.args([
        test,
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(PREFIX, test);
    for (name, value) in arguments {
        command.env(format!("{PREFIX}_{name}"), value);
    }
    Process::spawn(format!("the scenario {test}"), &mut command)
}

/// In a scenario: what the test gave it under that name. Fails it when it was started by hand.
#[must_use]
pub fn argument(name: &str) -> String {
    std::env::var(format!("{PREFIX}_{name}"))
        .unwrap_or_else(|_| panic!("this is a scenario, run by a test; it needs {name}"))
}

/// In a scenario: whether it is one. A test run with `--ignored` by hand runs scenarios as well, which
/// then have nothing to do.
#[must_use]
pub fn is_scenario() -> bool {
    std::env::var(PREFIX).is_ok()
}

/// In a scenario: write a line, at once and whole.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").expect("the test reads what it writes");
    out.flush().expect("the test reads what it writes");
}

const PREFIX: &str = "SUPPORT_SCENARIO";
