//! Whose rules a subscription follows (spec C35), and what they allow.

use std::time::Duration;

use crate::broker::BrokerError;
use crate::broker::Capabilities;
use crate::broker::Returns;
use crate::broker::Subscription;
use crate::broker::mqtt_rules;
use crate::registration::Form;
use crate::registration::QueueType;
use crate::settle::Settle;

/// A protocol whose rules the embedded broker follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rules {
    /// AMQP 1.0.
    Amqp,
    /// MQTT 5.
    Mqtt,
    /// RabbitMQ, AMQP 0-9-1.
    Rabbitmq,
}

impl Rules {
    /// The rules of a subscription: forced by the broker's kind, or those of its form.
    pub(super) fn of(forced: Option<Self>, subscription: &Subscription) -> Self {
        forced.unwrap_or(
            if subscription.form == Form::Filter || subscription.mqtt.is_some() {
                Self::Mqtt
            } else if subscription.rabbitmq.is_some() {
                Self::Rabbitmq
            } else {
                Self::Amqp
            },
        )
    }

    /// The protocol's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Amqp => "AMQP",
            Self::Mqtt => "MQTT",
            Self::Rabbitmq => "RabbitMQ",
        }
    }
}

/// How the broker counts deliveries under AMQP's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counting {
    /// From the first return on, or from the start when the publisher asked for a header section.
    #[default]
    Plain,
    /// With a header section on everything, as RabbitMQ 4 does.
    Always,
    /// A count of 0 on everything, for ever: RabbitMQ 4 classic queues (spec C22).
    Never,
}

/// What the embedded broker can do for a subscription.
pub(super) fn capabilities(
    forced: Option<Rules>,
    counting: Counting,
    keeps_rejected: bool,
    subscription: &Subscription,
) -> Result<Capabilities, BrokerError> {
    let rules = Rules::of(forced, subscription);
    check(rules, subscription)?;
    let at_most_once = subscription.settle == Settle::AtMostOnce;
    let topic = subscription.form == Form::Topic;
    Ok(match rules {
        Rules::Amqp => Capabilities {
            returns: match counting {
                Counting::Never => Returns::Uncounted,
                Counting::Plain | Counting::Always => Returns::Counted,
            },
            rejects: true,
            releases: true,
            delivery_limit: None,
            settled: at_most_once,
            delays: false,
            keeps_rejected,
            fan_out: topic,
        },
        Rules::Mqtt => {
            let options = mqtt_rules::options(subscription);
            Capabilities {
                returns: Returns::OnResume,
                rejects: false,
                releases: false,
                delivery_limit: None,
                settled: mqtt_rules::qos(subscription) == 0,
                delays: false,
                keeps_rejected: false,
                fan_out: options.shared.is_none(),
            }
        }
        Rules::Rabbitmq => {
            let limit = quorum_limit(subscription);
            Capabilities {
                returns: match limit {
                    Some(_) => Returns::Counted,
                    None => Returns::Uncounted,
                },
                rejects: true,
                releases: false,
                delivery_limit: limit,
                settled: at_most_once,
                delays: false,
                keeps_rejected,
                fan_out: topic,
            }
        }
    })
}

/// The delivery limit of a subscription's quorum queue, or `None` for a classic queue.
pub(super) fn quorum_limit(subscription: &Subscription) -> Option<u32> {
    let options = subscription.rabbitmq.unwrap_or_default();
    match options.queue_type {
        Some(QueueType::Classic) => None,
        _ => Some(options.delivery_limit.unwrap_or(DELIVERY_LIMIT)),
    }
}

fn check(rules: Rules, subscription: &Subscription) -> Result<(), BrokerError> {
    let address = &subscription.address;
    let refuse = |reason: String| Err(BrokerError::permanent(reason));
    if address.is_empty() {
        return refuse("an address must not be empty".to_owned());
    }
    if subscription.window == 0 {
        return refuse("a window of 0 receives nothing, set `prefetch` to 1 or more".to_owned());
    }
    if rules != Rules::Mqtt && subscription.form == Form::Filter {
        return refuse(format!(
            "`{address}` is a filter, which only MQTT has; this broker follows the rules of {}",
            rules.name()
        ));
    }
    if rules == Rules::Mqtt {
        mqtt_rules::check(subscription)?;
    }
    if rules == Rules::Rabbitmq
        && subscription.rabbitmq.and_then(|options| options.queue_type) == Some(QueueType::Stream)
    {
        return refuse(
            "the embedded broker has no streams, use a quorum or a classic queue".to_owned(),
        );
    }
    Ok(())
}

/// How long a session is kept without a connection, from its option: for ever by default.
pub(super) fn session_expiry(subscription: &Subscription) -> Option<Duration> {
    subscription.mqtt.and_then(|options| options.session_expiry)
}

/// RabbitMQ's default: a message is delivered 21 times.
pub(super) const DELIVERY_LIMIT: u32 = 20;
