//! The number of an attempt (spec C1-C3).

use bytestring::ByteString;

use crate::headers::HeaderMap;
use crate::headers::HeaderValue;
use crate::headers::names;

/// What the headers of a message say of earlier attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The attempts that went before, 0 if none is said.
    pub attempts: u32,
    /// Whether a count was there that is none: malformed, negative, too large.
    pub malformed: bool,
}

/// Read the retry-count headers for the mount point `handler`.
///
/// Of several counts the largest valid one counts. It is 0 when the message belongs to another
/// handler (a copy that a topic gave to everyone) or carries dead-letter headers (a replay).
#[inline]
#[must_use]
pub fn carried(headers: &HeaderMap, handler: &str) -> Carried {
    if headers.is_empty() {
        return Carried::default();
    }
    read(headers, handler)
}

fn read(headers: &HeaderMap, handler: &str) -> Carried {
    let mut carried = Carried::default();
    let mut starts_anew = false;
    for (name, value) in headers {
        if !starts_with_prefix(name) {
            continue;
        }
        if name.eq_ignore_ascii_case(names::RETRY_COUNT) {
            match count(value) {
                Some(count) => carried.attempts = carried.attempts.max(count),
                None => carried.malformed = true,
            }
        } else if name.eq_ignore_ascii_case(names::HANDLER) {
            starts_anew |= value.as_str().is_some_and(|other| other != handler);
        } else if name.eq_ignore_ascii_case(names::DEAD_REASON) {
            starts_anew = true;
        }
    }
    if starts_anew {
        carried.attempts = 0;
    }
    carried
}

/// The number of the attempt: what is carried, what the broker counted, and this one.
#[must_use]
pub fn number(carried: u32, counted: u32) -> u32 {
    carried.saturating_add(counted).saturating_add(1)
}

fn starts_with_prefix(name: &ByteString) -> bool {
    const PREFIX: &[u8] = b"x-ruststream-";
    name.as_bytes()
        .get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn count(value: &HeaderValue) -> Option<u32> {
    match value {
        HeaderValue::Int(count) => u32::try_from(*count).ok(),
        HeaderValue::UInt(count) => u32::try_from(*count).ok(),
        HeaderValue::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn with(values: &[HeaderValue]) -> HeaderMap {
        values
            .iter()
            .map(|value| (ByteString::from_static(names::RETRY_COUNT), value.clone()))
            .collect()
    }

    // spec: A36 M33 C1 C3
    // case: B01 B06
    #[test]
    fn a_count_is_any_integer_or_decimal_text_and_nothing_else() {
        #[rustfmt::skip]
        let rows: &[(HeaderValue, Option<u32>)] = &[
            (HeaderValue::from(2_i8), Some(2)),
            (HeaderValue::from(2_i16), Some(2)),
            (HeaderValue::from(2_i32), Some(2)),
            (HeaderValue::from(2_i64), Some(2)),
            (HeaderValue::from(2_u8), Some(2)),
            (HeaderValue::from(2_u16), Some(2)),
            (HeaderValue::from(2_u32), Some(2)),
            (HeaderValue::from(2_u64), Some(2)),
            (HeaderValue::from("2"), Some(2)),
            (HeaderValue::from("0002"), Some(2)),
            (HeaderValue::from(u32::MAX), Some(u32::MAX)),
            (HeaderValue::from("4294967295"), Some(u32::MAX)),
            (HeaderValue::from(u64::from(u32::MAX) + 1), None),
            (HeaderValue::from(u64::MAX), None),
            (HeaderValue::from("18446744073709551616"), None),
            (HeaderValue::from(-1), None),
            (HeaderValue::from("-1"), None),
            (HeaderValue::from("+1"), None),
            (HeaderValue::from(" 1"), None),
            (HeaderValue::from(""), None),
            (HeaderValue::from("two"), None),
            (HeaderValue::from(2.0), None),
            (HeaderValue::from(true), None),
            (HeaderValue::Null, None),
            (HeaderValue::Timestamp(2), None),
            (HeaderValue::Binary(Bytes::from_static(b"2")), None),
            (HeaderValue::List(vec![HeaderValue::from(2)]), None),
            (HeaderValue::Map(Vec::new()), None),
        ];
        for (value, expected) in rows {
            let expected = Carried {
                attempts: expected.unwrap_or(0),
                malformed: expected.is_none(),
            };
            assert_eq!(
                carried(&with(std::slice::from_ref(value)), "fulfil"),
                expected,
                "{value:?}"
            );
        }
    }

    // spec: C3
    #[test]
    fn of_several_counts_the_largest_valid_one_counts_whatever_the_case_of_the_name() {
        let mut headers = with(&[
            HeaderValue::from(2),
            HeaderValue::from("five"),
            HeaderValue::from(3),
        ]);
        headers.append("X-RustStream-Retry-Count", 7);
        headers.append("x-ruststream-retry-count", 4);
        assert_eq!(
            carried(&headers, "fulfil"),
            Carried {
                attempts: 7,
                malformed: true
            }
        );
    }

    // spec: C1
    #[test]
    fn a_copy_of_another_handler_counts_from_the_start() {
        let mut headers = with(&[HeaderValue::from(2)]);
        headers.append(names::HANDLER, "bill");
        assert_eq!(carried(&headers, "fulfil").attempts, 0);
        assert_eq!(carried(&headers, "bill").attempts, 2);
    }

    // spec: C2
    // case: A19
    #[test]
    fn a_replayed_dead_letter_counts_from_the_start() {
        let mut headers = with(&[HeaderValue::from(2)]);
        headers.append(names::DEAD_REASON, "max_attempts");
        assert_eq!(carried(&headers, "fulfil").attempts, 0);
    }

    // spec: A31 A35 C1
    #[test]
    fn the_attempt_adds_what_is_carried_and_what_is_counted_and_saturates() {
        assert_eq!(number(0, 0), 1);
        assert_eq!(number(0, 1), 2);
        assert_eq!(number(2, 0), 3);
        assert_eq!(number(2, 3), 6);
        assert_eq!(number(u32::MAX, 0), u32::MAX);
        assert_eq!(number(u32::MAX, u32::MAX), u32::MAX);
    }

    fn any_value() -> impl Strategy<Value = HeaderValue> {
        prop_oneof![
            any::<i64>().prop_map(HeaderValue::Int),
            any::<u64>().prop_map(HeaderValue::UInt),
            any::<f64>().prop_map(HeaderValue::Float),
            any::<bool>().prop_map(HeaderValue::Bool),
            ".{0,30}".prop_map(HeaderValue::from),
            "[0-9]{1,25}".prop_map(HeaderValue::from),
            proptest::collection::vec(any::<u8>(), 0..30)
                .prop_map(|bytes| HeaderValue::Binary(bytes.into())),
            Just(HeaderValue::Null),
        ]
    }

    proptest! {
        // spec: C3
        #[test]
        fn no_header_makes_the_count_panic_or_wrap(values in proptest::collection::vec(any_value(), 0..6), counted in any::<u32>()) {
            let carried = carried(&with(&values), "fulfil");
            let attempt = number(carried.attempts, counted);
            prop_assert!(attempt >= 1, "an attempt is counted from one");
            prop_assert!(attempt >= counted, "the broker's count is never undercut");
            prop_assert!(attempt >= carried.attempts, "a carried count is never undercut");
        }
    }
}
