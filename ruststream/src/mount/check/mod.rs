//! Every cross-check of mount points: one file per family. Pure, and nothing is connected.

mod broker;
mod competition;
mod flow;
pub(crate) mod grammar;
mod handler;
mod loops;
mod packing;
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
    /// Add a problem. Of several with one key of one mount point the first says it.
    pub(crate) fn problem(&mut self, problem: Problem) {
        let is_known = problem.key().is_some()
            && self
                .problems
                .iter()
                .any(|known| known.key() == problem.key() && known.place() == problem.place());
        if !is_known {
            self.problems.push(problem);
        }
    }

    /// Whether there is a problem with `key` of `mount`.
    fn has(&self, key: &str, mount: &Bound) -> bool {
        let place = mount.draft.place();
        self.problems
            .iter()
            .any(|known| known.key() == Some(key) && known.place() == Some(&place))
    }

    fn warning(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }
}

/// Check all mount points that are to run together.
pub(crate) fn check(mounts: &[Bound], state: &StateMap, drain: Duration, findings: &mut Findings) {
    for mount in mounts {
        grammar::check(&mount.draft, &mount.said, mount.is_mqtt(), findings);
        handler::check(mount, state, findings);
        flow::check(mount, drain, findings);
        broker::check(mount, findings);
        // What follows from a broken address would be guessing.
        if !findings.has("address", mount) {
            loops::check(mount, mounts, findings);
        }
    }
    competition::check(mounts, findings);
    packing::check(mounts, findings);
}
