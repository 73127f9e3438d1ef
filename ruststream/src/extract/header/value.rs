//! What a header's value may be read as.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use bytes::Bytes;
use bytestring::ByteString;

use crate::headers::HeaderValue;

/// A type that a header's value can be read as.
///
/// Protocols differ in what they keep: MQTT has text only, AMQP has types, and a client may send a
/// number as text. So:
///
/// | type | is read from |
/// |---|---|
/// | any integer | an integer of any width that fits, or its decimal digits as text |
/// | `f32`, `f64` | a finite number, or one as text |
/// | `bool` | a truth value, or `true` / `false` as text |
/// | `String`, [`ByteString`] | text, or bytes that are UTF-8 |
/// | [`Bytes`] | bytes, or the bytes of a text |
/// | [`SystemTime`] | a timestamp |
/// | [`HeaderValue`] | anything |
///
/// # Examples
///
/// A type of one's own:
///
/// ```
/// use ruststream::HeaderValue;
/// use ruststream::extract::FromHeader;
/// use ruststream::extract::InvalidHeader;
///
/// enum Colour { Red, Blue }
///
/// impl FromHeader for Colour {
///     fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
///         match value.as_str() {
///             Some("red") => Ok(Self::Red),
///             Some("blue") => Ok(Self::Blue),
///             _ => Err(InvalidHeader::new("`red` or `blue`", value)),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a header cannot be read as `{Self}`",
    label = "not a `FromHeader`",
    note = "integers, `f64`, `bool`, `String`, `Bytes` and `HeaderValue` are; implement `FromHeader` for types of your own"
)]
pub trait FromHeader: Sized {
    /// Read it.
    ///
    /// # Errors
    ///
    /// The value does not fit.
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader>;
}

/// A header's value does not fit the type it is read as. Says what was expected and the kind of what
/// was found, never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidHeader {
    expected: Expected,
    found: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Words(&'static str),
    Integer(String),
}

impl InvalidHeader {
    /// `expected` is what would have been right, as in "a colour".
    #[must_use]
    #[cold]
    pub fn new(expected: &'static str, found: &HeaderValue) -> Self {
        Self {
            expected: Expected::Words(expected),
            found: kind(found),
        }
    }

    #[cold]
    fn integer(range: String, found: &HeaderValue) -> Self {
        Self {
            expected: Expected::Integer(range),
            found: kind(found),
        }
    }
}

impl fmt::Display for InvalidHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expected {
            Expected::Words(words) => write!(f, "expected {words}, found {}", self.found),
            Expected::Integer(range) => {
                write!(f, "expected an integer {range}, found {}", self.found)
            }
        }
    }
}

impl std::error::Error for InvalidHeader {}

fn kind(value: &HeaderValue) -> &'static str {
    match value {
        HeaderValue::Null => "nothing",
        HeaderValue::Bool(_) => "a truth value",
        HeaderValue::Int(_) | HeaderValue::UInt(_) => "an integer",
        HeaderValue::Float(_) => "a floating point number",
        HeaderValue::Text(_) => "text",
        HeaderValue::Binary(_) => "bytes",
        HeaderValue::Timestamp(_) => "a timestamp",
        HeaderValue::List(_) => "a list",
        HeaderValue::Map(_) => "a table",
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl FromHeader for $type {
            fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
                let read = match value {
                    HeaderValue::Int(value) => Self::try_from(*value).ok(),
                    HeaderValue::UInt(value) => Self::try_from(*value).ok(),
                    // `parse` would take a plus sign too.
                    HeaderValue::Text(text) if !text.starts_with('+') => text.parse().ok(),
                    _ => None,
                };
                read.ok_or_else(|| {
                    let range = format!("from {} to {}", Self::MIN, Self::MAX);
                    InvalidHeader::integer(range, value)
                })
            }
        }
    )* };
}

integers!(
    i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize
);

impl FromHeader for f64 {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "who reads an integer as a float asked for it"
        )]
        let read = match value {
            HeaderValue::Float(value) => Some(*value),
            HeaderValue::Int(value) => Some(*value as Self),
            HeaderValue::UInt(value) => Some(*value as Self),
            HeaderValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        read.filter(|read| read.is_finite())
            .ok_or_else(|| InvalidHeader::new("a finite number", value))
    }
}

