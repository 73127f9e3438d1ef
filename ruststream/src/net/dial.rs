//! A connection to a server: TCP, then TLS, then a websocket, as its scheme says.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Tls;
use super::endpoint::Endpoint;
use crate::broker::BrokerError;
use crate::duration;

/// Bytes to and from a server, whatever carries them.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Connect to `endpoint`, all of it within `limit`. Where the scheme is encrypted and `tls` is not
/// given, the machine's certificate authorities are trusted.
///
/// # Errors
///
/// Names the server and the reason in plain words. Transient: it is refused, does not answer, does
/// not resolve. Permanent: files cannot be read, the certificate is not trusted, the other side is
/// not what the scheme says.
///
/// # Cancel safety
///
/// Dropping it ends the connection.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    tls: Option<&Tls>,
    limit: Duration,
) -> Result<Box<dyn Stream>, BrokerError> {
    // The stages say by themselves how far they came; this holds them all together.
    match timeout(limit, connect(endpoint, tls, limit)).await {
        Ok(result) => result,
        Err(_) => Err(silent(endpoint, limit)),
    }
}

/// What `error` of a connection to `endpoint` means. Of use after the handshake too: TLS 1.3 lets a
/// server refuse a client's certificate only then.
pub(crate) fn explain(error: &io::Error, endpoint: &Endpoint) -> BrokerError {
    let location = endpoint.address();
    #[cfg(feature = "rustls")]
    if let Some(error) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>())
    {
        return super::tls::explain(error, &location);
    }
    BrokerError::transient(match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("`{location}` refuses connections: no server listens there")
        }
        io::ErrorKind::UnexpectedEof => format!("`{location}` closed the connection"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            format!("`{location}` broke the connection")
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            format!("`{location}` cannot be reached from here: {error}")
        }
        _ => format!("the connection to `{location}` failed: {error}"),
    })
}

/// Whether `bytes`, the first that a server sent on a plain connection, are an alert of TLS: this is
/// its encrypted port.
pub(crate) fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 0x03, 0..=4, ..])
}

async fn connect(
    endpoint: &Endpoint,
    tls: Option<&Tls>,
    limit: Duration,
) -> Result<Box<dyn Stream>, BrokerError> {
    // Before the network is touched: what is wrong here will not heal.
    let tls = Layer::prepare(endpoint, tls).await?;
    let stream = open(endpoint, limit).await?;
    let stream = tls.apply(stream, endpoint).await?;
    if !endpoint.scheme().websocket {
        return Ok(stream);
    }
    #[cfg(feature = "websocket")]
    return super::websocket::open(stream, endpoint).await;
    #[cfg(not(feature = "websocket"))]
    Err(BrokerError::permanent(
        "websockets are not compiled in: they need the feature `websocket` of ruststream",
    ))
}

/// TCP to the first address that takes it.
async fn open(endpoint: &Endpoint, limit: Duration) -> Result<TcpStream, BrokerError> {
    let host = endpoint.host();
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, endpoint.port()))
        .await
        .map_err(|error| {
            BrokerError::transient(format!("the host name `{host}` does not resolve: {error}"))
        })?
        .collect();
    let mut failure = None;
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    for address in addresses {
        // None of them may use up the time of the others.
        let share = if count == 1 { limit } else { limit / count };
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A small packet must not wait for the acknowledgement of the one before it.
                stream
                    .set_nodelay(true)
                    .map_err(|error| explain(&error, endpoint))?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = Some(explain(&error, endpoint)),
            Err(_) => failure = failure.or_else(|| Some(silent(endpoint, limit))),
        }
    }
    Err(failure.unwrap_or_else(|| {
        BrokerError::transient(format!("the host name `{host}` has no address"))
    }))
}

fn silent(endpoint: &Endpoint, limit: Duration) -> BrokerError {
    BrokerError::transient(format!(
        "`{}` did not answer within {}",
        endpoint.address(),
        duration::show(limit)
    ))
}

/// What comes between TCP and the protocol.
enum Layer {
    Plain,
    #[cfg(feature = "rustls")]
    Encrypted(
        tokio_rustls::TlsConnector,
        rustls_pki_types::ServerName<'static>,
    ),
}

impl Layer {
    #[cfg(feature = "rustls")]
    async fn prepare(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Self, BrokerError> {
        if !endpoint.scheme().tls {
            return Ok(Self::Plain);
        }
        let tls = tls.cloned().unwrap_or_default();
        let name = tls.name_for(endpoint)?;
        // Files are read, and a machine's authorities are many.
        let config = tokio::task::spawn_blocking(move || tls.client_config())
            .await
            .map_err(|_| BrokerError::transient("reading certificates was cancelled"))??;
        Ok(Self::Encrypted(config.into(), name))
    }

    #[cfg(not(feature = "rustls"))]
    #[expect(clippy::unused_async, reason = "with the feature it reads files")]
    async fn prepare(endpoint: &Endpoint, _: Option<&Tls>) -> Result<Self, BrokerError> {
        if endpoint.scheme().tls {
            return Err(super::tls::unavailable());
        }
        Ok(Self::Plain)
    }

    #[cfg_attr(
        not(feature = "rustls"),
        expect(clippy::unused_async, reason = "with the feature it shakes hands")
    )]
    async fn apply(
        self,
        stream: TcpStream,
        endpoint: &Endpoint,
    ) -> Result<Box<dyn Stream>, BrokerError> {
        let _ = endpoint;
        match self {
            Self::Plain => Ok(Box::new(stream)),
            #[cfg(feature = "rustls")]
            Self::Encrypted(connector, name) => match connector.connect(name, stream).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::BrokenPipe
                    ) =>
                {
                    Err(BrokerError::transient(format!(
                        "`{}` closed the connection during the TLS handshake: is this its port for \
                         TLS?",
                        endpoint.address()
                    )))
                }
                Err(error) => Err(explain(&error, endpoint)),
            },
        }
    }
}

#[cfg(test)]
mod tests;
