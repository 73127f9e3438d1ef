//! A mount point: one handler, bound to one broker, with its effective policy.
//!
//! Use [`Mount`] to give one values of its own; the rest is what descriptions are made of.

pub(crate) mod bind;
pub(crate) mod check;
pub(crate) mod draft;
mod guarantee;
mod overrides;

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Duration;

use bytestring::ByteString;

pub use self::guarantee::Fate;
pub use self::guarantee::Guarantee;
pub use self::overrides::Mount;
use crate::broker::Capabilities;
use crate::delivery::Delivery;
use crate::policy::Backoff;
use crate::policy::BatchOptions;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::Form;
use crate::registration::Registration;
use crate::settle::Settle;

/// One handler bound to one broker: attribute, configuration and capabilities, cross-checked.
#[derive(Debug)]
pub(crate) struct MountPoint {
    /// Unique in the application; the handler's name by default.
    pub(crate) name: ByteString,
    pub(crate) registration: &'static Registration,
    /// The broker's name in the application.
    pub(crate) broker: ByteString,
    /// The broker's `messaging.system`.
    pub(crate) system: &'static str,
    pub(crate) form: Form,
    pub(crate) address: ByteString,
    pub(crate) policy: Policy,
    pub(crate) capabilities: Capabilities,
}

/// The effective policy of a mount point.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent declarations, none a state"
)]
pub(crate) struct Policy {
    /// As declared; a dead letter without a cap is a cap of 1 (spec A53), which is applied here already.
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) dead_letter: Option<ByteString>,
    pub(crate) retry_to: RetryTo,
    pub(crate) dead_letter_headers: bool,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) on_error: OnFailure,
    pub(crate) on_panic: OnFailure,
    pub(crate) on_timeout: OnFailure,
    pub(crate) on_decode: OnDecode,
    pub(crate) timeout: Option<Duration>,
    pub(crate) delay: Delay,
    pub(crate) settle: Settle,
    pub(crate) concurrency: u32,
    pub(crate) workers: u32,
    pub(crate) ordered_by: Option<fn(&Delivery) -> u64>,
    /// The window: the most unsettled deliveries (spec C15).
    pub(crate) prefetch: u32,
    pub(crate) batch: Option<BatchOptions>,
    pub(crate) reply_to: Option<ByteString>,
    /// The delivery's own reply address comes before `reply_to`.
    pub(crate) replies: bool,
    /// Keep the original when a dead letter is not read (MQTT, spec C25).
    pub(crate) keep_unread: bool,
    /// The broker keeps a dead letter for later subscribers (MQTT `retain`; spec C25).
    pub(crate) retain_dead_letters: bool,
}

/// Where retry copies go.
#[derive(Clone, Debug)]
pub(crate) enum RetryTo {
    /// To the mount point's own address (spec A48, M36).
    Own,
    /// To a declared topic.
    Topic(ByteString),
    /// To what a function says for each delivery (spec M39).
    With(fn(&Delivery) -> Cow<'_, str>),
}
