//! Arguments under `#[cfg]`. An attribute sees its function before the compiler has decided about
//! those, so the expansion repeats them.

use proc_macro2::Ident;
use proc_macro2::Span;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Attribute;
use syn::FnArg;
use syn::Meta;
use syn::Signature;
use syn::Type;

use crate::diagnostics::Errors;

/// One argument of a handler.
#[derive(Debug)]
pub(crate) struct Argument<'a> {
    /// What it is called in the expansion.
    pub(crate) name: Ident,
    /// Its type.
    pub(crate) of: &'a Type,
    predicates: Vec<TokenStream>,
}

impl Argument<'_> {
    /// Its `#[cfg]`, or nothing.
    pub(crate) fn condition(&self) -> TokenStream {
        let predicates = &self.predicates;
        if predicates.is_empty() {
            return TokenStream::new();
        }
        quote!(#[cfg(all(#(#predicates),*))])
    }
}

/// The arguments of a signature.
pub(crate) fn arguments(signature: &Signature) -> Vec<Argument<'_>> {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(argument) => Some(argument),
        FnArg::Receiver(_) => None,
    });
    typed
        .enumerate()
        .map(|(index, argument)| Argument {
            name: Ident::new(&format!("__argument{index}"), Span::mixed_site()),
            of: &argument.ty,
            predicates: argument.attrs.iter().filter_map(predicate).collect(),
        })
        .collect()
}

/// Refuse more conditional arguments than can be spelled out.
pub(crate) fn check(signature: &Signature, errors: &mut Errors) {
    let arguments = arguments(signature);
    let mut conditional = arguments.iter().filter(|it| !it.predicates.is_empty());
    if let Some(one_more) = conditional.nth(MOST) {
        errors.at(
            one_more.of,
            format!("at most {MOST} arguments may be under `#[cfg]`: put the function under it"),
        );
    }
}

/// A call with the arguments that are there. An argument of a call cannot be under `#[cfg]`, so
/// there is one call for each combination. The parentheses make the compiler look for a value, as it
/// does elsewhere in the expansion, so that a function that is not free is one error.
pub(crate) fn call(function: &Ident, arguments: &[Argument<'_>]) -> TokenStream {
    let conditional: Vec<usize> = (0..arguments.len())
        .filter(|index| !arguments[*index].predicates.is_empty())
        .collect();
    if conditional.is_empty() {
        let names = arguments.iter().map(|argument| &argument.name);
        return quote!((#function)(#(#names),*));
    }
    let mut calls = TokenStream::new();
    for combination in 0..1_u32 << conditional.len() {
        let is_in = |index: &usize| match conditional.iter().position(|it| it == index) {
            Some(bit) => combination & (1 << bit) != 0,
            None => true,
        };
        let conditions = conditional.iter().map(|index| {
            let predicates = &arguments[*index].predicates;
            if is_in(index) {
                quote!(all(#(#predicates),*))
            } else {
                quote!(not(all(#(#predicates),*)))
            }
        });
        let names = (0..arguments.len())
            .filter(is_in)
            .map(|index| &arguments[index].name);
        calls.extend(quote!(#[cfg(all(#(#conditions),*))] { (#function)(#(#names),*) }));
    }
    quote!({ #calls })
}

/// What an attribute asks for, if it decides about the argument.
fn predicate(attribute: &Attribute) -> Option<TokenStream> {
    let Meta::List(list) = &attribute.meta else {
        return None;
    };
    if list.path.is_ident("cfg") {
        return Some(list.tokens.clone());
    }
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    // `cfg_attr(a, cfg(b))` is `cfg(any(not(a), b))`.
    let parts = list
        .parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
        .ok()?;
    let mut parts = parts.into_iter();
    let when = parts.next()?;
    let asked: Vec<TokenStream> = parts
        .filter_map(|part| match part {
            Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens),
            _ => None,
        })
        .collect();
    (!asked.is_empty()).then(|| quote!(any(not(#when), all(#(#asked),*))))
}

/// The most arguments under `#[cfg]`: each doubles the number of calls.
const MOST: usize = 4;

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use quote::format_ident;

    use super::*;

    fn condition_of(argument: &str) -> String {
        let signature: Signature = syn::parse_str(&format!("async fn f({argument})")).unwrap();
        let arguments = arguments(&signature);
        arguments[0].condition().to_token_stream().to_string()
    }

    #[test]
    fn only_what_decides_about_the_argument_is_repeated() {
        assert_eq!(condition_of("a: A"), "");
        assert_eq!(condition_of("#[allow(unused)] a: A"), "");
        let expected = "# [cfg (all (unix))]";
        assert_eq!(condition_of("#[cfg(unix)] a: A"), expected);
        assert_eq!(condition_of("#[cfg_attr(all(), allow(unused))] a: A"), "");
        let expected = "# [cfg (all (any (not (a) , all (b))))]";
        assert_eq!(condition_of("#[cfg_attr(a, cfg(b))] a: A"), expected);
    }

    #[test]
    fn a_call_is_made_for_each_combination() {
        let signature = "async fn f(#[cfg(a)] a: A, b: B, #[cfg(c)] c: C)";
        let signature: Signature = syn::parse_str(signature).unwrap();
        let function = format_ident!("f");
        let calls = call(&function, &arguments(&signature)).to_string();
        assert_eq!(calls.matches("# [cfg").count(), 4, "{calls}");
        assert_eq!(calls.matches("__argument1").count(), 4, "{calls}");
        assert_eq!(calls.matches("__argument0").count(), 2, "{calls}");
    }
}
