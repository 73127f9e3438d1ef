//! Finds the known name that an unknown one was meant to be.

/// The known name closest to `unknown`, if at most a third of it differs.
pub(crate) fn nearest<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let limit = (unknown.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&unknown, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// What to do about an unknown name: the one that was meant, or all there are.
pub(crate) fn cure<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("known: `{}`", known.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_offered_and_a_stranger_gets_the_list() {
        let known = ["max_attempts", "prefetch"];
        assert_eq!(cure("max_attemps", known), "did you mean `max_attempts`?");
        assert_eq!(cure("colour", known), "known: `max_attempts`, `prefetch`");
        assert_eq!(cure("colour", []), "there is none");
    }
}
