//! What a handler's arguments need: state, a batch or a message, a way for what cannot be decoded.

use super::Findings;
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
    let configured = mount.draft.origin("on_decode") != &crate::config::Origin::Default;
    if mount.requires.decodes && !said && !configured {
        findings.warning(
            mount
                .problem("what cannot be decoded is dropped")
                .cure("declare `dead_letter`, or say so with `on_decode = drop`"),
        );
    }
}

fn batch(mount: &Bound, findings: &mut Findings) {
    let declared = mount.options().batch.is_some();
    if mount.requires.batch && !declared {
        findings.problem(
            mount
                .problem("it takes a batch, but its attribute declares none")
                .cure("declare `batch(size = 64, wait = \"20ms\")`"),
        );
    }
    if !mount.requires.batch && declared {
        findings.problem(
            mount
                .problem_with(
                    "batch.size",
                    "a batch is declared, but it takes single messages",
                )
                .cure("take `Batch<T>`, or remove `batch`"),
        );
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
