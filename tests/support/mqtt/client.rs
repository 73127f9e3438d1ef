//! A client for observing a server and for publishing to it.

use std::collections::VecDeque;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Connection;
use super::packet::Ack;
use super::packet::ConnAck;
use super::packet::Connect;
use super::packet::Filter;
use super::packet::Packet;
use super::packet::Publish;
use super::packet::Reason;
use super::packet::Subscribe;
use crate::PATIENCE;
use crate::process::Address;

/// A client. It acknowledges nothing by itself: [`message`](Self::message) takes a message as it is,
/// [`take`](Self::take) also settles it. What comes while an answer is awaited is kept in its order.
///
/// Dropped without [`disconnect`](Self::disconnect) it is lost as one that crashed.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    /// What the server said at the beginning.
    pub connack: ConnAck,
    waiting: VecDeque<Packet>,
    last_id: u16,
}

impl Client {
    /// Connect to a URL such as `mqtt://127.0.0.1:1883` or `mqtt://user:password@127.0.0.1:1883`; fails
    /// the test when the server refuses.
    pub async fn connect(url: &str, connect: Connect) -> Self {
        match Self::try_connect(url, connect).await {
            Ok(client) => client,
            Err(connack) => panic!("the server refused: {connack:?}"),
        }
    }

    /// Connect to a server that may refuse.
    ///
    /// # Errors
    ///
    /// The CONNACK that refuses, or `None` when the server closed the connection without one.
    pub async fn try_connect(url: &str, mut connect: Connect) -> Result<Self, Option<ConnAck>> {
        let address = Address::parse(url);
        if let (None, Some((user_name, password))) = (&connect.user_name, &address.login) {
            connect = connect.login(user_name, password);
        }
        let stream = timeout(PATIENCE, TcpStream::connect(&address.host_and_port)).await;
        let stream = stream
            .expect("a server on loopback answers")
            .unwrap_or_else(|error| panic!("cannot connect to {url}: {error}"));
        let mut connection = Connection::new(stream);
        connection.send(Packet::Connect(connect)).await;
        let answer = timeout(PATIENCE, connection.next()).await;
        match answer.expect("the server answers a CONNECT") {
            Some(Packet::ConnAck(connack)) if connack.code == 0 => Ok(Self {
                connection,
                connack,
                waiting: VecDeque::new(),
                last_id: 0,
            }),
            Some(Packet::ConnAck(connack)) => Err(Some(connack)),
            None => Err(None),
            Some(other) => panic!("a CONNACK was expected, not {other:?}"),
        }
    }

    /// The connection itself. What was kept while an answer was awaited does not come from there.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// A packet identifier that was not used before, until all of them were.
    pub fn id(&mut self) -> u16 {
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.last_id
    }

    /// The next packet, whatever it is.
    pub async fn next(&mut self) -> Packet {
        match self.waiting.pop_front() {
            Some(packet) => packet,
            None => self.connection.expect().await,
        }
    }

    /// Subscribe; fails the test unless the server grants what is asked.
    pub async fn subscribe(&mut self, filter: &str, qos: u8) {
        let codes = self.subscribe_with(vec![Filter::new(filter, qos)]).await;
        assert_eq!(codes, [qos], "what the server grants for {filter}");
    }

    /// Subscribe, and have the server's codes.
    pub async fn subscribe_with(&mut self, filters: Vec<Filter>) -> Vec<u8> {
        let id = self.id();
        let subscribe = Subscribe {
            id,
            filters,
            ..Subscribe::default()
        };
        self.send(Packet::Subscribe(subscribe)).await;
        self.answer(|packet| match packet {
            Packet::SubAck(answers) if answers.id == id => Some(answers.codes.clone()),
            _ => None,
        })
        .await
    }

    /// Publish, and have the server's last word: of PUBACK, or of PUBREC when it refuses, or of PUBCOMP.
    /// A quality above 0 gets an identifier unless it has one.
    pub async fn publish(&mut self, mut publish: Publish) -> Ack {
        let qos = publish.qos;
        if qos == 0 {
            self.send(Packet::Publish(publish)).await;
            return Ack::default();
        }
        let id = match publish.id {
            Some(id) => id,
            None => self.id(),
        };
        publish.id = Some(id);
        self.send(Packet::Publish(publish)).await;
        let first = self
            .answer(|packet| match packet {
                Packet::PubAck(ack) if qos == 1 && ack.id == id => Some(ack.clone()),
                Packet::PubRec(ack) if qos == 2 && ack.id == id => Some(ack.clone()),
                _ => None,
            })
            .await;
        if qos == 1 || first.code >= 0x80 {
            return first;
        }
        self.send(Packet::PubRel(Ack::of(id))).await;
        self.answer(|packet| match packet {
            Packet::PubComp(ack) if ack.id == id => Some(ack.clone()),
            _ => None,
        })
        .await
    }

    /// The next message, which stays unacknowledged. Fails the test when something else comes.
    pub async fn message(&mut self) -> Publish {
        match self.next().await {
            Packet::Publish(publish) => publish,
            other => panic!("a message was expected, not {other:?}"),
        }
    }

    /// The next message, acknowledged to the end. What comes before that end is kept.
    pub async fn take(&mut self) -> Publish {
        let message = self.message().await;
        if let Some(id) = message.id {
            self.settle(message.qos, id).await;
        }
        message
    }

    /// The next messages, each acknowledged to the end.
    pub async fn take_all(&mut self, count: usize) -> Vec<Publish> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.take().await);
        }
        all
    }

    async fn settle(&mut self, qos: u8, id: u16) {
        if qos == 1 {
            return self.send(Packet::PubAck(Ack::of(id))).await;
        }
        self.send(Packet::PubRec(Ack::of(id))).await;
        self.answer(|packet| match packet {
            Packet::PubRel(ack) if ack.id == id => Some(()),
            _ => None,
        })
        .await;
        self.send(Packet::PubComp(Ack::of(id))).await;
    }

    /// No message has come that was not taken, and the server has answered a PINGREQ since: on one
    /// connection it answers in order, so nothing was on its way.
    pub async fn expect_nothing(&mut self) {
        self.send(Packet::PingReq).await;
        let answer = self.next().await;
        assert_eq!(answer, Packet::PingResp, "nothing was expected");
    }

    /// Send a packet.
    pub async fn send(&mut self, packet: Packet) {
        self.connection.send(packet).await;
    }

    /// Leave in good order. The session stays for as long as it was agreed.
    pub async fn disconnect(mut self) {
        self.send(Packet::Disconnect(Reason::new(0))).await;
        self.connection.rest().await;
    }

    /// The first packet that `pick` takes; the others are kept.
    async fn answer<T>(&mut self, pick: impl Fn(&Packet) -> Option<T>) -> T {
        loop {
            let packet = self.connection.expect().await;
            if let Some(answer) = pick(&packet) {
                return answer;
            }
            if let Packet::Disconnect(reason) = packet {
                panic!("the server disconnects: {reason:?}");
            }
            self.waiting.push_back(packet);
        }
    }
}
