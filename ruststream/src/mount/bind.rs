//! Binds a mount point in the making to its broker: defaults, policy, subscription, capabilities.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;

use super::MountPoint;
use super::Policy;
use super::RetryTo;
use super::draft::Draft;
use crate::broker::Broker;
use crate::broker::Returns;
use crate::broker::Subscription;
use crate::config::Origin;
use crate::config::key::Overlay;
use crate::error::Problem;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::Form;
use crate::registration::Options;
use crate::registration::Requirements;
use crate::registration::Unread;
use crate::settle::Settle;

/// A mount point with its broker, ready to subscribe once the cross-checks pass.
pub(crate) struct Bound {
    pub(crate) draft: Draft,
    /// The values as they were said, without defaults.
    pub(crate) said: Overlay,
    pub(crate) point: Arc<MountPoint>,
    pub(crate) subscription: Subscription,
    pub(crate) requires: Requirements,
    pub(crate) broker: Arc<dyn Broker>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("point", &self.point)
            .finish_non_exhaustive()
    }
}

impl Bound {
    /// The effective options.
    pub(crate) fn options(&self) -> &Options {
        &self.draft.values.options
    }

    /// Whether MQTT's grammar holds for its addresses.
    pub(crate) fn is_mqtt(&self) -> bool {
        is_mqtt(self.point.system, self.point.form, self.options())
            || self.point.capabilities.returns == Returns::OnResume
    }

    /// The place of its address, in the form in which two names of one place are equal.
    pub(crate) fn canonical(&self) -> String {
        self.broker.canonical(self.point.form, &self.point.address)
    }

    /// A problem of this mount point.
    pub(crate) fn problem(&self, what: impl Into<String>) -> Problem {
        Problem::new(what).at(self.draft.place())
    }

    /// A problem of this mount point with the value of `key`.
    pub(crate) fn problem_with(&self, key: &'static str, what: impl Into<String>) -> Problem {
        self.problem(what).key_is(key).from(self.draft.origin(key))
    }
}

/// Whether MQTT's grammar holds, as far as it is known before a broker is asked. The embedded broker
/// follows the form (spec C35).
pub(crate) fn is_mqtt(system: &str, form: Form, options: &Options) -> bool {
    match system {
        "amqp" | "rabbitmq" => form == Form::Filter,
        "mqtt" => true,
        _ => form == Form::Filter || options.mqtt.is_some(),
    }
}

/// The smallest default window; enough that a round trip to the broker costs little.
const WINDOW: u32 = 64;

/// Bind `draft` to `broker`.
pub(crate) fn bind(
    app: &ByteString,
    mut draft: Draft,
    broker: &Arc<dyn Broker>,
) -> Result<Bound, Problem> {
    let said = draft.values;
    fill_defaults(&mut draft);
    let policy = policy(&draft.values.options);
    let subscription = Subscription {
        app: app.clone(),
        mount: draft.name.clone(),
        form: draft.registration.form,
        address: ByteString::from_static(draft.address()),
        window: policy.prefetch,
        settle: policy.settle,
        amqp: draft.values.options.amqp,
        mqtt: draft.values.options.mqtt,
        rabbitmq: draft.values.options.rabbitmq,
    };
    let capabilities = broker
        .capabilities(&subscription)
        .map_err(|error| Problem::new(error.reason).at(draft.place()))?;
    let mut requires = Requirements::default();
    (draft.registration.requires)(&mut requires);
    Ok(Bound {
        point: Arc::new(MountPoint {
            name: draft.name.clone(),
            registration: draft.registration,
            broker: ByteString::from_static(draft.broker()),
            system: broker.system(),
            form: draft.registration.form,
            address: subscription.address.clone(),
            policy,
            capabilities,
        }),
        draft,
        said,
        subscription,
        requires,
        broker: Arc::clone(broker),
    })
}

/// Give every key that has a default its value.
fn fill_defaults(draft: &mut Draft) {
    let declared = draft.values.options;
    if declared.dead_letter.is_some() {
        let implied = Options {
            max_attempts: Some(1),
            ..Options::NONE
        };
        let why = Origin::Implied("a dead letter without a cap is a cap of 1");
        draft.fill(&overlay(&implied), &why);
    }
    let concurrency = declared.concurrency.or(declared.workers).unwrap_or(1);
    let batch = declared.batch.map_or(1, |batch| batch.size);
    let defaults = Options {
        dead_letter_headers: declared.dead_letter.map(|_| true),
        on_error: Some(OnFailure::Retry),
        on_panic: Some(OnFailure::Retry),
        on_timeout: Some(OnFailure::Retry),
        on_decode: Some(match declared.dead_letter {
            Some(_) => OnDecode::DeadLetter,
            None => OnDecode::Drop,
        }),
        delay: Some(Delay::Process),
        settle: Some(Settle::AtLeastOnce),
        concurrency: Some(concurrency),
        workers: Some(1),
        prefetch: Some(
            WINDOW
                .max(concurrency.saturating_mul(2))
                .max(batch.saturating_mul(2)),
        ),
        ..Options::NONE
    };
    draft.fill(&overlay(&defaults), &Origin::Default);
}

fn overlay(options: &Options) -> Overlay {
    Overlay {
        options: *options,
        ..Overlay::NONE
    }
}

/// The policy that effective options with their defaults say.
fn policy(options: &Options) -> Policy {
    let text = |text: &'static str| ByteString::from_static(text);
    let retry_to = match (options.retry_topic, options.retry_topic_with) {
        (Some(topic), _) => RetryTo::Topic(text(topic)),
        (None, Some(with)) => RetryTo::With(with),
        (None, None) => RetryTo::Own,
    };
    Policy {
        max_attempts: options.max_attempts.and_then(NonZeroU32::new),
        dead_letter: options.dead_letter.map(text),
        retry_to,
        dead_letter_headers: options.dead_letter_headers.unwrap_or(true),
        backoff: options.backoff,
        on_error: options.on_error.unwrap_or(OnFailure::Retry),
        on_panic: options.on_panic.unwrap_or(OnFailure::Retry),
        on_timeout: options.on_timeout.unwrap_or(OnFailure::Retry),
        on_decode: options.on_decode.unwrap_or(OnDecode::Drop),
        timeout: options.timeout.filter(|timeout| *timeout > Duration::ZERO),
        delay: options.delay.unwrap_or_default(),
        settle: options.settle.unwrap_or_default(),
        concurrency: options.concurrency.unwrap_or(1),
        workers: options.workers.unwrap_or(1),
        ordered_by: options.ordered_by,
        prefetch: options.prefetch.unwrap_or(WINDOW),
        batch: options.batch,
        reply_to: options.reply_to.map(text),
        replies: options.replies,
        retain_dead_letters: options.mqtt.and_then(|mqtt| mqtt.dead_letter_retain) == Some(true),
        keep_unread: options.mqtt.and_then(|mqtt| mqtt.dead_letter_unread) == Some(Unread::Keep),
    }
}
