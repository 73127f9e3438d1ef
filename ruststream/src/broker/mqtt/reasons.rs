//! What a server's reason codes mean, in words, and whether it may heal (MQTT 5 section 2.4).

use rumqttc::v5::mqttbytes::v5::ConnAck;
use rumqttc::v5::mqttbytes::v5::ConnectReturnCode;
use rumqttc::v5::mqttbytes::v5::Disconnect;
use rumqttc::v5::mqttbytes::v5::DisconnectReasonCode;
use rumqttc::v5::mqttbytes::v5::PubAck;
use rumqttc::v5::mqttbytes::v5::PubAckReason;
use rumqttc::v5::mqttbytes::v5::PubRec;
use rumqttc::v5::mqttbytes::v5::PubRecReason;
use rumqttc::v5::mqttbytes::v5::SubscribeReasonCode;

use super::outbound::Answer;
use crate::broker::BrokerError;
use crate::broker::PublishError;
use crate::broker::Published;

/// Why a server refused a connection.
pub(super) fn refused_connection(connack: &ConnAck, client_id: &str) -> BrokerError {
    use ConnectReturnCode as Code;
    let (permanent, what) = match connack.code {
        Code::BadUserNamePassword => (
            true,
            "it does not know the user or the password (0x86): check the credentials in the URL".to_owned(),
        ),
        Code::NotAuthorized => (
            true,
            "the client is not authorized (0x87): give credentials, or have the server allow this client".to_owned(),
        ),
        Code::ClientIdentifierNotValid | Code::BadClientId => (
            true,
            format!("it does not take the client id `{client_id}` (0x85): set another with `client_id`"),
        ),
        Code::UnsupportedProtocolVersion | Code::RefusedProtocolVersion => {
            (true, "it does not speak MQTT 5 (0x84)".to_owned())
        }
        Code::Banned => (true, "the client is banned (0x8A)".to_owned()),
        Code::BadAuthenticationMethod => (
            true,
            "it wants another way of authentication (0x8C)".to_owned(),
        ),
        Code::TopicNameInvalid => (true, "it does not take the topic of the last will (0x90)".to_owned()),
        Code::PacketTooLarge => (true, "the CONNECT is too large for it (0x95): the last will, most likely".to_owned()),
        Code::PayloadFormatInvalid => (true, "the payload of the last will is not what it says (0x99)".to_owned()),
        Code::RetainNotSupported => (true, "it keeps no retained messages, and the last will is one (0x9A)".to_owned()),
        Code::QoSNotSupported => (true, "it does not support the QoS of the last will (0x9B)".to_owned()),
        Code::MalformedPacket => (true, "it cannot read the CONNECT (0x81)".to_owned()),
        Code::ProtocolError => (true, "it finds a protocol error in the CONNECT (0x82)".to_owned()),
        Code::ServerMoved => (true, "it has moved (0x9D)".to_owned()),
        Code::UseAnotherServer => (false, "another server is to be used (0x9C)".to_owned()),
        Code::ServerUnavailable | Code::ServiceUnavailable => (false, "it is not available (0x88)".to_owned()),
        Code::ServerBusy => (false, "it is busy (0x89)".to_owned()),
        Code::QuotaExceeded => (false, "a limit of it is exceeded (0x97)".to_owned()),
        Code::ConnectionRateExceeded => (false, "clients connect too fast (0x9F)".to_owned()),
        Code::ImplementationSpecificError => (false, "for a reason of its own (0x83)".to_owned()),
        Code::UnspecifiedError | Code::Success => (false, "it does not say why (0x80)".to_owned()),
    };
    let properties = connack.properties.as_ref();
    let elsewhere = properties
        .and_then(|properties| properties.server_reference.as_deref())
        .map(|server| format!(", it names `{}`", shown(server)))
        .unwrap_or_default();
    let said = said(properties.and_then(|properties| properties.reason_string.as_deref()));
    BrokerError {
        transient: !permanent,
        reason: format!("the server refused the connection: {what}{elsewhere}{said}"),
    }
}

