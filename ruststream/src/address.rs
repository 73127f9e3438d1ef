//! Grammars and matching of addresses, topics and filters. Pure, and `const`: the same functions
//! check literals and constants at compile time and configuration at start-up.
//!
//! An *address* (also a queue name) is opaque. A *topic* is where MQTT messages are published; it has
//! no wildcards. A *filter* selects topics (MQTT 5 section 4.7).
//!
//! # Examples
//!
//! ```
//! use ruststream::address;
//!
//! const FILTER: &str = "devices/+/telemetry";
//! assert!(address::filter(FILTER).is_ok());
//! assert!(address::topic(FILTER).is_err());
//! assert!(address::matches(FILTER, "devices/7/telemetry"));
//! ```

use std::fmt;

use crate::text::Text;

/// The longest address, topic or filter in bytes (MQTT 5 section 1.5.4).
pub const MAX_LENGTH: usize = 65_535;

/// Check an address or queue name: any text that is not empty, not too long and free of U+0000.
///
/// # Errors
///
/// The first rule it breaks.
pub const fn address(text: &str) -> Result<(), AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    if text.len() > MAX_LENGTH {
        return Err(AddressError::TooLong { length: text.len() });
    }
    match position(text.as_bytes(), 0, 0) {
        Some(at) => Err(AddressError::Nul { at }),
        None => Ok(()),
    }
}

/// Check an MQTT topic, which a message can be published to: an [`address`] without wildcards.
///
/// # Errors
///
/// The first rule it breaks.
pub const fn topic(text: &str) -> Result<(), AddressError> {
    if let Err(error) = address(text) {
        return Err(error);
    }
    match position(text.as_bytes(), b'+', b'#') {
        Some(at) => Err(AddressError::Wildcard { at }),
        None => Ok(()),
    }
}

/// Check an MQTT topic filter (MQTT 5 section 4.7.1): `+` fills a whole level, `#` the whole last one.
///
/// A `$share/` prefix is refused, because a shared subscription is declared beside the filter.
///
/// # Errors
///
/// The first rule it breaks.
pub const fn filter(text: &str) -> Result<(), AddressError> {
    if let Err(error) = address(text) {
        return Err(error);
    }
    if starts_with(text.as_bytes(), SHARE) {
        return Err(AddressError::Share);
    }
    let mut at = 0;
    let mut rest = Some(text.as_bytes());
    while let Some(bytes) = rest {
        let (level, after) = next_level(bytes);
        if level.len() > 1 {
            if let Some(inside) = position(level, b'+', b'+') {
                return Err(AddressError::PartialWildcard { at: at + inside });
            }
            if let Some(inside) = position(level, b'#', b'#') {
                return Err(AddressError::PartialWildcard { at: at + inside });
            }
        }
        if is(level, b"#") && after.is_some() {
            return Err(AddressError::NotLast { at });
        }
        at += level.len() + 1;
        rest = after;
    }
    Ok(())
}

/// Check the name of a group of competing MQTT subscribers (MQTT 5 section 4.8.2).
///
/// # Errors
///
/// The first rule it breaks.
pub const fn share_name(text: &str) -> Result<(), AddressError> {
    if let Err(error) = topic(text) {
        return Err(error);
    }
    match position(text.as_bytes(), b'/', b'/') {
        Some(at) => Err(AddressError::Slash { at }),
        None => Ok(()),
    }
}

