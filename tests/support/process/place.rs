//! Where things are: programs, free ports and servers.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;

/// Where a URL leads.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// As in `127.0.0.1:1883`.
    pub host_and_port: String,
    /// A name and a password, where the URL has them.
    pub login: Option<(String, String)>,
}

impl Address {
    /// The host, the port and the login of a URL as the fixtures make them: nothing is escaped.
    #[must_use]
    pub fn parse(url: &str) -> Self {
        let (_, rest) = url.split_once("://").expect("a URL has a scheme");
        let authority = rest.split('/').next().unwrap_or(rest);
        let (login, host_and_port) = match authority.rsplit_once('@') {
            Some((login, host)) => (login.split_once(':'), host),
            None => (None, authority),
        };
        Self {
            host_and_port: host_and_port.into(),
            login: login.map(|(name, password)| (name.into(), password.into())),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address")
            .field("host_and_port", &self.host_and_port)
            .finish_non_exhaustive()
    }
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What `scripts/brokers env WHAT` says of `name`, or the environment before it. Fails the test when
/// neither knows it, and says what to do.
pub(crate) fn value(what: &str, name: &str) -> String {
    static KNOWN: OnceLock<Mutex<HashMap<String, String>>> = OnceLock::new();
    if let Ok(value) = std::env::var(name) {
        return value;
    }
    let known = KNOWN.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains_key(name) {
        let script = repository("scripts/brokers");
        let output = Command::new(&script).args(["env", what]).output();
        let output =
            output.unwrap_or_else(|error| panic!("cannot run {}: {error}", script.display()));
        let text = String::from_utf8_lossy(&output.stdout);
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        known.extend(pairs.map(|(name, value)| (name.into(), value.into())));
    }
    known.get(name).cloned().unwrap_or_else(|| {
        panic!("{what} is not installed (no {name}): run `scripts/brokers install {what}`")
    })
}

/// The first of `count` ports of loopback on which nobody listens, not given out before by this
/// process.
///
/// Below 32768: above that the system may lend one to a client while a server is being restarted.
/// `SUPPORT_PORTS` is the first of the thousand that may be used.
pub(crate) fn free_ports(count: u16) -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    const LOWEST: u16 = 20_000;
    let (lowest, span) = match std::env::var("SUPPORT_PORTS") {
        Ok(lowest) => (lowest.parse().expect("SUPPORT_PORTS is a port"), 1_000),
        Err(_) => (LOWEST, 12_000),
    };
    // Processes that run side by side begin far from each other.
    let begin = std::process::id().wrapping_mul(7_919) % u32::from(span);
    let begin = u16::try_from(begin).expect("it is below the span");
    for _ in 0..span {
        let given = GIVEN.fetch_add(count, Ordering::Relaxed) % span;
        let first = (begin + given) % span;
        if first + count > span {
            continue;
        }
        let first = lowest + first;
        if (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!("there is no free port from {lowest} on");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
