//! What a client trusts and what it shows of itself.

mod pem;
mod trust;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::version::TLS13;

use self::pem::Pem;
use super::endpoint::Endpoint;
use super::query::Query;
use crate::broker::BrokerError;

pub(super) use self::trust::explain;

/// How a connection is encrypted: whom to trust, and what certificate to show.
///
/// The server's certificate is always checked; there is no way to accept any. Files are read at each
/// connect, so that they can be renewed under a running service, and what is wrong with them is
/// said then.
///
/// # Examples
///
/// ```
/// use ruststream::Tls;
///
/// let tls = Tls::system()
///     .ca_file("/etc/shop/ca.pem")
///     .client_certificate_files("/etc/shop/client.pem", "/etc/shop/client.key");
/// # let _ = tls;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Tls {
    source: Source,
    server_name: Option<String>,
}

#[derive(Clone)]
enum Source {
    /// Everything is in it.
    Ready(Arc<ClientConfig>),
    /// To be made when connecting.
    Parts(Parts),
}

#[derive(Clone, Default)]
struct Parts {
    /// The system's, if empty.
    authorities: Vec<Pem>,
    /// Certificate chain and key.
    identity: Option<(Pem, Pem)>,
}

impl Tls {
    /// Trust the certificate authorities of this machine.
    pub fn system() -> Self {
        Self {
            source: Source::Parts(Parts::default()),
            server_name: None,
        }
    }

    /// Use a configuration as it is; what is set besides, but for
    /// [`server_name`](Tls::server_name), replaces it.
    pub fn from_config(config: Arc<ClientConfig>) -> Self {
        Self {
            source: Source::Ready(config),
            server_name: None,
        }
    }

    /// Trust the authorities in a PEM file, *instead of* those of this machine. Given several
    /// times, each of them is trusted.
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        self.authority(Pem::File(path.into()))
    }

    /// Trust the authorities in a PEM text, as [`ca_file`](Tls::ca_file) does.
    pub fn ca_pem(self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority(Pem::text(pem.into()))
    }

    /// Show a certificate: PEM files with its chain, the own one first, and with its key.
    pub fn client_certificate_files(
        self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.identity(Pem::File(certificate.into()), Pem::File(key.into()))
    }

    /// Show a certificate: PEM texts with its chain, the own one first, and with its key.
    pub fn client_certificate_pem(
        self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity(Pem::text(certificate.into()), Pem::text(key.into()))
    }

    /// Expect the certificate to name `name` rather than the host that is connected to.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// What the parameters `ca`, `client_cert`, `client_key` and `server_name` of a URL say: nothing,
    /// if there is none. `encrypted` is whether the scheme is.
    ///
    /// # Errors
    ///
    /// Never here: problems go to [`Query::finish`]. Without the feature there is one.
    #[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
    pub(crate) fn from_query(
        encrypted: bool,
        query: &mut Query,
    ) -> Result<Option<Self>, BrokerError> {
        let authority = query.filled("ca");
        let certificate = query.filled("client_cert");
        let key = query.filled("client_key");
        let server_name = query.filled("server_name");
        if !encrypted {
            let given = [
                ("ca", &authority),
                ("client_cert", &certificate),
                ("client_key", &key),
                ("server_name", &server_name),
            ];
            for (name, _) in given.iter().filter(|(_, value)| value.is_some()) {
                query.problem(
                    name,
                    "is for an encrypted connection only: the scheme needs an `s` at its end",
                );
            }
            return Ok(None);
        }
        let mut tls = None;
        if let Some(path) = authority {
            tls = Some(Self::system().ca_file(path));
        }
        match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let base = tls.unwrap_or_else(Self::system);
                tls = Some(base.client_certificate_files(certificate, key));
            }
            (Some(_), None) => query.problem("client_cert", "needs `client_key` beside it"),
            (None, Some(_)) => query.problem("client_key", "needs `client_cert` beside it"),
            (None, None) => {}
        }
        if let Some(name) = server_name {
            tls = Some(tls.unwrap_or_else(Self::system).server_name(name));
        }
        Ok(tls)
    }

    /// The configuration. Reads files: not for a task that others wait for.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not what it should be. Permanent.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, BrokerError> {
        let parts = match &self.source {
            Source::Ready(config) => return Ok(Arc::clone(config)),
            Source::Parts(parts) => parts,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| BrokerError::permanent(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(parts.roots()?);
        let Some((certificate, key)) = &parts.identity else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let chain = certificate.certificates()?;
        match builder.with_client_auth_cert(chain, key.private_key()?) {
            Ok(config) => Ok(Arc::new(config)),
            Err(TlsError::InconsistentKeys(_)) => Err(BrokerError::permanent(format!(
                "the private key in {key} is not that of the first certificate in {certificate}"
            ))),
            Err(error) => Err(BrokerError::permanent(format!(
                "the certificate in {certificate} and the private key in {key} cannot be used: {error}"
            ))),
        }
    }

    /// The name that the server's certificate must have.
    ///
    /// # Errors
    ///
    /// It is no name that a certificate can have. Permanent.
    pub(crate) fn name_for(&self, endpoint: &Endpoint) -> Result<ServerName<'static>, BrokerError> {
        let name = self.server_name.as_deref().unwrap_or(endpoint.host());
        ServerName::try_from(name.to_owned()).map_err(|_| {
            BrokerError::permanent(format!(
                "`{name}` is not a name that a certificate can have: connect by a host name or an \
                 IP address, or set `server_name`"
            ))
        })
    }

    fn authority(self, pem: Pem) -> Self {
        self.change(|parts| parts.authorities.push(pem))
    }

    fn identity(self, certificate: Pem, key: Pem) -> Self {
        self.change(|parts| parts.identity = Some((certificate, key)))
    }

    fn change(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut parts = match self.source {
            Source::Parts(parts) => parts,
            Source::Ready(_) => Parts::default(),
        };
        change(&mut parts);
        self.source = Source::Parts(parts);
        self
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Tls");
        match &self.source {
            Source::Ready(_) => debug.field("config", &"ready"),
            Source::Parts(parts) => debug
                .field("authorities", &parts.authorities)
                .field("identity", &parts.identity),
        };
        debug.field("server_name", &self.server_name).finish()
    }
}

impl Parts {
    fn roots(&self) -> Result<RootCertStore, BrokerError> {
        let mut roots = RootCertStore::empty();
        if self.authorities.is_empty() {
            let found = rustls_native_certs::load_native_certs();
            // One that cannot be read is one that is not trusted, which a handshake will say.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(BrokerError::permanent(
                    "this machine has no certificate authorities: install its `ca-certificates`, or \
                     set `ca=` / `Tls::ca_file`",
                ));
            }
        }
        for pem in &self.authorities {
            for certificate in pem.certificates()? {
                roots.add(certificate).map_err(|error| {
                    BrokerError::permanent(format!(
                        "a certificate in {pem} cannot be an authority: {}",
                        trust::problem(&error)
                    ))
                })?;
            }
        }
        Ok(roots)
    }
}

#[cfg(test)]
mod tests;
