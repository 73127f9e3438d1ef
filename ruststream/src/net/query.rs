//! The parameters of a URL, taken by name and type. Every problem is reported at once, by
//! [`Query::finish`], and no value is ever shown.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::broker::BrokerError;
use crate::config::nearest::cure;
use crate::duration;

/// What was not yet taken. A driver takes what it knows and calls [`finish`](Query::finish).
#[must_use = "`finish` says what is wrong with the parameters"]
#[derive(Clone)]
pub(crate) struct Query {
    location: String,
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl Query {
    pub(super) fn new(location: String, pairs: Vec<(String, String)>) -> Self {
        Self {
            location,
            pairs,
            known: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Take a text.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let (mine, rest) = std::mem::take(&mut self.pairs)
            .into_iter()
            .partition::<Vec<_>, _>(|(other, _)| other == name);
        self.pairs = rest;
        if mine.len() > 1 {
            self.problem(name, "is given twice");
        }
        mine.into_iter().next().map(|(_, value)| value)
    }

    /// Take a text that is not empty.
    pub(crate) fn filled(&mut self, name: &'static str) -> Option<String> {
        let text = self.text(name)?;
        if text.is_empty() {
            self.problem(name, "is empty");
            return None;
        }
        Some(text)
    }

    /// Take a duration, as in `30s`.
    pub(crate) fn duration(&mut self, name: &'static str) -> Option<Duration> {
        let text = self.text(name)?;
        match duration::parse(&text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.problem(name, error.as_str());
                None
            }
        }
    }

    /// Take `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let text = self.text(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.problem(name, "is `true` or `false`");
        }
        value
    }

    /// Take an integer of `range`.
    pub(crate) fn integer<N>(&mut self, name: &'static str, range: RangeInclusive<N>) -> Option<N>
    where
        N: FromStr + PartialOrd + Display,
    {
        let text = self.text(name)?;
        match text.parse() {
            Ok(value) if range.contains(&value) => Some(value),
            _ => {
                let (low, high) = (range.start(), range.end());
                self.problem(name, format_args!("is a whole number from {low} to {high}"));
                None
            }
        }
    }

    /// Note what is wrong with the parameter `name`; `problem` follows its name and shows no value.
    pub(crate) fn problem(&mut self, name: &str, problem: impl Display) {
        self.problems.push(format!("`{name}` {problem}"));
    }

    /// End taking: what is left is unknown.
    ///
    /// # Errors
    ///
    /// Every problem that was found on the way.
    pub(crate) fn finish(mut self) -> Result<(), BrokerError> {
        for (name, _) in std::mem::take(&mut self.pairs) {
            // Anything else may be a piece of a password that was not encoded.
            let is_name =
                name.len() <= 40 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let name = if is_name { name } else { "…".to_owned() };
            let cure = cure(&name, self.known.iter().copied());
            let known = self.known.join("`, `");
            self.problem(
                &name,
                if cure.starts_with("did") {
                    format!("is unknown, {cure} (known: `{known}`)")
                } else {
                    format!("is unknown, {cure}")
                },
            );
        }
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(BrokerError::permanent(format!(
            "the parameters of `{}` are wrong: {}",
            self.location,
            self.problems.join("; ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_by_type() {
        let mut query = query(&[
            ("keep_alive", "30s"),
            ("clean", "true"),
            ("window", "7"),
            ("id", ""),
        ]);
        assert_eq!(query.duration("keep_alive"), Some(Duration::from_secs(30)));
        assert_eq!(query.boolean("clean"), Some(true));
        assert_eq!(query.integer("window", 1..=10_u16), Some(7));
        assert_eq!(query.text("id").as_deref(), Some(""));
        assert_eq!(query.text("other"), None);
        query.finish().expect("nothing is wrong");
    }

    #[test]
    fn every_problem_is_reported_at_once_and_no_value_is_shown() {
        let mut query = query(&[
            ("keep_alive", "98765"),
            ("clean", "maybe"),
            ("window", "70000"),
            ("ca", ""),
            ("id", "one"),
            ("id", "two"),
            ("keep_alife", "98765"),
            ("Se-cret", "98765"),
        ]);
        query.duration("keep_alive");
        query.boolean("clean");
        query.integer("window", 1..=65_535_u32);
        query.filled("ca");
        query.text("id");
        let error = query.finish().expect_err("much is wrong");
        assert!(!error.is_transient());
        let error = error.to_string();
        for part in [
            "`mqtt://localhost:1883`",
            "`keep_alive` has a number without a unit",
            "`clean` is `true` or `false`",
            "`window` is a whole number from 1 to 65535",
            "`ca` is empty",
            "`id` is given twice",
            "`keep_alife` is unknown, did you mean `keep_alive`? (known: `keep_alive`, `clean`, `window`, `ca`, `id`)",
            "`…` is unknown, known: `keep_alive`",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        for value in ["98765", "maybe", "70000", "one", "two", "Se-cret"] {
            assert!(!error.contains(value), "{value}: {error}");
        }
    }

    fn query(pairs: &[(&str, &str)]) -> Query {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Query::new(
            "mqtt://localhost:1883".to_owned(),
            pairs.iter().map(own).collect(),
        )
    }
}
