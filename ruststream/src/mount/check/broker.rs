//! Whether a broker can do what a policy asks of it.

use super::Findings;
use crate::mount::bind::Bound;
use crate::policy::Delay;

pub(super) fn check(mount: &Bound, findings: &mut Findings) {
    delay(mount, findings);
    let policy = &mount.point.policy;
    if let (Some(limit), Some(cap)) = (mount.point.capabilities.delivery_limit, policy.max_attempts)
        && limit < cap.get()
    {
        // Copies carry the attempts on, so nothing is lost (spec C26).
        findings.warning(
            mount
                .problem_with(
                    "max_attempts",
                    format!("the broker itself gives up after {limit} deliveries, before {cap} attempts are over"),
                )
                .cure("raise the queue's own limit; until then retries go by copy before it is reached"),
        );
    }
}

fn delay(mount: &Bound, findings: &mut Findings) {
    let capabilities = &mount.point.capabilities;
    let delay = mount.point.policy.delay;
    if capabilities.can_delay(delay) {
        if delay == Delay::Process && capabilities.keeps_rejected {
            findings.warning(
                mount
                    .problem_with(
                        "delay",
                        "the broker keeps rejected messages, so each delayed retry leaves a rejected original there",
                    )
                    .cure("`delay = hold` or `delay = journal` leave none"),
            );
        }
        return;
    }
    let (what, cure) = match delay {
        Delay::Journal => (
            "`delay = journal` is not in this build",
            "`delay = hold` survives a crash too",
        ),
        Delay::Hold => (
            "`delay = hold` needs deliveries that stay unsettled, but here they are settled on arrival",
            "use `delay = process`, or settle after handling (`settle = at_least_once`, a `qos` above 0)",
        ),
        Delay::Broker => (
            "`delay = broker`, but this broker cannot delay messages",
            "use `delay = process` or `delay = hold`",
        ),
        Delay::Process => return,
    };
    findings.problem(mount.problem_with("delay", what).cure(cure));
}
