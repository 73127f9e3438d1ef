//! What a dead letter says of its death.

use std::fmt;

use crate::extract::Extract;
use crate::extract::Headers;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::headers::HeaderValue;
use crate::headers::names;
use crate::registration::Requirements;

/// Why a message was dead-lettered, for a handler that reads dead letters (spec C10).
///
/// Nothing is refused: what the message does not say is `None`, as on a message that somebody else
/// put there. Its display is one line for a log.
///
/// # Examples
///
/// ```
/// use ruststream::DeadLetter;
/// use ruststream::MessageId;
/// use ruststream::subscriber;
///
/// #[subscriber(queue = "orders.dead", reads_dead_letters)]
/// async fn file(letter: DeadLetter, id: MessageId) {
///     tracing::warn!(id = id.as_str(), %letter, "dead letter");
/// }
/// ```
#[derive(Clone, Debug)]
pub struct DeadLetter(Headers);

impl DeadLetter {
    /// Why: `max_attempts`, `outcome`, `decode`, `panic`, `timeout` or `error`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.text(names::DEAD_REASON)
    }

    /// The error's text, if there was an error.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.text(names::DEAD_ERROR)
    }

    /// How many attempts there were.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.read(names::DEAD_ATTEMPTS).ok().flatten()
    }

    /// The mount point that gave it up.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        self.text(names::DEAD_HANDLER)
    }

    /// The address where that one got it first.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.text(names::DEAD_ADDRESS)
    }

    /// When, as RFC 3339.
    #[must_use]
    pub fn at(&self) -> Option<&str> {
        self.text(names::DEAD_AT)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.first(name).and_then(HeaderValue::as_str)
    }
}

impl Extract for DeadLetter {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Headers::extract(from).map(Self)
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("DeadLetter");
    }
}

/// For calling a handler in a test.
impl From<Headers> for DeadLetter {
    fn from(headers: Headers) -> Self {
        Self(headers)
    }
}

/// One line: who gave it up, after how many attempts, and why.
impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handler = self.handler().unwrap_or("unknown");
        write!(f, "given up by `{handler}`")?;
        match self.attempts() {
            Some(1) => f.write_str(" after 1 attempt")?,
            Some(attempts) => write!(f, " after {attempts} attempts")?,
            None => {}
        }
        write!(f, ": {}", self.reason().unwrap_or("unknown"))?;
        match self.error() {
            Some(error) => write!(f, " ({error})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;
    use crate::message::Message;

    fn letter(headers: &[(&'static str, HeaderValue)]) -> DeadLetter {
        let message = headers.iter().fold(Message::new("x"), |it, (name, value)| {
            it.with_header(*name, value.clone())
        });
        Fixture::new(message).take().unwrap()
    }

    // spec: C10
    #[test]
    fn it_says_who_gave_it_up_after_how_many_attempts_and_why() {
        let letter = letter(&[
            (names::DEAD_REASON, "error".into()),
            (names::DEAD_ERROR, "no stock".into()),
            (names::DEAD_ATTEMPTS, 3_u32.into()),
            (names::DEAD_HANDLER, "fulfil".into()),
        ]);
        assert_eq!(
            letter.to_string(),
            "given up by `fulfil` after 3 attempts: error (no stock)"
        );
        assert_eq!((letter.address(), letter.at()), (None, None));
    }

    #[test]
    fn a_message_that_is_no_dead_letter_is_taken_all_the_same() {
        let odd = letter(&[(names::DEAD_ATTEMPTS, "many".into())]);
        assert_eq!((odd.attempts(), odd.reason()), (None, None));
        assert_eq!(odd.to_string(), "given up by `unknown`: unknown");
    }
}
