//! Collects errors, so that one compilation shows all of them, and words those about names.

use std::fmt;

use proc_macro2::Span;
use proc_macro2::TokenStream;
use quote::ToTokens;

/// The errors found so far. It must be [finished](Errors::finish), or tests panic.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Option<syn::Error>,
    finished: bool,
}

impl Errors {
    /// An error that underlines `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl fmt::Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// An error that underlines one place.
    pub(crate) fn at_span(&mut self, span: Span, message: impl fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Add a finished error.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.found {
            Some(found) => found.combine(error),
            None => self.found = Some(error),
        }
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    /// The errors as code that makes the compiler show them; nothing if there are none.
    pub(crate) fn finish(mut self) -> TokenStream {
        self.finished = true;
        let found = self.found.take();
        found.map_or_else(TokenStream::new, syn::Error::into_compile_error)
    }
}

#[cfg(test)]
impl Drop for Errors {
    fn drop(&mut self) {
        assert!(
            self.finished || std::thread::panicking(),
            "errors were collected and forgotten"
        );
    }
}

/// The known name that is nearest to `unknown`: at most a third of it differs.
pub(crate) fn nearest<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (unknown.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(unknown, name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// Names in backquotes, with commas and a last `or`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        None => String::new(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} or {last}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["max_attempts", "address", "queue"];
        assert_eq!(nearest("max_attemps", known), Some("max_attempts"));
        assert_eq!(nearest("adress", known), Some("address"));
        assert_eq!(nearest("quue", known), Some("queue"));
        assert_eq!(nearest("banana", known), None);
    }

    #[test]
    fn names_are_listed_as_one_would_say_them() {
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