impl FromHeader for f32 {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounded to the nearest; what is too large is infinite and refused"
        )]
        let read = f64::from_header(value)? as Self;
        if read.is_finite() {
            Ok(read)
        } else {
            Err(InvalidHeader::new("a number that fits 32 bits", value))
        }
    }
}

impl FromHeader for bool {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        match value {
            HeaderValue::Bool(value) => Ok(*value),
            HeaderValue::Text(text) if text == "true" => Ok(true),
            HeaderValue::Text(text) if text == "false" => Ok(false),
            _ => Err(InvalidHeader::new("`true` or `false`", value)),
        }
    }
}

impl FromHeader for ByteString {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        let read = match value {
            HeaderValue::Text(text) => Some(text.clone()),
            // A 0-9-1 long string is bytes, and most of them are text.
            HeaderValue::Binary(bytes) => Self::try_from(bytes.clone()).ok(),
            _ => None,
        };
        read.ok_or_else(|| InvalidHeader::new("text", value))
    }
}

impl FromHeader for String {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        ByteString::from_header(value).map(|text| Self::from(&*text))
    }
}

impl FromHeader for Bytes {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        match value {
            HeaderValue::Binary(bytes) => Ok(bytes.clone()),
            HeaderValue::Text(text) => Ok(text.as_bytes().clone()),
            _ => Err(InvalidHeader::new("bytes", value)),
        }
    }
}

impl FromHeader for SystemTime {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        let read = match value {
            HeaderValue::Timestamp(millis) => {
                let distance = Duration::from_millis(millis.unsigned_abs());
                if *millis < 0 {
                    Self::UNIX_EPOCH.checked_sub(distance)
                } else {
                    Self::UNIX_EPOCH.checked_add(distance)
                }
            }
            _ => None,
        };
        read.ok_or_else(|| InvalidHeader::new("a timestamp", value))
    }
}

