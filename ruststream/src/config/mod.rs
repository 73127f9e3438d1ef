//! Configuration over the attributes: a file and environment variables.
//!
//! Effective values: attribute < file < environment < builder call. Configuration changes values;
//! it never unsets one.
//!
//! # The file
//!
//! `ruststream.toml` in the working directory, if it is there ([`Config`] says otherwise):
//!
//! ```toml
//! prefix = "staging."              # before every address that an attribute declares
//! drain = "25s"                    # how long a stop may take
//!
//! [brokers.default]
//! url = "amqp://app:secret@broker.example"
//!
//! [brokers.plant]
//! url = "mqtt://plant.example"
//! prefix = "staging/"              # in place of the general one
//!
//! [handlers.fulfil]
//! address = "orders.v2"            # as it is: the prefix does not go before it
//! max_attempts = 5
//! backoff = "100ms..30s"
//! enabled = true
//! mqtt.qos = 2
//! ```
//!
//! A handler has every key of the attribute except `name` and `group`, with the protocols' keys in
//! their groups, and `enabled`. It is found by its mount point's name.
//!
//! The prefix goes before `address`, `dead_letter`, `retry_topic` and `reply_to` where the
//! attribute gave them. An address from the file, a variable or the builder is complete: it is
//! taken as it is. Names of subscriptions, exchanges and shared groups have no prefix, and neither
//! has what a `retry_topic_with` function returns.
//!
//! A broker that the program sets itself keeps the URL that the program gave it.
//!
//! # Variables
//!
//! `RUSTSTREAM_`, then the same path in capitals with `__` between its parts; every other character
//! of a name that is no letter or digit becomes `_`:
//!
//! | variable | key |
//! |---|---|
//! | `RUSTSTREAM_PREFIX` | `prefix` |
//! | `RUSTSTREAM_DRAIN` | `drain` |
//! | `RUSTSTREAM_BROKERS__PLANT__URL` | `brokers.plant.url` |
//! | `RUSTSTREAM_HANDLERS__FULFIL__MAX_ATTEMPTS` | `handlers.fulfil.max_attempts` |
//! | `RUSTSTREAM_HANDLERS__FULFIL__MQTT__QOS` | `handlers.fulfil.mqtt.qos` |
//!
//! `RUSTSTREAM_URL` belongs to `broker::from_env`. A variable without `__` that resembles none of
//! these is left alone: Kubernetes sets `RUSTSTREAM_PORT` beside a service of that name.

pub(crate) mod apply;
pub(crate) mod key;
pub(crate) mod kind;
pub(crate) mod layer;
pub(crate) mod nearest;
mod origin;
pub(crate) mod redact;

use std::path::PathBuf;

pub use self::origin::Origin;

/// Where configuration comes from: by default `ruststream.toml` if it is there, and the process's
/// environment.
///
/// # Examples
///
/// ```
/// use ruststream::App;
/// use ruststream::config::Config;
///
/// let deployed = App::new("orders").config("/etc/orders.toml");
/// let fixed = App::new("orders").config(Config::none());
/// let tested = App::new("orders").config(
///     Config::none().with_variables([("RUSTSTREAM_HANDLERS__FULFIL__MAX_ATTEMPTS", "5")]),
/// );
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) file: FileSource,
    pub(crate) variables: VariableSource,
}

#[derive(Clone)]
pub(crate) enum FileSource {
    None,
    IfPresent(PathBuf),
    Required(PathBuf),
    Text(String),
}

#[derive(Clone)]
pub(crate) enum VariableSource {
    None,
    Process,
    Given(Vec<(String, String)>),
}

impl Config {
    /// Neither a file nor variables: what the program says is all there is.
    #[must_use]
    pub fn none() -> Self {
        Self {
            file: FileSource::None,
            variables: VariableSource::None,
        }
    }

    /// This file, which must be there, and the process's environment.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: FileSource::Required(path.into()),
            variables: VariableSource::Process,
        }
    }

    /// This text in the file's format, and no variables.
    #[must_use]
    pub fn toml(text: impl Into<String>) -> Self {
        Self {
            file: FileSource::Text(text.into()),
            variables: VariableSource::None,
        }
    }

    /// No variables.
    #[must_use]
    pub fn without_variables(mut self) -> Self {
        self.variables = VariableSource::None;
        self
    }

    /// These variables in place of the process's.
    #[must_use]
    pub fn with_variables<N: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.variables = VariableSource::Given(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        );
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: FileSource::IfPresent(PathBuf::from("ruststream.toml")),
            variables: VariableSource::Process,
        }
    }
}

impl From<&str> for Config {
    fn from(path: &str) -> Self {
        Self::file(path)
    }
}

impl From<PathBuf> for Config {
    fn from(path: PathBuf) -> Self {
        Self::file(path)
    }
}

/// Shows where it looks, never what it finds: both may hold credentials.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = match &self.file {
            FileSource::None => "none".to_owned(),
            FileSource::Text(_) => "text".to_owned(),
            FileSource::IfPresent(path) | FileSource::Required(path) => path.display().to_string(),
        };
        let variables = match &self.variables {
            VariableSource::None => "none",
            VariableSource::Process => "process",
            VariableSource::Given(_) => "given",
        };
        f.debug_struct("Config")
            .field("file", &file)
            .field("variables", &variables)
            .finish()
    }
}

#[cfg(test)]
mod tests;
