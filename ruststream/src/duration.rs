//! Durations and backoffs as text, as in `"30s"` and `"100ms..30s"`. Pure and `const`: one grammar for
//! attributes, configuration files and the environment.
//!
//! A duration is one or more numbers with a unit, from the largest unit to the smallest, without
//! spaces: `250ms`, `5s`, `1h30m`. Units are `us`, `ms`, `s`, `m`, `h` and `d`.

use std::fmt;
use std::time::Duration;

use crate::policy::Backoff;

/// Read a duration.
///
/// # Errors
///
/// The first rule it breaks.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use ruststream::duration;
///
/// assert_eq!(duration::parse("1h30m"), Ok(Duration::from_secs(5400)));
/// assert!(duration::parse("30").is_err());
/// ```
pub const fn parse(text: &str) -> Result<Duration, DurationError> {
    parse_bytes(text.as_bytes())
}

/// Read a backoff: `first..max` grows from one to the other, a single duration stays.
///
/// # Errors
///
/// The first rule it breaks: each bound is a duration of more than zero, the second not below the first.
pub const fn parse_backoff(text: &str) -> Result<Backoff, DurationError> {
    let (first, max) = if let Some((first, max)) = split_range(text.as_bytes()) {
        (parse_bytes(first), parse_bytes(max))
    } else {
        let constant = parse(text);
        (constant, constant)
    };
    match (first, max) {
        (Err(error), _) | (_, Err(error)) => Err(error),
        (Ok(first), Ok(max)) => {
            if first.is_zero() || max.is_zero() {
                return Err(DurationError::Zero);
            }
            if first.as_nanos() > max.as_nanos() {
                return Err(DurationError::Backwards);
            }
            Ok(Backoff { first, max })
        }
    }
}

/// A duration in the form that [`parse`] reads; what is below a microsecond is left out.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(ruststream::duration::show(Duration::from_secs(5400)), "1h30m");
/// ```
#[must_use]
pub fn show(duration: Duration) -> String {
    let mut rest = duration.as_micros();
    let mut text = String::new();
    for (unit, name) in UNITS {
        let count = rest / u128::from(*unit);
        rest %= u128::from(*unit);
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(name);
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

/// Why a text is not a duration or a backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// It is empty.
    Empty,
    /// There is no number where one is expected.
    NoNumber,
    /// A number has no unit.
    NoUnit,
    /// A unit is not known.
    UnknownUnit,
    /// The units do not go from the largest to the smallest.
    Order,
    /// It is too long to be counted.
    TooLong,
    /// It is zero where it must not be.
    Zero,
    /// The first bound of a backoff is above the second.
    Backwards,
}

impl DurationError {
    /// What is wrong and how to write it, to follow the name of the value.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "is empty: write a number and a unit, as in `30s`",
            Self::NoNumber => "has no number where one is needed: write `30s`, `250ms` or `1h30m`",
            Self::NoUnit => "has a number without a unit: write `30s`, `250ms` or `1h30m`",
            Self::UnknownUnit => {
                "has an unknown unit: use `us`, `ms`, `s`, `m`, `h` or `d`, as in `30s` or `1h30m`"
            }
            Self::Order => "has its units out of order: the largest comes first, as in `1h30m`",
            Self::TooLong => "is longer than can be counted",
            Self::Zero => "must be longer than zero",
            Self::Backwards => {
                "ends before it begins: the shorter delay comes first, as in `100ms..30s`"
            }
        }
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for DurationError {}

/// A duration of `0` for anything that [`parse`] refuses; for values that were checked before.
pub(crate) const fn parse_checked(text: &str) -> Duration {
    match parse(text) {
        Ok(duration) => duration,
        Err(_) => Duration::ZERO,
    }
}

const fn parse_bytes(text: &[u8]) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total: u64 = 0;
    let mut smallest = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = match read_number(rest) {
            Ok(read) => read,
            Err(error) => return Err(error),
        };
        let (unit, after) = match read_unit(after) {
            Ok(read) => read,
            Err(error) => return Err(error),
        };
        if unit >= smallest {
            return Err(DurationError::Order);
        }
        smallest = unit;
        let Some(part) = number.checked_mul(unit) else {
            return Err(DurationError::TooLong);
        };
        total = match total.checked_add(part) {
            Some(sum) => sum,
            None => return Err(DurationError::TooLong),
        };
        rest = after;
    }
    Ok(Duration::from_micros(total))
}

