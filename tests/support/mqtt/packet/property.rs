//! Properties (2.2.2), kept in the order of the wire.

use bytes::Bytes;

/// A property of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// 0x01: 1 is text in UTF-8.
    PayloadFormatIndicator(u8),
    /// 0x02, in seconds.
    MessageExpiryInterval(u32),
    /// 0x03.
    ContentType(String),
    /// 0x08.
    ResponseTopic(String),
    /// 0x09.
    CorrelationData(Bytes),
    /// 0x0B.
    SubscriptionIdentifier(u32),
    /// 0x11, in seconds.
    SessionExpiryInterval(u32),
    /// 0x12.
    AssignedClientIdentifier(String),
    /// 0x13, in seconds.
    ServerKeepAlive(u16),
    /// 0x15.
    AuthenticationMethod(String),
    /// 0x16.
    AuthenticationData(Bytes),
    /// 0x17.
    RequestProblemInformation(u8),
    /// 0x18, in seconds.
    WillDelayInterval(u32),
    /// 0x19.
    RequestResponseInformation(u8),
    /// 0x1A.
    ResponseInformation(String),
    /// 0x1C.
    ServerReference(String),
    /// 0x1F.
    ReasonString(String),
    /// 0x21.
    ReceiveMaximum(u16),
    /// 0x22.
    TopicAliasMaximum(u16),
    /// 0x23.
    TopicAlias(u16),
    /// 0x24.
    MaximumQos(u8),
    /// 0x25.
    RetainAvailable(u8),
    /// 0x26: a name and a value; may come several times, in an order that counts.
    User(String, String),
    /// 0x27, in bytes.
    MaximumPacketSize(u32),
    /// 0x28.
    WildcardSubscriptionAvailable(u8),
    /// 0x29.
    SubscriptionIdentifierAvailable(u8),
    /// 0x2A.
    SharedSubscriptionAvailable(u8),
}

/// The properties of a packet, in the order of the wire, doubles included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(Vec<Property>);

impl Properties {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Add one at the end.
    pub fn push(&mut self, property: Property) {
        self.0.push(property);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Property] {
        &self.0
    }

    /// Whether this very property is among them.
    #[must_use]
    pub fn has(&self, property: &Property) -> bool {
        self.0.contains(property)
    }

    /// What `pick` makes of the first that it knows.
    pub fn find<'a, T>(&'a self, pick: impl Fn(&'a Property) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }

    /// The user properties, in order.
    #[must_use]
    pub fn user(&self) -> Vec<(&str, &str)> {
        let all = self.0.iter();
        all.filter_map(|property| match property {
            Property::User(name, value) => Some((name.as_str(), value.as_str())),
            _ => None,
        })
        .collect()
    }

    /// The value of the first user property of that name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let named = |(key, value)| (key == name).then_some(value);
        self.user().into_iter().find_map(named)
    }
}

impl FromIterator<Property> for Properties {
    fn from_iter<T: IntoIterator<Item = Property>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

impl<const N: usize> From<[Property; N]> for Properties {
    fn from(all: [Property; N]) -> Self {
        Self(all.into())
    }
}
