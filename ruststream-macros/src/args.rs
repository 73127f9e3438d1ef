//! The syntax of the attribute: `key = value`, flags, and groups in parentheses.
//!
//! Every argument is read on its own, so that a mistake in one does not hide those in the next.

use proc_macro2::Ident;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::Expr;
use syn::Lit;
use syn::Path;
use syn::Token;
use syn::UnOp;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::Parser;
use syn::token;

use crate::diagnostics::Errors;
use crate::diagnostics::list;
use crate::diagnostics::nearest;
use crate::keys::FORMS;
use crate::keys::HABITS;
use crate::keys::Key;
use crate::keys::Kind;
use crate::keys::TOP;
use crate::keys::groups_with;

/// The arguments of one attribute, or of one group.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    entries: Vec<Entry>,
    /// Every key that was written, readable value or not.
    written: Vec<(&'static str, Ident)>,
    /// Something was written that may have been meant as the address.
    address_is_unclear: bool,
}

/// One argument.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) word: Ident,
    pub(crate) key: &'static Key,
    pub(crate) value: Value,
}

/// What was given.
#[derive(Debug)]
pub(crate) enum Value {
    /// A constant expression: text, number, duration, function or pairs, as the key says.
    Expression(Box<Expr>),
    /// A known word and the enum variant it stands for.
    Word(Ident, &'static str),
    /// `true` or `false`.
    Truth(bool),
    /// A group.
    Group(Arguments),
    /// The path of the crate.
    Crate(Path),
}

impl Arguments {
    /// Read the tokens of an attribute.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        Self::parse_with(tokens, TOP, None, errors)
    }

    /// The argument of this key, if its value could be read.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.name == name)
    }

    /// The word with which this key was written, even if its value could not be read.
    pub(crate) fn word(&self, name: &str) -> Option<&Ident> {
        let (_, word) = self.written.iter().find(|(known, _)| *known == name)?;
        Some(word)
    }

    /// The names of the keys, in the order in which they were written.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, &Ident)> {
        self.written.iter().map(|(name, word)| (*name, word))
    }

    /// Whether a missing address is told already by another error.
    pub(crate) fn address_is_unclear(&self) -> bool {
        self.address_is_unclear
    }

    /// Whether this key was written.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.word(name).is_some()
    }

    /// The arguments of a group.
    pub(crate) fn group(&self, name: &str) -> Option<&Self> {
        match &self.find(name)?.value {
            Value::Group(arguments) => Some(arguments),
            _ => None,
        }
    }

    /// Whether this key says this word.
    pub(crate) fn says(&self, name: &str, word: &str) -> bool {
        let entry = self.find(name);
        matches!(entry.map(|entry| &entry.value), Some(Value::Word(said, _)) if said == word)
    }

    /// Whether this truth is declared as true.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        let entry = self.find(name);
        matches!(entry.map(|entry| &entry.value), Some(Value::Truth(true)))
    }

    /// Every argument whose value could be read, as written.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn parse_with(
        tokens: TokenStream,
        keys: &'static [Key],
        group: Option<&'static str>,
        errors: &mut Errors,
    ) -> Self {
        let mut arguments = Self::default();
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                arguments.read_one(input, keys, group, errors);
            }
            Ok(())
        };
        if let Err(error) = parser.parse2(tokens) {
            errors.push(error);
        }
        arguments
    }

    /// Read one argument and its comma; after an error go on behind the next comma.
    fn read_one(
        &mut self,
        input: ParseStream<'_>,
        keys: &'static [Key],
        group: Option<&'static str>,
        errors: &mut Errors,
    ) {
        let word = match read_key(input, group) {
            Ok(word) => word,
            Err(error) => {
                errors.push(error);
                self.address_is_unclear = true;
                return skip_to_next(input);
            }
        };
        let name = word.unraw().to_string();
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let message = unknown_key(&name, keys, group);
            self.address_is_unclear |= FORMS
                .iter()
                .any(|form| message.contains(&format!("`{form}")));
            errors.at(&word, message);
            return skip_to_next(input);
        };
        if self.has(key.name) {
            errors.at(
                &word,
                format!("`{name}` is declared twice: remove one of them"),
            );
        } else {
            self.written.push((key.name, word.clone()));
        }
        match read_value(input, &word, key, errors) {
            Ok(value) => {
                if self.find(key.name).is_none() {
                    self.entries.push(Entry { word, key, value });
                }
            }
            Err(error) => {
                errors.push(error);
                return skip_to_next(input);
            }
        }
        if input.is_empty() {
            return;
        }
        if input.parse::<Token![,]>().is_ok() {
            return;
        }
        errors.at_span(input.span(), "a comma is missing before this");
        if !input.peek(Ident::peek_any) {
            skip_to_next(input);
        }
    }
}

