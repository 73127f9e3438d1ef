//! Every statement of the specification is named by a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// Facts to respect and document rather than to test.
const FACTS: &[&str] = &[
    "A7", "R6", "R7", "R10", "R13", "R17", "R18", "R19", "R20", "R21",
];

/// Statements that need a server whose driver is not there yet.
const LATER: &[&str] = &["C19"];

#[test]
fn every_statement_is_named_by_a_test() {
    let statements = statements();
    assert!(
        statements.len() > 150,
        "the specification is read: {}",
        statements.len()
    );
    let mut named = BTreeSet::new();
    for file in sources(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let text = fs::read_to_string(&file).expect("a source file is text");
        for line in text.lines() {
            let Some(marks) = line.trim_start().strip_prefix("// spec: ") else {
                continue;
            };
            named.extend(marks.split_whitespace().flat_map(expanded));
        }
    }
    let exempt: BTreeSet<&str> = FACTS.iter().chain(LATER).copied().collect();
    let unnamed: Vec<_> = statements
        .iter()
        .filter(|statement| !named.contains(*statement) && !exempt.contains(statement.as_str()))
        .collect();
    assert!(unnamed.is_empty(), "no test names {unnamed:?}");
    let unknown: Vec<_> = named.difference(&statements).collect();
    assert!(
        unknown.is_empty(),
        "tests name statements that are not there: {unknown:?}"
    );
}

/// A mark, or every mark of a range such as `A21-A30`.
fn expanded(mark: &str) -> Vec<String> {
    let Some((first, last)) = mark.split_once('-') else {
        return vec![mark.to_owned()];
    };
    let (section, first) = first.split_at(1);
    let number = |text: &str| {
        text.parse::<u32>()
            .expect("a range is of numbers in one section")
    };
    let last = last.strip_prefix(section).unwrap_or(last);
    (number(first)..=number(last))
        .map(|number| format!("{section}{number}"))
        .collect()
}

/// `- **A1** …`
fn statements() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/specification.md");
    let text = fs::read_to_string(path).expect("the specification is there");
    let statement = |line: &str| Some(line.strip_prefix("- **")?.split_once("**")?.0.to_owned());
    text.lines().filter_map(statement).collect()
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = ["ruststream", "ruststream-macros", "tests", "examples"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}
