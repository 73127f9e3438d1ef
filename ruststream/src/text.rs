//! A small text that can be put together in `const` evaluation, so that one message serves the
//! compiler and the running program.

use std::fmt;

/// A text of at most [`CAPACITY`] bytes; what does not fit is cut on a character boundary.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Text {
    /// An empty text.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            length: 0,
        }
    }

    /// Append `part`, as far as it fits.
    #[must_use]
    pub(crate) const fn with(self, part: &str) -> Self {
        self.with_at_most(part, CAPACITY)
    }

    /// Append a value that a user wrote, in backquotes and cut to a readable length.
    #[must_use]
    pub(crate) const fn with_value(self, value: &str) -> Self {
        self.with("`").with_cut(value).with("`")
    }

    /// Append a value, cut to a readable length.
    #[must_use]
    pub(crate) const fn with_cut(self, value: &str) -> Self {
        let text = self.with_at_most(value, LONGEST_VALUE);
        if value.len() > LONGEST_VALUE {
            text.with("…")
        } else {
            text
        }
    }

    /// Append a number.
    #[must_use]
    pub(crate) const fn with_number(self, number: u64) -> Self {
        let text = if number >= 10 {
            self.with_number(number / 10)
        } else {
            self
        };
        text.with_byte(b'0' + (number % 10) as u8)
    }

    /// The text.
    pub(crate) const fn as_str(&self) -> &str {
        let (used, _) = self.bytes.split_at(self.length);
        match std::str::from_utf8(used) {
            Ok(text) => text,
            // Unreachable, since only whole characters are appended.
            Err(_) => "",
        }
    }

    const fn with_at_most(mut self, part: &str, most: usize) -> Self {
        let mut room = CAPACITY - self.length;
        if room > most {
            room = most;
        }
        let mut rest = part.as_bytes();
        while let [first, tail @ ..] = rest {
            let width = width(*first);
            if width > room {
                break;
            }
            room -= width;
            self = self.with_byte(*first);
            rest = tail;
            let mut left = width - 1;
            while left > 0 {
                let [next, tail @ ..] = rest else { break };
                self = self.with_byte(*next);
                rest = tail;
                left -= 1;
            }
        }
        self
    }

    const fn with_byte(mut self, byte: u8) -> Self {
        if self.length < CAPACITY {
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        self
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Long enough for two values and a sentence around them.
const CAPACITY: usize = 640;

/// Values are addresses, which may be 65,535 bytes long.
const LONGEST_VALUE: usize = 120;

/// How many bytes the character with this first byte has.
const fn width(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_values_and_numbers_are_put_together() {
        const TEXT: Text = Text::new()
            .with("byte ")
            .with_number(1070)
            .with(" of ")
            .with_value("ä/b");
        assert_eq!(TEXT.as_str(), "byte 1070 of `ä/b`");
    }

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        let value = "€".repeat(CAPACITY);
        let text = Text::new().with(&value);
        assert_eq!(text.as_str(), "€".repeat(CAPACITY / 3));
        let text = Text::new().with_value(&value);
        assert_eq!(
            text.as_str(),
            format!("`{}…`", "€".repeat(LONGEST_VALUE / 3))
        );
    }
}
