//! The MQTT driver packet by packet, against a peer that does only what the test does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copies;
mod hostile;
mod leaving;
mod log;
mod publishing;
mod rig;
mod server;
mod sessions;
mod settlement;
mod starting;
mod strangers;

use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::app::Handle;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::registration::Options;
use ruststream::testing::Script;
use support::PATIENCE;
use support::mqtt::Connection;
use support::mqtt::Peer;
use support::mqtt::packet::Ack;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;
use support::mqtt::packet::Subscribe;

/// As long as nothing is to be seen where nothing is expected.
const SILENCE: Duration = Duration::from_millis(80);

/// An application that is connected to a peer.
struct Wire {
    peer: Peer,
    running: Handle,
    /// The connection of its handler.
    reader: Connection,
    connect: Connect,
    subscribe: Subscribe,
}

impl Wire {
    async fn of(script: Script) -> Self {
        Self::with(script, "").await
    }

    /// With parameters of the URL.
    async fn with(script: Script, parameters: &str) -> Self {
        let peer = Peer::bind().await;
        let broker = Mqtt::new(&format!("{}{parameters}", peer.url())).expect("it is a URL");
        Self::start(peer, Script::app("shop", [script]).broker(broker)).await
    }

    async fn start(peer: Peer, app: App) -> Self {
        let starting = task(app.drain(Duration::from_secs(5)).start());
        let (connect, mut reader) = peer.session(ConnAck::default()).await;
        let subscribe = reader.grant().await;
        let running = starting.await.expect("it does not panic");
        Self {
            peer,
            running: running.expect("it starts"),
            reader,
            connect,
            subscribe,
        }
    }

    /// The connection that is published on, once something is.
    async fn writer(&self) -> Connection {
        let (connect, connection) = self.peer.session(ConnAck::default()).await;
        assert!(connect.client_id.contains("-publisher-"), "{connect:?}");
        connection
    }

    /// Stop it while the connection of its handler is served.
    async fn stop(self) -> Vec<Packet> {
        let Self {
            running,
            mut reader,
            peer,
            ..
        } = self;
        let stopping = task(running.stop());
        let mut said = Vec::new();
        let reading = async {
            while let Some(packet) = reader.next().await {
                match &packet {
                    Packet::PingReq => reader.send(Packet::PingResp).await,
                    Packet::Unsubscribe(unsubscribe) => {
                        let answers =
                            support::mqtt::packet::Answers::new(unsubscribe.id, vec![0_u8]);
                        reader.send(Packet::UnsubAck(answers)).await;
                    }
                    Packet::Disconnect(_) => {
                        said.push(packet);
                        break;
                    }
                    _ => {}
                }
                said.push(packet);
            }
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "it did not leave");
        drop(reader);
        drop(peer);
        let stopped = stopping.await.expect("it does not panic");
        stopped.expect("it stops in order");
        said
    }
}

fn message(qos: u8, id: u16, text: &str) -> Packet {
    let publish = Publish::new("jobs", Bytes::copy_from_slice(text.as_bytes()));
    Packet::Publish(if qos == 0 {
        publish
    } else {
        publish.at(qos, id)
    })
}

fn jobs() -> Script {
    Script::topic("jobs").named("work")
}

fn mqtt(change: impl FnOnce(&mut MqttOptions)) -> impl FnOnce(&mut Options) {
    move |options| {
        let mut mqtt = options.mqtt.unwrap_or_default();
        change(&mut mqtt);
        options.mqtt = Some(mqtt);
    }
}

async fn confirm(writer: &mut Connection) -> Publish {
    let publish = writer.expect_publish().await;
    let id = publish.id.expect("it is to be confirmed");
    writer.send(Packet::PubAck(Ack::of(id))).await;
    publish
}

/// Wait until something holds; fails the test when it takes too long.
#[expect(
    clippy::disallowed_methods,
    reason = "the connections are real, and so is time"
)]
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "it did not come to pass in time: {what}");
}

/// A task beside the test.
#[expect(
    clippy::disallowed_methods,
    reason = "each test awaits it, or ends with it"
)]
fn task<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}
