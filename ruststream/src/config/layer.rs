//! Reads one source of configuration into a tree of values that knows where each of them stands.

use std::path::PathBuf;

use figment::providers::Format;
use figment::providers::Toml;
use figment::value::Dict;
use figment::value::Value;

use super::Config;
use super::FileSource;
use super::Origin;
use super::VariableSource;
use super::nearest::nearest;
use crate::error::Problem;

/// One source of configuration, parsed but not understood.
#[derive(Debug)]
pub(crate) struct Layer {
    source: Source,
    pub(crate) root: Dict,
}

#[derive(Clone, Debug)]
enum Source {
    File(Option<PathBuf>),
    Variables,
}

/// What every variable of ours begins with.
const PREFIX: &str = "RUSTSTREAM_";
/// What parts a variable's name.
const SEPARATOR: &str = "__";
/// Variables that others of the framework's parts read.
const OTHERS: [&str; 2] = ["url", "macros_debug"];

/// The keys at the top.
pub(crate) const TOP: [&str; 4] = ["brokers", "drain", "handlers", "prefix"];

impl Layer {
    /// Where the value at `path` stands.
    pub(crate) fn origin(&self, path: &[&str]) -> Origin {
        match &self.source {
            Source::File(file) => Origin::File {
                path: file.clone(),
                key: path.join("."),
            },
            Source::Variables => Origin::Variable {
                name: format!("{PREFIX}{}", path.join(SEPARATOR).to_uppercase()),
            },
        }
    }

    /// Where the value at `path`, a table, has something: a variable names single values only.
    pub(crate) fn origin_within(&self, path: &[&str], value: &Value) -> Origin {
        match (&self.source, value) {
            (Source::Variables, Value::Dict(_, group)) => match group.iter().next() {
                Some((name, value)) => {
                    let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
                    self.origin_within(&path, value)
                }
                None => self.origin(path),
            },
            _ => self.origin(path),
        }
    }

    /// Whether `known` is what this source calls `name`: variables cannot spell every character.
    pub(crate) fn names(&self, name: &str, known: &str) -> bool {
        match self.source {
            Source::File(_) => name == known,
            Source::Variables => name == spelled(known),
        }
    }
}

/// `name` as a variable spells it, in lower case.
fn spelled(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_alphanumeric() {
            spelled.extend(character.to_lowercase());
        } else if !spelled.ends_with('_') {
            spelled.push('_');
        }
    }
    spelled
}

/// Every source, the stronger ones later.
pub(crate) fn read(config: &Config, problems: &mut Vec<Problem>) -> Vec<Layer> {
    let file = file(&config.file, problems);
    let variables = variables(&config.variables, problems);
    file.into_iter().chain(variables).collect()
}

fn file(source: &FileSource, problems: &mut Vec<Problem>) -> Option<Layer> {
    let (path, text) = match source {
        FileSource::None => return None,
        FileSource::Text(text) => (None, text.clone()),
        FileSource::IfPresent(path) | FileSource::Required(path) => {
            match std::fs::read_to_string(path) {
                Ok(text) => (Some(path.clone()), text),
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound
                        && matches!(source, FileSource::IfPresent(_)) =>
                {
                    return None;
                }
                Err(error) => {
                    let whole = Origin::File {
                        path: Some(path.clone()),
                        key: String::new(),
                    };
                    problems.push(
                        Problem::new(format!("the configuration file cannot be read: {error}"))
                            .from(&whole),
                    );
                    return None;
                }
            }
        }
    };
    let layer = |root| Layer {
        source: Source::File(path),
        root,
    };
    match Toml::from_str(&text) {
        Ok(root) => Some(layer(root)),
        Err(error) => {
            // The parser's own display repeats the line, which may hold a credential.
            let line = error
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(1, |before| before.matches('\n').count() + 1);
            let why = error.message().lines().collect::<Vec<_>>().join(", ");
            problems.push(
                Problem::new(format!("line {line} is not TOML: {why}"))
                    .from(&layer(Dict::new()).origin(&[])),
            );
            None
        }
    }
}

fn variables(source: &VariableSource, problems: &mut Vec<Problem>) -> Option<Layer> {
    let mut root = Dict::new();
    match source {
        VariableSource::None => return None,
        VariableSource::Given(given) => {
            for (name, value) in given {
                add(&mut root, name, value, problems);
            }
        }
        VariableSource::Process => {
            for (name, value) in std::env::vars_os() {
                let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                    continue;
                };
                match value.to_str() {
                    Some(value) => add(&mut root, name, value, problems),
                    None => problems.push(Problem::new("the value is not UTF-8").from(
                        &Origin::Variable {
                            name: name.to_owned(),
                        },
                    )),
                }
            }
        }
    }
    Some(Layer {
        source: Source::Variables,
        root,
    })
}

