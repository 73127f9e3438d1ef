//! The registration as tokens.
//!
//! Everything stands in one constant beside the function. It has a name, because `const _` in an
//! `impl` would be an error of its own beside the one about the function that is not free. Spans decide what the compiler underlines,
//! so each call into the runtime crate is spanned, path and parentheses, at the user's tokens that it
//! is about; what is about none keeps the span of the attribute.

use proc_macro2::Delimiter;
use proc_macro2::Group;
use proc_macro2::Ident;
use proc_macro2::Span;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use quote::ToTokens;
use quote::format_ident;
use quote::quote;
use quote::quote_spanned;
use syn::Expr;
use syn::Path;
use syn::PathArguments;
use syn::ReturnType;
use syn::Signature;
use syn::ext::IdentExt;

use crate::args::Arguments;
use crate::args::Entry;
use crate::args::Value;
use crate::cfg;
use crate::check;
use crate::keys::Check;
use crate::keys::FORMS;
use crate::keys::Kind;

/// The registration of a handler whose attribute and signature are sound. `others` counts the
/// attributes of this kind that still stand on the function.
pub(crate) fn registration(
    arguments: &Arguments,
    form: &Entry,
    signature: &Signature,
    others: usize,
) -> TokenStream {
    let runtime = Runtime::of(arguments);
    let mut expansion = Expansion {
        runtime: &runtime,
        arguments,
        form,
        constants: TokenStream::new(),
        checks: TokenStream::new(),
    };
    let address = expansion.source();
    let options = expansion.options(arguments, "");
    expansion.check_batch(signature);
    let Expansion {
        constants, checks, ..
    } = expansion;

    let call_site = Span::call_site();
    let private = runtime.private(call_site);
    let form = variant(form.key.name);
    let name = name(arguments, signature);
    let slot = slot(&runtime, arguments, signature);
    let needs = needs(&runtime, signature);
    let function = &signature.ident;
    let returned = returned(signature);
    let constant = Ident::new(&constant_name(signature, others), function.span());
    quote! {
        #[allow(dead_code, deprecated, non_upper_case_globals, unused_braces, unused_parens)]
        const #constant: () = {
            #[allow(unused_imports)]
            use #private::{ByItself as _, ByPolicy as _, ByMessage as _, BySerialize as _, Fallback as _, Plain as _};
            #constants
            #checks
            #slot
            #needs
            fn __type() -> ::core::any::TypeId {
                const { #private::type_of(&#function) }
            }
            #private::inventory::submit! {
                #private::Registration::new(
                    #name,
                    (::core::module_path!(), ::core::file!(), ::core::line!()),
                    #private::Form::#form,
                    #address,
                    #private::Options { #options ..#private::Options::NONE },
                    __slot,
                    __type,
                    __needs,
                    #private::Of::<#returned>::FAILS,
                )
            }
        };
    }
}

/// The path of the runtime crate, at any span.
pub(crate) struct Runtime(Option<Path>);

impl Runtime {
    /// As the attribute's `crate` says.
    fn of(arguments: &Arguments) -> Self {
        match arguments.find("crate").map(|entry| &entry.value) {
            Some(Value::Crate(path)) => Self(Some(path.clone())),
            _ => Self(None),
        }
    }

    /// As a path says.
    pub(crate) fn new(path: Option<Path>) -> Self {
        Self(path)
    }

    /// The module for generated code.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        let Some(path) = &self.0 else {
            return quote_spanned!(span=> ::ruststream::__private);
        };
        // Whoever wrote the path decides how it is resolved; where it points is ours to say.
        let path = located(path.to_token_stream(), span);
        quote_spanned!(span=> #path::__private)
    }

    /// A call of one of its functions that is underlined as `about`.
    pub(crate) fn call(
        &self,
        about: &impl ToTokens,
        function: &str,
        arguments: TokenStream,
    ) -> TokenStream {
        let (first, last) = ends(about);
        let private = self.private(first);
        let function = function.split("::").map(|part| Ident::new(part, first));
        let mut parentheses = Group::new(Delimiter::Parenthesis, arguments);
        parentheses.set_span(last);
        quote_spanned!(first=> #private #(::#function)* #parentheses)
    }
}

struct Expansion<'a> {
    runtime: &'a Runtime,
    arguments: &'a Arguments,
    form: &'a Entry,
    constants: TokenStream,
    checks: TokenStream,
}

