//! MQTT 5.
//!
//! Packets are read and written by rumqttc's codec; the connection around it is this driver's own.
//! rumqttc's event loop cannot keep what is promised here: it takes a PUBREL that it does not know
//! for an error and so never gets past the session of a process that was killed, it keeps
//! acknowledgements for a connection they do not belong to, it forgets the place of a message that
//! the server refused, and it writes each acknowledgement alone.
//!
//! Each mount point has a connection and a session of its own, because acknowledgement order and
//! receive maximum belong to a connection (spec C17); `mqtt(connection = "name")` packs several.
//! What the application publishes, copies included, leaves on another one, so that acknowledgements
//! never wait behind messages. A handler that blocks its thread does not cost a connection its life: a
//! thread of the driver's own keeps it.

mod connection;
mod convert;
mod io;
mod leave;
mod link;
mod member;
mod outbound;
mod reasons;
mod requests;
mod settings;
mod sink;
mod source;
mod spec;
mod state;
mod subscribe;
mod supervisor;
mod unacked;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::oneshot;

use self::io::Io;
use self::link::Link;
use self::requests::Requests;
use self::settings::Settings;
use self::sink::MqttSink;
use self::source::MqttSource;
use self::spec::Spec;
use super::mqtt_rules;
use crate::Message;
#[cfg(feature = "rustls")]
use crate::Tls;
use crate::broker::BoxFuture;
use crate::broker::Broker;
use crate::broker::BrokerError;
use crate::broker::Capabilities;
use crate::broker::Returns;
use crate::broker::Sink;
use crate::broker::Source;
use crate::broker::Subscription;
use crate::net::Secret;

/// An MQTT 5 server. A clone is the same connections.
///
/// # The URL
///
/// `mqtt://user:password@host:1883`, `mqtts://` with TLS (8883), and with the feature `websocket`
/// `mqtt+ws://host/path` and `mqtt+wss://host/path`. Its parameters, each also a method:
///
/// | parameter | default | meaning |
/// |---|---|---|
/// | `client_id` | `<app>-<host>` | what client ids begin with |
/// | `keep_alive` | `30s` | how long a silence may be; whole seconds, from `1s` |
/// | `session_expiry` | `1h` | how long the server keeps a session without a connection |
/// | `clean_start` | `false` | begin with new sessions when the process starts |
/// | `max_packet_size` | `1048576` | the longest packet the server may send, in bytes |
/// | `publish_qos` | `1` | the quality of service of what is published, 1 or 2 |
/// | `connect_timeout` | `10s` | how long a connection may take to be made |
/// | `ca`, `client_cert`, `client_key`, `server_name` | the system's roots | files and names for TLS |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use ruststream::Message;
/// use ruststream::broker::mqtt::Mqtt;
///
/// # fn main() -> Result<(), ruststream::broker::BrokerError> {
/// let broker = Mqtt::new("mqtt://plant.example?keep_alive=15s")?
///     .with_credentials("app", "secret")
///     .with_session_expiry(Duration::from_secs(24 * 3600))
///     .with_last_will("plant/app/state", Message::new("gone").retained(), Duration::from_secs(5))?;
/// # let _ = broker;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mqtt {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
}

/// The connections of one broker.
#[derive(Default)]
struct Shared {
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    io: Option<Arc<Io>>,
    app: Option<ByteString>,
    /// Where each mount point that was announced has its place, by application and name.
    places: HashMap<(ByteString, ByteString), (Arc<Link>, usize)>,
    /// Mount points of each connection that have subscribed; it is made when all have.
    attached: Vec<(Arc<Link>, usize)>,
    publisher: Option<Arc<Link>>,
    requests: Option<Arc<Requests>>,
}

impl Mqtt {
    /// The server at `url`. Nothing is connected.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL. Never shows its credentials.
    pub fn new(url: &str) -> Result<Self, BrokerError> {
        Ok(Self {
            settings: Arc::new(Settings::parse(url)?),
            shared: Arc::default(),
        })
    }

    /// Log in as `user`, in place of what the URL says.
    #[must_use]
    pub fn with_credentials(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        let settings = self.settings_mut();
        settings.user = Some(user.into());
        settings.password = Some(Secret::new(password));
        self
    }

