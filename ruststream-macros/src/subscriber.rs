//! `#[subscriber]`: syntax, meaning, tokens, in that order.

use proc_macro2::TokenStream;

use crate::args::Arguments;
use crate::cfg;
use crate::check;
use crate::diagnostics::Errors;
use crate::expand;
use crate::handler;

/// The annotated item unchanged, and beside it the registration or what is wrong with it.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut expansion = item.clone();
    if let Some(handler) = handler::parse(item, &mut errors) {
        let signature = handler.signature;
        let arguments = Arguments::parse(attribute, &mut errors);
        handler::check(&signature, &mut errors);
        cfg::check(&signature, &mut errors);
        check::arguments(&arguments, &mut errors);
        check::signature(&arguments, &signature, &mut errors);
        if errors.is_empty()
            && let Some(form) = check::form(&arguments)
        {
            expansion.extend(expand::registration(
                &arguments,
                form,
                &signature,
                handler.others,
            ));
        }
    }
    expansion.extend(errors.finish());
    expansion
}

#[cfg(test)]
mod tests;
