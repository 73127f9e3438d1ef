//! The packets of MQTT 5 (section 3 of the standard) and their bytes.

mod decode;
mod encode;
mod property;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use decode::Malformed;
pub use property::Properties;
pub use property::Property;

/// A packet of MQTT 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A client asks for a session (3.1).
    Connect(Connect),
    /// The server's answer to it (3.2).
    ConnAck(ConnAck),
    /// A message (3.3).
    Publish(Publish),
    /// A message of quality 1 is taken (3.4).
    PubAck(Ack),
    /// A message of quality 2 has arrived (3.5).
    PubRec(Ack),
    /// A message of quality 2 may be passed on (3.6).
    PubRel(Ack),
    /// A message of quality 2 is done with (3.7).
    PubComp(Ack),
    /// A client asks for messages (3.8).
    Subscribe(Subscribe),
    /// The server's answer to it (3.9).
    SubAck(Answers),
    /// A client wants no more of them (3.10).
    Unsubscribe(Unsubscribe),
    /// The server's answer to it (3.11).
    UnsubAck(Answers),
    /// A client asks whether the server is there (3.12).
    PingReq,
    /// It is (3.13).
    PingResp,
    /// The end of a connection (3.14).
    Disconnect(Reason),
    /// A step of an extended authentication (3.15).
    Auth(Reason),
}

/// What a CONNECT says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// `MQTT`, of an honest client.
    pub protocol: String,
    /// 5 is MQTT 5.
    pub version: u8,
    /// Whether an earlier session is thrown away.
    pub clean_start: bool,
    /// Seconds; 0 is never.
    pub keep_alive: u16,
    /// In the order of the wire.
    pub properties: Properties,
    /// Empty when the server shall choose.
    pub client_id: String,
    /// What is published when the client is lost.
    pub will: Option<Will>,
    /// Who it is.
    pub user_name: Option<String>,
    /// How it shows that.
    pub password: Option<Bytes>,
}

impl Connect {
    /// A new session under a name, without a keep-alive.
    #[must_use]
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            protocol: "MQTT".into(),
            version: 5,
            clean_start: true,
            keep_alive: 0,
            properties: Properties::new(),
            client_id: client_id.into(),
            will: None,
            user_name: None,
            password: None,
        }
    }

    /// A session that lasts so many seconds without a connection, resumed where there is one.
    #[must_use]
    pub fn resuming(client_id: impl Into<String>, expiry: u32) -> Self {
        let mut connect = Self::new(client_id).with(Property::SessionExpiryInterval(expiry));
        connect.clean_start = false;
        connect
    }

    /// With a property at the end of those it has.
    #[must_use]
    pub fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }

    /// With a name and a password.
    #[must_use]
    pub fn login(mut self, user_name: &str, password: &str) -> Self {
        self.user_name = Some(user_name.into());
        self.password = Some(Bytes::copy_from_slice(password.as_bytes()));
        self
    }
}

/// What is published when a client is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Will {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: Bytes,
    /// The quality of service.
    pub qos: u8,
    /// Whether the server keeps it for later subscribers.
    pub retain: bool,
    /// In the order of the wire.
    pub properties: Properties,
}

/// What a CONNACK says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnAck {
    /// The server still has the session.
    pub session_present: bool,
    /// 0 is success.
    pub code: u8,
    /// In the order of the wire.
    pub properties: Properties,
}

impl ConnAck {
    /// With a property at the end of those it has.
    #[must_use]
    pub fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// It may have been sent before.
    pub dup: bool,
    /// The quality of service; 3 can be sent, and is malformed.
    pub qos: u8,
    /// From the server: it was kept. From a client: keep it.
    pub retain: bool,
    /// Empty where an alias stands for it.
    pub topic: String,
    /// Above quality 0.
    pub id: Option<u16>,
    /// In the order of the wire.
    pub properties: Properties,
    /// What is said.
    pub payload: Bytes,
}

