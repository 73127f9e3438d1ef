//! What a process writes.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::sync::Arc;

use tokio::sync::watch;

/// The lines that a process has written; a clone is the same record.
#[derive(Clone, Debug)]
pub struct Lines(Arc<watch::Sender<Written>>);

#[derive(Debug, Default)]
struct Written {
    lines: Vec<String>,
    /// How many streams may still bring some.
    open: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Written::default())))
    }
}

impl Lines {
    /// Read a stream to its end, on a thread.
    pub(super) fn read(&self, stream: impl Read + Send + 'static) {
        let lines = self.clone();
        self.0.send_modify(|written| written.open += 1);
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(stream.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                lines.0.send_modify(|written| written.lines.push(text));
                line.clear();
            }
            lines.0.send_modify(|written| written.open -= 1);
        });
    }

    /// All of them so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.borrow().lines.clone()
    }

    /// The same as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.all().join("\n")
    }

    /// The first line, past or future, with this text; `None` when there will be none.
    pub async fn with(&self, text: &str) -> Option<String> {
        let find = |written: &Written| {
            written
                .lines
                .iter()
                .find(|line| line.contains(text))
                .cloned()
        };
        let mut written = self.0.subscribe();
        let settled = |written: &Written| written.open == 0 || find(written).is_some();
        let written = written.wait_for(settled).await.ok()?;
        find(&written)
    }

    /// Wait until so many lines have this text.
    ///
    /// # Errors
    ///
    /// How many there are, when there will be no more.
    pub async fn count(&self, text: &str, count: usize) -> Result<(), usize> {
        let found = |written: &Written| {
            let lines = written.lines.iter();
            lines.filter(|line| line.contains(text)).count()
        };
        let mut written = self.0.subscribe();
        let settled = |written: &Written| written.open == 0 || found(written) >= count;
        let written = written.wait_for(settled).await;
        match written.map_or(0, |written| found(&written)) {
            enough if enough >= count => Ok(()),
            few => Err(few),
        }
    }

    /// Wait until no more can come.
    pub async fn ended(&self) {
        let mut written = self.0.subscribe();
        // The sender is `self`, so this cannot fail.
        drop(written.wait_for(|written| written.open == 0).await);
    }
}
