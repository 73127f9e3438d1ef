//! Certificates and keys, in a file or in memory.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::Error as PemError;
use rustls_pki_types::pem::PemObject;

use crate::broker::BrokerError;

/// Where PEM comes from. It shows the file's name and never what is inside.
#[derive(Clone)]
pub(super) enum Pem {
    File(PathBuf),
    Text(Arc<[u8]>),
}

impl Pem {
    pub(super) fn text(bytes: Vec<u8>) -> Self {
        Self::Text(bytes.into())
    }

    /// Every certificate in it, at least one.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
        let text = self.read("certificate")?;
        let certificates = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.broken(&error))?;
        if certificates.is_empty() {
            return Err(BrokerError::permanent(format!(
                "there is no certificate in {self}: it must be PEM, with `BEGIN CERTIFICATE`"
            )));
        }
        Ok(certificates)
    }

    /// The first private key in it.
    pub(super) fn private_key(&self) -> Result<PrivateKeyDer<'static>, BrokerError> {
        let text = self.read("private key")?;
        match PrivateKeyDer::from_pem_slice(&text) {
            Ok(key) => Ok(key),
            Err(PemError::NoItemsFound) if contains(&text, b"BEGIN ENCRYPTED PRIVATE KEY") => {
                Err(BrokerError::permanent(format!(
                    "the private key in {self} is encrypted: store it without a passphrase, readable \
                     by the service only"
                )))
            }
            Err(PemError::NoItemsFound) => Err(BrokerError::permanent(format!(
                "there is no private key in {self}: it must be PEM, with `BEGIN PRIVATE KEY`"
            ))),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn read(&self, what: &str) -> Result<Arc<[u8]>, BrokerError> {
        let path = match self {
            Self::Text(text) => return Ok(Arc::clone(text)),
            Self::File(path) => path,
        };
        std::fs::read(path).map(Arc::from).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
                io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                _ => error.to_string(),
            };
            BrokerError::permanent(format!("the {what} {self} cannot be read: {reason}"))
        })
    }

    /// The parser's own words quote lines, which may be those of a key.
    fn broken(&self, error: &PemError) -> BrokerError {
        let problem = match error {
            PemError::MissingSectionEnd { .. } => "a section has no `END` line",
            PemError::IllegalSectionStart { .. } => "a `BEGIN` line is malformed",
            PemError::Base64Decode(_) => "a section is not base64",
            PemError::SectionTooLarge => "a section is too large",
            _ => "it cannot be read",
        };
        BrokerError::permanent(format!("{self} is not valid PEM: {problem}"))
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "`{}`", path.display()),
            Self::Text(_) => f.write_str("the given PEM text"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
