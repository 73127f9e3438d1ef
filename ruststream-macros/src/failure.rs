//! `#[derive(Failure)]`.

use proc_macro2::Ident;
use proc_macro2::Span;
use proc_macro2::TokenStream;
use quote::ToTokens;
use quote::quote;
use syn::Attribute;
use syn::Data;
use syn::DeriveInput;
use syn::Expr;
use syn::Fields;
use syn::Lit;
use syn::Meta;
use syn::Path;
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::ParseStream;

use crate::diagnostics::Errors;
use crate::diagnostics::list;
use crate::diagnostics::nearest;
use crate::expand::Runtime;

/// The impl, or a stand-in and what is wrong.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let expansion = match syn::parse2::<DeriveInput>(input) {
        Ok(input) => implementation(&input, &mut errors),
        Err(error) => {
            errors.push(error);
            TokenStream::new()
        }
    };
    let errors = errors.finish();
    quote!(#expansion #errors)
}

fn implementation(input: &DeriveInput, errors: &mut Errors) -> TokenStream {
    let on_type = read(&input.attrs, errors);
    let runtime = Runtime::new(on_type.krate);
    let mut checks = TokenStream::new();
    let body = match &input.data {
        Data::Struct(_) => {
            let meant = on_type.outcome.unwrap_or_else(|| {
                errors.at(&input.ident, missing("this error", "the struct"));
                Meant::Drop
            });
            meant.expression(&runtime, &mut checks)
        }
        Data::Enum(data) => {
            if let Some(word) = on_type.word {
                errors.at(
                    word,
                    "on an enum this stands at each variant, which may differ: move it there",
                );
            }
            let mut arms = TokenStream::new();
            for variant in &data.variants {
                let on_variant = read(&variant.attrs, errors);
                if let Some(word) = on_variant.krate_word {
                    errors.at(word, "`crate` stands on the enum itself: move it there");
                }
                let meant = on_variant.outcome.unwrap_or_else(|| {
                    let name = format!("`{}`", variant.ident);
                    errors.at(&variant.ident, missing(&name, "the variant"));
                    Meant::Drop
                });
                let expression = meant.expression(&runtime, &mut checks);
                let name = &variant.ident;
                let cfgs = variant.attrs.iter().filter(|it| it.path().is_ident("cfg"));
                let fields = match variant.fields {
                    Fields::Named(_) => quote!({ .. }),
                    Fields::Unnamed(_) => quote!((..)),
                    Fields::Unit => TokenStream::new(),
                };
                arms.extend(quote!(#(#cfgs)* Self::#name #fields => #expression,));
            }
            if data.variants.is_empty() {
                quote!(match *self {})
            } else {
                quote!(match self { #arms })
            }
        }
        Data::Union(data) => {
            errors.at(
                data.union_token,
                "a union cannot be a `Failure`: use an enum or a struct",
            );
            return TokenStream::new();
        }
    };
    let private = runtime.private(Span::call_site());
    let at_name = runtime.private(input.ident.span());
    let name = &input.ident;
    let (parameters, arguments, clause) = input.generics.split_for_impl();
    let clause = bounds(input, clause);
    quote! {
        const _: () = {
            #checks
            #[automatically_derived]
            impl #parameters #at_name::Failure for #name #arguments #clause {
                fn outcome(&self) -> #private::Outcome {
                    #body
                }
            }
        };
    }
}

/// `Failure` asks for `Display`, which a generic error may have for some parameters only.
fn bounds(input: &DeriveInput, clause: Option<&syn::WhereClause>) -> TokenStream {
    if input.generics.params.is_empty() {
        return clause.to_token_stream();
    }
    let predicates = clause.iter().flat_map(|clause| clause.predicates.iter());
    quote!(where #(#predicates,)* Self: ::core::fmt::Display)
}

fn missing(what: &str, place: &str) -> String {
    format!(
        "what becomes of a delivery after {what}? write `#[failure(retry)]`, \
         `#[failure(retry_after = \"5s\")]`, `#[failure(drop)]` or `#[failure(dead_letter)]` on {place}"
    )
}

/// What the attributes of one place say.
#[derive(Default)]
struct Said {
    outcome: Option<Meant>,
    word: Option<Ident>,
    krate: Option<Path>,
    krate_word: Option<Ident>,
}

/// The outcome that is meant.
enum Meant {
    Retry,
    RetryAfter(Box<Expr>),
    Drop,
    DeadLetter,
}

impl Meant {
    /// The outcome, and the check of its value.
    fn expression(&self, runtime: &Runtime, checks: &mut TokenStream) -> TokenStream {
        let private = runtime.private(Span::call_site());
        match self {
            Self::Retry => quote!(#private::Outcome::Retry),
            Self::Drop => quote!(#private::Outcome::Drop),
            Self::DeadLetter => quote!(#private::Outcome::DeadLetter),
            Self::RetryAfter(delay) => {
                let check = runtime.call(delay, "positive_duration", quote!("retry_after", #delay));
                checks.extend(quote!(const _: () = #check;));
                quote!(#private::Outcome::RetryAfter(const { #private::parsed_duration(#delay) }))
            }
        }
    }
}

/// The words of `#[failure(…)]`.
const WORDS: [&str; 5] = ["retry", "retry_after", "drop", "dead_letter", "crate"];

fn read(attributes: &[Attribute], errors: &mut Errors) -> Said {
    let mut said = Said::default();
    let failures = attributes.iter().filter(|it| it.path().is_ident("failure"));
    for attribute in failures {
        if let Meta::Path(path) = &attribute.meta {
            errors.at(path, format!("say what is meant: {}", words()));
            said.outcome.get_or_insert(Meant::Drop);
            continue;
        }
        let parsed = attribute.parse_args_with(|input: ParseStream<'_>| {
            if input.is_empty() {
                return Err(input.error(format!("say what is meant: {}", words())));
            }
            while !input.is_empty() {
                read_one(input, &mut said, errors)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        });
        if let Err(error) = parsed {
            errors.push(error);
            // Something was meant, so nothing is missing.
            said.outcome.get_or_insert(Meant::Drop);
        }
    }
    said
}

fn read_one(input: ParseStream<'_>, said: &mut Said, errors: &mut Errors) -> syn::Result<()> {
    if !input.peek(Ident::peek_any) {
        return Err(input.error(format!("say what is meant: {}", words())));
    }
    let word = input.call(Ident::parse_any)?;
    let meant = match word.to_string().as_str() {
        "retry" => Meant::Retry,
        "drop" => Meant::Drop,
        "dead_letter" => Meant::DeadLetter,
        "retry_after" => Meant::RetryAfter(Box::new(read_delay(input, &word)?)),
        "crate" => {
            input.parse::<Token![=]>()?;
            said.krate = Some(input.call(Path::parse_mod_style)?);
            said.krate_word = Some(word);
            return Ok(());
        }
        other => return Err(syn::Error::new(word.span(), unknown(other))),
    };
    if let Some(first) = &said.word {
        let message = format!("`{first}` is said already: remove one of the two");
        errors.at(&word, message);
    } else {
        said.outcome = Some(meant);
        said.word = Some(word);
    }
    Ok(())
}

fn read_delay(input: ParseStream<'_>, word: &Ident) -> syn::Result<Expr> {
    const CURE: &str = "write `retry_after = \"5s\"`";
    if !input.peek(Token![=]) {
        let message = format!("after how long? {CURE}");
        return Err(syn::Error::new(word.span(), message));
    }
    input.parse::<Token![=]>()?;
    let delay: Expr = input.parse()?;
    match &delay {
        Expr::Lit(literal) if !matches!(literal.lit, Lit::Str(_)) => {
            let message = format!("a delay is a text with a unit: {CURE}");
            Err(syn::Error::new_spanned(&delay, message))
        }
        _ => Ok(delay),
    }
}

fn words() -> String {
    list(WORDS[..4].iter().copied())
}

fn unknown(word: &str) -> String {
    match word {
        "ack" | "ignore" | "skip" => format!(
            "an error is not `{word}`: to be done with the delivery return `Ok`, \
             or write `#[failure(drop)]`"
        ),
        "reject" | "nack" | "discard" => {
            format!("there is no `{word}`: write `#[failure(drop)]`")
        }
        "requeue" => "there is no `requeue`: write `#[failure(retry)]`".into(),
        "dlq" | "deadletter" => format!("there is no `{word}`: write `#[failure(dead_letter)]`"),
        "delay" | "backoff" => {
            format!("there is no `{word}`: write `#[failure(retry_after = \"5s\")]`")
        }
        _ => match nearest(word, WORDS) {
            Some(near) => format!("there is no `{word}`: did you mean `{near}`?"),
            None => format!("there is no `{word}`: say {}", words()),
        },
    }
}
