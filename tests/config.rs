//! Configuration as a program meets it: a file in its working directory, and its environment.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use ruststream::App;
use ruststream::Bytes;
use ruststream::broker::memory::Memory;
use ruststream::subscriber;

#[subscriber(address = "orders", max_attempts = 3, dead_letter = "orders.dead")]
async fn fulfil(_order: Bytes) {}

/// The variable that makes this test binary the program under test.
const ROLE: &str = "SHOP_ROLE";

/// Not a test by itself: the program that the tests below start.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let app = App::new("shop").broker(Memory::amqp());
    let app = match role.as_str() {
        "default" => app,
        path => app.config(path),
    };
    let text = match app.describe() {
        Ok(description) => description.to_string(),
        Err(error) => error.to_string(),
    };
    let mut out = std::io::stdout();
    writeln!(out, "\n{text}")
        .and_then(|()| out.flush())
        .unwrap();
}

/// What the program says of itself in a folder with this `ruststream.toml` and these variables.
fn describe(folder: &str, role: &str, file: Option<&str>, variables: &[(&str, &str)]) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    if let Some(text) = file {
        std::fs::write(folder.join("ruststream.toml"), text).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["program", "--exact", "--nocapture"])
        .current_dir(folder)
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The line of one key in a description, with single spaces.
fn line(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(key));
    line.unwrap_or_else(|| panic!("no `{key}` in {text}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_file_in_the_working_directory_and_the_environment_are_read_by_default() {
    let file = "[handlers.fulfil]\nmax_attempts = 4\ntimeout = \"3s\"\n";
    let variable = "RUSTSTREAM_HANDLERS__FULFIL__MAX_ATTEMPTS";
    let text = describe("both", "default", Some(file), &[(variable, "5")]);
    assert_eq!(
        line(&text, "max_attempts"),
        format!("max_attempts = 5 (variable `{variable}`)")
    );
    assert_eq!(
        line(&text, "timeout"),
        "timeout = 3s (ruststream.toml, key `handlers.fulfil.timeout`)"
    );
    assert_eq!(
        line(&text, "dead_letter"),
        "dead_letter = \"orders.dead\" (attribute)"
    );
}

#[test]
fn without_a_file_and_variables_the_attribute_holds() {
    let text = describe("neither", "default", None, &[]);
    assert_eq!(line(&text, "max_attempts"), "max_attempts = 3 (attribute)");
}

#[test]
fn a_named_file_is_read_and_must_be_there() {
    std::fs::write(
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("named.toml"),
        "handlers.fulfil.max_attempts = 7",
    )
    .unwrap();
    let text = describe("named", "../named.toml", None, &[]);
    assert!(
        line(&text, "max_attempts").starts_with("max_attempts = 7 (../named.toml"),
        "{text}"
    );
    let text = describe("named", "../missing.toml", None, &[]);
    assert!(
        text.contains("../missing.toml: the configuration file cannot be read"),
        "{text}"
    );
}

#[test]
fn a_wrong_file_and_a_wrong_variable_are_both_told() {
    let variables = [("RUSTSTREAM_HANDLERS__FULFIL__PREFETCH", "lots")];
    let text = describe(
        "wrong",
        "default",
        Some("handlers.fulfill.timeout = \"1s\""),
        &variables,
    );
    for part in [
        "ruststream.toml, key `handlers.fulfill`",
        "did you mean `fulfil`?",
        "variable `RUSTSTREAM_HANDLERS__FULFIL__PREFETCH`: expected a whole number from 1",
        "found \"lots\"",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}
