//! A server that a test plays.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Connection;
use super::packet::Answers;
use super::packet::ConnAck;
use super::packet::Connect;
use super::packet::Packet;
use super::packet::Subscribe;
use crate::PATIENCE;

/// A server on a free port of loopback that does only what the test does.
#[derive(Debug)]
pub struct Peer {
    listener: TcpListener,
    port: u16,
}

impl Peer {
    /// Listen. Whoever connects before [`accept`](Self::accept) waits.
    pub async fn bind() -> Self {
        Self::bind_to(0).await
    }

    /// Listen on a port again, after a peer there was dropped.
    pub async fn bind_to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen on {port}: {error}"));
        let port = listener.local_addr().expect("it is bound").port();
        Self { listener, port }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where a client finds it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// The next connection, of which nothing has been read.
    pub async fn accept(&self) -> Connection {
        let accepted = timeout(PATIENCE, self.listener.accept()).await;
        let (stream, _) = accepted
            .unwrap_or_else(|_| panic!("nobody connected within {PATIENCE:?}"))
            .expect("a listener accepts");
        Connection::new(stream)
    }

    /// The next connection, with its CONNECT answered so.
    pub async fn session(&self, connack: ConnAck) -> (Connect, Connection) {
        let mut connection = self.accept().await;
        let connect = connection.expect_connect().await;
        connection.send(Packet::ConnAck(connack)).await;
        (connect, connection)
    }

    /// Nobody connects for so long.
    pub async fn expect_nobody(&self, time: Duration) {
        let accepted = timeout(time, self.listener.accept()).await;
        assert!(accepted.is_err(), "nobody was expected to connect");
    }
}

impl Connection {
    /// The next packet is a SUBSCRIBE; every filter is granted the quality that it asks for.
    pub async fn grant(&mut self) -> Subscribe {
        let subscribe = self.expect_subscribe().await;
        let codes: Vec<_> = subscribe.filters.iter().map(|filter| filter.qos).collect();
        self.send(Packet::SubAck(Answers::new(subscribe.id, codes)))
            .await;
        subscribe
    }
}
