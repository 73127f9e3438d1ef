//! The conformance suite, unchanged, on mosquitto.

use std::collections::HashMap;
use std::time::Duration;

use ruststream::App;
use ruststream::Message;
use ruststream::broker::BoxFuture;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::Form;
use ruststream::registration::Options;
use ruststream::testing::conformance::Peer;
use ruststream::testing::conformance::Rules;
use ruststream::testing::conformance::check;
use support::Mosquitto;
use support::Proxy;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;
use tokio::sync::Mutex;

/// mosquitto behind a proxy. What it holds for a mount point is read off its log: it says what it sent
/// and what was acknowledged.
struct MosquittoPeer {
    server: Mosquitto,
    proxy: Proxy,
    publisher: Mutex<Client>,
    readers: Mutex<HashMap<String, Client>>,
}

impl MosquittoPeer {
    async fn start() -> Self {
        let server = Mosquitto::start().await;
        let proxy = Proxy::to(&server.url());
        let publisher = Client::connect(&server.url(), Connect::new("suite")).await;
        Self {
            server,
            proxy,
            publisher: Mutex::new(publisher),
            readers: Mutex::default(),
        }
    }

    /// Wait until the server's log is read up to now: it is written in order.
    async fn read_log(&self) {
        const SAID: &str = "Received PINGREQ from suite";
        let mut publisher = self.publisher.lock().await;
        let known = self.server.log().text().matches(SAID).count();
        publisher.expect_nothing().await;
        let read = self.server.log().count(SAID, known + 1).await;
        read.expect("the server logs what it gets");
    }

    /// Packet ids that the server sent to `client` and has no acknowledgement of.
    fn unacknowledged(&self, client: &str) -> usize {
        let (sent, acknowledged) = (
            format!("Sending PUBLISH to {client} ("),
            format!("Received PUBACK from {client} (Mid: "),
        );
        let mut open: Vec<String> = Vec::new();
        for line in self.server.log().all() {
            if let Some((_, rest)) = line.split_once(&sent) {
                let id = rest.split(", ").find_map(|part| part.strip_prefix('m'));
                let id = id.expect("each message has an id").to_owned();
                if !open.contains(&id) {
                    open.push(id);
                }
            } else if let Some((_, rest)) = line.split_once(&acknowledged) {
                let id = rest
                    .split(',')
                    .next()
                    .expect("each acknowledgement has an id");
                open.retain(|known| known != id);
            }
        }
        open.len()
    }

    /// The client id of a mount point, from the server's log.
    fn client_of(&self, mount: &str) -> Option<String> {
        let text = self.server.log().text();
        let ends = format!("-{mount}");
        text.split(" as ")
            .filter_map(|rest| rest.split(' ').next())
            .find(|name| name.starts_with("conformance-") && name.ends_with(&ends))
            .map(str::to_owned)
    }
}

impl Peer for MosquittoPeer {
    fn connect(&self, app: App) -> App {
        let url = self.proxy.url(&self.server.url());
        app.broker(Mqtt::new(&url).expect("it is a URL"))
    }

    fn declare(&self) -> (Form, Options) {
        (Form::Topic, Options::NONE)
    }

    fn rules(&self) -> Rules {
        Rules::Resuming
    }

    fn keep<'a>(&'a self, address: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let name = format!("reader-{address}");
            let mut reader = Client::connect(&self.server.url(), Connect::new(name)).await;
            reader.subscribe(address, 1).await;
            self.readers.lock().await.insert(address.to_owned(), reader);
        })
    }

    fn publish<'a>(&'a self, address: &'a str, message: Message) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let publish = Publish {
                qos: 1,
                ..Publish::new(address, message.payload().clone())
            };
            self.publisher.lock().await.publish(publish).await;
        })
    }

    fn take<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async move {
            let mut readers = self.readers.lock().await;
            let reader = readers.get_mut(address).expect("it is kept");
            // What was sent before the answer to a PINGREQ comes before it.
            reader.send(Packet::PingReq).await;
            let mut messages = Vec::new();
            loop {
                match reader.next().await {
                    Packet::PingResp => return messages,
                    Packet::Publish(publish) => {
                        if let Some(id) = publish.id {
                            let ack = support::mqtt::packet::Ack::of(id);
                            reader.send(Packet::PubAck(ack)).await;
                        }
                        messages.push(Message::new(publish.payload));
                    }
                    other => panic!("a message was expected, not {other:?}"),
                }
            }
        })
    }

    fn left<'a>(&'a self, _address: &'a str, mount: &'a str) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            self.read_log().await;
            self.client_of(mount)
                .map_or(0, |client| self.unacknowledged(&client))
        })
    }

    fn cut<'a>(&'a self, _mount: &'a str) -> BoxFuture<'a, ()> {
        self.proxy.cut();
        Box::pin(std::future::ready(()))
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(crate::a_while(time))
    }
}

// spec: M5 M6 M8 M25 M42 M44 C8 C13
// case: A01 A08 A11 I11 M01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mosquitto_conforms() {
    let peer = MosquittoPeer::start().await;
    let deviations = check(&peer).await.expect("the applications start and stop");
    let shown: Vec<String> = deviations.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