const fn read_number(text: &[u8]) -> Result<(u64, &[u8]), DurationError> {
    let mut number: u64 = 0;
    let mut rest = text;
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        let Some(shifted) = number.checked_mul(10) else {
            return Err(DurationError::TooLong);
        };
        number = match shifted.checked_add((*digit - b'0') as u64) {
            Some(sum) => sum,
            None => return Err(DurationError::TooLong),
        };
        rest = after;
    }
    if rest.len() == text.len() {
        return Err(DurationError::NoNumber);
    }
    Ok((number, rest))
}

/// The unit in microseconds.
const fn read_unit(text: &[u8]) -> Result<(u64, &[u8]), DurationError> {
    let (unit, rest) = match text {
        [b'u', b's', rest @ ..] => (1, rest),
        [b'm', b's', rest @ ..] => (MILLISECOND, rest),
        [b's', rest @ ..] => (SECOND, rest),
        [b'm', rest @ ..] => (60 * SECOND, rest),
        [b'h', rest @ ..] => (3_600 * SECOND, rest),
        [b'd', rest @ ..] => (86_400 * SECOND, rest),
        [] => return Err(DurationError::NoUnit),
        _ => return Err(DurationError::UnknownUnit),
    };
    match rest {
        [] | [b'0'..=b'9', ..] => Ok((unit, rest)),
        _ => Err(DurationError::UnknownUnit),
    }
}

/// The two sides of the first `..`.
const fn split_range(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if *first == b'.'
            && let [b'.', max @ ..] = tail
        {
            let (first, _) = text.split_at(at);
            return Some((first, max));
        }
        at += 1;
        rest = tail;
    }
    None
}

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// Every unit in microseconds, the largest first.
const UNITS: &[(u64, &str)] = &[
    (86_400 * SECOND, "d"),
    (3_600 * SECOND, "h"),
    (60 * SECOND, "m"),
    (SECOND, "s"),
    (MILLISECOND, "ms"),
    (1, "us"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn durations_are_numbers_with_units() {
        use DurationError::*;
        let rows: &[(&str, Result<u64, DurationError>)] = &[
            ("100ms",  Ok(100_000)),
            ("5s",     Ok(5_000_000)),
            ("2m",     Ok(120_000_000)),
            ("1h",     Ok(3_600_000_000)),
            ("1h30m",  Ok(5_400_000_000)),
            ("1d",     Ok(86_400_000_000)),
            ("2m5ms",  Ok(120_005_000)),
            ("7us",    Ok(7)),
            ("0s",     Ok(0)),
            ("",       Err(Empty)),
            ("s",      Err(NoNumber)),
            ("-5s",    Err(NoNumber)),
            (" 5s",    Err(NoNumber)),
            ("30",     Err(NoUnit)),
            ("5 s",    Err(UnknownUnit)),
            ("5sec",   Err(UnknownUnit)),
            ("1.5s",   Err(UnknownUnit)),
            ("5S",     Err(UnknownUnit)),
            ("30m1h",  Err(Order)),
            ("1s1s",   Err(Order)),
            ("99999999999999999999s", Err(TooLong)),
            ("999999999999999999d",   Err(TooLong)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected.map(Duration::from_micros), "{text:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_backoff_is_one_duration_or_two() {
        use DurationError::*;
        type Bounds = Result<(u64, u64), DurationError>;
        let rows: &[(&str, Bounds)] = &[
            ("100ms..30s", Ok((100, 30_000))),
            ("5s",         Ok((5_000, 5_000))),
            ("5s..5s",     Ok((5_000, 5_000))),
            ("30s..1s",    Err(Backwards)),
            ("0s",         Err(Zero)),
            ("0ms..1s",    Err(Zero)),
            ("..1s",       Err(Empty)),
            ("1s..",       Err(Empty)),
            ("1s...2s",    Err(NoNumber)),
            ("1s-2s",      Err(UnknownUnit)),
        ];
        for (text, expected) in rows {
            let expected = expected.map(|(first, max)| Backoff {
                first: Duration::from_millis(first),
                max: Duration::from_millis(max),
            });
            assert_eq!(parse_backoff(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            prop_assert!(parse(&text).is_ok() <= text.ends_with(['s', 'm', 'h', 'd']));
            prop_assert!(parse_backoff(&text).is_ok() <= text.contains(|digit: char| digit.is_ascii_digit()));
        }

        #[test]
        fn what_is_shown_can_be_read(micros in any::<u64>()) {
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn whole_seconds_come_back(seconds in 0_u64..1_000_000_000) {
            prop_assert_eq!(parse(&format!("{seconds}s")), Ok(Duration::from_secs(seconds)));
        }
    }
}
