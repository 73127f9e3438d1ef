//! Every log line of a test.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::Mutex;

use tracing::Event;
use tracing::Level;
use tracing::Metadata;
use tracing::Subscriber;
use tracing::field::Field;
use tracing::field::Visit;
use tracing::span::Attributes;
use tracing::span::Id;
use tracing::span::Record;
use tracing::subscriber::DefaultGuard;
use tracing::subscriber::Interest;

/// The lines that this thread logs, at every level, as long as it lives: `LEVEL target field=value …`.
pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

impl Log {
    /// Capture from now on. Only what runs on this thread is seen, so on a current-thread runtime all.
    pub(crate) fn capture() -> Self {
        let lines = Lines::default();
        Self {
            _guard: tracing::subscriber::set_default(lines.clone()),
            lines,
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.lines.0.lock().unwrap().clone()
    }

    /// Those at `level` or above of this framework.
    pub(crate) fn from(&self, level: Level) -> Vec<String> {
        let is_ours = |line: &&String| {
            let mut words = line.split(' ');
            let of: Option<Level> = words.next().and_then(|word| word.parse().ok());
            let target = words.next().unwrap_or_default();
            of.is_some_and(|of| of <= level) && target.starts_with("ruststream")
        };
        self.all().iter().filter(is_ours).cloned().collect()
    }

    /// How many warnings, or worse, have `part` in them.
    pub(crate) fn warnings(&self, part: &str) -> usize {
        let lines = self.from(Level::WARN);
        lines.iter().filter(|line| line.contains(part)).count()
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn add(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", metadata.level(), metadata.target()));
        record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.add(event.metadata(), |line| event.record(line));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