    /// How the connection is encrypted, for `mqtts://` and `mqtt+wss://`.
    #[cfg(feature = "rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "rustls")))]
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.settings_mut().tls = Some(tls);
        self
    }

    /// What client ids begin with; `<app>-<host>` by default. The name of the handler, or of its
    /// connection, follows. A server ends the connection of one client when another comes with its id.
    #[must_use]
    pub fn with_client_id(mut self, id: impl Into<String>) -> Self {
        self.settings_mut().client_id = Some(id.into());
        self
    }

    /// How long a silence may be before the server is asked whether it is there; 30 s by default.
    ///
    /// # Errors
    ///
    /// It is not of whole seconds, or not from 1 to 65,535 of them (MQTT 5 section 3.1.2.10).
    pub fn with_keep_alive(mut self, time: Duration) -> Result<Self, BrokerError> {
        if !settings::is_keep_alive(time) {
            return Err(BrokerError::permanent(format!(
                "a keep-alive {}",
                settings::KEEP_ALIVE_RANGE
            )));
        }
        self.settings_mut().keep_alive = time;
        Ok(self)
    }

    /// How long a connection may take to be made, each of its steps; 10 s by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, time: Duration) -> Self {
        self.settings_mut().connect_timeout = time;
        self
    }

    /// How long the server keeps a session without a connection, where a handler does not say
    /// `mqtt(session_expiry)`; an hour by default. What is not settled, and what is published
    /// meanwhile, comes when the session resumes.
    #[must_use]
    pub fn with_session_expiry(mut self, time: Duration) -> Self {
        self.settings_mut().session_expiry = time;
        self
    }

    /// Begin with new sessions when the process starts: what earlier ones kept is lost.
    #[must_use]
    pub fn with_clean_start(mut self) -> Self {
        self.settings_mut().clean_start = true;
        self
    }

    /// The longest packet that the server may send, in bytes; 1 MiB by default, 128 at least. The
    /// server withholds a longer message (MQTT 5 section 3.1.2.11.4).
    #[must_use]
    pub fn with_max_packet_size(mut self, bytes: u32) -> Self {
        self.settings_mut().max_packet_size = bytes.clamp(settings::SMALLEST_PACKET, wire::LONGEST);
        self
    }

    /// The quality of service of what is published: 1, the default, or 2. There is no 0, because
    /// nothing would confirm it. Copies have that of their original, 1 at least.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn with_publish_qos(mut self, qos: u8) -> Result<Self, BrokerError> {
        if !matches!(qos, 1 | 2) {
            return Err(BrokerError::permanent(
                "what is published is confirmed at QoS 1 and 2 only",
            ));
        }
        self.settings_mut().publish_qos = settings::qos_of(qos);
        Ok(self)
    }

    /// A message that the server publishes when the connection breaks and is not made again within
    /// `delay` (MQTT 5 section 3.1.2.5). It belongs to the connection that the application publishes
    /// on; a stop that is not a crash takes it back.
    ///
    /// # Errors
    ///
    /// MQTT cannot say it.
    pub fn with_last_will(
        mut self,
        topic: &str,
        message: Message,
        delay: Duration,
    ) -> Result<Self, BrokerError> {
        self.settings_mut().set_will(topic, message, delay)?;
        Ok(self)
    }

    /// Where answers to [`Publisher::request`](crate::Publisher::request) come: a topic of their own
    /// below this one. `ruststream/replies` by default.
    ///
    /// # Errors
    ///
    /// It is no topic.
    pub fn with_reply_prefix(mut self, topic: impl Into<String>) -> Result<Self, BrokerError> {
        let topic = topic.into();
        crate::address::topic(&topic).map_err(|error| {
            BrokerError::permanent(format!("`{topic}` is no topic for replies: {error}"))
        })?;
        self.settings_mut().reply_prefix = topic;
        Ok(self)
    }

    /// Clones that were made before keep what they had.
    fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }
}

