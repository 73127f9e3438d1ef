//! Certificates for a test, made by `openssl`.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::Tls;

/// An authority and what it has signed, for as long as the server is there whose they are.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Make them below `folder`.
    #[must_use]
    pub fn make(folder: &Path) -> Self {
        let all = Self {
            folder: folder.join("tls"),
        };
        fs::create_dir_all(&all.folder).expect("a folder can be made in a temporary one");
        for authority in ["ca", "stranger"] {
            all.authority(authority);
        }
        let server = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth";
        let elsewhere = "subjectAltName=DNS:elsewhere.example\nextendedKeyUsage=serverAuth";
        let client = "extendedKeyUsage=clientAuth";
        all.signed("server", "localhost", Some(server), false);
        all.signed("wrong-host", "elsewhere.example", Some(elsewhere), false);
        all.signed("expired", "localhost", Some(server), true);
        all.signed("version1", "localhost", None, false);
        all.signed("client", "client", Some(client), false);
        all
    }

    /// The authority that has signed them, in PEM.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// An authority that has signed none of them.
    #[must_use]
    pub fn stranger(&self) -> PathBuf {
        self.folder.join("stranger.crt")
    }

    /// A client's certificate and its key.
    #[must_use]
    pub fn client(&self) -> (PathBuf, PathBuf) {
        self.pair("client")
    }

    /// A server's certificate and its key.
    #[must_use]
    pub fn server(&self, tls: Tls) -> (PathBuf, PathBuf) {
        self.pair(match tls {
            Tls::Plain | Tls::ClientCertificate => "server",
            Tls::WrongHost => "wrong-host",
            Tls::Version1 => "version1",
            Tls::Expired => "expired",
        })
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        let file = |end| self.folder.join(format!("{name}.{end}"));
        (file("crt"), file("key"))
    }

    fn authority(&self, name: &str) {
        let subject = format!("/CN={name}");
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        let mut arguments = vec!["req", "-x509", "-days", "30", "-subj", &subject];
        arguments.extend(NEW_KEY);
        arguments.extend(["-keyout", &key, "-out", &certificate]);
        self.openssl(&arguments);
    }

    /// A certificate by the authority; one without extensions is of version 1.
    fn signed(&self, name: &str, host: &str, extensions: Option<&str>, expired: bool) {
        let subject = format!("/CN={host}");
        let [key, request, certificate, file] =
            ["key", "csr", "crt", "ext"].map(|end| format!("{name}.{end}"));
        let mut arguments = vec!["req", "-subj", &subject, "-keyout", &key, "-out", &request];
        arguments.extend(NEW_KEY);
        self.openssl(&arguments);
        let mut arguments = vec!["x509", "-req", "-in", &request, "-out", &certificate];
        arguments.extend(["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]);
        // Some versions of openssl take no date in the past, all of them a negative number of days.
        arguments.extend(["-days", if expired { "-1" } else { "30" }]);
        if let Some(extensions) = extensions {
            fs::write(self.folder.join(&file), extensions).expect("the folder is ours");
            arguments.extend(["-extfile", &file]);
        }
        self.openssl(&arguments);
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments).current_dir(&self.folder).output();
        let output = output.unwrap_or_else(|error| {
            panic!("openssl: {error}; run `scripts/brokers install mosquitto`")
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments:?}:\n{said}");
    }
}

/// Elliptic curves, as they are made in a moment.
const NEW_KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
];