impl Expansion<'_> {
    /// The address, and its check.
    fn source(&mut self) -> TokenStream {
        let address = self.value(self.form, "");
        let form = variant(self.form.key.name);
        let private = self.runtime.private(Span::call_site());
        let mqtt = check::is_mqtt(self.arguments);
        self.check(
            self.form,
            "source",
            quote!(#private::Form::#form, #mqtt, #address),
        );
        address
    }

    /// The fields of an options struct, each with a comma, and their checks.
    fn options(&mut self, arguments: &Arguments, group: &str) -> TokenStream {
        let mut fields = TokenStream::new();
        for entry in arguments.entries() {
            let name = entry.key.name;
            if FORMS.contains(&name) && group.is_empty() || name == "name" || name == "crate" {
                continue;
            }
            let field = Ident::new(name, Span::call_site());
            let value = self.field(entry, group);
            fields.extend(quote!(#field: #value,));
        }
        fields
    }

    /// The value of one field.
    fn field(&mut self, entry: &Entry, group: &str) -> TokenStream {
        let private = self.runtime.private(Span::call_site());
        let some = quote!(::core::option::Option::Some);
        let key = entry.key.name;
        match (&entry.value, entry.key.kind) {
            (Value::Word(_, variant), Kind::Word(of, _)) => {
                let of = Ident::new(of, Span::call_site());
                let variant = Ident::new(variant, Span::call_site());
                quote!(#some(#private::#of::#variant))
            }
            (Value::Truth(truth), Kind::Flag) => quote!(#truth),
            (Value::Truth(truth), _) => quote!(#some(#truth)),
            (Value::Group(keys), Kind::Group(of, _)) => {
                let of = Ident::new(of, Span::call_site());
                let fields = self.options(keys, key);
                if key == "batch" {
                    return self.batch(keys);
                }
                quote!(#some(#private::#of { #fields ..#private::#of::NONE }))
            }
            (Value::Expression(path), Kind::Function) if key == "ordered_by" => {
                let delivery = Ident::new("__delivery", Span::mixed_site());
                let (first, last) = ends(path);
                let mut given = Group::new(Delimiter::Parenthesis, quote!(#delivery));
                given.set_span(last);
                let hash = self
                    .runtime
                    .call(path, "hash_of", quote_spanned!(first=> #path #given));
                quote!(#some(|#delivery: &#private::Delivery| #hash))
            }
            (Value::Expression(path), Kind::Function) => {
                let function = self.runtime.call(path, "retry_topic_of", quote!(#path));
                quote!(#some(#function))
            }
            (Value::Expression(pairs), Kind::Pairs) => match &**pairs {
                Expr::Array(pairs) => quote!(#some(&#pairs)),
                pairs => quote!(#some(#pairs)),
            },
            (Value::Expression(_), kind) => {
                let value = self.value(entry, group);
                self.check_value(entry, kind, &value);
                match kind {
                    Kind::Duration(_) => quote!(#some(#private::parsed_duration(#value))),
                    Kind::Backoff => quote!(#private::parsed_backoff(#value)),
                    Kind::Number(Check::AtMostTwo) => quote!(#some(#private::small(#value))),
                    _ => quote!(#some(#value)),
                }
            }
            // The parser gives each kind its own value.
            _ => quote!(::core::option::Option::None),
        }
    }

    /// `batch(…)`, whose `wait` may be left out.
    fn batch(&self, keys: &Arguments) -> TokenStream {
        let private = self.runtime.private(Span::call_site());
        let value = |name| keys.find(name).map(|entry| constant_of(entry, "batch"));
        let size = value("size").map_or_else(|| quote!(1), |(size, _)| size);
        let wait = value("wait").map_or_else(|| quote!("0s"), |(wait, _)| wait);
        quote!(::core::option::Option::Some(#private::BatchOptions {
            size: #size,
            wait: #private::parsed_duration(#wait),
        }))
    }

    /// A value that may be used more than once: a literal itself, anything else as a constant.
    fn value(&mut self, entry: &Entry, group: &str) -> TokenStream {
        let (value, constant) = constant_of(entry, group);
        self.constants.extend(constant);
        value
    }

    fn check_value(&mut self, entry: &Entry, kind: Kind, value: &TokenStream) {
        let key = entry.key.name;
        let mqtt = check::is_mqtt(self.arguments);
        let private = self.runtime.private(Span::call_site());
        let of_kind = match kind {
            Kind::Text(of_kind) | Kind::Number(of_kind) | Kind::Duration(of_kind) => of_kind,
            Kind::Backoff => return self.check(entry, "backoff", quote!(#value)),
            _ => return,
        };
        let (function, arguments) = match of_kind {
            Check::Any | Check::Source => return,
            Check::Target => ("target", quote!(#key, #mqtt, #value)),
            Check::DeadLetter => {
                let (own, _) = constant_of(self.form, "");
                let form = variant(self.form.key.name);
                let arguments = quote!(#private::Form::#form, #mqtt, #own, #value);
                ("dead_letter", arguments)
            }
            Check::RetryTopic => {
                let dead_letter = if let Some(entry) = self.arguments.find("dead_letter") {
                    let (value, _) = constant_of(entry, "");
                    quote!(::core::option::Option::Some(#value))
                } else {
                    quote!(::core::option::Option::None)
                };
                ("retry_topic", quote!(#mqtt, #dead_letter, #value))
            }
            Check::Name => ("name", quote!(#key, #value)),
            Check::ShareName => ("share_name", quote!(#value)),
            Check::ShortName => ("short_name", quote!(#key, #value)),
            Check::AtLeastOne => ("at_least_one", quote!(#key, #value)),
            Check::AtMostTwo => ("at_most_two", quote!(#key, #value)),
            Check::Positive => ("positive_duration", quote!(#key, #value)),
            Check::MayBeZero => ("any_duration", quote!(#key, #value)),
        };
        self.check(entry, function, arguments);
    }

    /// `batch(…)` and a `Batch` argument come together.
    fn check_batch(&mut self, signature: &Signature) {
        let arguments = cfg::arguments(signature);
        if let Some(batch) = self.arguments.word("batch") {
            let mut any = TokenStream::new();
            for argument in &arguments {
                let private = self.runtime.private(Span::call_site());
                let condition = argument.condition();
                let of = argument.of;
                any.extend(
                    quote!(#condition { if #private::Of::<#of>::BATCH { __found = true; } }),
                );
            }
            let found = quote!({ let mut __found = false; #any __found });
            self.check(batch, "batch_argument", found);
            return;
        }
        for argument in &arguments {
            let of = argument.of;
            let condition = argument.condition();
            let private = self.runtime.private(Span::call_site());
            self.checks.extend(condition);
            self.check(of, "no_batch_argument", quote!(#private::Of::<#of>::BATCH));
        }
    }

    fn check(&mut self, about: &impl ToTokens, function: &str, arguments: TokenStream) {
        let call = self.runtime.call(about, function, arguments);
        self.checks.extend(quote!(const _: () = #call;));
    }
}

/// How a value is named, and the constant that has to stand before it if it is not a literal. One
/// constant, so that a value of the wrong type is one error.
fn constant_of(entry: &Entry, group: &str) -> (TokenStream, TokenStream) {
    let Value::Expression(value) = &entry.value else {
        return (TokenStream::new(), TokenStream::new());
    };
    if let Expr::Lit(_) = &**value {
        return (value.to_token_stream(), TokenStream::new());
    }
    let name = format_ident!(
        "__SUBSCRIBER_{}_{}",
        group.to_uppercase(),
        entry.key.name.to_uppercase()
    );
    let of = match entry.key.kind {
        Kind::Number(_) => quote!(u32),
        Kind::Integer => quote!(i32),
        _ => quote!(&'static str),
    };
    (quote!(#name), quote!(const #name: #of = #value;))
}

/// Makes one slot.
fn slot(runtime: &Runtime, arguments: &Arguments, signature: &Signature) -> TokenStream {
    let function = &signature.ident;
    let at_function = function.span();
    let private = runtime.private(at_function);
    let here = runtime.private(Span::call_site());
    let incoming = Ident::new("__incoming", Span::mixed_site());
    let rejection = Ident::new("__rejection", Span::mixed_site());
    let extracted = cfg::arguments(signature);
    let extract = extracted.iter().map(|argument| {
        let (condition, name, of) = (argument.condition(), &argument.name, argument.of);
        let call = extract_of(runtime, of, quote!(#incoming));
        // A `match`, because `?` is two calls to be compiled for each argument.
        quote! {
            #condition
            let #name = match #call {
                ::core::result::Result::Ok(#name) => #name,
                ::core::result::Result::Err(#rejection) => {
                    return ::core::result::Result::Err(#rejection);
                }
            };
        }
    });
    let call = cfg::call(function, &extracted);
    let verdict = verdict(runtime, arguments, signature, &call);
    let future = quote_spanned!(at_function=> async move { #verdict });
    let closure = quote! {
        |#incoming: &mut #here::Incoming<'_>| {
            #(#extract)*
            ::core::result::Result::Ok(#future)
        }
    };
    let boxed = quote_spanned!(at_function=> #private::Typed::boxed(#closure));
    quote! {
        fn __slot() -> ::std::boxed::Box<dyn #here::Slot> {
            #boxed
        }
    }
}

/// Runs the handler and says what came of it.
fn verdict(
    runtime: &Runtime,
    arguments: &Arguments,
    signature: &Signature,
    call: &TokenStream,
) -> TokenStream {
    let returned = Ident::new("__returned", Span::mixed_site());
    let here = runtime.private(Span::call_site());
    // The argument of a call is what the compiler blames, so it is placed like the call. It has to
    // be placed exactly so: an expression whose tokens come from two places is blamed on the attribute.
    let place = |name: &str, about: &TokenStream| Ident::new(name, ends(about).0);
    let (about_value, about_error) = about_return(signature);
    let value = place("__value", &about_value);
    let error = place("__error", &about_error);
    let done = {
        let (about, span) = (&about_value, ends(&about_value).0);
        if arguments.has("reply_to") || arguments.has("replies") {
            let answer = runtime.call(about, "Answer::of", quote!(#value));
            quote_spanned!(span=> (&&#answer).verdict())
        } else {
            runtime.call(about, "done", quote!(#value))
        }
    };
    let failed = {
        let (about, span) = (&about_error, ends(&about_error).0);
        let error = quote_spanned!(span=> &#error);
        if arguments.has("on_error") || arguments.has("max_attempts") {
            let failing = runtime.call(about, "Failing", error);
            quote_spanned!(span=> (&&#failing).verdict())
        } else {
            runtime.call(about, "failed", error)
        }
    };
    quote! {
        let #returned = #call.await;
        match #here::Probe(#returned).split() {
            ::core::result::Result::Ok(#value) => #done,
            ::core::result::Result::Err(#error) => #failed,
        }
    }
}

/// Collects what the arguments need.
fn needs(runtime: &Runtime, signature: &Signature) -> TokenStream {
    let needs = Ident::new("__needs", Span::mixed_site());
    let private = runtime.private(Span::call_site());
    let arguments = cfg::arguments(signature);
    if arguments.is_empty() {
        return quote!(fn __needs(_: &mut #private::Requirements) {});
    }
    let collect = arguments.iter().map(|argument| {
        let (condition, of) = (argument.condition(), argument.of);
        quote!(#condition #private::Of::<#of>::collect(#needs);)
    });
    quote!(fn __needs(#needs: &mut #private::Requirements) { #(#collect)* })
}

/// Extracts one argument, underlined as its type.
fn extract_of(runtime: &Runtime, of: &syn::Type, from: TokenStream) -> TokenStream {
    let (first, last) = ends(of);
    let private = runtime.private(first);
    let mut parentheses = Group::new(Delimiter::Parenthesis, from);
    parentheses.set_span(last);
    quote_spanned!(first=> <#of as #private::Argument>::extract #parentheses)
}

/// The handler's name.
fn name(arguments: &Arguments, signature: &Signature) -> TokenStream {
    match arguments.find("name") {
        Some(entry) => entry.to_token_stream(),
        None => signature.ident.unraw().to_string().into_token_stream(),
    }
}

/// A name that no other item has, unless the function's own name is taken twice as well.
fn constant_name(signature: &Signature, others: usize) -> String {
    let function = signature.ident.unraw();
    match others {
        0 => format!("__subscriber_{function}"),
        others => format!("__subscriber_{function}_{others}"),
    }
}

fn variant(form: &str) -> Ident {
    let name = match form {
        "queue" => "Queue",
        "topic" => "Topic",
        "filter" => "Filter",
        _ => "Address",
    };
    Ident::new(name, Span::call_site())
}

fn returned(signature: &Signature) -> TokenStream {
    match &signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, of) => of.to_token_stream(),
    }
}

/// What errors about the returned value and the returned error underline: the type arguments of a
/// written `Result`, else the whole type, else the function's name.
fn about_return(signature: &Signature) -> (TokenStream, TokenStream) {
    let ReturnType::Type(_, of) = &signature.output else {
        let name = signature.ident.to_token_stream();
        return (name.clone(), name);
    };
    let whole = of.to_token_stream();
    let syn::Type::Path(path) = &**of else {
        return (whole.clone(), whole);
    };
    let last = path.path.segments.last();
    let arguments = match last.map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) => &arguments.args,
        _ => return (whole.clone(), whole),
    };
    let mut arguments = arguments.iter().map(ToTokens::to_token_stream);
    let value = arguments.next().unwrap_or_else(|| whole.clone());
    let error = arguments.next().unwrap_or(whole);
    (value, error)
}

/// The spans of the first and the last token.
fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens
        .to_token_stream()
        .into_iter()
        .map(|token| token.span());
    let first = tokens.next().unwrap_or_else(Span::call_site);
    (first, tokens.last().unwrap_or(first))
}

/// Tokens as if they stood at `span`, resolved as before.
fn located(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token: TokenTree| {
            token.set_span(span.resolved_at(token.span()));
            token
        })
        .collect()
}