/// Why a server ended a connection.
pub(super) fn disconnected(disconnect: &Disconnect, client_id: &str) -> BrokerError {
    use DisconnectReasonCode as Code;
    let said = said(
        disconnect
            .properties
            .as_ref()
            .and_then(|properties| properties.reason_string.as_deref()),
    );
    let what = match disconnect.reason_code {
        Code::NormalDisconnection => "without a reason".to_owned(),
        Code::ServerShuttingDown => "it is shutting down (0x8B)".to_owned(),
        Code::ServerBusy => "it is busy (0x89)".to_owned(),
        Code::SessionTakenOver => format!(
            "the session was taken over (0x8E): another client uses the client id `{client_id}`; give one of \
             them an id of its own with `client_id`"
        ),
        Code::KeepAliveTimeout => {
            "it heard nothing for longer than the keep-alive (0x8D)".to_owned()
        }
        Code::NotAuthorized => "the client is not authorized for what it asked (0x87)".to_owned(),
        Code::PacketTooLarge => "a packet was too large for it (0x95)".to_owned(),
        Code::ReceiveMaximumExceeded => {
            "it got more messages at once than it takes (0x93)".to_owned()
        }
        Code::MessageRateTooHigh => "it got messages too fast (0x96)".to_owned(),
        Code::QuotaExceeded => "a limit of it is exceeded (0x97)".to_owned(),
        Code::AdministrativeAction => "an administrator ended it (0x98)".to_owned(),
        Code::TopicFilterInvalid => "it does not take the filter (0x8F)".to_owned(),
        Code::MalformedPacket => {
            "it cannot read a packet, or does not take a filter in it (0x81)".to_owned()
        }
        Code::SharedSubscriptionNotSupported => {
            "it has no shared subscriptions (0x9E): leave out `mqtt(shared)`".to_owned()
        }
        Code::WildcardSubscriptionsNotSupported => {
            "it has no wildcard subscriptions (0xA2): subscribe to topics".to_owned()
        }
        Code::QoSNotSupported => "it does not support the QoS (0x9B)".to_owned(),
        Code::RetainNotSupported => "it keeps no retained messages (0x9A)".to_owned(),
        Code::UseAnotherServer => "another server is to be used (0x9C)".to_owned(),
        Code::ServerMoved => "it has moved (0x9D)".to_owned(),
        code => format!("{code:?} (0x{:02X})", code as u8),
    };
    let permanent = matches!(
        disconnect.reason_code,
        Code::NotAuthorized
            | Code::TopicFilterInvalid
            | Code::MalformedPacket
            | Code::ProtocolError
            | Code::SharedSubscriptionNotSupported
            | Code::WildcardSubscriptionsNotSupported
            | Code::SubscriptionIdentifiersNotSupported
            | Code::QoSNotSupported
            | Code::ServerMoved
    );
    BrokerError {
        transient: !permanent,
        reason: format!("the server ended the connection: {what}{said}"),
    }
}

/// Why a server refused a subscription; `None` when it granted it, at the quality of service asked for.
pub(super) fn refused_subscription(
    code: SubscribeReasonCode,
    asked: u8,
    filter: &str,
    reason: Option<&str>,
) -> Option<BrokerError> {
    use SubscribeReasonCode as Code;
    let (permanent, what) = match code {
        Code::Success(granted) if granted as u8 >= asked => return None,
        Code::Success(granted) => {
            let granted = granted as u8;
            (
                true,
                format!(
                    "it grants QoS {granted} where {asked} was asked for: declare `mqtt(qos = {granted})`, or use a server that \
                     has QoS {asked}"
                ),
            )
        }
        Code::NotAuthorized => (
            true,
            "the client may not read it (0x87): have the server allow it".to_owned(),
        ),
        Code::TopicFilterInvalid => (true, "it does not take this filter (0x8F)".to_owned()),
        Code::SharedSubscriptionsNotSupported => (
            true,
            "it has no shared subscriptions (0x9E): leave out `mqtt(shared)`".to_owned(),
        ),
        Code::WildcardSubscriptionsNotSupported => (
            true,
            "it has no wildcard subscriptions (0xA2): subscribe to topics".to_owned(),
        ),
        Code::SubscriptionIdNotSupported => {
            (true, "it has no subscription identifiers (0xA1)".to_owned())
        }
        Code::QuotaExceeded => (false, "a limit of it is exceeded (0x97)".to_owned()),
        Code::PkidInUse => (false, "it finds the packet id in use (0x91)".to_owned()),
        Code::ImplementationSpecific => (false, "for a reason of its own (0x83)".to_owned()),
        Code::Failure | Code::Unspecified => (true, "it does not say why (0x80)".to_owned()),
    };
    let said = said(reason);
    Some(BrokerError {
        transient: !permanent,
        reason: format!("the server refused the subscription to `{filter}`: {what}{said}"),
    })
}

