//! The rules of a declaration, asked again of the effective values: the very functions that run when
//! the attribute is compiled.

use super::Findings;
use crate::check::Declared;
use crate::check::name;
use crate::config::key::KEYS;
use crate::config::key::Overlay;
use crate::error::Problem;
use crate::mount::draft::Draft;

/// Check what was `said` of `draft`, without defaults.
pub(crate) fn check(draft: &Draft, said: &Overlay, is_mqtt: bool, findings: &mut Findings) {
    let form = draft.registration.form;
    let declared = Declared::of(form, draft.address(), is_mqtt, &said.options);
    for problem in declared.problems() {
        let key = full(problem.key());
        findings.problem(
            Problem::new(problem.to_string())
                .at(draft.place())
                .key_is(key)
                .from(draft.origin(key)),
        );
    }
    if let Err(problem) = name("name", &draft.name) {
        findings.problem(Problem::new(problem.to_string()).at(draft.place()));
    }
}

/// The key as configuration has it: with its group, and one for every form of the address.
fn full(key: &'static str) -> &'static str {
    let is_it =
        |known: &&str| *known == key || known.split_once('.').is_some_and(|(_, name)| name == key);
    KEYS.iter()
        .map(|key| key.name)
        .find(is_it)
        .unwrap_or("address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_groups_and_forms_are_found() {
        let rows = [
            ("filter", "address"),
            ("queue", "address"),
            ("size", "batch.size"),
            ("qos", "mqtt.qos"),
            ("shared", "mqtt.shared"),
            ("dead_letter", "dead_letter"),
        ];
        for (key, expected) in rows {
            assert_eq!(full(key), expected);
        }
    }
}
