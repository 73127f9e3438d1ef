//! Whether a policy's numbers fit together: window, slots, batch, timeouts.

use std::time::Duration;

use super::Findings;
use crate::config::kind::show_period;
use crate::mount::bind::Bound;
use crate::policy::Delay;
use crate::settle::Settle;

pub(super) fn check(mount: &Bound, drain: Duration, findings: &mut Findings) {
    let policy = &mount.point.policy;
    window(mount, findings);
    if policy.workers > policy.concurrency {
        findings.problem(
            mount
                .problem_with(
                    "workers",
                    format!(
                        "`workers` is {}, but only {} handlers run at once",
                        policy.workers, policy.concurrency
                    ),
                )
                .cure("`concurrency` must be at least `workers`"),
        );
    }
    if let Some(timeout) = policy.timeout
        && timeout > drain
    {
        findings.warning(
            mount
                .problem_with(
                    "timeout",
                    format!(
                        "a handler may run for {}, but a stop waits only {}",
                        show_period(&timeout),
                        show_period(&drain)
                    ),
                )
                .cure(
                    "a longer `drain` lets it finish; else the broker delivers the message again",
                ),
        );
    }
}

fn window(mount: &Bound, findings: &mut Findings) {
    let policy = &mount.point.policy;
    let window = policy.prefetch;
    if policy.delay == Delay::Hold && window < 2 {
        findings.problem(
            mount
                .problem_with(
                    "prefetch",
                    "`delay = hold` holds half the window, and half of 1 is none",
                )
                .cure("declare `prefetch = 2` or more"),
        );
    }
    if let Some(batch) = policy.batch
        && batch.size > window
    {
        findings.problem(
            mount
                .problem_with(
                    "prefetch",
                    format!(
                        "a batch of {} never fills within a window of {window}",
                        batch.size
                    ),
                )
                .cure("`prefetch` must be at least `batch.size`"),
        );
    }
    if window < policy.concurrency && policy.settle == Settle::AtLeastOnce {
        findings.warning(
            mount
                .problem_with(
                    "prefetch",
                    format!(
                        "a window of {window} keeps {} handlers from ever running at once",
                        policy.concurrency
                    ),
                )
                .cure("`prefetch` should be at least `concurrency`"),
        );
    }
}
