//! What a mosquitto is started with.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::Certificates;
use crate::process::place;

/// The configuration of a mosquitto.
#[derive(Clone, Debug)]
pub struct Config {
    persistent: bool,
    users: Vec<(String, String)>,
    acl: Option<String>,
    tls: Option<Tls>,
    lines: Vec<String>,
}

/// How a mosquitto shows who it is over TLS, and what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// A certificate for `localhost` and 127.0.0.1.
    Plain,
    /// A certificate for another host.
    WrongHost,
    /// A certificate of version 1, which can name no host as today's clients ask.
    Version1,
    /// A certificate that is no longer valid.
    Expired,
    /// A good certificate, and every client has to show one as well.
    ClientCertificate,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// As [`Mosquitto::start`](super::Mosquitto::start) says.
    #[must_use]
    pub fn new() -> Self {
        Self {
            persistent: true,
            users: Vec::new(),
            acl: None,
            tls: None,
            lines: Vec::new(),
        }
    }

    /// It forgets everything when it ends.
    #[must_use]
    pub fn forgetful(mut self) -> Self {
        self.persistent = false;
        self
    }

    /// Only those who are named may come.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.into(), password.into()));
        self
    }

    /// The text of an access control file, such as `user app\ntopic readwrite plant/#`.
    #[must_use]
    pub fn acl(mut self, text: impl Into<String>) -> Self {
        self.acl = Some(text.into());
        self
    }

    /// TLS on a second port, beside the plain one.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// A client may send no larger packet, of so many bytes in all.
    #[must_use]
    pub fn max_packet_size(self, bytes: u32) -> Self {
        self.line(format!("max_packet_size {bytes}"))
    }

    /// How much it sends to a client before that acknowledges; 0, which it is by itself, leaves that to
    /// the client's receive maximum. It is also the receive maximum that it grants to a client.
    #[must_use]
    pub fn max_inflight_messages(self, count: u16) -> Self {
        self.line(format!("max_inflight_messages {count}"))
    }

    /// The highest quality that it takes.
    #[must_use]
    pub fn max_qos(self, qos: u8) -> Self {
        self.line(format!("max_qos {qos}"))
    }

    /// Any other line; the last of a name counts. It ends up among those of the plain listener, so what
    /// is said of a listener is said of that one.
    ///
    /// # Panics
    ///
    /// On `per_listener_settings`: with it 2.0.21 drops what is published for a session that is
    /// offline.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        let line = line.into();
        assert!(
            !line.starts_with("per_listener_settings"),
            "it loses messages"
        );
        self.lines.push(line);
        self
    }

    pub(super) fn tls(&self) -> Option<Tls> {
        self.tls
    }

    /// Write the files that it is started with.
    pub(super) fn write(&self, folder: &Path, port: u16, certificates: Option<&Certificates>) {
        let mut text = String::new();
        self.say(&mut text, folder, port, certificates)
            .expect("a text can be written to");
        let file = folder.join("mosquitto.conf");
        fs::write(&file, text)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    }

    fn say(
        &self,
        text: &mut String,
        folder: &Path,
        port: u16,
        certificates: Option<&Certificates>,
    ) -> std::fmt::Result {
        // Started by root it would become another user, who cannot write here.
        writeln!(text, "user root")?;
        writeln!(text, "listener {port} 127.0.0.1")?;
        writeln!(text, "log_dest stderr\nlog_type all")?;
        writeln!(text, "allow_anonymous {}", self.users.is_empty())?;
        // By itself it drops what waits for an absent session beyond a thousand.
        writeln!(text, "max_queued_messages 0")?;
        if !self
            .lines
            .iter()
            .any(|line| line.starts_with("max_inflight_messages"))
        {
            writeln!(text, "max_inflight_messages 0")?;
        }
        writeln!(text, "persistence {}", self.persistent)?;
        if self.persistent {
            writeln!(text, "persistence_location {}/", folder.display())?;
            // At every change, or what came since the last save is lost with a kill.
            writeln!(text, "autosave_on_changes true\nautosave_interval 1")?;
        }
        if !self.users.is_empty() {
            writeln!(text, "password_file {}", self.passwords(folder).display())?;
        }
        if let Some(acl) = &self.acl {
            let file = folder.join("acl");
            private(&file, acl);
            writeln!(text, "acl_file {}", file.display())?;
        }
        for line in &self.lines {
            writeln!(text, "{line}")?;
        }
        if let (Some(tls), Some(certificates)) = (self.tls, certificates) {
            let (certificate, key) = certificates.server(tls);
            writeln!(text, "listener {} 127.0.0.1", port + 1)?;
            writeln!(text, "cafile {}", certificates.ca().display())?;
            writeln!(text, "certfile {}", certificate.display())?;
            writeln!(text, "keyfile {}", key.display())?;
            writeln!(
                text,
                "require_certificate {}",
                tls == Tls::ClientCertificate
            )?;
        }
        Ok(())
    }

    fn passwords(&self, folder: &Path) -> std::path::PathBuf {
        let file = folder.join("passwords");
        private(&file, "");
        let program = place::value("mosquitto", "MOSQUITTO_PASSWD_BIN");
        for (name, password) in &self.users {
            let mut command = Command::new(&program);
            let output = command.arg("-b").arg(&file).args([name, password]).output();
            let output = output.expect("mosquitto_passwd runs");
            assert!(output.status.success(), "mosquitto_passwd: {output:?}");
        }
        file
    }
}

/// A file that only its owner reads, or mosquitto complains.
fn private(file: &Path, text: &str) {
    fs::write(file, text)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("it is ours");
}
