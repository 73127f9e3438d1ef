//! An application as a program: found handlers, configuration, and signals to a real process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;
use std::time::Instant;

use ruststream::App;
use ruststream::Bytes;
use ruststream::Outcome;
use ruststream::Registry;
use ruststream::Settle;
use ruststream::Shutdown;
use ruststream::State;
use ruststream::broker;
use ruststream::broker::Arrival;
use ruststream::broker::Broker;
use ruststream::broker::Publishing;
use ruststream::broker::Subscription;
use ruststream::broker::memory::Memory;
use ruststream::config::Config;
use ruststream::error::ErrorKind;
use ruststream::registration::Form;
use ruststream::subscriber;

/// Whether the handler ends when it is asked to.
#[derive(Clone, Copy)]
struct Patient(bool);

#[subscriber(
    queue = "jobs",
    group = "work",
    max_attempts = 3,
    dead_letter = "jobs.dead"
)]
async fn work(_job: Bytes, shutdown: Shutdown, patient: State<Patient>) -> Outcome {
    say("started");
    shutdown.requested().await;
    say("stopping");
    if !patient.0 {
        std::future::pending::<()>().await;
    }
    Outcome::Ack
}

#[subscriber(queue = "audit", group = "audit", broker = "audit")]
async fn record(_entry: Bytes) {}

async fn stranger() {}

fn app() -> App {
    App::new("shop")
        .config(Config::none())
        .state(Patient(true))
        .broker(Memory::amqp())
        .named_broker("audit", Memory::amqp())
}

