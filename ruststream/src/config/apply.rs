//! Applies configuration to the mount points in the making, and says everything that is wrong in it.

use std::collections::BTreeMap;
use std::time::Duration;

use figment::value::Dict;
use figment::value::Value;

use super::Origin;
use super::key;
use super::key::KEYS;
use super::kind;
use super::layer::Layer;
use super::layer::TOP;
use super::nearest::cure;
use super::redact::redact;
use crate::error::Problem;
use crate::mount::draft::Draft;

/// What configuration says of the application as a whole.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) prefix: Option<(String, Origin)>,
    pub(crate) drain: Option<(Duration, Origin)>,
    pub(crate) brokers: BTreeMap<String, BrokerSettings>,
}

/// What configuration says of one broker. No `Debug`: the URL may hold a credential.
#[derive(Default)]
pub(crate) struct BrokerSettings {
    pub(crate) url: Option<(String, Origin)>,
    pub(crate) prefix: Option<(String, Origin)>,
}

/// The keys of a broker.
const BROKER: [&str; 2] = ["prefix", "url"];

/// Keys that mean something elsewhere, and what to do instead.
const ELSEWHERE: [(&str, &str); 7] = [
    (
        "name",
        "a mount point is renamed in the attribute or with `mount_with`",
    ),
    ("group", "groups are chosen with `App::group`"),
    ("queue", "the address is `address`, whatever its form"),
    ("topic", "the address is `address`, whatever its form"),
    ("filter", "the address is `address`, whatever its form"),
    (
        "retries",
        "`max_attempts` counts attempts, the first included",
    ),
    ("qos", "it stands in its group: `mqtt.qos`"),
];

/// Applies layers one after the other.
pub(crate) struct Apply<'a> {
    /// What runs.
    pub(crate) drafts: &'a mut [Draft],
    /// What is linked but does not run here: a shared file may speak of it, and is checked all the same.
    pub(crate) others: &'a mut [Draft],
    /// The brokers' names that the program knows.
    pub(crate) brokers: &'a [String],
    pub(crate) settings: Settings,
    pub(crate) problems: &'a mut Vec<Problem>,
}

impl Apply<'_> {
    /// Apply one layer over what is there.
    pub(crate) fn layer(&mut self, layer: &Layer) {
        for (name, value) in &layer.root {
            let path = [name.as_str()];
            let origin = layer.origin(&path);
            match name.as_str() {
                "prefix" => match (kind::TEXT.read)(value) {
                    Some(prefix) => self.settings.prefix = Some((prefix.to_owned(), origin)),
                    None => self.wrong(value, kind::TEXT.allowed, &origin),
                },
                "drain" => match (kind::WAIT.read)(value) {
                    Some(drain) => self.settings.drain = Some((drain, origin)),
                    None => self.wrong(value, kind::WAIT.allowed, &origin),
                },
                "brokers" => self.each(layer, "brokers", value, Self::broker),
                "handlers" => self.each(layer, "handlers", value, Self::handler),
                _ => self.unknown("key", name, TOP, &layer.origin_within(&path, value)),
            }
        }
    }

    /// Call `each` for every table in the table `value`.
    fn each(
        &mut self,
        layer: &Layer,
        section: &str,
        value: &Value,
        mut each: impl FnMut(&mut Self, &Layer, &str, &Dict),
    ) {
        let Value::Dict(_, named) = value else {
            return self.secret(A_TABLE, &layer.origin(&[section]));
        };
        for (name, value) in named {
            match value {
                Value::Dict(_, keys) => each(self, layer, name, keys),
                _ => self.secret(A_TABLE, &layer.origin(&[section, name])),
            }
        }
    }

    fn broker(&mut self, layer: &Layer, name: &str, keys: &Dict) {
        let known = self
            .brokers
            .iter()
            .chain(self.settings.brokers.keys())
            .find(|known| layer.names(name, known))
            .map_or_else(|| name.to_owned(), String::clone);
        for (key, value) in keys {
            let origin = layer.origin(&["brokers", name, key]);
            let text = (kind::TEXT.read)(value).map(ToOwned::to_owned);
            match (key.as_str(), text) {
                ("url", Some(url)) => {
                    self.settings.brokers.entry(known.clone()).or_default().url =
                        Some((url, origin));
                }
                ("prefix", Some(prefix)) => {
                    self.settings
                        .brokers
                        .entry(known.clone())
                        .or_default()
                        .prefix = Some((prefix, origin));
                }
                ("url" | "prefix", None) => self.secret(kind::TEXT.allowed, &origin),
                _ => self.unknown("key", key, BROKER, &origin),
            }
        }
    }

    fn handler(&mut self, layer: &Layer, name: &str, keys: &Dict) {
        let here = |draft: &&mut Draft| layer.names(name, &draft.name);
        let mut found: Vec<&mut Draft> = self.drafts.iter_mut().filter(here).collect();
        if found.is_empty() {
            found = self.others.iter_mut().filter(here).take(1).collect();
        }
        match found.as_mut_slice() {
            [draft] => {
                let mut walk = Walk {
                    layer,
                    handler: name,
                    draft,
                    problems: self.problems,
                };
                walk.keys(None, keys);
            }
            [] => {
                let known: Vec<&str> = self
                    .drafts
                    .iter()
                    .chain(self.others.iter())
                    .map(|draft| &*draft.name)
                    .collect();
                let problem = Problem::new(format!("there is no handler `{name}`"))
                    .cure(cure(name, known))
                    .from(&here_in(layer, name, keys));
                self.problems.push(problem);
            }
            several => {
                let names: Vec<&str> = several.iter().map(|draft| &*draft.name).collect();
                let problem = Problem::new(format!(
                    "`{name}` means several handlers: `{}`",
                    names.join("`, `")
                ))
                .cure("configure them in the file, where each has its own name")
                .from(&here_in(layer, name, keys));
                self.problems.push(problem);
            }
        }
    }

    fn unknown<'k>(
        &mut self,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
        origin: &Origin,
    ) {
        let problem = Problem::new(format!("there is no {what} `{name}`"))
            .cure(cure(name, known))
            .from(origin);
        self.problems.push(problem);
    }

    fn wrong(&mut self, value: &Value, allowed: &str, origin: &Origin) {
        self.problems.push(wrong(value, allowed, origin));
    }

    /// A wrong value near credentials: it is not repeated.
    fn secret(&mut self, allowed: &str, origin: &Origin) {
        self.problems
            .push(Problem::new(format!("expected {allowed}")).from(origin));
    }
}