impl Broker for Mqtt {
    fn system(&self) -> &'static str {
        "mqtt"
    }

    fn location(&self) -> String {
        self.settings.endpoint.location()
    }

    fn capabilities(&self, subscription: &Subscription) -> Result<Capabilities, BrokerError> {
        mqtt_rules::check(subscription)?;
        Ok(Capabilities {
            returns: Returns::OnResume,
            rejects: false,
            releases: false,
            delivery_limit: None,
            settled: mqtt_rules::qos(subscription) == 0,
            delays: false,
            keeps_rejected: false,
            fan_out: mqtt_rules::options(subscription).shared.is_none(),
        })
    }

    fn prepare(&self, subscriptions: &[Subscription]) {
        let mut parts = self.shared.lock();
        parts.app = subscriptions.first().map(|first| first.app.clone());
        let mut groups: Vec<(spec::Place<'_>, Vec<&Subscription>)> = Vec::new();
        for subscription in subscriptions {
            let place = spec::place(subscription);
            match groups.iter_mut().find(|(known, _)| *known == place) {
                Some((_, group)) => group.push(subscription),
                None => groups.push((place, vec![subscription])),
            }
        }
        for (_, group) in groups {
            parts.add(&group, &self.settings);
        }
    }

    fn subscribe(
        &self,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, BrokerError>> {
        let attached = self.shared.attach(&subscription, &self.settings);
        Box::pin(async move {
            let (source, started) = attached?;
            // Dropped on the way, the source takes the connection down.
            match started.await {
                Ok(Ok(())) | Err(_) => Ok(Box::new(source) as Box<dyn Source>),
                Ok(Err(error)) => Err(error),
            }
        })
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(MqttSink::new(
            Arc::clone(&self.settings),
            Arc::clone(&self.shared),
        ))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let links: Vec<Arc<Link>> = {
            let parts = self.shared.lock();
            let requests = parts.requests.as_ref().map(|requests| requests.link());
            parts.publisher.iter().cloned().chain(requests).collect()
        };
        for link in &links {
            link.lock().is_closing = true;
            link.wake_io();
        }
        Box::pin(async move {
            for link in links {
                link.ended().await;
            }
        })
    }
}

impl fmt::Debug for Mqtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mqtt")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Give a mount point its place on a connection, and make the connection when everyone is there.
    fn attach(
        &self,
        subscription: &Subscription,
        settings: &Arc<Settings>,
    ) -> Result<(MqttSource, oneshot::Receiver<Result<(), BrokerError>>), BrokerError> {
        let mut parts = self.lock();
        let io = parts.io()?;
        let key = (subscription.app.clone(), subscription.mount.clone());
        if !parts.places.contains_key(&key) {
            parts.add(&[subscription], settings);
        }
        let Some((link, index)) = parts.places.remove(&key) else {
            return Err(BrokerError::permanent("it was not prepared"));
        };
        if settings.will.is_some() && !link.spec.publishes && parts.publisher.is_none() {
            // The server must know the last will before anything can go wrong.
            parts.start_publisher(settings)?;
        }
        let (started, receiver) = oneshot::channel();
        link.lock().members[index].started = Some(started);
        let source = MqttSource::new(Arc::clone(&link), index, Arc::clone(&io));
        let is_complete = {
            let at = parts
                .attached
                .iter()
                .position(|(known, _)| Arc::ptr_eq(known, &link))
                .unwrap_or_else(|| {
                    parts.attached.push((Arc::clone(&link), 0));
                    parts.attached.len() - 1
                });
            parts.attached[at].1 += 1;
            let is_complete = parts.attached[at].1 == link.spec.members.len();
            if is_complete {
                parts.attached.swap_remove(at);
            }
            is_complete
        };
        if is_complete {
            io.serve(&link, supervisor::run(Arc::clone(&link)))?;
        }
        Ok((source, receiver))
    }

    /// The connection that is published on, made at its first use.
    fn publisher(&self, settings: &Arc<Settings>) -> Result<Arc<Link>, BrokerError> {
        let mut parts = self.lock();
        if let Some(link) = parts.publisher.as_ref().filter(|link| !link.has_ended()) {
            return Ok(Arc::clone(link));
        }
        parts.start_publisher(settings)
    }

    /// The connection on which answers come, made at its first use.
    fn requests(&self, settings: &Arc<Settings>) -> Result<Arc<Requests>, BrokerError> {
        let mut parts = self.lock();
        if let Some(requests) = parts
            .requests
            .as_ref()
            .filter(|requests| !requests.link().has_ended())
        {
            return Ok(Arc::clone(requests));
        }
        let io = parts.io()?;
        let requests = Requests::start(&io, settings, parts.app.as_deref())?;
        parts.requests = Some(Arc::clone(&requests));
        Ok(requests)
    }
}

impl Parts {
    fn io(&mut self) -> Result<Arc<Io>, BrokerError> {
        if let Some(io) = &self.io {
            return Ok(Arc::clone(io));
        }
        let io = Arc::new(Io::start()?);
        self.io = Some(Arc::clone(&io));
        Ok(io)
    }

    fn start_publisher(&mut self, settings: &Arc<Settings>) -> Result<Arc<Link>, BrokerError> {
        let io = self.io()?;
        let spec = Spec::of_publisher(settings, self.app.as_deref());
        let link = Arc::new(Link::new(spec, Arc::clone(settings)));
        io.serve(&link, supervisor::run(Arc::clone(&link)))?;
        self.publisher = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Note the connection of `subscriptions`.
    fn add(&mut self, subscriptions: &[&Subscription], settings: &Arc<Settings>) {
        let spec = Spec::of(subscriptions, settings);
        let link = Arc::new(Link::new(spec, Arc::clone(settings)));
        if link.spec.publishes {
            self.publisher = Some(Arc::clone(&link));
        }
        for (index, subscription) in subscriptions.iter().enumerate() {
            let key = (subscription.app.clone(), subscription.mount.clone());
            self.places.insert(key, (Arc::clone(&link), index));
        }
    }
}
