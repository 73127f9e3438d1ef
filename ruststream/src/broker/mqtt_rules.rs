//! What MQTT allows a subscription to say, wherever its rules hold.

use crate::broker::BrokerError;
use crate::broker::Subscription;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::settle::Settle;

/// # Errors
///
/// What it cannot say, with the cure.
pub(super) fn check(subscription: &Subscription) -> Result<(), BrokerError> {
    let address = &subscription.address;
    let refuse = |reason: String| Err(BrokerError::permanent(reason));
    match subscription.form {
        Form::Queue => {
            return refuse(format!(
                "MQTT has no queues: subscribe to `{address}` with `topic`, or `filter` and `mqtt(shared = …)`"
            ));
        }
        Form::Address | Form::Topic if address.contains(['+', '#']) => {
            return refuse(format!(
                "`{address}` has a wildcard, which only a `filter` may have"
            ));
        }
        _ => {}
    }
    check_options(subscription)
}

fn check_options(subscription: &Subscription) -> Result<(), BrokerError> {
    let options = options(subscription);
    let refuse = |reason: &str| Err(BrokerError::permanent(reason));
    if options.qos.is_some_and(|qos| qos > 2) {
        return refuse("a quality of service is 0, 1 or 2");
    }
    if options.retain_handling.is_some_and(|handling| handling > 2) {
        return refuse("retain handling is 0, 1 or 2");
    }
    if options.shared.is_some() && options.no_local == Some(true) {
        return refuse("a shared subscription cannot be `no_local` (MQTT 5 section 3.8.3.1)");
    }
    if options
        .shared
        .is_some_and(|group| group.is_empty() || group.contains(['/', '+', '#']))
    {
        return refuse("the name of a shared group must not be empty nor contain `/`, `+` or `#`");
    }
    Ok(())
}

/// The quality of service a subscription asks for; at-most-once is 0.
pub(super) fn qos(subscription: &Subscription) -> u8 {
    if subscription.settle == Settle::AtMostOnce {
        return 0;
    }
    options(subscription).qos.unwrap_or(1)
}

pub(super) fn options(subscription: &Subscription) -> MqttOptions {
    subscription.mqtt.unwrap_or_default()
}