fn read_key(input: ParseStream<'_>, group: Option<&str>) -> syn::Result<Ident> {
    if input.peek(Ident::peek_any) {
        return input.call(Ident::parse_any);
    }
    if input.peek(Token![,]) {
        return Err(input.error("an argument is missing before this comma"));
    }
    let message = match (group, input.fork().parse::<Lit>()) {
        (None, Ok(Lit::Str(text))) => {
            format!("say what this is: `address = {}`", text.token())
        }
        (Some(group), _) => format!("the arguments of `{group}` are written as `key = value`"),
        (None, _) => "arguments are written as `key = value`, as in `address = \"orders\"`".into(),
    };
    Err(input.error(message))
}

fn read_value(
    input: ParseStream<'_>,
    word: &Ident,
    key: &'static Key,
    errors: &mut Errors,
) -> syn::Result<Value> {
    let ends = input.is_empty() || input.peek(Token![,]);
    match key.kind {
        Kind::Group(_, keys) => {
            if !input.peek(token::Paren) {
                let message = format!("`{}` is a group: write `{}`", key.name, key.example);
                return Err(syn::Error::new(word.span(), message));
            }
            let content;
            syn::parenthesized!(content in input);
            let tokens = content.parse()?;
            let arguments = Arguments::parse_with(tokens, keys, Some(key.name), errors);
            return Ok(Value::Group(arguments));
        }
        Kind::Flag | Kind::Truth if ends => return Ok(Value::Truth(true)),
        _ => {}
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) {
        let message = format!("`{}` needs a value: write `{}`", key.name, key.example);
        return Err(syn::Error::new(word.span(), message));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{}` needs a value: write `{}`", key.name, key.example);
        return Err(syn::Error::new(word.span(), message));
    }
    if let Kind::Crate = key.kind {
        return Ok(Value::Crate(input.call(Path::parse_mod_style)?));
    }
    let expression: Expr = input.parse()?;
    convert(expression, key)
}

/// The value as the kind of its key, or what it should have been.
fn convert(expression: Expr, key: &'static Key) -> syn::Result<Value> {
    let wrong = |takes: &str| {
        let message = format!("`{}` takes {takes}: write `{}`", key.name, key.example);
        Err(syn::Error::new_spanned(&expression, message))
    };
    match key.kind {
        Kind::Text(_) | Kind::Duration(_) | Kind::Backoff => {
            if let Some(allocates) = allocating_macro(&expression) {
                let message = format!(
                    "`{}` is a constant, and `{allocates}` runs later: use `concat!` or a `const`",
                    key.name
                );
                return Err(syn::Error::new_spanned(&expression, message));
            }
            if is_other_literal(&expression, |literal| matches!(literal, Lit::Str(_))) {
                return match key.kind {
                    Kind::Text(_) => wrong("a text"),
                    _ => wrong("a text with a unit"),
                };
            }
        }
        Kind::Number(_) => {
            if is_other_literal(&expression, |literal| matches!(literal, Lit::Int(_))) {
                return wrong("a number");
            }
            if is_negative(&expression) {
                return wrong("a number that is not negative");
            }
        }
        Kind::Integer => {
            if is_other_literal(&expression, |literal| matches!(literal, Lit::Int(_))) {
                return wrong("a number");
            }
        }
        Kind::Function => {
            if !matches!(expression, Expr::Path(_)) {
                return wrong("the path of a function");
            }
        }
        Kind::Pairs => {
            if matches!(expression, Expr::Lit(_)) {
                return wrong("a list of pairs");
            }
        }
        Kind::Word(_, words) => return read_word(&expression, key, words),
        Kind::Flag | Kind::Truth => {
            let Expr::Lit(syn::ExprLit {
                lit: Lit::Bool(truth),
                ..
            }) = &expression
            else {
                return wrong("`true` or `false`");
            };
            return Ok(Value::Truth(truth.value));
        }
        Kind::Group(..) | Kind::Crate => {}
    }
    Ok(Value::Expression(Box::new(expression)))
}

fn read_word(
    expression: &Expr,
    key: &Key,
    words: &'static [(&'static str, &'static str)],
) -> syn::Result<Value> {
    let known = words.iter().map(|(word, _)| *word);
    if let Expr::Path(path) = expression
        && let Some(word) = path.path.get_ident()
    {
        let said = word.to_string();
        if let Some((_, variant)) = words.iter().find(|(known, _)| *known == said) {
            return Ok(Value::Word(word.clone(), variant));
        }
        let message = match nearest(&said, known.clone()) {
            Some(near) => format!("`{}` has no `{said}`: did you mean `{near}`?", key.name),
            None if key.name == "on_decode" && said == "retry" => {
                "what cannot be decoded never can, so it is never retried: \
                 `on_decode` is `drop` or `dead_letter`"
                    .into()
            }
            None => format!("`{}` has no `{said}`: it is {}", key.name, list(known)),
        };
        return Err(syn::Error::new_spanned(word, message));
    }
    let text = match expression {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.value(),
        Expr::Path(path) => snake_case(&path.path),
        _ => String::new(),
    };
    let message = if words.iter().any(|(word, _)| *word == text) {
        format!("`{0}` takes a bare word: write `{0} = {text}`", key.name)
    } else if key.name == "delay" {
        "`delay` says how a retry waits: `process`, `journal`, `hold` or `broker`; \
         for how long is `backoff = \"5s\"`"
            .into()
    } else {
        format!("`{}` takes a bare word: it is {}", key.name, list(known))
    };
    Err(syn::Error::new_spanned(expression, message))
}

