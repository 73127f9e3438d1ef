//! A mount point in the making: every key with its effective value and where it came from.

use bytestring::ByteString;
use figment::value::Value;

use crate::config::Origin;
use crate::config::key::KEYS;
use crate::config::key::Overlay;
use crate::config::key::position;
use crate::config::kind::keep;
use crate::error::Place;
use crate::error::function;
use crate::registration::Registration;

/// The broker of a handler that names none.
pub(crate) const DEFAULT_BROKER: &str = "default";

/// A mount point in the making.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) name: ByteString,
    pub(crate) registration: &'static Registration,
    pub(crate) values: Overlay,
    /// Where each value came from, in the order of the keys.
    origins: Vec<Origin>,
}

impl Draft {
    /// What the attribute declares.
    pub(crate) fn new(name: ByteString, registration: &'static Registration) -> Self {
        let mut draft = Self {
            name,
            registration,
            values: Overlay::NONE,
            origins: vec![Origin::Default; KEYS.len()],
        };
        draft.lay(&Overlay::declared(registration), &Origin::Attribute);
        draft
    }

    /// Take over every value that `overlay` has.
    pub(crate) fn lay(&mut self, overlay: &Overlay, origin: &Origin) {
        for (key, known) in KEYS.iter().zip(&mut self.origins) {
            if (key.copy)(overlay, &mut self.values) {
                known.clone_from(origin);
            }
        }
    }

    /// Fill in what nothing has set yet.
    pub(crate) fn fill(&mut self, overlay: &Overlay, origin: &Origin) {
        for (key, known) in KEYS.iter().zip(&mut self.origins) {
            if (key.show)(&self.values).is_none() && (key.copy)(overlay, &mut self.values) {
                known.clone_from(origin);
            }
        }
    }

    /// Read one value from outside. The error says what is allowed.
    pub(crate) fn set(
        &mut self,
        at: usize,
        value: &Value,
        origin: Origin,
    ) -> Result<(), &'static str> {
        (KEYS[at].set)(&mut self.values, value)?;
        self.origins[at] = origin;
        Ok(())
    }

    /// Put `prefix` before every address that the attribute gave.
    pub(crate) fn prefix(&mut self, prefix: &str, origin: &Origin) {
        let origin = Origin::Prefixed(Box::new(origin.clone()));
        let options = &mut self.values.options;
        let addresses = [
            ("address", &mut self.values.address),
            ("dead_letter", &mut options.dead_letter),
            ("retry_topic", &mut options.retry_topic),
            ("reply_to", &mut options.reply_to),
        ];
        for (key, address) in addresses {
            let Some(at) = position(key) else { continue };
            if let Some(address) = address
                && self.origins[at] == Origin::Attribute
            {
                *address = keep(&format!("{prefix}{address}"));
                self.origins[at] = origin.clone();
            }
        }
    }

    /// Where the value of `key` came from.
    pub(crate) fn origin(&self, key: &str) -> &Origin {
        position(key).map_or(&Origin::Default, |at| &self.origins[at])
    }

    /// Every key that has a value: its name, the value, and where it came from.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, String, &Origin)> + '_ {
        KEYS.iter().zip(&self.origins).filter_map(|(key, origin)| {
            (key.show)(&self.values).map(|value| (key.name, value, origin))
        })
    }

    /// The effective address.
    pub(crate) fn address(&self) -> &'static str {
        self.values.address.unwrap_or(self.registration.address)
    }

    /// The name of the broker.
    pub(crate) fn broker(&self) -> &'static str {
        self.values.options.broker.unwrap_or(DEFAULT_BROKER)
    }

    /// Whether it is to run.
    pub(crate) fn is_enabled(&self) -> bool {
        self.values.enabled.unwrap_or(true)
    }

    /// How problems name it.
    pub(crate) fn place(&self) -> Place {
        Place {
            mount: self.name.to_string(),
            function: function(self.registration),
            file: self.registration.file,
            line: self.registration.line,
            address: self.address().to_owned(),
            broker: self.broker().to_owned(),
        }
    }
}
