//! Clients of other makes, for a second opinion: `paho-mqtt` and `pika`.

use std::process::Command;

use crate::process::Process;
use crate::process::place;

/// Run a script with Python, its arguments behind it in `sys.argv`. Await a line of it with
/// [`Process::line_with`], or [`Process::ended`] and then its [`lines`](Process::lines). What it
/// prints comes at once.
///
/// `scripts/brokers install observers` makes the environment that it runs in.
#[must_use]
pub fn python(script: &str, arguments: &[&str]) -> Process {
    let python = place::value("observers", "OBSERVERS_PYTHON");
    let mut command = Command::new(python);
    command.args(["-u", "-c", script]).args(arguments);
    Process::spawn("python", &mut command)
}