impl Publish {
    /// A message of quality 0.
    #[must_use]
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            ..Self::default()
        }
    }

    /// Of another quality, with the packet identifier that it needs.
    #[must_use]
    pub fn at(mut self, qos: u8, id: u16) -> Self {
        self.qos = qos;
        self.id = Some(id);
        self
    }

    /// With a property at the end of those it has.
    #[must_use]
    pub fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }

    /// With a user property at the end of those it has.
    #[must_use]
    pub fn user(self, name: &str, value: &str) -> Self {
        self.with(Property::User(name.into(), value.into()))
    }

    /// Marked as sent before.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.dup = true;
        self
    }

    /// Marked as kept, or to be kept.
    #[must_use]
    pub fn retained(mut self) -> Self {
        self.retain = true;
        self
    }

    /// The payload as text; what is no UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Of the message.
    pub id: u16,
    /// 0 is success; from 0x80 on it is a refusal.
    pub code: u8,
    /// In the order of the wire.
    pub properties: Properties,
}

impl Ack {
    /// Success.
    #[must_use]
    pub fn of(id: u16) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Another reason code.
    #[must_use]
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// What a SUBSCRIBE says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscribe {
    /// The packet identifier.
    pub id: u16,
    /// In the order of the wire.
    pub properties: Properties,
    /// At least one, of an honest client.
    pub filters: Vec<Filter>,
}

/// A filter of a SUBSCRIBE with its options (3.8.3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Which topics.
    pub topics: String,
    /// The highest quality that the client takes.
    pub qos: u8,
    /// Not what this client itself publishes.
    pub no_local: bool,
    /// The retain flag as the publisher set it.
    pub retain_as_published: bool,
    /// 0, 1 or 2: whether what is kept is sent now.
    pub retain_handling: u8,
}

impl Filter {
    /// A filter with nothing but a quality.
    #[must_use]
    pub fn new(topics: impl Into<String>, qos: u8) -> Self {
        Self {
            topics: topics.into(),
            qos,
            ..Self::default()
        }
    }
}

/// SUBACK and UNSUBACK: one code for each filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Of the packet that is answered.
    pub id: u16,
    /// In the order of the wire.
    pub properties: Properties,
    /// In the order of the filters.
    pub codes: Vec<u8>,
}

impl Answers {
    /// An answer without properties.
    #[must_use]
    pub fn new(id: u16, codes: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            properties: Properties::new(),
            codes: codes.into(),
        }
    }
}

/// What an UNSUBSCRIBE says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsubscribe {
    /// The packet identifier.
    pub id: u16,
    /// In the order of the wire.
    pub properties: Properties,
    /// At least one, of an honest client.
    pub filters: Vec<String>,
}

/// DISCONNECT and AUTH: a reason and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// 0 is a normal end, or success.
    pub code: u8,
    /// In the order of the wire.
    pub properties: Properties,
}

impl Reason {
    /// A reason without properties.
    #[must_use]
    pub fn new(code: u8) -> Self {
        Self {
            code,
            properties: Properties::new(),
        }
    }

    /// With a property at the end of those it has.
    #[must_use]
    pub fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }
}

/// Where each type of packet stands in the first byte (2.1.2).
mod kind {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const CONNACK: u8 = 2;
    pub(super) const PUBLISH: u8 = 3;
    pub(super) const PUBACK: u8 = 4;
    pub(super) const PUBREC: u8 = 5;
    pub(super) const PUBREL: u8 = 6;
    pub(super) const PUBCOMP: u8 = 7;
    pub(super) const SUBSCRIBE: u8 = 8;
    pub(super) const SUBACK: u8 = 9;
    pub(super) const UNSUBSCRIBE: u8 = 10;
    pub(super) const UNSUBACK: u8 = 11;
    pub(super) const PINGREQ: u8 = 12;
    pub(super) const PINGRESP: u8 = 13;
    pub(super) const DISCONNECT: u8 = 14;
    pub(super) const AUTH: u8 = 15;
}
