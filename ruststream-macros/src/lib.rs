//! The macros of ruststream: `#[subscriber]` and `#[derive(Failure)]`.
//!
//! They are used through the `ruststream` crate, which documents them.

use proc_macro::TokenStream;

mod args;
mod cfg;
mod check;
mod diagnostics;
mod expand;
mod failure;
mod handler;
mod keys;
mod subscriber;

/// Registers an async function as a message handler.
#[proc_macro_attribute]
pub fn subscriber(attribute: TokenStream, item: TokenStream) -> TokenStream {
    subscriber::expand(attribute.into(), item.into()).into()
}

/// Derives `Failure`.
#[proc_macro_derive(Failure, attributes(failure))]
pub fn derive_failure(input: TokenStream) -> TokenStream {
    failure::expand(input.into()).into()
}
