//! Makes a connection, serves it, and makes the next one when it is lost (spec C14).

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::ConnAck;
use rumqttc::v5::mqttbytes::v5::Connect;
use rumqttc::v5::mqttbytes::v5::ConnectProperties;
use rumqttc::v5::mqttbytes::v5::ConnectReturnCode;
use rumqttc::v5::mqttbytes::v5::Login;
use rumqttc::v5::mqttbytes::v5::Packet;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep_until;
use tokio::time::timeout;

use super::connection::Connection;
use super::connection::Over;
use super::connection::now;
use super::link::Link;
use super::outbound::Limits;
use super::reasons;
use super::state::Line;
use super::state::Server;
use super::state::TOPIC_ALIASES;
use super::wire;
use crate::broker::BrokerError;
use crate::net::Reconnect;
use crate::net::Stream;
use crate::net::dial;
use crate::net::explain;
use crate::net::is_tls_record;

/// Keep `link` connected until nobody needs it.
pub(super) async fn run(link: Arc<Link>) {
    let mut supervisor = Supervisor {
        reconnect: Reconnect::new(),
        begun: now(),
        connections: 0,
        is_warned_of_expiry: false,
        link: Arc::clone(&link),
    };
    supervisor.run().await;
    {
        let mut state = link.lock();
        link.set_epoch(0);
        state.line = Line::Closed;
        state.outbound.handle_disconnected(CLOSED);
        state.outbound.fail_waiting(CLOSED, None);
    }
    link.set_ended();
}

struct Supervisor {
    link: Arc<Link>,
    reconnect: Reconnect,
    begun: tokio::time::Instant,
    /// Connections that the server took.
    connections: u64,
    is_warned_of_expiry: bool,
}

impl Supervisor {
    async fn run(&mut self) {
        loop {
            let link = Arc::clone(&self.link);
            let connected = tokio::select! {
                biased;
                connected = self.connect() => connected,
                () = closing(&link) => return,
            };
            let (error, pause) = match connected {
                Ok(connection) => {
                    self.connections += 1;
                    self.reconnect.connected(self.begun.elapsed());
                    match link.serve(connection).await {
                        Over::Closed => return,
                        Over::Lost(error) => {
                            let pause = self.reconnect.lost(self.begun.elapsed());
                            (error, pause)
                        }
                    }
                }
                Err(error) => (error, self.reconnect.failed()),
            };
            self.failed(&error, pause);
            if self.pause(pause).await.is_none() {
                return;
            }
        }
    }

    /// There is no connection now.
    fn failed(&mut self, error: &BrokerError, pause: Duration) {
        let link = &self.link;
        {
            let mut state = link.lock();
            link.set_epoch(0);
            for member in &mut state.members {
                if let Some(started) = member.started.take() {
                    let answer = if error.is_transient() {
                        Ok(())
                    } else {
                        Err(error.clone())
                    };
                    // Whoever started it may have given up.
                    started.send(answer).ok();
                }
            }
            state.handle_disconnected(error);
        }
        // One mount point among many may be down; the first failure of each outage is said, and
        // then those that come as far apart as the pauses have grown.
        if self.reconnect.failures() <= 1 || pause >= SAID_FROM {
            tracing::warn!(
                messaging.system = "mqtt",
                server.address = link.settings.endpoint.location(),
                mqtt.client_id = link.spec.client_id,
                %error,
                failures = self.reconnect.failures(),
                next_try_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                "not connected"
            );
        }
    }

    /// Wait before the next try; `None` when none is needed any more.
    async fn pause(&self, pause: Duration) -> Option<()> {
        let until = now() + pause;
        loop {
            let now = now();
            if until <= now {
                return Some(());
            }
            {
                let mut state = self.link.lock();
                if let Line::Down(why) = state.line.clone() {
                    state.outbound.fail_waiting(&why, now.checked_sub(PATIENCE));
                }
            }
            tokio::select! {
                biased;
                () = closing(&self.link) => return None,
                () = sleep_until(until.min(now + TICK)) => {}
            }
        }
    }

