//! Small applications, and what a test waits for.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::Outcome;
use ruststream::app::Handle;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::registration::Options;
use ruststream::stats::Health;
use ruststream::testing::Script;
use support::PATIENCE;
use support::mqtt::Connection;
use support::mqtt::Peer;
use support::mqtt::packet::ConnAck;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Subscribe;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio::time::timeout;

/// A handler of `orders`, called `fulfil`.
pub(crate) fn fulfil() -> Script {
    Script::topic("orders").named("fulfil")
}

/// Options of MQTT.
pub(crate) fn mqtt(change: impl FnOnce(&mut MqttOptions)) -> impl FnOnce(&mut Options) {
    move |options| {
        let mut mqtt = options.mqtt.unwrap_or(MqttOptions::NONE);
        change(&mut mqtt);
        options.mqtt = Some(mqtt);
    }
}

/// A broker at the peer, with nothing set.
pub(crate) fn broker(peer: &Peer) -> Mqtt {
    Mqtt::new(&peer.url()).unwrap()
}

/// The application `shop` of these handlers.
pub(crate) fn shop(broker: Mqtt, scripts: impl IntoIterator<Item = Script>) -> App {
    Script::app("shop", scripts).broker(broker)
}

/// What a handler got, in its order.
pub(crate) struct Inbox(UnboundedReceiver<String>);

impl Inbox {
    /// Have a script put what it gets into a box, and answer so.
    pub(crate) fn of(
        script: Script,
        answer: impl Fn(&str) -> Outcome + Send + Sync + 'static,
    ) -> (Script, Self) {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let script = script.runs(move |payload: Bytes| {
            let text = String::from_utf8_lossy(&payload).into_owned();
            let outcome = answer(&text);
            sender.send(text).ok();
            async move { outcome }
        });
        (script, Self(receiver))
    }

    /// One whose script acks.
    pub(crate) fn acking(script: Script) -> (Script, Self) {
        Self::of(script, |_| Outcome::Ack)
    }

    /// The next that comes.
    pub(crate) async fn next(&mut self) -> String {
        timeout(PATIENCE, self.0.recv())
            .await
            .expect("the handler gets something")
            .expect("the handler is there")
    }
}

/// A started application with one connection.
pub(crate) struct Served {
    pub(crate) app: Handle,
    pub(crate) connect: Connect,
    pub(crate) subscribe: Subscribe,
    pub(crate) connection: Connection,
}

/// Start an application of one connection, with all it asks for.
pub(crate) async fn serve(peer: &Peer, app: App) -> Served {
    serve_with(peer, app, ConnAck::default()).await
}

/// Start an application of one connection, whose CONNECT is answered so.
pub(crate) async fn serve_with(peer: &Peer, app: App, connack: ConnAck) -> Served {
    let play = async {
        let (connect, mut connection) = peer.session(connack).await;
        let subscribe = connection.grant().await;
        (connect, subscribe, connection)
    };
    let (app, (connect, subscribe, connection)) = tokio::join!(app.start(), play);
    Served {
        app: app.unwrap(),
        connect,
        subscribe,
        connection,
    }
}

/// The text of the error with which an application does not start.
pub(crate) async fn refused<T>(app: App, play: impl Future<Output = T>) -> (String, T) {
    let (app, played) = tokio::join!(timeout(PATIENCE, app.start()), play);
    match app.expect("it does not wait for what cannot be") {
        Ok(_) => panic!("it was expected not to start"),
        Err(error) => (error.to_string(), played),
    }
}

/// Wait until a mount point is down, and have the reason.
pub(crate) async fn down(app: &Handle, mount: &str) -> String {
    until(|| match app.health().get(mount) {
        Some(Health::Down { reason }) => Some(reason.clone()),
        _ => None,
    })
    .await
}

/// Wait until a mount point receives.
pub(crate) async fn up(app: &Handle, mount: &str) {
    until(|| (app.health().get(mount) == Some(&Health::Up)).then_some(())).await;
}

/// Wait until there is something.
#[expect(
    clippy::disallowed_methods,
    reason = "what is waited for has no signal"
)]
pub(crate) async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it did not come to that");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a test measures")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Stop an application while its connection is played to the end.
pub(crate) async fn stop<T>(app: Handle, play: impl Future<Output = T>) -> T {
    let (stopped, played) = tokio::join!(app.stop(), play);
    stopped.unwrap();
    played
}

/// Short, where nothing is expected.
pub(crate) const MOMENT: Duration = Duration::from_millis(150);