/// Whether a message published to `topic` is received through `filter`.
///
/// A filter that begins with a wildcard does not match topics that begin with `$`
/// (MQTT 5 section 4.7.2). A `$share/name/` prefix of the filter is not part of the match.
#[must_use]
pub const fn matches(filter: &str, topic: &str) -> bool {
    let filter = after_share(filter.as_bytes());
    let topic = topic.as_bytes();
    if begins_with_wildcard(filter) && begins_with_dollar(topic) {
        return false;
    }
    let (mut filter, mut topic) = (filter, topic);
    loop {
        let (wanted, filter_rest) = next_level(filter);
        if is(wanted, b"#") {
            return true;
        }
        let (found, topic_rest) = next_level(topic);
        if !is(wanted, b"+") && !is(wanted, found) {
            return false;
        }
        match (filter_rest, topic_rest) {
            (None, None) => return true,
            // `a/#` matches `a` itself (section 4.7.1.2).
            (Some(rest), None) => return is(rest, b"#"),
            (None, Some(_)) => return false,
            (Some(rest), Some(more)) => (filter, topic) = (rest, more),
        }
    }
}

/// Whether some topic is matched by both filters.
#[must_use]
pub const fn overlaps(one: &str, other: &str) -> bool {
    let one = after_share(one.as_bytes());
    let other = after_share(other.as_bytes());
    if begins_with_wildcard(one) && begins_with_dollar(other)
        || begins_with_dollar(one) && begins_with_wildcard(other)
    {
        return false;
    }
    let (mut one, mut other) = (one, other);
    loop {
        let (left, left_rest) = next_level(one);
        let (right, right_rest) = next_level(other);
        if is(left, b"#") || is(right, b"#") {
            return true;
        }
        if !is(left, b"+") && !is(right, b"+") && !is(left, right) {
            return false;
        }
        match (left_rest, right_rest) {
            (None, None) => return true,
            (Some(rest), None) | (None, Some(rest)) => return is(rest, b"#"),
            (Some(left), Some(right)) => (one, other) = (left, right),
        }
    }
}

/// Whether every topic that `inner` matches is matched by `outer` as well.
#[must_use]
pub const fn covers(outer: &str, inner: &str) -> bool {
    let outer = after_share(outer.as_bytes());
    let inner = after_share(inner.as_bytes());
    if begins_with_wildcard(outer) && begins_with_dollar(inner) {
        return false;
    }
    let (mut outer, mut inner) = (outer, inner);
    loop {
        let (wide, outer_rest) = next_level(outer);
        let (narrow, inner_rest) = next_level(inner);
        if is(wide, b"#") {
            return true;
        }
        if is(narrow, b"#") || !is(wide, b"+") && !is(wide, narrow) {
            return false;
        }
        match (outer_rest, inner_rest) {
            (None, None) => return true,
            (Some(rest), None) => return is(rest, b"#"),
            (None, Some(_)) => return false,
            (Some(wide), Some(narrow)) => (outer, inner) = (wide, narrow),
        }
    }
}

