//! mosquitto, a process of the test's own.

mod certificates;
mod config;

use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

pub use certificates::Certificates;
pub use config::Config;
pub use config::Tls;

use crate::mqtt::Client;
use crate::mqtt::packet::Connect;
use crate::process::Lines;
use crate::process::Process;
use crate::process::place;

/// A mosquitto on a free port of loopback. Dropped, it is killed and its data is removed.
///
/// # Examples
///
/// ```ignore
/// let server = Mosquitto::start().await;
/// let client = Client::connect(&server.url(), Connect::new("observer")).await;
/// ```
#[derive(Debug)]
pub struct Mosquitto {
    config: Config,
    process: Process,
    port: u16,
    // Dropped after the process that writes there.
    folder: TempDir,
    certificates: Option<Certificates>,
}

impl Mosquitto {
    /// With what tests need and nothing beside: everybody may come, nothing is dropped for want of
    /// room, and what was acknowledged survives even a kill.
    pub async fn start() -> Self {
        Self::with(Config::new()).await
    }

    /// With a configuration.
    pub async fn with(config: Config) -> Self {
        let folder = tempfile::Builder::new().prefix("mosquitto-").tempdir();
        let folder = folder.expect("there is a folder for temporary files");
        let certificates = config.tls().map(|_| Certificates::make(folder.path()));
        let mut tries = 0;
        loop {
            tries += 1;
            let port = place::free_ports(2);
            config.write(folder.path(), port, certificates.as_ref());
            match start(folder.path()).await {
                Ok(process) => {
                    return Self {
                        config,
                        process,
                        port,
                        folder,
                        certificates,
                    };
                }
                // Somebody else may have taken the port since it was found free.
                Err(why) if tries < 3 && why.contains("Address already in use") => {}
                Err(why) => panic!("mosquitto does not start:\n{why}"),
            }
        }
    }

    /// Where a client finds it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// The same with a login in it.
    #[must_use]
    pub fn url_as(&self, user_name: &str, password: &str) -> String {
        format!("mqtt://{user_name}:{password}@127.0.0.1:{}", self.port)
    }

    /// Where a client finds it over TLS, by the name that its certificate is for.
    #[must_use]
    pub fn tls_url(&self) -> String {
        assert!(self.config.tls().is_some(), "it was started without TLS");
        format!("mqtts://localhost:{}", self.port + 1)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificates that go with it.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        let certificates = self.certificates.as_ref();
        certificates.expect("it was started without TLS")
    }

    /// What it has logged since it was last started.
    #[must_use]
    pub fn log(&self) -> &Lines {
        self.process.lines()
    }

    /// End it in good order.
    pub async fn stop(&self) {
        // It says that it runs a moment before it heeds a TERM, so one may be lost.
        while self.process.runs() {
            let ended = tokio::time::timeout(Duration::from_secs(2), self.process.term());
            drop(ended.await);
        }
    }

    /// End it as a crash would, though not between an acknowledgement and the save that follows it: it
    /// acknowledges first, so what it said last would be lost, by its own fault. Whoever wants that uses
    /// [`kill_at_once`](Self::kill_at_once).
    pub async fn kill(&self) {
        // It saves at the end of each round, so an answer to a newcomer shows that it has saved. One
        // that is paused does not answer.
        let url = self.url();
        let asking = Client::try_connect(&url, Connect::new("kill"));
        drop(tokio::time::timeout(Duration::from_secs(1), asking).await);
        self.kill_at_once().await;
    }

    /// End it as a crash would, at once.
    pub async fn kill_at_once(&self) {
        self.process.kill().await;
    }

    /// Start it again, with the data and the port that it had; ended first, in good order, if it runs.
    pub async fn restart(&mut self) {
        if self.process.runs() {
            self.stop().await;
        }
        let started = start(self.folder.path()).await;
        self.process = started.unwrap_or_else(|why| panic!("mosquitto does not start:\n{why}"));
    }

    /// Stop it where it is: its connections stay, and nothing is answered.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Let it go on.
    pub fn resume(&self) {
        self.process.resume();
    }
}

/// Start it and wait until it listens.
async fn start(folder: &std::path::Path) -> Result<Process, String> {
    let program = place::value("mosquitto", "MOSQUITTO_BIN");
    let mut command = Command::new(program);
    command.arg("-c").arg(folder.join("mosquitto.conf"));
    let process = Process::spawn("mosquitto", &mut command);
    let started = tokio::time::timeout(crate::PATIENCE, process.lines().with(" running")).await;
    match started {
        Ok(Some(_)) => Ok(process),
        _ => Err(process.lines().text()),
    }
}
