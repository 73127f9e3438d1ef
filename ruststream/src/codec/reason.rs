//! What is said about a payload that does not decode: what and where, never what was sent.

#[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
use crate::extract::Rejection;

/// The longest reason a codec gives, in bytes.
pub(crate) const MAX_REASON: usize = 200;

/// Nobody can decode the payload: `what` went wrong in `codec`, and the `place`, which is worth more
/// than the end of a long list of names and so is never cut off.
#[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
pub(crate) fn refusal(codec: &str, mut what: String, place: &str) -> Rejection {
    let room = MAX_REASON.saturating_sub(codec.len() + ": ".len() + place.len());
    what.truncate(what.floor_char_boundary(room));
    Rejection::undecodable(format_args!("{codec}: {what}{place}"))
}

/// Cut to [`MAX_REASON`] bytes, on a character boundary.
pub(crate) fn capped(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_REASON));
    text
}

/// A name that came with a message, fit to be shown: escaped, and cut to 64 bytes.
pub(crate) fn shown(name: &str) -> String {
    const MAX_NAME: usize = 64;
    let mut shown: String = name
        .chars()
        .take(MAX_NAME)
        .flat_map(char::escape_debug)
        .collect();
    if shown.len() > MAX_NAME || shown.len() < name.len() {
        shown.truncate(shown.floor_char_boundary(MAX_NAME));
        shown.push('…');
    }
    shown
}

/// serde's message for a value that does not fit its type, without the value.
///
/// serde quotes what it found (`invalid type: string "…"`, ``unknown field `…` ``), and a type's own
/// messages may. Kept are serde's own words and the names that come from the type; a message that
/// serde did not make is replaced, since anything may be in it.
#[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
pub(crate) fn without_values(message: &str) -> String {
    const FROM_THE_TYPE: [&str; 3] = ["missing field `", "duplicate field `", "invalid length "];
    const EXPECTED: &str = ", expected ";

    if FROM_THE_TYPE.iter().any(|words| message.starts_with(words)) {
        return message.to_owned();
    }
    // The value comes first and the expectation is the type's, so the last `expected` is serde's.
    let expected = message.rfind(EXPECTED).map_or("", |at| &message[at..]);
    for kind in ["invalid type: ", "invalid value: "] {
        if let Some(found) = message.strip_prefix(kind) {
            let found = found.strip_suffix(expected).unwrap_or(found);
            let found = found.split(['"', '`']).next().unwrap_or_default();
            return format!("{kind}{}{expected}", found.trim_end());
        }
    }
    for kind in ["unknown variant", "unknown field"] {
        if message.starts_with(kind) {
            return format!("{kind}{expected}");
        }
    }
    "a value was refused by its type".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "json", feature = "cbor", feature = "msgpack"))]
    #[test]
    fn what_serde_found_is_left_out_and_what_it_expected_is_kept() {
        #[rustfmt::skip]
        let rows = [
            ("missing field `id`", "missing field `id`"),
            ("duplicate field `id`", "duplicate field `id`"),
            ("invalid length 3, expected an array of length 2", "invalid length 3, expected an array of length 2"),
            (r#"invalid type: string "secret", expected u32"#, "invalid type: string, expected u32"),
            (r#"invalid type: string "a, expected b`", expected u32"#, "invalid type: string, expected u32"),
            ("invalid type: map, expected u32", "invalid type: map, expected u32"),
            ("invalid value: integer `-7`, expected u32", "invalid value: integer, expected u32"),
            ("unknown variant `secret`, expected `a` or `b`", "unknown variant, expected `a` or `b`"),
            ("unknown field `x`, expected one of `a`, `b`, `c`", "unknown field, expected one of `a`, `b`, `c`"),
            ("unknown field `x`, there are no fields", "unknown field"),
            ("card 4111 is blocked", "a value was refused by its type"),
        ];
        for (message, shown) in rows {
            assert_eq!(without_values(message), shown);
        }
    }

    #[test]
    fn a_name_is_shown_escaped_and_cut() {
        assert_eq!(shown("text/plain"), "text/plain");
        assert_eq!(shown("é"), "é");
        assert_eq!(shown("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
        assert!(shown(&"\u{7f}".repeat(64)).len() <= 64 + '…'.len_utf8());
    }

    #[test]
    fn a_reason_is_cut_on_a_character_boundary() {
        assert_eq!(capped("é".repeat(300)).len(), MAX_REASON);
        assert_eq!(
            capped(format!("x{}", "é".repeat(300))).len(),
            MAX_REASON - 1
        );
        assert_eq!(capped("short".to_owned()), "short");
    }
}
