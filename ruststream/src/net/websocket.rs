//! A websocket as a stream of bytes. Frames mean nothing to the protocol inside: one may hold half a
//! packet or many (MQTT 5 section 6.0).

use std::io;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use bytes::Buf;
use bytes::Bytes;
use futures_util::Sink;
use futures_util::Stream as _;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use super::dial::Stream;
use super::dial::explain;
use super::endpoint::Endpoint;
use crate::broker::BrokerError;

/// Ask the server at the other end of `stream` for a websocket that carries MQTT.
pub(super) async fn open(
    stream: Box<dyn Stream>,
    endpoint: &Endpoint,
) -> Result<Box<dyn Stream>, BrokerError> {
    let location = endpoint.address();
    let path = match endpoint.path() {
        "" => "/mqtt",
        path => path,
    };
    let scheme = if endpoint.scheme().tls { "wss" } else { "ws" };
    let mut request = format!("{scheme}://{location}{path}")
        .into_client_request()
        .map_err(|_| {
            BrokerError::permanent(format!("the path of `{location}` cannot be asked for"))
        })?;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", HeaderValue::from_static("mqtt"));
    match client_async(request, stream).await {
        Ok((inner, _)) => Ok(Box::new(Socket {
            inner,
            unread: Bytes::new(),
            ended: false,
        })),
        Err(Error::Io(error)) => Err(explain(&error, endpoint)),
        Err(Error::Http(response)) => {
            let status = response.status();
            let reason = format!(
                "`{location}` has no websocket under that path, it answered {status}: many servers \
                 have it under `/mqtt`"
            );
            // A server behind a proxy that is starting answers 502 or 503.
            Err(if status.is_server_error() {
                BrokerError::transient(reason)
            } else {
                BrokerError::permanent(reason)
            })
        }
        Err(Error::Protocol(ProtocolError::HandshakeIncomplete)) => Err(BrokerError::transient(
            format!("`{location}` closed the connection while it was asked for a websocket"),
        )),
        Err(Error::Protocol(error)) => Err(BrokerError::permanent(format!(
            "`{location}` has no websocket for MQTT: {error}"
        ))),
        Err(error) => Err(BrokerError::transient(format!(
            "the websocket of `{location}` failed: {error}"
        ))),
    }
}

struct Socket<S> {
    inner: WebSocketStream<S>,
    /// What is left of the last frame.
    unread: Bytes,
    /// The server said that nothing follows.
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() && !self.ended {
            match ready!(Pin::new(&mut self.inner).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.unread = bytes,
                Some(Ok(Message::Text(_))) => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the server sent a text frame, which MQTT does not have",
                    )));
                }
                // What follows is of the websocket alone, and may be missing.
                Some(Ok(Message::Close(_))) => self.ended = true,
                // Pings are answered by the library.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(end(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = ready!(Pin::new(&mut self.inner).poll_ready(cx)) {
            return Poll::Ready(Err(broken(error)));
        }
        let frame = Message::Binary(Bytes::copy_from_slice(bytes));
        match Pin::new(&mut self.inner).start_send(frame) {
            Ok(()) => Poll::Ready(Ok(bytes.len())),
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.inner).poll_close(cx)) {
            Err(error) => Poll::Ready(end(error)),
            Ok(()) => Poll::Ready(Ok(())),
        }
    }
}

/// A websocket that was closed by both sides has ended; anything else is a failure.
fn end(error: Error) -> io::Result<()> {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => Ok(()),
        error => Err(broken(error)),
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests;
