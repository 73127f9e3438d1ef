//! The lines that a start writes, taken down by a subscriber that keeps them as text.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::Mutex;

use tracing::Event;
use tracing::Metadata;
use tracing::field::Field;
use tracing::field::Visit;
use tracing::span;

use super::testing::Fake;
use super::testing::bare;
use super::testing::handler;
use crate::App;

/// Keeps every event as one line of `field=value`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

/// What a start writes.
fn announced(app: &App) -> Vec<String> {
    let lines = Lines::default();
    let plan = app.plan().unwrap();
    tracing::subscriber::with_default(lines.clone(), || super::announce::announce(&plan));
    lines.0.lock().unwrap().clone()
}

#[test]
fn each_mount_point_has_a_line_with_its_policy_and_guarantee() {
    let work = handler("work", "jobs").with(|options| {
        options.max_attempts = Some(3);
        options.dead_letter = Some("jobs.dead");
    });
    let lines = announced(&bare([work, handler("record", "audit")]).broker(Fake::new()));
    let mounted: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("message=mounted"))
        .collect();
    assert_eq!(mounted.len(), 2);
    for part in [
        "INFO",
        "messaging.system=\"fake\"",
        "messaging.destination.name=\"jobs\"",
        "ruststream.handler=\"work\"",
        "ruststream.broker=\"default\"",
        "ruststream.max_attempts=\"3\"",
        "ruststream.dead_letter=\"jobs.dead\"",
        "ruststream.delay=\"process\"",
        "ruststream.deliveries_in_a_crash=\"delivered again\"",
        "ruststream.waiting_copies_in_a_crash=\"lost\"",
    ] {
        assert!(
            mounted[1].contains(part),
            "`{part}` is not in {}",
            mounted[1]
        );
    }
}

// spec: A53
#[test]
fn a_cap_that_follows_from_a_dead_letter_is_said() {
    let work = handler("work", "jobs").with(|options| options.dead_letter = Some("jobs.dead"));
    let lines = announced(&bare([work]).broker(Fake::new()));
    let said = "ruststream.max_attempts=\"1 (a dead letter without a cap is a cap of 1)\"";
    assert!(lines.iter().any(|line| line.contains(said)), "{lines:#?}");
}

// spec: C8
#[test]
fn what_should_be_known_is_a_warning_with_the_handler() {
    let work = handler("work", "jobs").needs(crate::registration::Requirements::decodes);
    let lines = announced(&bare([work]).broker(Fake::new()));
    let warned = |line: &&String| {
        line.starts_with("WARN")
            && line.contains("ruststream.handler=\"work\"")
            && line.contains("what cannot be decoded is dropped")
    };
    assert_eq!(lines.iter().filter(warned).count(), 1, "{lines:#?}");
}

// case: L01
#[test]
fn no_line_has_a_credential() {
    let fake = Fake {
        location: "amqp://svc:p%40ss-W0rd@host",
        ..Fake::new()
    };
    let config = "brokers.default.url = \"amqp://svc:p%40ss-W0rd@host\"";
    let app = bare([handler("work", "jobs")])
        .broker(fake)
        .config(crate::config::Config::toml(config));
    let lines = announced(&app);
    assert!(
        lines.iter().any(|line| line.contains("is not used")),
        "{lines:#?}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("p%40ss")),
        "{lines:#?}"
    );
}
