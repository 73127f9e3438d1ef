//! What is said at start: one line per mount point, and what should be known.

use super::plan::Plan;
use crate::config::Origin;
use crate::mount::Guarantee;
use crate::mount::bind::Bound;

/// Say what is about to run.
pub(super) fn announce(plan: &Plan) {
    tracing::info!(
        ruststream.app = &*plan.app,
        ruststream.handlers = plan.mounts.len(),
        "starting"
    );
    for mount in &plan.mounts {
        mounted(mount);
    }
    for warning in &plan.warnings {
        let handler = warning.place().map(|place| place.mount.as_str());
        tracing::warn!(ruststream.handler = handler, problem = %warning, "check this");
    }
}

fn mounted(mount: &Bound) {
    let point = &mount.point;
    let guarantee = Guarantee::of(point);
    let value = |key: &str| {
        mount
            .draft
            .entries()
            .find(|(known, ..)| *known == key)
            .map(|(_, value, origin)| match origin {
                Origin::Implied(why) => format!("{value} ({why})"),
                _ => value,
            })
    };
    tracing::info!(
        messaging.system = point.system,
        messaging.destination.name = &*point.address,
        ruststream.handler = &*point.name,
        ruststream.broker = &*point.broker,
        ruststream.max_attempts = value("max_attempts").unwrap_or_else(|| "none".to_owned()),
        ruststream.dead_letter = point.policy.dead_letter.as_deref(),
        ruststream.delay = value("delay"),
        ruststream.deliveries_in_a_crash = guarantee.deliveries.as_str(),
        ruststream.waiting_copies_in_a_crash = guarantee.waiting_copies.as_str(),
        "mounted"
    );
}
