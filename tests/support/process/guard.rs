//! What kills a process when the test is gone.

use std::os::unix::process::CommandExt;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use rustix::process::Pid;

/// A small process that waits for the end of a pipe which the test's process holds, and then runs a
/// command: a test that is killed drops nothing, and a `static` is not dropped either.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Kills a process.
    pub(crate) fn of(pid: Pid) -> Self {
        let pid = pid.as_raw_nonzero().to_string();
        Self::running(&["kill", "-KILL", &pid], &[])
    }

    /// Runs any command, in the environment given beside the test's own.
    pub(crate) fn running(command: &[&str], environment: &[(&str, &str)]) -> Self {
        let script = r#"trap "" INT TERM HUP; read -r _; "$@""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).args(command);
        shell.envs(environment.iter().copied());
        shell.stdin(Stdio::piped());
        // Not the test's own streams: whoever reads those waits until everybody has closed them.
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.process_group(0).spawn().expect("there is a shell"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Whatever it guards was seen to. It cannot fail: it is our child and was not reaped.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
