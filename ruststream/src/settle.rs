//! The right to settle a delivery, and what can go wrong with it.

/// When a delivery is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// After the handler said what should become of it. The default.
    #[default]
    AtLeastOnce,
    /// When it arrives: a crash loses it (AMQP 1.0 settled sends, 0-9-1 automatic acknowledgement).
    AtMostOnce,
}

/// Why a settlement was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AckError {
    /// The protocol has no way to say it: the delivery was settled on arrival (at-most-once, QoS 0),
    /// or `retry` on MQTT with nothing declared (spec M16).
    #[error("the protocol cannot express this for the delivery")]
    Unsupported,
    /// The delivery came over an earlier connection; the broker delivers it again (spec C13).
    #[error("the delivery belongs to an earlier connection; the broker delivers it again")]
    Stale,
    /// The mount point has stopped; the broker delivers the message again.
    #[error("the mount point has stopped; the broker delivers the message again")]
    Closed,
    /// The broker refused, or the connection broke on the way.
    #[error("the broker did not take the settlement")]
    Refused,
}

/// The right to settle one delivery: moved, never copied, and bound to the connection it came over.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// The connection or link the delivery came over.
    pub epoch: u32,
    /// What the driver knows the delivery by, within the epoch.
    pub key: u64,
}

/// What is said to the broker about one delivery. A driver puts it into its protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Handled, or safely copied: forget it (AMQP 1.0 accepted, PUBACK / PUBREC, `basic.ack`).
    Accept,
    /// Not handled, will not be: the broker's own policy decides (AMQP 1.0 rejected, `basic.reject`
    /// without requeue; on MQTT the same acknowledgement as [`Accept`](Disposition::Accept)).
    Reject,
    /// A failed attempt: deliver it again (AMQP 1.0 modified with delivery-failed, `basic.reject`
    /// with requeue). Never asked of a protocol that cannot (MQTT).
    Return,
    /// Never started: give it back without counting it (AMQP 1.0 released). Only at a stop.
    Release,
}
