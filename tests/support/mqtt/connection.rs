//! One end of a connection, packet by packet.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::packet::Ack;
use super::packet::Answers;
use super::packet::ConnAck;
use super::packet::Connect;
use super::packet::Packet;
use super::packet::Publish;
use super::packet::Reason;
use super::packet::Subscribe;
use super::packet::Unsubscribe;
use crate::PATIENCE;

/// One end of a connection. Nothing is read or answered but what the test asks for; dropping it closes
/// the connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    read: BytesMut,
    answers_pings: bool,
}

impl Connection {
    /// An end of a connection that is there already.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        // Small packets are the rule here, and a test counts what arrives when.
        stream
            .set_nodelay(true)
            .expect("a fresh socket takes an option");
        Self {
            stream,
            read: BytesMut::new(),
            answers_pings: false,
        }
    }

    /// From now on a PINGREQ is answered as it is met, and not shown.
    pub fn answer_pings(&mut self) {
        self.answers_pings = true;
    }

    /// Send a packet.
    pub async fn send(&mut self, packet: Packet) {
        self.send_raw(&packet.encode()).await;
    }

    /// Send any bytes.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.try_send_raw(bytes)
            .await
            .expect("the other end still takes what is sent");
    }

    /// Send any bytes to an end that may be gone.
    ///
    /// # Errors
    ///
    /// The other end has closed the connection.
    pub async fn try_send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// The next packet, or `None` when the connection is closed, in good order or not. Waits for
    /// as long as it takes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was read is kept.
    pub async fn next(&mut self) -> Option<Packet> {
        loop {
            match Packet::decode(&self.read) {
                Ok(Some((packet, length))) => {
                    bytes::Buf::advance(&mut self.read, length);
                    if packet == Packet::PingReq && self.answers_pings {
                        self.send(Packet::PingResp).await;
                        continue;
                    }
                    return Some(packet);
                }
                Ok(None) => {}
                Err(malformed) => panic!("malformed, {}: {:02x?}", malformed.0, &self.read[..]),
            }
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next packet; fails the test when none comes.
    pub async fn expect(&mut self) -> Packet {
        let packet = timeout(PATIENCE, self.next()).await;
        let packet = packet
            .unwrap_or_else(|_| panic!("a packet was expected, and none came within {PATIENCE:?}"));
        packet.expect("a packet, and not the end of the connection")
    }

    /// The other end closes the connection, and sends nothing before that.
    pub async fn expect_close(&mut self) {
        let packet = timeout(PATIENCE, self.next()).await;
        let packet = packet
            .unwrap_or_else(|_| panic!("a close was expected, it stayed open for {PATIENCE:?}"));
        assert_eq!(packet, None, "a close was expected");
    }

    /// Nothing arrives for so long, nor does the other end close.
    pub async fn expect_silence(&mut self, time: Duration) {
        match timeout(time, self.next()).await {
            Err(_) => {}
            Ok(None) => panic!("silence was expected, and the connection was closed"),
            Ok(Some(packet)) => panic!("silence was expected, and there came {packet:?}"),
        }
    }

    /// Nothing arrives before the next PINGREQ, which is answered. Unlike a time, that is a moment at
    /// which the other end has shown that it is at work and had nothing else to say.
    pub async fn expect_nothing_but_a_ping(&mut self) {
        let packet = self.expect().await;
        assert_eq!(packet, Packet::PingReq, "only a ping was expected");
        self.send(Packet::PingResp).await;
    }

    /// Everything up to the close of the connection.
    pub async fn rest(&mut self) -> Vec<Packet> {
        let mut all = Vec::new();
        let read = async {
            while let Some(packet) = self.next().await {
                all.push(packet);
            }
        };
        let closed = timeout(PATIENCE, read).await;
        assert!(
            closed.is_ok(),
            "it stayed open for {PATIENCE:?} after {all:?}"
        );
        all
    }

    /// Close it so that the other end sees a reset and not an orderly end.
    pub fn reset(self) {
        self.stream
            .set_zero_linger()
            .expect("an open socket takes an option");
    }
}

/// `expect_publish` and its like: the next packet is of that type.
macro_rules! expect {
    ($($name:ident $kind:ident $fields:ty, $doc:literal;)*) => {
        impl Connection {
            $(
                #[doc = $doc]
                pub async fn $name(&mut self) -> $fields {
                    match self.expect().await {
                        Packet::$kind(fields) => fields,
                        other => panic!(concat!(stringify!($kind), " was expected, not {:?}"), other),
                    }
                }
            )*
        }
    };
}

expect! {
    expect_connect Connect Connect, "The next packet is a CONNECT.";
    expect_connack ConnAck ConnAck, "The next packet is a CONNACK.";
    expect_publish Publish Publish, "The next packet is a PUBLISH.";
    expect_puback PubAck Ack, "The next packet is a PUBACK.";
    expect_pubrec PubRec Ack, "The next packet is a PUBREC.";
    expect_pubrel PubRel Ack, "The next packet is a PUBREL.";
    expect_pubcomp PubComp Ack, "The next packet is a PUBCOMP.";
    expect_subscribe Subscribe Subscribe, "The next packet is a SUBSCRIBE.";
    expect_suback SubAck Answers, "The next packet is a SUBACK.";
    expect_unsubscribe Unsubscribe Unsubscribe, "The next packet is an UNSUBSCRIBE.";
    expect_unsuback UnsubAck Answers, "The next packet is an UNSUBACK.";
    expect_disconnect Disconnect Reason, "The next packet is a DISCONNECT.";
    expect_auth Auth Reason, "The next packet is an AUTH.";
}
