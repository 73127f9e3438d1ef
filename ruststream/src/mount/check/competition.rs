//! Two handlers on one queue: each would get a part of its messages at random (spec C34).

use super::Findings;
use crate::mount::bind::Bound;

pub(super) fn check(mounts: &[Bound], findings: &mut Findings) {
    for (index, one) in mounts.iter().enumerate() {
        for other in mounts.iter().skip(index + 1) {
            if shares(one, other) && !one.options().competes && !other.options().competes {
                findings.problem(
                    one.problem(format!(
                        "{} reads the same queue, so each would get a part of its messages",
                        other.draft.place()
                    ))
                    .cure("give them addresses of their own, or declare `competes` on one"),
                );
            }
        }
    }
}

/// Whether each message goes to one of the two.
fn shares(one: &Bound, other: &Bound) -> bool {
    one.point.broker == other.point.broker
        && group(one) == group(other)
        && (group(one).is_some() || (is_queue(one) && is_queue(other)))
        && one.canonical() == other.canonical()
}

fn is_queue(mount: &Bound) -> bool {
    !mount.point.capabilities.fan_out
}

/// The shared group of an MQTT subscription, which splits messages as a queue does.
fn group(mount: &Bound) -> Option<&'static str> {
    mount.options().mqtt.and_then(|mqtt| mqtt.shared)
}