/// The last segment of a path as a bare word would have it: `Settle::AtMostOnce` is `at_most_once`.
fn snake_case(path: &Path) -> String {
    let last = path.segments.last().map(|last| last.ident.to_string());
    let mut text = String::new();
    for letter in last.unwrap_or_default().chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

fn is_other_literal(expression: &Expr, wanted: impl Fn(&Lit) -> bool) -> bool {
    matches!(expression, Expr::Lit(literal) if !wanted(&literal.lit))
}

fn is_negative(expression: &Expr) -> bool {
    matches!(expression, Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)))
}

/// The name of a macro that cannot make a constant text.
fn allocating_macro(expression: &Expr) -> Option<&'static str> {
    let Expr::Macro(expression) = expression else {
        return None;
    };
    expression.mac.path.is_ident("format").then_some("format!")
}

fn unknown_key(name: &str, keys: &[Key], group: Option<&str>) -> String {
    let names = || keys.iter().map(|key| key.name);
    if let Some(group) = group {
        return match nearest(name, names()) {
            Some(near) => format!("`{group}` has no key `{name}`: did you mean `{near}`?"),
            None if TOP.iter().any(|key| key.name == name) => {
                format!("`{name}` stands beside `{group}(…)`, not in it")
            }
            None => format!("`{group}` has no key `{name}`: it has {}", list(names())),
        };
    }
    if let Some((_, cure)) = HABITS.iter().find(|(habits, _)| habits.contains(&name)) {
        return format!("there is no key `{name}`: {cure}");
    }
    let groups = groups_with(name);
    if !groups.is_empty() {
        let ways: Vec<String> = groups
            .iter()
            .map(|(group, example)| format!("`{group}({example})`"))
            .collect();
        return format!(
            "`{name}` belongs to a protocol: write {}",
            ways.join(" or ")
        );
    }
    match nearest(name, names()) {
        Some(near) => format!("there is no key `{name}`: did you mean `{near}`?"),
        None => format!("there is no key `{name}`: the keys are {}", list(names())),
    }
}

/// Skip what is left of an argument, and its comma.
fn skip_to_next(input: ParseStream<'_>) {
    while let Ok(token) = input.parse::<TokenTree>() {
        if matches!(&token, TokenTree::Punct(comma) if comma.as_char() == ',') {
            return;
        }
    }
}

impl ToTokens for Entry {
    /// The value, for messages that underline it; the key where there is none.
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match &self.value {
            Value::Expression(expression) => expression.to_tokens(tokens),
            Value::Word(word, _) => word.to_tokens(tokens),
            Value::Truth(_) | Value::Group(_) | Value::Crate(_) => self.word.to_tokens(tokens),
        }
    }
}
