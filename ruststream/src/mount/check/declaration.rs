//! The rules that the attribute is held against while it is compiled, on the effective values.

use super::Findings;
use crate::check::problems;
use crate::mount::bind::Bound;
use crate::registration::Form;

pub(super) fn check(mount: &Bound, findings: &mut Findings) {
    let point = &mount.point;
    let options = mount.options();
    let is_mqtt = point.form == Form::Filter || options.mqtt.is_some() || point.system == "mqtt";
    for problem in problems(point.form, mount.draft.address(), is_mqtt, options) {
        findings.problem(mount.problem_with(problem.key(), problem.to_string()));
    }
}