/// Hang one variable into the tree.
fn add(root: &mut Dict, name: &str, value: &str, problems: &mut Vec<Problem>) {
    let Some(path) = name.strip_prefix(PREFIX) else {
        return;
    };
    let path = path.to_lowercase();
    let first = path.split(SEPARATOR).next().unwrap_or_default();
    // Others set variables with our prefix as well, so only what is clearly meant for us is an error.
    let ours = TOP.contains(&first) || path.contains(SEPARATOR) || nearest(first, TOP).is_some();
    if OTHERS.contains(&path.as_str()) {
        return;
    }
    if let Some(meant) = slip(&path) {
        let origin = Origin::Variable {
            name: name.to_owned(),
        };
        problems.push(Problem::new("it means nothing").from(&origin).cure(meant));
        return;
    }
    if !ours {
        return;
    }
    if !hang(root, &path.split(SEPARATOR).collect::<Vec<_>>(), value) {
        problems.push(
            Problem::new("it is given both as a value and as a group of values").from(
                &Origin::Variable {
                    name: name.to_owned(),
                },
            ),
        );
    }
}

/// What a variable was meant to be that is nearly one of ours: ignored, it would run the application
/// with other values than its owner believes, or on the embedded broker.
fn slip(path: &str) -> Option<String> {
    let group = ["handlers_", "brokers_"]
        .into_iter()
        .find(|group| path.starts_with(group) && !path.contains(SEPARATOR));
    if let Some(group) = group {
        let group = group.trim_end_matches('_').to_uppercase();
        return Some(format!(
            "separate its parts by two underscores: `{PREFIX}{group}__<NAME>__<KEY>`"
        ));
    }
    (strsim::damerau_levenshtein(path, "url") == 1)
        .then(|| format!("write `{PREFIX}URL` to name the broker"))
}

fn hang(into: &mut Dict, path: &[&str], value: &str) -> bool {
    let Some((name, rest)) = path.split_first() else {
        return false;
    };
    if rest.is_empty() {
        return into
            .insert((*name).to_owned(), Value::from(value))
            .is_none();
    }
    let place = into
        .entry((*name).to_owned())
        .or_insert_with(|| Value::from(Dict::new()));
    match place {
        Value::Dict(_, group) => hang(group, rest, value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_variables(variables: &[(&str, &str)]) -> (Layer, Vec<Problem>) {
        let config = Config::none().with_variables(variables.iter().copied());
        let mut problems = Vec::new();
        let mut layers = read(&config, &mut problems);
        (layers.remove(0), problems)
    }

    #[test]
    fn variables_that_others_set_are_left_alone() {
        let (layer, problems) = read_variables(&[
            ("RUSTSTREAM_URL", "memory://"),
            ("RUSTSTREAM_PORT", "tcp://10.0.0.1:80"),
            ("RUSTSTREAM_SERVICE_HOST", "10.0.0.1"),
            ("PATH", "/bin"),
        ]);
        assert!(layer.root.is_empty() && problems.is_empty());
    }

    #[test]
    fn a_variable_that_is_nearly_ours_is_an_error_with_its_cure() {
        for (name, cure) in [
            ("RUSTSTREAM_HANDLERS_FULFIL_MAX_ATTEMPTS", "two underscores"),
            ("RUSTSTREAM_BROKERS_PLANT_URL", "two underscores"),
            ("RUSTSTREAM_UR", "`RUSTSTREAM_URL`"),
            ("RUSTSTREAM_URI", "`RUSTSTREAM_URL`"),
        ] {
            let (_, problems) = read_variables(&[(name, "3")]);
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), 1, "{name}: {told:?}");
            assert!(told[0].contains(name) && told[0].contains(cure), "{told:?}");
        }
    }

    #[test]
    fn a_variable_is_spelled_like_the_name_it_stands_for() {
        let (layer, _) = read_variables(&[]);
        assert!(layer.names("audit_log_v2", "audit.log::v2"));
        assert_eq!(
            layer
                .origin(&["handlers", "fulfil", "max_attempts"])
                .to_string(),
            "variable `RUSTSTREAM_HANDLERS__FULFIL__MAX_ATTEMPTS`"
        );
    }

    #[test]
    fn a_value_and_a_group_of_one_name_are_a_problem() {
        let (_, problems) = read_variables(&[
            ("RUSTSTREAM_HANDLERS__A", "x"),
            ("RUSTSTREAM_HANDLERS__A__TIMEOUT", "1s"),
        ]);
        assert_eq!(problems.len(), 1);
    }

    // case: L01
    #[test]
    fn a_broken_file_names_its_line_and_shows_nothing_of_it() {
        for url in [
            "\"amqp://svc:p%40ss-W0rd@h",
            "amqp://svc:p%40ss-W0rd@h",
            "p%40ss-W0rd",
        ] {
            let config = Config::toml(format!("prefix = \"a\"\n[brokers.default]\nurl = {url}\n"));
            let mut problems = Vec::new();
            assert!(read(&config, &mut problems).is_empty());
            let text = problems[0].to_string();
            assert!(text.contains("line 3"), "{text}");
            assert!(!text.contains("p%40ss"), "{text}");
        }
    }
}
