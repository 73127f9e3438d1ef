//! What the compiler says about mistakes: one file in `ui/fail` per rule, and in `ui/pass` what must
//! compile.
//!
//! On the compiler that the snapshots were made with (`ui/RUSTC`) their text is compared. On another
//! one its own words may differ, so only the first line and the place of each error are.

#![expect(
    clippy::unwrap_used,
    clippy::let_underscore_must_use,
    clippy::unnecessary_debug_formatting,
    reason = "what fails here fails the test, and quoted paths are TOML strings"
)]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use serde_json::Value;

/// An error: its first line, and `file:line:column`.
type Place = (String, String);

#[test]
// spec: C12 C20 C21
// case: C12 K06 K07 K08 K16
fn every_mistake_is_told_where_it_was_made() {
    if snapshots_are_of_this_compiler() && env::var_os("RUSTSTREAM_UI_PLACES").is_none() {
        let cases = trybuild::TestCases::new();
        cases.compile_fail("tests/ui/fail/*.rs");
        return;
    }
    let files = sources("fail");
    let mut wrong = String::new();
    let found = errors_of(&files);
    for file in &files {
        let name = name_of(file);
        let snapshot = fs::read_to_string(file.with_extension("stderr")).unwrap_or_default();
        let expected = places_in(&snapshot);
        let found = found.get(&name).cloned().unwrap_or_default();
        if expected != found {
            let _ = writeln!(
                wrong,
                "{name}\n  expected {expected:#?}\n  found {found:#?}"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
// case: C16 K07 K11 K12 K13
fn what_is_allowed_compiles() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
}

#[test]
fn there_is_a_snapshot_for_every_rule() {
    let files = sources("fail");
    assert!(files.len() >= 40, "{} rules", files.len());
    for file in files {
        let snapshot = fs::read_to_string(file.with_extension("stderr")).unwrap_or_default();
        assert!(!places_in(&snapshot).is_empty(), "{}", file.display());
    }
}

#[test]
fn places_are_read_from_a_snapshot() {
    let snapshot = "error: no\n --> tests/ui/fail/a.rs:4:5\n  |\n4 | x\n\n\
                    error[E0277]: `A` is not\n   --> tests/ui/fail/a.rs:7:1\n\n\
                    note: this\n --> src/lib.rs:1:1\n";
    let expected = [
        ("error: no".to_owned(), "a.rs:4:5".to_owned()),
        ("error[E0277]: `A` is not".to_owned(), "a.rs:7:1".to_owned()),
    ];
    assert_eq!(places_in(snapshot), expected);
}

fn snapshots_are_of_this_compiler() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let recorded = fs::read_to_string(ui().join("RUSTC")).unwrap();
    version.split(' ').nth(1) == Some(recorded.trim())
}

fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui")
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(ui().join(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The errors of a snapshot, in order of place and text.
fn places_in(snapshot: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut error = None;
    for line in snapshot.lines() {
        if line.starts_with("error") {
            error = Some(line.to_owned());
        } else if let (Some(at), Some(_)) = (line.trim_start().strip_prefix("--> "), &error) {
            places.extend(error.take().map(|error| (error, file_name(at))));
        }
    }
    places.sort();
    places
}

fn file_name(place: &str) -> String {
    place.rsplit('/').next().unwrap_or(place).to_owned()
}

/// What the compiler says about each file, as programs of one crate.
fn errors_of(files: &[PathBuf]) -> BTreeMap<String, Vec<Place>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnostics");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("Cargo.toml"), manifest(root, files)).unwrap();
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "check",
            "--bins",
            "--keep-going",
            "--offline",
            "--message-format=json",
        ])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", project.join("target"))
        .env_remove("RUSTFLAGS")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let mut found: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let target = message["target"]["name"].as_str().unwrap_or_default();
        found
            .entry(target.to_owned())
            .or_default()
            .extend(place_of(&message["message"]));
    }
    for places in found.values_mut() {
        places.sort();
    }
    found
}

/// The place of a diagnostic, if it is an error at a place.
fn place_of(message: &Value) -> Option<Place> {
    let rendered = message["rendered"].as_str()?;
    places_in(rendered).into_iter().next()
}

fn manifest(root: &Path, files: &[PathBuf]) -> String {
    let mut text = format!(
        "[package]\nname = \"diagnostics\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [workspace]\n\n[dependencies]\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
         ruststream = {{ path = {:?}, features = [\"full\"] }}\n",
        root.join("ruststream")
    );
    for file in files {
        let _ = write!(
            text,
            "\n[[bin]]\nname = {:?}\npath = {file:?}\n",
            name_of(file)
        );
    }
    text
}
