//! Handlers register themselves, in every profile and from every crate that is linked.
//!
//! Programs of their own are built here: what a linker keeps cannot be seen from inside one.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// A workspace with a program, and a library of two handlers that the program depends on.
struct Workspace(PathBuf);

impl Workspace {
    fn new(name: &str, program: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let ruststream = Path::new(env!("CARGO_MANIFEST_DIR")).join("ruststream");
        let ruststream = format!("ruststream = {{ path = '{}' }}", ruststream.display());
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n")
        };
        // Dependencies are built once, whatever the profile of the program.
        let profile = "[profile.dev]\ndebug = 0\nincremental = false\n\n[profile.dev.package.\"*\"]\nopt-level = 0\ncodegen-units = 16\n";
        let manifest = format!(
            "{}\n[features]\nlink = []\n\n[dependencies]\nhandlers = {{ path = \"handlers\" }}\n{ruststream}\n\n[workspace]\nmembers = [\"handlers\"]\n\n{profile}",
            package("program")
        );
        let library = format!("{}\n[dependencies]\n{ruststream}\n", package("handlers"));
        write(&root.join("Cargo.toml"), &manifest);
        write(&root.join("src/main.rs"), program);
        write(&root.join("handlers/Cargo.toml"), &library);
        write(&root.join("handlers/src/lib.rs"), HANDLERS);
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
        fs::copy(lock, root.join("Cargo.lock")).expect("the lock file can be copied");
        Self(root)
    }

    /// Build and run the program; what it prints.
    fn run(&self, arguments: &[&str]) -> String {
        // The versions of the lock file are here already: this package's own tests needed them.
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--offline"])
            .args(arguments)
            .current_dir(&self.0)
            .env(
                "CARGO_TARGET_DIR",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("registration-target"),
            )
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("the program prints text")
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file is in a folder"))
        .expect("a folder can be made");
    // An unchanged file keeps its time, so nothing is built again for it.
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return;
    }
    fs::write(path, text).expect("a file can be written");
}

const HANDLERS: &str = r#"
#[ruststream::subscriber(address = "jobs")]
async fn work(_: ruststream::Bytes) {}

#[ruststream::subscriber(address = "orders")]
async fn fulfil(_: ruststream::Bytes) {}
"#;

const PROGRAM: &str = r#"
#[cfg(feature = "link")]
use handlers as _;

#[cfg(feature = "link")]
#[ruststream::subscriber(address = "jobs")]
async fn labour(_: ruststream::Bytes) {}

fn main() {
    println!("{}", ruststream::Registry::linked().len());
    let app = ruststream::App::new("program").broker(ruststream::broker::memory::Memory::new());
    match app.check() {
        Ok(()) => println!("fine"),
        Err(error) => println!("{error}"),
    }
}
"#;

// case: K01 K14
#[test]
fn handlers_of_a_crate_count_once_the_program_names_it_and_their_absence_is_explained() {
    let workspace = Workspace::new("registration-crates", PROGRAM);
    let unnamed = workspace.run(&[]);
    assert!(unnamed.starts_with("0\n"), "nothing is linked: {unnamed}");
    assert!(
        unnamed.contains("use handlers as _;"),
        "the error says what to write: {unnamed}"
    );
    let named = workspace.run(&["--features", "link"]);
    assert!(
        named.starts_with("3\n"),
        "two of the library, one of the program: {named}"
    );
    for part in [
        "`jobs`",
        "work",
        "labour",
        "handlers/src/lib.rs:",
        "src/main.rs:",
    ] {
        assert!(
            named.contains(part),
            "two handlers of one queue in two crates are told with {part}: {named}"
        );
    }
}

// case: K02
#[test]
fn nested_handlers_that_nobody_names_are_registered_in_every_profile() {
    const COUNT: usize = 20;
    let mut program =
        String::from("fn main() { println!(\"{}\", ruststream::Registry::linked().len()); }\n");
    for number in 0..COUNT {
        write!(
            program,
            "#[allow(unused)]\nmod level_{number} {{\n#[ruststream::subscriber(address = \"queue.{number}\")]\nasync fn handle(_: ruststream::Bytes) {{}}\n"
        )
        .expect("a string takes any text");
    }
    program.push_str(&"}\n".repeat(COUNT));
    let workspace = Workspace::new("registration-profiles", &program);
    for level in ["0", "1", "2", "3", "\"s\""] {
        for units in [1, 16, 256] {
            let level = format!("profile.dev.opt-level={level}");
            let units = format!("profile.dev.codegen-units={units}");
            let found = workspace.run(&["--config", &level, "--config", &units]);
            assert_eq!(found.trim(), COUNT.to_string(), "{level} {units}");
        }
    }
}
