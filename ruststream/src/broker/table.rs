//! The drivers by the scheme of their URLs: one row each.

use std::sync::Arc;

use super::Broker;
use super::BrokerError;

/// A driver.
struct Driver {
    /// The scheme of its URLs.
    scheme: &'static str,
    /// The feature that compiles it in; `None` for a protocol whose driver is still to come.
    feature: Option<&'static str>,
    /// Makes the broker of a URL; `None` when the feature is off.
    open: Option<Open>,
}

type Open = fn(&Url<'_>) -> Result<Arc<dyn Broker>, BrokerError>;

/// A broker from its URL, as in `memory://` or `memory+mqtt://shop`.
///
/// # Errors
///
/// The scheme is unknown, or its driver is not compiled in. An error never shows more of the URL
/// than its scheme, because a URL may have a password in it.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "memory")]
/// # fn main() -> Result<(), ruststream::broker::BrokerError> {
/// let broker = ruststream::broker::from_url("memory://shop")?;
/// assert_eq!(broker.location(), "memory://shop");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "memory"))]
/// # fn main() {}
/// ```
pub fn from_url(url: &str) -> Result<Arc<dyn Broker>, BrokerError> {
    let url = Url::parse(url)?;
    let Some(driver) = DRIVERS
        .iter()
        .find(|driver| driver.scheme.eq_ignore_ascii_case(url.scheme))
    else {
        let known: Vec<_> = DRIVERS.iter().map(|driver| driver.scheme).collect();
        return Err(BrokerError::permanent(format!(
            "unknown broker scheme `{}`, known are {}",
            url.scheme,
            known.join(", ")
        )));
    };
    match (driver.open, driver.feature) {
        (Some(open), _) => open(&url),
        (None, Some(feature)) => Err(BrokerError::permanent(format!(
            "the driver of `{}://` is not compiled in, it needs the feature `{feature}` of ruststream",
            driver.scheme
        ))),
        (None, None) => Err(BrokerError::permanent(format!(
            "this version has no driver for `{}://`; the embedded broker follows the rules of its \
             protocol under `memory+{}://`",
            driver.scheme,
            driver.scheme.trim_end_matches('s')
        ))),
    }
}

/// The broker that the environment names: `RUSTSTREAM_URL`, or the embedded one when it is not set.
///
/// # Errors
///
/// As [`from_url`]; the variable is not UTF-8.
pub fn from_env() -> Result<Arc<dyn Broker>, BrokerError> {
    match std::env::var(VARIABLE) {
        Ok(url) => from_url(&url)
            .map_err(|error| BrokerError::permanent(format!("{VARIABLE}: {}", error.reason))),
        Err(std::env::VarError::NotPresent) => from_url("memory://"),
        Err(std::env::VarError::NotUnicode(_)) => Err(BrokerError::permanent(format!(
            "{VARIABLE} is not valid UTF-8"
        ))),
    }
}

/// The parts of a URL that choose a driver. No `Debug`: the rest may hold a password.
struct Url<'a> {
    scheme: &'a str,
    #[cfg_attr(
        not(any(feature = "memory", feature = "mqtt")),
        expect(dead_code, reason = "read by drivers only")
    )]
    whole: &'a str,
}

impl<'a> Url<'a> {
    fn parse(url: &'a str) -> Result<Self, BrokerError> {
        let is_scheme = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        };
        match url.split_once("://") {
            Some((scheme, _)) if is_scheme(scheme) => Ok(Self { scheme, whole: url }),
            // What stands before `://` may be anything, a password included.
            _ => Err(BrokerError::permanent(
                "a broker's URL begins with its scheme, as in `memory://`",
            )),
        }
    }
}

#[cfg(feature = "memory")]
mod embedded {
    use std::sync::Arc;

    use super::Url;
    use crate::broker::Broker;
    use crate::broker::BrokerError;
    use crate::broker::memory::Memory;
    use crate::broker::memory::Rules;

    pub(super) fn any(url: &Url<'_>) -> Result<Arc<dyn Broker>, BrokerError> {
        open(url, None)
    }

    pub(super) fn amqp(url: &Url<'_>) -> Result<Arc<dyn Broker>, BrokerError> {
        open(url, Some(Rules::Amqp))
    }

    pub(super) fn mqtt(url: &Url<'_>) -> Result<Arc<dyn Broker>, BrokerError> {
        open(url, Some(Rules::Mqtt))
    }

    pub(super) fn rabbitmq(url: &Url<'_>) -> Result<Arc<dyn Broker>, BrokerError> {
        open(url, Some(Rules::Rabbitmq))
    }

