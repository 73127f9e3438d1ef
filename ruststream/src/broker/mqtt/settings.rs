//! How the server is reached, and what is the same for all connections to it.

use std::fmt;
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::LastWill;
use rumqttc::v5::mqttbytes::v5::LastWillProperties;

use super::convert;
use super::wire::LONGEST;
use crate::Message;
use crate::broker::BrokerError;
use crate::net::Endpoint;
use crate::net::Scheme;
use crate::net::Secret;
use crate::net::Tls;

/// Everything that a URL and the builder say.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) tls: Option<Tls>,
    /// What client ids begin with, in place of the application's name and the host's.
    pub(super) client_id: Option<String>,
    pub(super) host: String,
    pub(super) keep_alive: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) session_expiry: Duration,
    pub(super) clean_start: bool,
    pub(super) max_packet_size: u32,
    pub(super) publish_qos: QoS,
    pub(super) will: Option<LastWill>,
    pub(super) reply_prefix: String,
}

impl Settings {
    /// # Errors
    ///
    /// What is wrong with the URL, without a word of its credentials.
    pub(super) fn parse(url: &str) -> Result<Self, BrokerError> {
        let endpoint = Endpoint::parse(url, SCHEMES)?;
        if !endpoint.scheme().websocket && !matches!(endpoint.path(), "" | "/") {
            return Err(BrokerError::permanent(format!(
                "`{}` has a path, which MQTT has no use for: topics are declared by the handlers",
                endpoint.location()
            )));
        }
        let mut query = endpoint.query();
        let tls = Tls::from_query(endpoint.scheme().tls, &mut query)?;
        let client_id = query.filled("client_id");
        let keep_alive = query.duration("keep_alive").unwrap_or(KEEP_ALIVE);
        let connect_timeout = query.duration("connect_timeout").unwrap_or(CONNECT_TIMEOUT);
        let session_expiry = query.duration("session_expiry").unwrap_or(SESSION_EXPIRY);
        let clean_start = query.boolean("clean_start").unwrap_or(false);
        let max_packet_size = query
            .integer("max_packet_size", SMALLEST_PACKET..=LONGEST)
            .unwrap_or(MAX_PACKET_SIZE);
        let publish_qos = query.integer("publish_qos", 1..=2_u8).unwrap_or(1);
        if !is_keep_alive(keep_alive) {
            query.problem("keep_alive", KEEP_ALIVE_RANGE);
        }
        if connect_timeout.is_zero() {
            query.problem("connect_timeout", "must be longer than that");
        }
        query.finish()?;
        Ok(Self {
            user: endpoint.user().map(str::to_owned),
            password: endpoint.password().cloned(),
            tls,
            client_id,
            host: host(),
            keep_alive,
            connect_timeout,
            session_expiry,
            clean_start,
            max_packet_size,
            publish_qos: qos_of(publish_qos),
            will: None,
            reply_prefix: REPLIES.to_owned(),
            endpoint,
        })
    }

    /// # Errors
    ///
    /// MQTT cannot say it.
    pub(super) fn set_will(
        &mut self,
        topic: &str,
        message: Message,
        delay: Duration,
    ) -> Result<(), BrokerError> {
        let publish = convert::publish(topic, message, self.publish_qos).map_err(|error| {
            BrokerError::permanent(format!("the last will: {}", error.reason()))
        })?;
        let properties = publish.properties.unwrap_or_default();
        let delay = u32::try_from(delay.as_secs()).unwrap_or(u32::MAX);
        self.will = Some(LastWill {
            topic: publish.topic,
            message: publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            properties: Some(LastWillProperties {
                delay_interval: Some(delay),
                payload_format_indicator: properties.payload_format_indicator,
                message_expiry_interval: properties.message_expiry_interval,
                content_type: properties.content_type,
                response_topic: properties.response_topic,
                correlation_data: properties.correlation_data,
                user_properties: properties.user_properties,
            }),
        });
        Ok(())
    }
}

/// Shows neither credentials nor the will's payload.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("client_id", &self.client_id)
            .field("keep_alive", &self.keep_alive)
            .field("session_expiry", &self.session_expiry)
            .field("max_packet_size", &self.max_packet_size)
            .finish_non_exhaustive()
    }
}

/// Whether a keep-alive can be said to the server: whole seconds, 1 to 65,535 (MQTT 5 section 3.1.2.10).
pub(super) fn is_keep_alive(time: Duration) -> bool {
    (1..=u64::from(u16::MAX)).contains(&time.as_secs()) && time.subsec_nanos() == 0
}

pub(super) fn qos_of(level: u8) -> QoS {
    match level {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

/// The name of this machine, for client ids.
fn host() -> String {
    let name = gethostname::gethostname();
    let name: String = name
        .to_string_lossy()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .take(64)
        .collect();
    if name.is_empty() {
        "host".to_owned()
    } else {
        name
    }
}

/// The schemes of this driver.
#[rustfmt::skip]
pub(super) const SCHEMES: &[Scheme] = &[
    Scheme { name: "mqtt", port: 1883, tls: false, websocket: false },
    Scheme { name: "mqtts", port: 8883, tls: true, websocket: false },
    Scheme { name: "mqtt+ws", port: 80, tls: false, websocket: true },
    Scheme { name: "mqtt+wss", port: 443, tls: true, websocket: true },
];

pub(super) const KEEP_ALIVE_RANGE: &str = "is of whole seconds, from `1s` to `65535s`";

const KEEP_ALIVE: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const SESSION_EXPIRY: Duration = Duration::from_hours(1);
const MAX_PACKET_SIZE: u32 = 1024 * 1024;
/// Below this not even an acknowledgement with a reason would pass.
pub(super) const SMALLEST_PACKET: u32 = 128;
const REPLIES: &str = "ruststream/replies";