/// Whether a text that is declared as an exact address reads like an MQTT filter: `+` is a whole
/// level, or `#` the last one.
///
/// AMQP binding patterns that begin with `/` and end in `/#` are left alone.
#[must_use]
pub const fn looks_like_filter(text: &str) -> bool {
    let bytes = text.as_bytes();
    let rooted = begins_with(bytes, b'/');
    let mut rest = Some(bytes);
    while let Some(bytes) = rest {
        let (level, after) = next_level(bytes);
        if is(level, b"+") || is(level, b"#") && after.is_none() && !rooted {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether two addresses name one queue, in spite of the prefixes that brokers know for it
/// (`/queues/jobs`, `/queue/jobs`, `/amq/queue/jobs`, `queue://jobs`, `jobs`).
#[must_use]
pub const fn same_queue(one: &str, other: &str) -> bool {
    is(plain_queue(one.as_bytes()), plain_queue(other.as_bytes()))
}

/// Why a text is not an address, a topic or a filter. Positions count bytes from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// It is empty.
    Empty,
    /// It is longer than [`MAX_LENGTH`].
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It has a U+0000.
    Nul {
        /// Where.
        at: usize,
    },
    /// It has a wildcard, which only a filter may have.
    Wildcard {
        /// Where.
        at: usize,
    },
    /// It has a wildcard that shares its level with other characters.
    PartialWildcard {
        /// Where.
        at: usize,
    },
    /// It has a `#` that is not the last level.
    NotLast {
        /// Where.
        at: usize,
    },
    /// It is a filter with a `$share/` prefix.
    Share,
    /// It is a share name with a `/`.
    Slash {
        /// Where.
        at: usize,
    },
}

impl AddressError {
    /// What is wrong, to follow "it " or a name.
    pub(crate) const fn describe(self, text: &Text) -> Text {
        match self {
            Self::Empty => text.with("must not be empty"),
            Self::TooLong { length } => text
                .with("is ")
                .with_number(length as u64)
                .with(" bytes long, but 65535 is the most"),
            Self::Nul { at } => text
                .with("must not contain U+0000, found at byte ")
                .with_number(at as u64),
            Self::Wildcard { at } => text
                .with("must not contain a wildcard, found at byte ")
                .with_number(at as u64),
            Self::PartialWildcard { at } => text
                .with("has a wildcard at byte ")
                .with_number(at as u64)
                .with(" that is not a whole level: write `a/+/b` or `a/#`"),
            Self::NotLast { at } => text
                .with("has a `#` at byte ")
                .with_number(at as u64)
                .with(" that is not the last level: use `+` for one level in between"),
            Self::Share => text.with(
                "must not begin with `$share/`: write the filter alone and `mqtt(shared = \"name\")`",
            ),
            Self::Slash { at } => text
                .with("must not contain `/`, found at byte ")
                .with_number(at as u64),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe(&Text::new()).as_str())
    }
}

impl std::error::Error for AddressError {}

const SHARE: &[u8] = b"$share/";

/// Prefixes that name a queue on one broker or another.
const QUEUE_PREFIXES: &[&[u8]] = &[b"/queues/", b"/amq/queue/", b"/queue/", b"queue://"];

/// The first level, and what follows its `/`.
const fn next_level(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match position(bytes, b'/', b'/') {
        Some(at) => {
            let (level, rest) = bytes.split_at(at);
            match rest {
                [_, after @ ..] => (level, Some(after)),
                [] => (level, None),
            }
        }
        None => (bytes, None),
    }
}

/// Where the first of two bytes is.
const fn position(bytes: &[u8], one: u8, other: u8) -> Option<usize> {
    let mut at = 0;
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        if *first == one || *first == other {
            return Some(at);
        }
        at += 1;
        rest = tail;
    }
    None
}

/// Whether two byte strings are equal; `==` is not `const`.
const fn is(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && starts_with(one, other)
}

const fn starts_with(bytes: &[u8], prefix: &[u8]) -> bool {
    let (mut bytes, mut prefix) = (bytes, prefix);
    while let [wanted, prefix_rest @ ..] = prefix {
        match bytes {
            [found, rest @ ..] if *found == *wanted => (bytes, prefix) = (rest, prefix_rest),
            _ => return false,
        }
    }
    true
}

const fn begins_with(bytes: &[u8], byte: u8) -> bool {
    matches!(bytes, [first, ..] if *first == byte)
}

const fn begins_with_wildcard(bytes: &[u8]) -> bool {
    begins_with(bytes, b'+') || begins_with(bytes, b'#')
}

const fn begins_with_dollar(bytes: &[u8]) -> bool {
    begins_with(bytes, b'$')
}

/// A filter without its `$share/name/` prefix.
const fn after_share(filter: &[u8]) -> &[u8] {
    if !starts_with(filter, SHARE) {
        return filter;
    }
    let (_, named) = filter.split_at(SHARE.len());
    match next_level(named) {
        (_, Some(filter)) => filter,
        (_, None) => filter,
    }
}

const fn plain_queue(address: &[u8]) -> &[u8] {
    let mut prefixes = QUEUE_PREFIXES;
    while let [prefix, others @ ..] = prefixes {
        if address.len() > prefix.len() && starts_with(address, prefix) {
            let (_, name) = address.split_at(prefix.len());
            return name;
        }
        prefixes = others;
    }
    address
}

#[cfg(test)]
mod tests;
