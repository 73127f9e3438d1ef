use proc_macro2::Delimiter;
use proc_macro2::Group;
use proc_macro2::Ident;
use proc_macro2::Literal;
use proc_macro2::Punct;
use proc_macro2::Spacing;
use proc_macro2::Span;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use proptest::prelude::*;
use quote::quote;

use super::expand;
use crate::failure;

const ERROR: &str = "compile_error !";

fn text(attribute: TokenStream) -> String {
    expand(
        attribute,
        quote!(
            async fn handle(payload: Bytes) {}
        ),
    )
    .to_string()
}

#[test]
fn the_function_is_emitted_unchanged_and_first() {
    let item = quote! {
        #[doc = " x"] pub async fn handle(mut payload: Bytes) -> Outcome { anything at all ?? }
    };
    for attribute in [quote!(address = "orders"), quote!(banana)] {
        let expansion = expand(attribute, item.clone()).to_string();
        assert!(expansion.starts_with(&item.to_string()), "{expansion}");
    }
}

#[test]
fn what_is_declared_is_in_the_options_and_nothing_else() {
    let expansion = text(quote!(
        address = "orders",
        max_attempts = 3,
        settle = at_most_once
    ));
    assert!(!expansion.contains(ERROR), "{expansion}");
    assert!(expansion.contains("max_attempts : :: core :: option :: Option :: Some (3)"));
    assert!(expansion.contains("Settle :: AtMostOnce"));
    assert!(!expansion.contains("dead_letter"), "{expansion}");
}

#[test]
fn a_mistake_leaves_no_registration() {
    let expansion = text(quote!(address = "orders", banana = 3));
    assert!(
        expansion.contains(ERROR) && !expansion.contains("Registration"),
        "{expansion}"
    );
}

#[test]
fn independent_mistakes_are_all_told() {
    let expansion = text(quote!(
        address = 1,
        max_attempts = "3",
        on_error = "retry",
        "x",
        dlq = 1
    ));
    assert_eq!(expansion.matches(ERROR).count(), 5, "{expansion}");
}

#[test]
fn the_same_input_gives_the_same_expansion() {
    let attribute = quote!(
        filter = "a/+",
        retry_topic = R,
        mqtt(qos = 1, shared = S),
        timeout = T
    );
    assert_eq!(text(attribute.clone()), text(attribute));
}

#[test]
fn an_expansion_is_short() {
    let attribute = quote!(
        address = "orders",
        max_attempts = 3,
        dead_letter = "orders.dead"
    );
    let item = quote! {
        async fn handle(payload: Json<Order>) -> Result<(), Problem> {}
    };
    let expansion = expand(attribute, item.clone()).to_string();
    // A formatted line holds some fifteen tokens; sixty lines are the budget.
    let tokens = expansion.split_whitespace().count() - item.to_string().split_whitespace().count();
    assert!(tokens < 60 * 15, "{tokens} tokens");
}

/// Words that the parser knows, and some that it does not.
const WORDS: &[&str] = &[
    "address",
    "filter",
    "topic",
    "queue",
    "retry_topic",
    "max_attempts",
    "dead_letter",
    "mqtt",
    "batch",
    "size",
    "wait",
    "qos",
    "on_error",
    "retry",
    "drop",
    "crate",
    "ordered_by",
    "self",
    "async",
    "fn",
    "impl",
    "struct",
    "where",
    "const",
    "unsafe",
    "extern",
    "failure",
    "enum",
    "retry_after",
    "banana",
    "r#type",
    "cfg",
];

fn token() -> impl Strategy<Value = TokenTree> {
    let leaf = prop_oneof![
        4 => prop::sample::select(WORDS).prop_map(word),
        2 => prop::sample::select(b"=,:<>&#!?;+-|.'@$".as_slice()).prop_map(|sign| {
            // A lone `'` is no token.
            let sign = if sign == b'\'' { b'=' } else { sign };
            TokenTree::Punct(Punct::new(sign.into(), Spacing::Alone))
        }),
        1 => Just(TokenTree::Literal(Literal::string("a/+"))),
        1 => Just(TokenTree::Literal(Literal::u32_unsuffixed(3))),
        1 => Just(TokenTree::Literal(Literal::f64_unsuffixed(0.5))),
    ];
    leaf.prop_recursive(3, 32, 6, |inner| {
        let delimiter = prop_oneof![
            Just(Delimiter::Parenthesis),
            Just(Delimiter::Brace),
            Just(Delimiter::Bracket),
            Just(Delimiter::None),
        ];
        (delimiter, prop::collection::vec(inner, 0..6)).prop_map(|(delimiter, tokens)| {
            TokenTree::Group(Group::new(delimiter, tokens.into_iter().collect()))
        })
    })
}

fn word(word: &str) -> TokenTree {
    TokenTree::Ident(match word.strip_prefix("r#") {
        Some(raw) => Ident::new_raw(raw, Span::call_site()),
        None => Ident::new(word, Span::call_site()),
    })
}

fn tokens() -> impl Strategy<Value = TokenStream> {
    prop::collection::vec(token(), 0..12).prop_map(|tokens| tokens.into_iter().collect())
}

proptest! {
    #[test]
    fn any_attribute_is_an_error_or_a_registration(attribute in tokens()) {
        let expansion = text(attribute);
        prop_assert!(expansion.contains(ERROR) != expansion.contains("Registration :: new"));
    }

    #[test]
    fn any_item_is_an_error_or_a_registration(item in tokens(), is_async in any::<bool>()) {
        let prefix = if is_async { quote!(async fn handle) } else { quote!() };
        let expansion = expand(quote!(address = "orders"), quote!(#prefix #item)).to_string();
        prop_assert!(expansion.contains(ERROR) != expansion.contains("Registration :: new"));
    }

    #[test]
    fn any_error_type_is_an_error_or_an_impl(item in tokens(), said in tokens()) {
        let _ = failure::expand(item);
        let variant = failure::expand(quote!(enum E { #[failure(#said)] A }));
        prop_assert!(variant.to_string().contains("impl"), "a stand-in is always there");
    }
}