/// Everything that is wrong with it, in one text.
fn wrong(app: &App) -> String {
    match app.check() {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn handlers_are_found_by_themselves() {
    let names: Vec<&str> = Registry::linked()
        .iter()
        .map(|handler| handler.name)
        .collect();
    assert_eq!(names, ["work", "record"]);
    assert_eq!(app().describe().unwrap().mounts.len(), 2);
}

#[test]
fn a_handler_is_mounted_by_its_function() {
    let app = app().mount(work).mount_with(work, |mount| {
        mount.name("urgent").address("jobs.urgent").max_attempts(9)
    });
    let description = app.describe().unwrap();
    let cap = |name| {
        &description
            .mount(name)
            .unwrap()
            .value("max_attempts")
            .unwrap()
            .value
    };
    assert_eq!((cap("work").as_str(), cap("urgent").as_str()), ("3", "9"));
    assert!(
        description.mount("record").is_none(),
        "nothing is found any more"
    );
}

#[test]
fn only_takes_functions() {
    assert_eq!(app().only((record,)).describe().unwrap().mounts.len(), 1);
    assert_eq!(
        app().only((record, work)).describe().unwrap().mounts.len(),
        2
    );
}

#[test]
fn a_function_without_the_attribute_is_no_handler() {
    let text = wrong(&app().mount(stranger));
    assert!(text.contains("app::stranger` is not a handler"), "{text}");
}

#[test]
fn a_problem_names_the_function_and_where_it_stands() {
    let app = App::new("shop")
        .config(Config::none())
        .broker(Memory::amqp())
        .group("work");
    let text = wrong(&app);
    let line = file!().to_owned() + ":";
    for part in [
        "`work` (app::work, ",
        &line,
        "State<",
        "Patient>",
        "`App::state`",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}

#[test]
fn a_broker_may_come_from_the_configuration_alone() {
    let app = App::new("shop")
        .group("audit")
        .config(Config::toml("brokers.audit.url = \"memory://trail\""));
    let description = app.describe().unwrap();
    assert_eq!(description.brokers[0].location, "memory://trail");
}

// case: L01
#[test]
fn a_wrong_url_is_refused_without_showing_its_password() {
    for url in [
        "amqps://svc:p%40ss-W0rd@host",
        "svc:p%40ss-W0rd",
        "x://p%40ss-W0rd:y",
    ] {
        let app = App::new("shop")
            .group("audit")
            .config(Config::toml(format!("brokers.audit.url = \"{url}\"")));
        let text = wrong(&app);
        assert!(text.contains("brokers.audit.url"), "{text}");
        assert!(!text.contains("p%40ss"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_runs_until_it_is_told_to_stop() {
    let broker = Memory::amqp();
    publish(&broker).await;
    let app = App::new("shop")
        .config(Config::none())
        .state(Patient(true))
        .broker(broker.clone())
        .only((work,));
    let handle = app.start().await.unwrap();
    while handle.stats()["work"].starts == 0 {
        tokio::task::yield_now().await;
    }
    handle.stop().await.unwrap();
    assert_eq!(left(&broker).await, 0);
}

// case: I05
#[test]
fn sigterm_and_sigint_end_a_program_cleanly_and_ack_what_ran() {
    for signal in ["TERM", "INT"] {
        let mut program = Program::start("patient");
        program.wait_for("started");
        program.send(signal);
        program.wait_for("stopping");
        program.wait_for("left 0");
        assert_eq!(program.exit_code(), Some(0), "{signal}");
    }
}

// case: I06
#[test]
#[expect(clippy::disallowed_methods, reason = "a real process is timed")]
fn a_second_signal_ends_a_program_at_once_and_leaves_the_message() {
    let mut program = Program::start("impatient");
    program.wait_for("started");
    program.send("INT");
    program.wait_for("stopping");
    let second = Instant::now();
    program.send("INT");
    program.wait_for("left 1");
    assert_eq!(program.exit_code(), Some(130));
    assert!(
        second.elapsed() < Duration::from_secs(2),
        "{:?}",
        second.elapsed()
    );
}

/// The variable that makes this test binary the program under test.
const ROLE: &str = "SHOP_ROLE";

/// Not a test by itself: the program that the tests above start and signal.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = runtime.block_on(async {
        let broker = Memory::amqp();
        publish(&broker).await;
        let app = App::new("shop")
            .config(Config::none())
            .state(Patient(role == "patient"))
            .broker(broker.clone())
            .group("work")
            .drain(Duration::from_secs(20));
        let ended = app.run().await;
        say(&format!("left {}", left(&broker).await));
        match ended {
            Ok(()) => 0,
            Err(error) => {
                assert_eq!(
                    error.exit_code(),
                    ExitCode::from(error.kind().exit_status())
                );
                assert_eq!(error.kind(), ErrorKind::Interrupted);
                error.kind().exit_status()
            }
        }
    });
    std::process::exit(i32::from(code));
}

/// A running program.
struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Program {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["program", "--exact", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn wait_for(&mut self, text: &str) {
        let found = self
            .lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.ends_with(text));
        assert!(found, "the program ended without saying `{text}`");
    }

    fn send(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &command])
                .status()
                .unwrap()
                .success()
        );
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, or a test failed before it did.
        drop(self.child.kill());
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).unwrap();
}

async fn publish(broker: &Memory) {
    match broker.sink().publish("jobs".into(), "a".into()) {
        Publishing::Done(done) => done.unwrap(),
        Publishing::Pending(done) => done.await.unwrap(),
    };
}

/// How many messages a new reader of `jobs` is given now.
async fn left(broker: &Memory) -> usize {
    let subscription = Subscription {
        app: "probe".into(),
        mount: "probe".into(),
        form: Form::Queue,
        address: "jobs".into(),
        window: 10,
        settle: Settle::AtLeastOnce,
        amqp: None,
        mqtt: None,
        rabbitmq: None,
    };
    let mut source = broker.subscribe(subscription).await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut count = 0;
    while let Poll::Ready(arrival) = source.poll_next(&mut cx) {
        count += usize::from(matches!(arrival, Arrival::Delivery(_)));
    }
    count
}

/// A shared broker, as the environment gives it, is taken like any other.
#[test]
fn a_broker_from_a_url_is_taken() {
    let app = app().broker(broker::from_url("memory://").unwrap());
    assert!(wrong(&app).contains("two brokers are called `default`"));
}
