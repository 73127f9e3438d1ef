//! Every example is run as a user runs it, and must end well by itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

/// What the front door may take.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn orders_ends_within_its_limit_and_its_totals_add_up() {
    let text = run("orders");
    let total = |what: &str| -> u64 {
        let lines = text.lines().map(|line| line.trim().split_once(' '));
        let (number, _) = lines.flatten().find(|(_, it)| *it == what).unwrap();
        number.parse().unwrap()
    };
    let published = total("published");
    assert!(published > 0);
    assert_eq!(
        total("fulfilled") + total("dropped") + total("dead-lettered"),
        published
    );
    assert!(!text.contains("NO:"), "{text}");
    let orders: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split(" s  ").nth(1)?.split_whitespace().next())
        .collect();
    assert_eq!(orders.len() as u64, published, "every order is told of");
}

#[test]
fn orders_shows_every_way_an_order_can_go() {
    let text = run("orders");
    for word in [
        "delivered",
        "nobody opens",
        "the bank is busy",
        "dropped",
        "decode",
        "max_attempts",
        "error",
    ] {
        assert!(text.contains(word), "nothing is told of `{word}`:\n{text}");
    }
}

#[test]
fn telemetry_checks_itself() {
    run("telemetry");
}

#[test]
fn batches_checks_itself() {
    run("batches");
}

#[test]
fn error_policies_checks_itself() {
    run("error_policies");
}

#[test]
fn filters_checks_itself() {
    run("filters");
}

#[test]
fn several_brokers_checks_itself() {
    run("several_brokers");
}

#[test]
fn testing_a_handler_checks_itself() {
    run("testing_a_handler");
}

/// No example may be forgotten here.
#[test]
fn every_example_has_a_test() {
    let this = include_str!("examples.rs");
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let call = format!("run(\"{name}\")");
        assert!(this.contains(&call), "nothing runs the example `{name}`");
    }
}

/// What an example says. It must end in time, by itself, and well.
#[expect(clippy::disallowed_methods, reason = "a real process is timed")]
fn run(name: &str) -> String {
    let mut child = Command::new(folder().join(name))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            let said = child.wait_with_output().unwrap();
            panic!("`{name}` did not end within {LIMIT:?}:\n{}", told(&said));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = child.wait_with_output().unwrap();
    assert!(
        said.status.success(),
        "`{name}` ended with {}:\n{}",
        said.status,
        told(&said)
    );
    String::from_utf8(said.stdout).unwrap()
}

fn told(said: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    )
}

/// Where the examples are, built from today's sources.
///
/// `cargo test` builds them beside this test, `cargo test --test examples` does not, so cargo is
/// asked once more, in the profile of this test: it finds nothing to do if they are there.
fn folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        // `target/<profile>/deps/examples-<hash>`
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--all-features"])
            .args(["--examples", "--profile", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the examples do not build");
        profile.join("examples")
    });
    folder.clone()
}