    /// Make a connection that the server has taken.
    async fn connect(&mut self) -> Result<Connection, BrokerError> {
        let link = Arc::clone(&self.link);
        let settings = &link.settings;
        let limit = settings.connect_timeout;
        let mut stream = dial(&settings.endpoint, settings.tls.as_ref(), limit).await?;
        let mut inbound = BytesMut::new();
        let connack = match timeout(limit, self.shake_hands(&mut *stream, &mut inbound)).await {
            Ok(connack) => connack?,
            Err(_) => {
                return Err(BrokerError::transient(format!(
                    "`{}` took the connection and did not answer the CONNECT for {limit:?}: is it an MQTT server?",
                    settings.endpoint.address()
                )));
            }
        };
        if connack.code != ConnectReturnCode::Success {
            return Err(reasons::refused_connection(&connack, &link.spec.client_id));
        }
        let server = server(&connack);
        let keep_alive = connack
            .properties
            .as_ref()
            .and_then(|properties| properties.server_keep_alive)
            .filter(|seconds| *seconds > 0)
            .map_or(settings.keep_alive, |seconds| {
                Duration::from_secs(seconds.into())
            });
        self.announce(&connack);
        {
            let mut state = link.lock();
            state.handle_connected(server, connack.session_present);
            link.set_epoch(state.epoch);
        }
        let mut connection = Connection::new(Arc::clone(&link), stream, inbound, keep_alive);
        connection.subscribe();
        Ok(connection)
    }

