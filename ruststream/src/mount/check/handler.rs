//! What a handler's arguments need: state, a batch or a message, a way for what cannot be decoded.

use super::Findings;
use crate::check::batch_argument;
use crate::check::no_batch_argument;
use crate::config::Origin;
use crate::mount::bind::Bound;
use crate::state::StateMap;

pub(super) fn check(mount: &Bound, state: &StateMap, findings: &mut Findings) {
    for (id, name) in &mount.requires.states {
        if !state.has(*id) {
            findings.problem(
                mount
                    .problem(format!(
                        "it takes `State<{name}>`, which the application does not have"
                    ))
                    .cure("provide it with `App::state`"),
            );
        }
    }
    batch(mount, findings);
    // The default for the undecodable is a drop, which nobody chose here (spec C8).
    let options = &mount.draft.registration.options;
    let said = options.on_decode.is_some() || mount.point.policy.dead_letter.is_some();
    let configured = mount.draft.origin("on_decode") != &Origin::Default;
    if mount.requires.decodes && !said && !configured {
        findings.warning(
            mount
                .problem("what cannot be decoded is dropped")
                .cure("declare `dead_letter`, or say so with `on_decode = drop`"),
        );
    }
}

fn batch(mount: &Bound, findings: &mut Findings) {
    let takes = mount.requires.batch;
    let fits = match mount.options().batch {
        Some(_) => batch_argument(takes),
        None => no_batch_argument(takes),
    };
    if let Err(rule) = fits {
        findings.problem(mount.problem_with("batch.size", rule.to_string()));
    }
    if mount.requires.batch {
        for name in &mount.requires.per_message {
            findings.problem(
                mount
                    .problem(format!(
                        "it takes a batch, and `{name}`, which belongs to a single message"
                    ))
                    .cure("take it from each item of the batch"),
            );
        }
    }
}
