//! What a connection is for: its identity, its session, and the subscriptions it carries.

use std::time::Duration;

use bytestring::ByteString;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Filter;
use rumqttc::v5::mqttbytes::v5::RetainForwardRule;

use super::settings::Settings;
use super::settings::qos_of;
use crate::broker::Subscription;
use crate::broker::mqtt_rules;
use crate::broker::mqtt_rules::options;
use crate::registration::AckOrder;

/// A connection to be made, and made again.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) client_id: String,
    /// Begin with a new session, whatever the server has.
    pub(super) clean_start: bool,
    /// How long the server keeps the session without a connection, in seconds.
    pub(super) session_expiry: u32,
    /// Messages at quality of service 1 or 2 that the server may send without an acknowledgement.
    pub(super) receive_maximum: u16,
    pub(super) members: Vec<MemberSpec>,
    /// Whether it is the one that the application publishes on.
    pub(super) publishes: bool,
}

/// A mount point on a connection.
#[derive(Clone, Debug)]
pub(super) struct MemberSpec {
    /// What topics are compared with.
    pub(super) filter: ByteString,
    /// The shared group it is in.
    pub(super) group: Option<&'static str>,
    pub(super) qos: QoS,
    pub(super) no_local: bool,
    pub(super) retain_handling: u8,
    pub(super) retain_as_published: bool,
    pub(super) order: AckOrder,
    pub(super) window: u32,
}

impl Spec {
    /// The connection of `subscriptions`, which are of one application and not none.
    pub(super) fn of(subscriptions: &[&Subscription], settings: &Settings) -> Self {
        let members: Vec<_> = subscriptions
            .iter()
            .map(|subscription| MemberSpec::of(subscription))
            .collect();
        let windows = members
            .iter()
            .fold(0_u32, |sum, member| sum.saturating_add(member.window));
        let keeps = members.iter().any(|member| member.qos != QoS::AtMostOnce);
        let expiry = subscriptions
            .iter()
            .filter_map(|subscription| options(subscription).session_expiry)
            .max()
            .unwrap_or(settings.session_expiry);
        Self {
            client_id: client_id(subscriptions, settings),
            clean_start: settings.clean_start || !keeps,
            session_expiry: if keeps { seconds(expiry) } else { 0 },
            receive_maximum: u16::try_from(windows).unwrap_or(u16::MAX).max(1),
            members,
            publishes: publishes(subscriptions),
        }
    }

    /// The connection that is only published on. Nothing outlives it: what is not confirmed when it
    /// breaks fails, and whoever published decides.
    pub(super) fn of_publisher(settings: &Settings, app: Option<&str>) -> Self {
        Self {
            client_id: passing_id(settings, app, "publisher"),
            clean_start: true,
            session_expiry: 0,
            receive_maximum: u16::MAX,
            members: Vec::new(),
            publishes: true,
        }
    }

    /// The connection on which answers come, to a topic of its own.
    pub(super) fn of_replies(settings: &Settings, app: Option<&str>) -> Self {
        let client_id = passing_id(settings, app, "replies");
        let member = MemberSpec {
            filter: format!("{}/{client_id}", settings.reply_prefix).into(),
            group: None,
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_handling: 2,
            retain_as_published: false,
            order: AckOrder::Arrival,
            window: REPLIES_AT_ONCE,
        };
        Self {
            client_id,
            clean_start: true,
            session_expiry: 0,
            receive_maximum: u16::try_from(REPLIES_AT_ONCE).unwrap_or(u16::MAX),
            members: vec![member],
            publishes: false,
        }
    }

    /// Whether the server's session goes on when the connection does not.
    pub(super) fn keeps_session(&self) -> bool {
        self.session_expiry > 0
    }
}

impl MemberSpec {
    fn of(subscription: &Subscription) -> Self {
        let options = options(subscription);
        Self {
            filter: subscription.address.clone(),
            group: options.shared,
            qos: qos_of(mqtt_rules::qos(subscription)),
            no_local: options.no_local == Some(true),
            retain_handling: options.retain_handling.unwrap_or(0),
            retain_as_published: options.retain_as_published == Some(true),
            order: options.ack_order.unwrap_or(AckOrder::Arrival),
            window: subscription.window,
        }
    }

    /// The filter as it is subscribed to (MQTT 5 section 4.8.2).
    pub(super) fn wire_filter(&self) -> String {
        match self.group {
            Some(group) => format!("$share/{group}/{}", self.filter),
            None => self.filter.to_string(),
        }
    }

    /// Its line of a SUBSCRIBE, the first or a later one.
    pub(super) fn subscription(&self, again: bool) -> Filter {
        Filter {
            path: self.wire_filter(),
            qos: self.qos,
            nolocal: self.no_local,
            preserve_retain: self.retain_as_published,
            retain_forward_rule: match self.retain_handling {
                0 if !again => RetainForwardRule::OnEverySubscribe,
                0 | 1 => RetainForwardRule::OnNewSubscribe,
                _ => RetainForwardRule::Never,
            },
        }
    }
}

/// Which subscriptions share a connection: those that name the same one, and those that must be on
/// the connection that is published on, because a server compares connections for `no_local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place<'a> {
    /// A connection of its own.
    Own(&'a str),
    /// The one of this name.
    Named(&'static str),
    Publishing,
}

pub(super) fn place(subscription: &Subscription) -> Place<'_> {
    let options = options(subscription);
    match (options.no_local, options.connection) {
        (Some(true), _) => Place::Publishing,
        (_, Some(name)) => Place::Named(name),
        (_, None) => Place::Own(&subscription.mount),
    }
}

fn publishes(subscriptions: &[&Subscription]) -> bool {
    subscriptions
        .iter()
        .any(|subscription| place(subscription) == Place::Publishing)
}

/// `<app>-<host>-<handler>`, so that two applications, hosts and handlers differ and a restart finds
/// its session again (spec C17).
fn client_id(subscriptions: &[&Subscription], settings: &Settings) -> String {
    let named = subscriptions
        .iter()
        .find_map(|subscription| options(subscription).client_id);
    if let Some(id) = named {
        return id.to_owned();
    }
    let Some(first) = subscriptions.first() else {
        return String::new();
    };
    let base = settings
        .client_id
        .clone()
        .unwrap_or_else(|| format!("{}-{}", first.app, settings.host));
    match place(first) {
        Place::Own(mount) => format!("{base}-{mount}"),
        Place::Named(name) => format!("{base}-{name}"),
        Place::Publishing => format!("{base}-publisher"),
    }
}

/// The id of a connection that nothing outlives. Several processes of one host have one each.
fn passing_id(settings: &Settings, app: Option<&str>, what: &str) -> String {
    let base = match (&settings.client_id, app) {
        (Some(base), _) => base.clone(),
        (None, app) => format!("{}-{}", app.unwrap_or("ruststream"), settings.host),
    };
    format!("{base}-{what}-{:08x}", fastrand::u32(..))
}

/// Answers that are on their way at once.
const REPLIES_AT_ONCE: u32 = 256;

/// A session expiry on the wire; the largest means for ever (MQTT 5 section 3.1.2.11.2).
fn seconds(expiry: Duration) -> u32 {
    u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX).max(1)
}