    /// CONNECT, and what the server says to it.
    async fn shake_hands(
        &self,
        stream: &mut dyn Stream,
        inbound: &mut BytesMut,
    ) -> Result<ConnAck, BrokerError> {
        let endpoint = &self.link.settings.endpoint;
        let mut out = BytesMut::new();
        wire::write(&self.greeting(), &mut out).map_err(|error| {
            BrokerError::permanent(format!("the CONNECT cannot be said: {error}"))
        })?;
        let unanswered = || {
            BrokerError::transient(format!(
                "`{}` closed the connection without an answer to the CONNECT: does it speak MQTT 5, and is this not \
                 its encrypted port?",
                endpoint.address()
            ))
        };
        let stranger = || {
            BrokerError::permanent(format!(
                "`{}` answered the CONNECT with something else than a CONNACK: it is no MQTT server",
                endpoint.address()
            ))
        };
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
                if !endpoint.scheme().tls =>
            {
                unanswered()
            }
            _ => explain(&error, endpoint),
        };
        stream.write_all(&out).await.map_err(io)?;
        stream.flush().await.map_err(io)?;
        loop {
            if stream.read_buf(inbound).await.map_err(io)? == 0 {
                return Err(unanswered());
            }
            if !endpoint.scheme().tls && is_tls_record(inbound) {
                return Err(BrokerError::permanent(format!(
                    "`{}` is an encrypted port: use `mqtts://`",
                    endpoint.address()
                )));
            }
            // What is no packet may look like the beginning of a long one.
            if !wire::may_answer_connect(inbound) {
                return Err(stranger());
            }
            match wire::read(inbound, self.link.settings.max_packet_size) {
                Ok(Some(Packet::ConnAck(connack))) => return Ok(connack),
                Ok(Some(Packet::Disconnect(disconnect))) => {
                    return Err(reasons::disconnected(
                        &disconnect,
                        &self.link.spec.client_id,
                    ));
                }
                Ok(Some(_)) => return Err(stranger()),
                Ok(None) => {}
                Err(violation) => {
                    return Err(BrokerError::permanent(format!(
                        "`{}`: {}",
                        endpoint.address(),
                        violation.reason
                    )));
                }
            }
        }
    }

    fn greeting(&self) -> Packet {
        let Link { settings, spec, .. } = &*self.link;
        let reads = !spec.members.is_empty();
        let properties = ConnectProperties {
            session_expiry_interval: spec.keeps_session().then_some(spec.session_expiry),
            receive_maximum: reads.then_some(spec.receive_maximum),
            max_packet_size: Some(settings.max_packet_size),
            topic_alias_max: reads.then_some(TOPIC_ALIASES),
            ..ConnectProperties::new()
        };
        let connect = Connect {
            keep_alive: u16::try_from(settings.keep_alive.as_secs()).unwrap_or(u16::MAX),
            client_id: spec.client_id.clone(),
            // Asked for once: a connection after the first goes on with what the first began.
            clean_start: !spec.keeps_session() || (spec.clean_start && self.connections == 0),
            properties: Some(properties),
        };
        let will = spec.publishes.then(|| settings.will.clone()).flatten();
        let login = settings.user.as_ref().map(|user| {
            let password = settings.password.as_ref();
            Login::new(
                user.clone(),
                password
                    .map(|password| password.expose().to_owned())
                    .unwrap_or_default(),
            )
        });
        Packet::Connect(connect, will, login)
    }

    /// Say what the connection is, and what the server took away.
    fn announce(&mut self, connack: &ConnAck) {
        let Link { settings, spec, .. } = &*self.link;
        let properties = connack.properties.as_ref();
        let granted = properties.and_then(|properties| properties.session_expiry_interval);
        let expiry = granted.unwrap_or(spec.session_expiry);
        tracing::info!(
            messaging.system = "mqtt",
            server.address = settings.endpoint.location(),
            mqtt.client_id = spec.client_id,
            mqtt.session_present = connack.session_present,
            mqtt.session_expiry_s = expiry,
            mqtt.receive_maximum = spec.receive_maximum,
            "connected"
        );
        if expiry < spec.session_expiry && !self.is_warned_of_expiry {
            self.is_warned_of_expiry = true;
            tracing::warn!(
                messaging.system = "mqtt",
                server.address = settings.endpoint.location(),
                mqtt.client_id = spec.client_id,
                asked_s = spec.session_expiry,
                granted_s = expiry,
                "the server keeps the session for less time than asked; what is unsettled or published longer than that \
                 after the connection is lost does not come"
            );
        }
        if self.connections > 0 && spec.keeps_session() && !connack.session_present {
            tracing::warn!(
                messaging.system = "mqtt",
                server.address = settings.endpoint.location(),
                mqtt.client_id = spec.client_id,
                "the server no longer has the session; what it kept there is lost, subscribing again"
            );
        }
    }
}

/// What a server says that it takes (MQTT 5 section 3.2.2.3).
fn server(connack: &ConnAck) -> Server {
    let mut limits = Limits::default();
    let mut server = Server::default();
    if let Some(properties) = &connack.properties {
        if let Some(maximum) = properties.receive_max.filter(|maximum| *maximum > 0) {
            limits.receive_maximum = maximum;
        }
        if let Some(size) = properties.max_packet_size.filter(|size| *size > 0) {
            limits.packet_size = size;
        }
        limits.qos = match properties.max_qos {
            Some(0) => QoS::AtMostOnce,
            Some(1) => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        };
        limits.retain = properties.retain_available != Some(0);
        server.shared = properties.shared_subscription_available != Some(0);
        server.wildcards = properties.wildcard_subscription_available != Some(0);
    }
    server.limits = limits;
    server
}

/// Wait until nobody needs the connection.
///
/// # Cancel safety
///
/// Cancel safe.
async fn closing(link: &Link) {
    std::future::poll_fn(|cx| {
        link.io().register(cx.waker());
        let state = link.lock();
        if state.is_closing || state.is_abandoned {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// How long a message waits for a connection before it fails.
const PATIENCE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_secs(1);
/// Pauses from this length on are said one by one.
const SAID_FROM: Duration = Duration::from_secs(5);
pub(super) const CLOSED: &str = "the application is stopping";
