//! What an application will run, for people: effective values, and where each came from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::config::Origin;
use crate::config::kind::show_period;
use crate::config::redact::redact;
use crate::error::Place;
use crate::error::Problem;
use crate::mount::Guarantee;
use crate::mount::bind::Bound;

/// An application with everything that is known before it connects. Its display is a readable
/// account; credentials are never part of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The application's name.
    pub app: String,
    /// How long a stop may take, and where that came from.
    pub drain: (Duration, Origin),
    /// Its brokers.
    pub brokers: Vec<BrokerDescription>,
    /// What runs, in order.
    pub mounts: Vec<MountDescription>,
    /// What is allowed, and should be known.
    pub warnings: Vec<Problem>,
}

/// A broker of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerDescription {
    /// Its name in the application.
    pub name: String,
    /// Its `messaging.system`.
    pub system: &'static str,
    /// Where it is, without credentials.
    pub location: String,
}

/// A mount point of an application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MountDescription {
    /// What it is: name, function, source, address and broker.
    pub place: Place,
    /// The broker's `messaging.system`.
    pub system: &'static str,
    /// Every key that has a value.
    pub values: Vec<Effective>,
    /// What becomes of deliveries and waiting copies in a crash.
    pub guarantee: Guarantee,
}

/// The effective value of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effective {
    /// The key, with its group: `max_attempts`, `mqtt.qos`.
    pub key: &'static str,
    /// The value, as a configuration file would have it.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Description {
    pub(crate) fn of(
        app: &str,
        mounts: &[Bound],
        brokers: &[(String, Arc<dyn Broker>)],
        drain: &(Duration, Origin),
        warnings: &[Problem],
    ) -> Self {
        Self {
            app: app.to_owned(),
            drain: drain.clone(),
            brokers: brokers
                .iter()
                .map(|(name, broker)| BrokerDescription {
                    name: name.clone(),
                    system: broker.system(),
                    location: redact(&broker.location()),
                })
                .collect(),
            mounts: mounts.iter().map(MountDescription::of).collect(),
            warnings: warnings.to_vec(),
        }
    }

    /// The mount point of this name.
    #[must_use]
    pub fn mount(&self, name: &str) -> Option<&MountDescription> {
        self.mounts.iter().find(|mount| mount.place.mount == name)
    }
}

impl MountDescription {
    fn of(mount: &Bound) -> Self {
        Self {
            place: mount.draft.place(),
            system: mount.point.system,
            values: mount
                .draft
                .entries()
                .map(|(key, value, origin)| Effective {
                    key,
                    value,
                    origin: origin.clone(),
                })
                .collect(),
            guarantee: Guarantee::of(&mount.point),
        }
    }

    /// The effective value of `key`, if it has one.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Effective> {
        self.values.iter().find(|value| value.key == key)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (drain, origin) = &self.drain;
        let drain = show_period(drain);
        writeln!(f, "{}: drain {drain} ({origin})", self.app)?;
        for broker in &self.brokers {
            let BrokerDescription {
                name,
                system,
                location,
            } = broker;
            writeln!(f, "broker {name}: {system} at {location}")?;
        }
        for mount in &self.mounts {
            writeln!(f, "{mount}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "note: {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for MountDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest =
            |text: fn(&Effective) -> usize| self.values.iter().map(text).max().unwrap_or(0);
        let keys = widest(|value| value.key.len());
        let values = widest(|value| value.value.chars().count());
        writeln!(f, "{}", self.place)?;
        for Effective { key, value, origin } in &self.values {
            writeln!(f, "  {key:keys$} = {value:values$}  ({origin})")?;
        }
        write!(f, "  {}", self.guarantee)
    }
}
