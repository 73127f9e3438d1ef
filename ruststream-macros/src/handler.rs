//! The annotated item: a free `async fn`, of which only the signature is read. Its body is left to
//! the compiler, so that errors in it are the compiler's own.

use proc_macro2::Ident;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::Attribute;
use syn::FnArg;
use syn::PatType;
use syn::ReturnType;
use syn::Signature;
use syn::Token;
use syn::Type;
use syn::Visibility;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::Parser;
use syn::token;

use crate::diagnostics::Errors;

/// What is read of the item.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) signature: Signature,
    /// How many attributes like this one still stand on it.
    pub(crate) others: usize,
}

/// Read the signature, or say what the attribute stands on.
pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Handler> {
    let parser = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        let others = attributes.iter().filter(|other| {
            let last = other.path().segments.last();
            last.is_some_and(|last| last.ident == "subscriber")
        });
        let others = others.count();
        let _visibility: Visibility = input.parse()?;
        if let Some(error) = other_item(input) {
            return Err(error);
        }
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let message = "a handler needs a body: it is a free function, not a method of a trait";
            return Err(syn::Error::new_spanned(&signature.ident, message));
        }
        let _body: TokenStream = input.parse()?;
        Ok(Handler { signature, others })
    };
    parser.parse2(item).map_err(|error| errors.push(error)).ok()
}

/// Hold the signature against the rules for handlers.
pub(crate) fn check(signature: &Signature, errors: &mut Errors) {
    if let Some(word) = &signature.constness {
        errors.at(word, "a handler cannot be `const`: remove the word");
    }
    if signature.asyncness.is_none() {
        let message = format!("a handler is async: write `async fn {}`", signature.ident);
        errors.at(signature.fn_token, message);
    }
    if let syn::Safety::Unsafe(word) = &signature.safety {
        errors.at(
            word,
            "a handler cannot be `unsafe`, since safe code calls it: remove the word",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.at(
            abi,
            "a handler cannot be `extern`, since Rust calls it: remove this",
        );
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a handler cannot be variadic: name its arguments");
    }
    check_generics(signature, errors);
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => errors.at(
                receiver,
                "a handler is a free function: move it out of the `impl`, \
                 and take shared data as `State<T>`",
            ),
            FnArg::Typed(argument) => check_argument(argument, errors),
        }
    }
    if let ReturnType::Type(_, returned) = &signature.output
        && has_impl(returned.to_token_stream())
    {
        errors.at(
            returned,
            "a handler cannot return `impl Trait`: name the type",
        );
    }
}

fn check_generics(signature: &Signature, errors: &mut Errors) {
    let generics = &signature.generics;
    if generics.params.is_empty() {
        if let Some(clause) = &generics.where_clause {
            errors.at(
                clause,
                "a handler cannot have a `where` clause: remove it, since nothing is generic",
            );
        }
        return;
    }
    let only_lifetimes = generics
        .params
        .iter()
        .all(|parameter| matches!(parameter, syn::GenericParam::Lifetime(_)));
    if only_lifetimes {
        errors.at(
            &generics.params,
            "a handler cannot have lifetime parameters: its arguments own what they take",
        );
    } else {
        errors.at(
            &generics.params,
            "a handler cannot be generic, since nobody says what it is called with: \
             name the types",
        );
    }
}

fn check_argument(argument: &PatType, errors: &mut Errors) {
    if has_impl(argument.ty.to_token_stream()) {
        errors.at(
            &argument.ty,
            "a handler cannot take `impl Trait`: name the type",
        );
    } else if let Type::Reference(borrowed) = &*argument.ty {
        let inner = borrowed.elem.to_token_stream().to_string().replace(' ', "");
        let message = format!(
            "a handler argument owns what it takes: write {}",
            owned(&inner)
        );
        errors.at(&argument.ty, message);
    }
}

/// What to take in place of a reference.
fn owned(borrowed: &str) -> String {
    match borrowed {
        "str" => "`Text` for a payload that is text, or `Json<String>`".to_owned(),
        "[u8]" => "`Bytes` for the raw payload".to_owned(),
        other => format!("`State<{other}>` for shared data, or `Json<{other}>` for the payload"),
    }
}

/// Whether the word `impl` occurs.
fn has_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => has_impl(group.stream()),
        _ => false,
    })
}

/// An error for anything that is not a function.
fn other_item(input: ParseStream<'_>) -> Option<syn::Error> {
    let say = |what: &str| {
        let message = format!("`#[subscriber]` goes on an `async fn`, not on {what}");
        Some(syn::Error::new(input.span(), message))
    };
    if input.is_empty() {
        return say("nothing");
    }
    if input.peek(Token![const]) && (input.peek2(syn::Ident) || input.peek2(Token![_])) {
        return say("a constant");
    }
    if input.peek(Token![unsafe]) && (input.peek2(Token![impl]) || input.peek2(Token![trait])) {
        return say("an `impl` or a trait");
    }
    if input.peek(Token![extern]) && (input.peek2(token::Brace) || input.peek2(Token![crate])) {
        return say("an `extern` item");
    }
    let ahead = input.fork();
    let word = ahead.call(Ident::parse_any).ok()?;
    match word.to_string().as_str() {
        "struct" => say("a struct"),
        "enum" => say("an enum"),
        "union" => say("a union"),
        "trait" => say("a trait"),
        "impl" => say("an `impl`: put it on a free function"),
        "mod" => say("a module: put it on each handler in it"),
        "use" => say("a `use`"),
        "static" => say("a static"),
        "type" => say("a type"),
        "let" => say("a statement"),
        "macro_rules" => say("a macro"),
        "async" | "fn" | "const" | "unsafe" | "extern" | "safe" => None,
        _ if ahead.peek(Token![!]) || ahead.peek(Token![::]) => say("a macro call"),
        _ => None,
    }
}
