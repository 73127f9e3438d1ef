//! Processes that a test starts, kills and reads.

mod guard;
mod lines;
pub(crate) mod place;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::process::ChildStdin;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::WaitId;
use rustix::process::WaitIdOptions;
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) use guard::Guard;
pub use lines::Lines;
pub use place::Address;

use crate::PATIENCE;

/// A child process, killed when it is dropped and also when the test's own process ends in whatever
/// way, KILL included.
///
/// It is in a process group of its own, so that what the terminal or `timeout` sends to a test does
/// not reach it before the test has seen to it.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    stdin: Option<ChildStdin>,
    lines: Lines,
    state: Arc<State>,
    // Dropped last: it kills by the id, which must not be anybody else's by then.
    _guard: Guard,
}

#[derive(Debug)]
struct State {
    /// Whether the process was reaped, after which its id may be anybody's. A signal is sent under this
    /// lock, and so is the process reaped.
    reaped: Mutex<bool>,
    status: watch::Sender<Option<ExitStatus>>,
}

impl Process {
    /// Start it. What it writes, to the one stream or the other, is in [`lines`](Self::lines).
    pub fn spawn(name: impl Into<String>, command: &mut Command) -> Self {
        let name = name.into();
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let pid = Pid::from_child(&child);
        let guard = Guard::of(pid);
        let lines = Lines::default();
        lines.read(child.stdout.take().expect("it is piped"));
        lines.read(child.stderr.take().expect("it is piped"));
        let stdin = child.stdin.take();
        let state = Arc::new(State {
            reaped: Mutex::new(false),
            status: watch::Sender::new(None),
        });
        state.watch(pid, child);
        Self {
            name,
            pid,
            stdin,
            lines,
            state,
            _guard: guard,
        }
    }

    /// What it has written so far.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The first line, past or future, with this text; fails the test when the process ends before or
    /// takes too long.
    pub async fn line_with(&self, text: &str) -> String {
        self.line_with_in(text, PATIENCE).await
    }

    /// The same with a time of its own, for a slow start.
    pub async fn line_with_in(&self, text: &str, patience: Duration) -> String {
        match timeout(patience, self.lines.with(text)).await {
            Ok(Some(line)) => line,
            outcome => {
                let why = if outcome.is_ok() {
                    "before it ended"
                } else {
                    "in time"
                };
                panic!(
                    "{} did not write {text:?} {why}. It wrote:\n{}",
                    self.name,
                    self.lines.text()
                );
            }
        }
    }

    /// Write a line to it; what it does not read is lost.
    pub fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // It may have ended, and then there is nobody to tell.
            drop(writeln!(stdin, "{line}"));
        }
    }

    /// TERM, and wait for its end.
    pub async fn term(&self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// KILL, and wait for its end.
    pub async fn kill(&self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// Stop it where it is. It keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Let it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Send a signal; nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        self.state.signal(self.pid, signal);
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.state.status.borrow().is_none()
    }

    /// How it ended; fails the test when it takes too long. What it wrote is complete by then, unless a
    /// child of its own still writes.
    pub async fn ended(&self) -> ExitStatus {
        let mut status = self.state.status.subscribe();
        let ended = timeout(PATIENCE * 3, status.wait_for(Option::is_some)).await;
        let ended = ended
            .unwrap_or_else(|_| panic!("{} does not end:\n{}", self.name, self.lines.text()))
            .expect("its state is kept");
        let ended = ended.expect("it was waited for");
        // Not forever: a grandchild may hold the pipes.
        drop(timeout(Duration::from_secs(1), self.lines.ended()).await);
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let state = Arc::clone(&self.state);
        state.wait();
    }
}

impl State {
    fn signal(&self, pid: Pid, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // It exists, as it was not reaped, and is ours.
            rustix::process::kill_process(pid, signal).expect("a child takes a signal");
        }
    }

    /// Wait for the end on a thread, as the runtime of one test may be gone before the process.
    fn watch(self: &Arc<Self>, pid: Pid, mut child: Child) {
        let state = Arc::clone(self);
        std::thread::spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitid(WaitId::Pid(pid), options)
            {}
            let mut reaped = state.reaped.lock().unwrap_or_else(PoisonError::into_inner);
            let status = child.wait().expect("a child that ended is reaped");
            *reaped = true;
            drop(reaped);
            state.status.send_replace(Some(status));
        });
    }

    /// Block until it has ended.
    fn wait(&self) {
        while !*self.reaped.lock().unwrap_or_else(PoisonError::into_inner) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
