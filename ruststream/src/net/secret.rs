//! A text that is never shown.

use std::fmt;

/// A password: its `Debug` shows nothing of it, not even its length.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// A secret of `text`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the protocol's packet and nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // case: L01
    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("p@ss-W0rd");
        assert_eq!(format!("{secret:?} {secret:#?}"), "… …");
        assert_eq!(secret.expose(), "p@ss-W0rd");
    }
}
