//! Messages to and from PUBLISH packets.
//!
//! Everything that a PUBLISH can say has a place in [`Message`], so a copy is built from the common
//! view and loses nothing (spec C11); only what is counted down is kept beside it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Publish;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use tokio::time::Instant;

use super::wire::LONGEST;
use crate::address;
use crate::broker::PublishError;
use crate::headers::HeaderValue;
use crate::headers::names;
use crate::message::Copy;
use crate::message::CopyKind;
use crate::message::Message;
use crate::message::Native;

/// What a copy needs of its original beyond the common view. Kept for few: those with an expiry,
/// which is counted down, and those at quality of service 2.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    qos: QoS,
    expires_at: Option<Instant>,
}

/// The common view of a PUBLISH whose topic is `topic`. `now` is asked only when it matters.
pub(super) fn native(
    topic: ByteString,
    publish: Publish,
    now: impl FnOnce() -> Instant,
) -> Arc<Native> {
    let Publish {
        qos,
        payload,
        properties,
        ..
    } = publish;
    let mut message = Message::new(payload);
    let mut expires_at = None;
    if let Some(properties) = properties {
        let seconds = properties.message_expiry_interval;
        message = with_properties(message, properties);
        expires_at = seconds
            .map(|seconds| Duration::from_secs(seconds.into()))
            .and_then(|expiry| now().checked_add(expiry));
    }
    let native = Native::new(topic, message);
    let native = if expires_at.is_some() || qos == QoS::ExactlyOnce {
        native.with_source(Arrived { qos, expires_at })
    } else {
        native
    };
    Arc::new(native)
}

fn with_properties(mut message: Message, properties: PublishProperties) -> Message {
    if properties.payload_format_indicator == Some(1) {
        message = message.marked_as_text();
    }
    if let Some(seconds) = properties.message_expiry_interval {
        message = message.with_time_to_live(Duration::from_secs(seconds.into()));
    }
    if let Some(topic) = properties.response_topic {
        message = message.with_reply_to(topic);
    }
    if let Some(data) = properties.correlation_data {
        message = message.with_correlation_id(data);
    }
    if let Some(kind) = properties.content_type {
        message = message.with_content_type(kind);
    }
    let headers = message.headers_mut();
    for (name, value) in properties.user_properties {
        headers.append(name, value);
    }
    message
}

/// A message to be published to `to`, without a packet id.
///
/// # Errors
///
/// Permanent: MQTT cannot say it.
pub(super) fn publish(to: &str, message: Message, qos: QoS) -> Result<Publish, PublishError> {
    address::topic(to).map_err(|error| {
        PublishError::permanent(format!("`{to}` is no topic to publish to: {error}"))
    })?;
    let retain = message.is_retained();
    let payload = message.payload().clone();
    let properties = properties(&message)?;
    if payload.len() > LONGEST as usize {
        return Err(PublishError::permanent(format!(
            "a payload of {} bytes is longer than any MQTT packet",
            payload.len()
        )));
    }
    Ok(Publish {
        dup: false,
        qos,
        retain,
        topic: Bytes::copy_from_slice(to.as_bytes()),
        pkid: 0,
        payload,
        properties,
    })
}

/// A copy, as [`publish`]. It goes at the quality of service of its original, 1 at least: only
/// that is confirmed (spec C18).
///
/// # Errors
///
/// As [`publish`].
pub(super) fn copy(copy: &Copy, now: Instant) -> Result<Publish, PublishError> {
    let arrived = copy.original.source::<Arrived>().copied();
    let mut message = copy.message();
    let expires_at = arrived.and_then(|arrived| arrived.expires_at);
    if let Some(at) = expires_at.filter(|_| copy.kind == CopyKind::Retry) {
        // What is over is published all the same: it is the server that drops what has expired.
        message = message.with_time_to_live(at.saturating_duration_since(now));
    }
    let qos = match arrived.map(|arrived| arrived.qos) {
        Some(QoS::ExactlyOnce) => QoS::ExactlyOnce,
        _ => QoS::AtLeastOnce,
    };
    publish(&copy.to, message, qos)
}

fn properties(message: &Message) -> Result<Option<PublishProperties>, PublishError> {
    let mut properties = PublishProperties {
        content_type: short("content type", message.content_type())?,
        response_topic: short("reply address", message.reply_to())?,
        correlation_data: message.correlation_id().cloned(),
        // Less than a second is one: an expiry of 0 would be over at once.
        message_expiry_interval: message.time_to_live().map(|time| {
            let seconds = time
                .as_secs()
                .saturating_add(u64::from(time.subsec_nanos() > 0));
            u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
        }),
        payload_format_indicator: message.is_text().then_some(1),
        ..PublishProperties::default()
    };
    if let Some(topic) = message.reply_to() {
        address::topic(topic).map_err(|error| {
            PublishError::permanent(format!("`{topic}` is no topic to answer to: {error}"))
        })?;
    }
    if let Some(data) = message.correlation_id().filter(|data| data.len() > SHORT) {
        return Err(too_long("correlation id", data.len()));
    }
    let mut has_id = false;
    for (name, value) in message.headers() {
        let text = text(name, value)?;
        has_id |= name == names::ID;
        if name.len() > SHORT || text.len() > SHORT {
            return Err(too_long(
                &format!("header `{}`", shown(name)),
                name.len().max(text.len()),
            ));
        }
        if name.contains('\0') || text.contains('\0') {
            return Err(nul(&format!("header `{}`", shown(name))));
        }
        properties.user_properties.push((name.to_string(), text));
    }
    // MQTT has no id of its own.
    if let Some(id) = message.id().filter(|_| !has_id) {
        let id = short("id", Some(id))?.unwrap_or_default();
        properties.user_properties.push((names::ID.to_owned(), id));
    }
    Ok((properties != PublishProperties::default()).then_some(properties))
}

/// A header's value as text, which is all that a user property can be.
fn text(name: &str, value: &HeaderValue) -> Result<String, PublishError> {
    Ok(match value {
        HeaderValue::Text(text) => text.to_string(),
        HeaderValue::Null => String::new(),
        HeaderValue::Bool(value) => value.to_string(),
        HeaderValue::Int(value) | HeaderValue::Timestamp(value) => value.to_string(),
        HeaderValue::UInt(value) => value.to_string(),
        HeaderValue::Float(value) => value.to_string(),
        HeaderValue::Binary(_) | HeaderValue::List(_) | HeaderValue::Map(_) => {
            return Err(PublishError::permanent(format!(
                "header `{}` is no text and no number, which is all that an MQTT user property can be",
                shown(name)
            )));
        }
    })
}

/// A string of the protocol: at most 65,535 bytes and without NUL (MQTT 5 section 1.5.4).
fn short(what: &str, text: Option<&str>) -> Result<Option<String>, PublishError> {
    match text {
        Some(text) if text.len() > SHORT => Err(too_long(what, text.len())),
        Some(text) if text.contains('\0') => Err(nul(what)),
        text => Ok(text.map(str::to_owned)),
    }
}

fn too_long(what: &str, length: usize) -> PublishError {
    PublishError::permanent(format!(
        "the {what} is {length} bytes long, MQTT allows {SHORT}"
    ))
}

fn nul(what: &str) -> PublishError {
    PublishError::permanent(format!(
        "the {what} has a NUL character in it, which MQTT forbids"
    ))
}

/// A name, as far as it belongs into an error.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

/// The longest string or binary field, in bytes.
const SHORT: usize = 65_535;
