//! The macros of ruststream: `#[subscriber]` and `#[derive(Failure)]`.

use proc_macro::TokenStream;

/// Registers an async function as a message handler.
#[proc_macro_attribute]
pub fn subscriber(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Derives `Failure`.
#[proc_macro_derive(Failure, attributes(failure))]
pub fn derive_failure(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