/// Goes through the keys of one handler.
struct Walk<'a> {
    layer: &'a Layer,
    handler: &'a str,
    draft: &'a mut Draft,
    problems: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    fn keys(&mut self, group: Option<&str>, keys: &Dict) {
        for (key, value) in keys {
            let name = match group {
                Some(group) => format!("{group}.{key}"),
                None => key.clone(),
            };
            let mut path = vec!["handlers", self.handler];
            path.extend(group);
            path.push(key);
            let origin = self.layer.origin(&path);
            if let Some(at) = key::position(&name) {
                if let Err(allowed) = self.draft.set(at, value, origin.clone()) {
                    self.problems.push(wrong(value, allowed, &origin));
                }
            } else if group.is_none() && key::is_group(key) {
                match value {
                    Value::Dict(_, keys) => self.keys(Some(key), keys),
                    _ => self.problems.push(wrong(value, A_TABLE, &origin)),
                }
            } else {
                self.unknown(group, key, &origin);
            }
        }
    }

    fn unknown(&mut self, group: Option<&str>, name: &str, origin: &Origin) {
        let elsewhere = ELSEWHERE
            .iter()
            .find(|(key, _)| group.is_none() && *key == name)
            .map(|(_, cure)| (*cure).to_owned());
        let known = KEYS.iter().filter_map(|key| match group {
            None => Some(
                key.name
                    .split_once('.')
                    .map_or(key.name, |(group, _)| group),
            ),
            Some(group) => key.name.strip_prefix(group)?.strip_prefix('.'),
        });
        let mut known: Vec<&str> = known.collect();
        known.dedup();
        let problem = Problem::new(format!("there is no key `{name}`"))
            .cure(elsewhere.unwrap_or_else(|| cure(name, known)))
            .from(origin);
        self.problems.push(problem);
    }
}

/// Where the section of a handler stands.
fn here_in(layer: &Layer, handler: &str, keys: &Dict) -> Origin {
    layer.origin_within(&["handlers", handler], &Value::from(keys.clone()))
}

fn wrong(value: &Value, allowed: &str, origin: &Origin) -> Problem {
    let found = match value {
        Value::String(_, text) => format!("\"{}\"", redact(text)),
        Value::Char(_, character) => format!("\"{character}\""),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => number
            .to_i128()
            .map(|number| number.to_string())
            .or_else(|| number.to_f64().map(|number| number.to_string()))
            .unwrap_or_else(|| "a number".to_owned()),
        Value::Empty(..) => "nothing".to_owned(),
        Value::Dict(..) => "a table".to_owned(),
        Value::Array(..) => "a list".to_owned(),
    };
    Problem::new(format!("expected {allowed}, found {found}")).from(origin)
}

const A_TABLE: &str = "a table of keys";