    fn open(url: &Url<'_>, rules: Option<Rules>) -> Result<Arc<dyn Broker>, BrokerError> {
        let name = &url.whole[url.scheme.len() + "://".len()..];
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !name.chars().all(is_plain) {
            return Err(BrokerError::permanent(
                "the name of an embedded broker has letters, digits, `-`, `_` and `.` only, as in `memory://shop`",
            ));
        }
        Ok(Arc::new(match (name, rules) {
            ("", None) => Memory::new(),
            ("", Some(Rules::Amqp)) => Memory::amqp(),
            ("", Some(Rules::Mqtt)) => Memory::mqtt(),
            ("", Some(Rules::Rabbitmq)) => Memory::rabbitmq(),
            (name, rules) => Memory::named(name, rules),
        }))
    }
}

#[cfg(feature = "mqtt")]
fn mqtt(url: &Url<'_>) -> Result<Arc<dyn Broker>, BrokerError> {
    Ok(Arc::new(super::mqtt::Mqtt::new(url.whole)?))
}

macro_rules! driver {
    ($scheme:literal, $feature:tt, $open:expr) => {
        Driver {
            scheme: $scheme,
            feature: Some($feature),
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
    ($scheme:literal) => {
        Driver {
            scheme: $scheme,
            feature: None,
            open: None,
        }
    };
}

/// One row per scheme: the scheme, the feature of its driver, and what opens it.
#[rustfmt::skip]
static DRIVERS: &[Driver] = &[
    driver!("memory",          "memory", embedded::any),
    driver!("memory+amqp",     "memory", embedded::amqp),
    driver!("memory+mqtt",     "memory", embedded::mqtt),
    driver!("memory+rabbitmq", "memory", embedded::rabbitmq),
    driver!("amqp"),
    driver!("amqps"),
    driver!("mqtt",            "mqtt",   mqtt),
    driver!("mqtts",           "mqtt",   mqtt),
    driver!("mqtt+ws",         "mqtt",   mqtt),
    driver!("mqtt+wss",        "mqtt",   mqtt),
    driver!("rabbitmq"),
    driver!("rabbitmqs"),
];

/// Names the broker when the application names none.
const VARIABLE: &str = "RUSTSTREAM_URL";

#[cfg(test)]
mod tests {
    use super::*;

    // case: L01
    #[test]
    fn nothing_shows_a_credential() {
        let urls = [
            "amqp://svc:p%40ss-W0rd@localhost:1",
            "amqps://svc:p%40ss-W0rd@localhost:1",
            "mqtt://svc:p%40ss-W0rd@localhost:1",
            "mqtts://svc:p%40ss-W0rd@localhost:1",
            "rabbitmq://svc:p%40ss-W0rd@localhost:1",
            "rabbitmqs://svc:p%40ss-W0rd@localhost:1",
            "nonsense://svc:p%40ss-W0rd@localhost:1",
            "memory://svc:p%40ss-W0rd@shop",
            "memory+mqtt://svc:p%40ss-W0rd@shop",
            "svc:p%40ss-W0rd@localhost:1",
            "svc:p%40ss-W0rd@localhost://",
        ];
        for url in urls {
            let shown = match from_url(url) {
                Ok(broker) => format!("{broker:?} {}", broker.location()),
                Err(error) => {
                    assert!(!error.is_transient(), "{url}");
                    format!("{error} {error:?}")
                }
            };
            assert!(
                !shown.contains("p%40ss") && !shown.contains("p@ss"),
                "{shown}"
            );
            assert!(!shown.contains("svc"), "{shown}");
        }
    }

    #[test]
    fn an_unknown_scheme_names_the_known_ones() {
        let error = from_url("kafka://localhost")
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("`kafka`"), "{error}");
        for driver in DRIVERS {
            assert!(error.contains(driver.scheme), "{error}");
        }
    }

    #[test]
    fn a_driver_that_is_missing_names_what_there_is() {
        for driver in DRIVERS.iter().filter(|driver| driver.open.is_none()) {
            let error = from_url(&format!("{}://localhost", driver.scheme))
                .expect_err("it is missing")
                .to_string();
            let cure = match driver.feature {
                Some(feature) => format!("the feature `{feature}`"),
                None => format!("`memory+{}://`", driver.scheme.trim_end_matches('s')),
            };
            assert!(error.contains(&cure), "{error}");
        }
    }

    #[cfg(feature = "memory")]
    #[test]
    fn a_url_says_which_embedded_broker() {
        let urls = [
            "memory://",
            "memory://shop",
            "memory+amqp://shop",
            "memory+mqtt://",
            "memory+rabbitmq://shop-2",
        ];
        for url in urls {
            let broker = from_url(url).expect(url);
            assert_eq!(broker.system(), "memory");
            assert_eq!(broker.location(), url);
        }
    }
}