/// What a PUBACK says.
pub(super) fn acknowledged(puback: &PubAck) -> Answer {
    use PubAckReason as Reason;
    let reason = puback
        .properties
        .as_ref()
        .and_then(|properties| properties.reason_string.as_deref());
    match puback.reason {
        Reason::Success => Ok(Published::Confirmed),
        Reason::NoMatchingSubscribers => Ok(Published::Unread),
        Reason::NotAuthorized => refused(Refusal::NotAuthorized, reason),
        Reason::TopicNameInvalid => refused(Refusal::TopicNameInvalid, reason),
        Reason::PayloadFormatInvalid => refused(Refusal::PayloadFormatInvalid, reason),
        Reason::QuotaExceeded => refused(Refusal::QuotaExceeded, reason),
        Reason::PacketIdentifierInUse => refused(Refusal::PacketIdInUse, reason),
        Reason::ImplementationSpecificError => refused(Refusal::Implementation, reason),
        Reason::UnspecifiedError => refused(Refusal::Unspecified, reason),
    }
}

/// What a PUBREC says.
pub(super) fn received(pubrec: &PubRec) -> Answer {
    use PubRecReason as Reason;
    let reason = pubrec
        .properties
        .as_ref()
        .and_then(|properties| properties.reason_string.as_deref());
    match pubrec.reason {
        Reason::Success => Ok(Published::Confirmed),
        Reason::NoMatchingSubscribers => Ok(Published::Unread),
        Reason::NotAuthorized => refused(Refusal::NotAuthorized, reason),
        Reason::TopicNameInvalid => refused(Refusal::TopicNameInvalid, reason),
        Reason::PayloadFormatInvalid => refused(Refusal::PayloadFormatInvalid, reason),
        Reason::QuotaExceeded => refused(Refusal::QuotaExceeded, reason),
        Reason::PacketIdentifierInUse => refused(Refusal::PacketIdInUse, reason),
        Reason::ImplementationSpecificError => refused(Refusal::Implementation, reason),
        Reason::UnspecifiedError => refused(Refusal::Unspecified, reason),
    }
}

/// Why a server does not take a message (MQTT 5 section 3.4.2.1).
#[derive(Clone, Copy)]
enum Refusal {
    Unspecified,
    Implementation,
    NotAuthorized,
    TopicNameInvalid,
    PacketIdInUse,
    QuotaExceeded,
    PayloadFormatInvalid,
}

fn refused(refusal: Refusal, reason: Option<&str>) -> Answer {
    let (permanent, what) = match refusal {
        Refusal::NotAuthorized => (true, "the client may not publish there (0x87)"),
        Refusal::TopicNameInvalid => (true, "it does not take this topic (0x90)"),
        Refusal::PayloadFormatInvalid => (true, "the payload is not what it says (0x99)"),
        Refusal::QuotaExceeded => (false, "a limit of it is exceeded (0x97)"),
        Refusal::PacketIdInUse => (false, "it finds the packet id in use (0x91)"),
        Refusal::Implementation => (false, "for a reason of its own (0x83)"),
        Refusal::Unspecified => (false, "it does not say why (0x80)"),
    };
    let reason = format!("the server refused the message: {what}{}", said(reason));
    Err(if permanent {
        PublishError::permanent(reason)
    } else {
        PublishError::transient(reason)
    })
}

/// The server's own words, as far as they belong into an error.
fn said(reason: Option<&str>) -> String {
    reason
        .filter(|reason| !reason.is_empty())
        .map(|reason| format!("; it says \"{}\"", shown(reason)))
        .unwrap_or_default()
}

/// Foreign text, cut and without what would break a line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
