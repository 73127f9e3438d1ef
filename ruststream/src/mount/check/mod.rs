//! Every cross-check of mount points: one file per family. Pure, and nothing is connected.

mod broker;
mod competition;
mod flow;
mod handler;
mod loops;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error::Problem;
use crate::mount::bind::Bound;
use crate::state::StateMap;

/// What the checks found: what must be mended, and what must be known.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn warning(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }
}

/// Check all mount points that are to run together.
pub(crate) fn check(mounts: &[Bound], state: &StateMap, drain: Duration, findings: &mut Findings) {
    for mount in mounts {
        handler::check(mount, state, findings);
        flow::check(mount, drain, findings);
        broker::check(mount, findings);
        loops::check(mount, mounts, findings);
    }
    competition::check(mounts, findings);
}