impl FromHeader for HeaderValue {
    fn from_header(value: &HeaderValue) -> Result<Self, InvalidHeader> {
        Ok(value.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> HeaderValue {
        HeaderValue::Text(text.into())
    }

    fn binary(bytes: &'static [u8]) -> HeaderValue {
        HeaderValue::Binary(Bytes::from_static(bytes))
    }

    fn read<T: FromHeader>(value: impl Into<HeaderValue>) -> Option<T> {
        T::from_header(&value.into()).ok()
    }

    #[test]
    fn an_integer_is_read_from_any_width_it_fits_and_from_decimal_digits() {
        #[rustfmt::skip]
        let rows: &[(HeaderValue, Option<u8>)] = &[
            (HeaderValue::Int(255), Some(255)),
            (HeaderValue::UInt(0), Some(0)),
            (text("7"), Some(7)),
            (text("007"), Some(7)),
            (HeaderValue::Int(-1), None),
            (HeaderValue::Int(i64::MIN), None),
            (HeaderValue::UInt(u64::MAX), None),
            (HeaderValue::UInt(256), None),
            (text("-1"), None),
            (text("+7"), None),
            (text("256"), None),
            (text(""), None),
            (text(" 7"), None),
            (text("0x7"), None),
            (text("7.0"), None),
            (text("٧"), None),
            (HeaderValue::Float(7.0), None),
            (HeaderValue::Float(f64::NAN), None),
            (binary(b"7"), None),
            (HeaderValue::Bool(true), None),
            (HeaderValue::Timestamp(7), None),
            (HeaderValue::Null, None),
            (HeaderValue::List(vec![HeaderValue::Int(7)]), None),
            (HeaderValue::Map(Vec::new()), None),
        ];
        for (value, expected) in rows {
            assert_eq!(u8::from_header(value).ok(), *expected, "{value:?}");
        }
        assert_eq!(read::<i8>(text("-128")), Some(-128));
        assert_eq!(read::<i64>(i64::MIN), Some(i64::MIN));
        assert_eq!(read::<u128>(u64::MAX), Some(u64::MAX.into()));
        assert_eq!(read::<u32>(text(&"9".repeat(100_000))), None);
    }

    #[test]
    fn a_number_is_finite() {
        assert_eq!(read::<f64>(1.5), Some(1.5));
        assert_eq!(read::<f64>(-3_i8), Some(-3.0));
        assert_eq!(read::<f64>(text("1e3")), Some(1000.0));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(read::<f64>(value), None);
        }
        for word in ["NaN", "inf", "1e999", ""] {
            assert_eq!(read::<f64>(text(word)), None, "{word}");
        }
        assert_eq!(read::<f32>(f64::MAX), None);
        assert_eq!(read::<f32>(1.5), Some(1.5));
    }

    #[test]
    fn a_truth_value_is_one_or_its_name() {
        assert_eq!(read::<bool>(false), Some(false));
        assert_eq!(read::<bool>(text("true")), Some(true));
        assert_eq!(read::<bool>(text("false")), Some(false));
        for value in [
            text("TRUE"),
            text("1"),
            HeaderValue::Int(1),
            HeaderValue::Null,
        ] {
            assert_eq!(read::<bool>(value), None);
        }
    }

    // case: B09
    #[test]
    fn bytes_are_text_only_when_they_are_utf8() {
        assert_eq!(read::<String>(binary("é".as_bytes())), Some("é".to_owned()));
        assert_eq!(read::<String>(binary(&[0xFF, 0xFE, 0])), None);
        assert_eq!(read::<String>(7_u8), None);
        assert_eq!(
            read::<Bytes>(binary(&[0xFF])),
            Some(Bytes::from_static(&[0xFF]))
        );
        assert_eq!(read::<Bytes>(text("a")), Some(Bytes::from_static(b"a")));
        assert_eq!(read::<Bytes>(HeaderValue::Null), None);
    }

    #[test]
    fn a_timestamp_is_read_on_both_sides_of_1970() {
        let second = Duration::from_secs(1);
        let read = |millis| read::<SystemTime>(HeaderValue::Timestamp(millis));
        assert_eq!(read(1000), Some(SystemTime::UNIX_EPOCH + second));
        assert_eq!(read(-1000), Some(SystemTime::UNIX_EPOCH - second));
        assert_eq!(SystemTime::from_header(&HeaderValue::Int(7)).ok(), None);
    }

    #[test]
    fn the_error_says_what_was_expected_and_the_kind_of_what_was_found() {
        let error = i16::from_header(&text("secret")).unwrap_err().to_string();
        assert_eq!(
            error,
            "expected an integer from -32768 to 32767, found text"
        );
    }

    fn any_value() -> impl Strategy<Value = HeaderValue> {
        let leaf = prop_oneof![
            Just(HeaderValue::Null),
            any::<bool>().prop_map(HeaderValue::from),
            any::<i64>().prop_map(HeaderValue::from),
            any::<u64>().prop_map(HeaderValue::from),
            any::<f64>().prop_map(HeaderValue::from),
            any::<String>().prop_map(HeaderValue::from),
            any::<Vec<u8>>().prop_map(|bytes| HeaderValue::Binary(bytes.into())),
            any::<i64>().prop_map(HeaderValue::Timestamp),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(HeaderValue::List)
        })
    }

    proptest! {
        #[test]
        fn no_value_panics(value in any_value()) {
            prop_assert!(HeaderValue::from_header(&value).is_ok());
            let read = [
                i8::from_header(&value).is_ok(), u128::from_header(&value).is_ok(),
                f32::from_header(&value).is_ok(), bool::from_header(&value).is_ok(),
                String::from_header(&value).is_ok(), Bytes::from_header(&value).is_ok(),
                SystemTime::from_header(&value).is_ok(),
            ];
            let readable = !matches!(value, HeaderValue::Null | HeaderValue::List(_));
            prop_assert!(readable || read == [false; 7]);
        }

        #[test]
        fn an_integer_survives_as_a_number_and_as_text(value: i64) {
            prop_assert_eq!(read(value), Some(value));
            prop_assert_eq!(read(value.to_string()), Some(value));
        }
    }
}
