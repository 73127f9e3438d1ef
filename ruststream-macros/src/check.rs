//! The meaning of the attribute, as far as it shows without evaluating anything: which keys need,
//! exclude or contradict each other. Values are checked by the runtime crate's `const` functions.

use proc_macro2::Ident;
use proc_macro2::Span;
use quote::ToTokens;
use syn::ReturnType;
use syn::Signature;
use syn::Type;

use crate::args::Arguments;
use crate::args::Entry;
use crate::args::Value;
use crate::diagnostics::Errors;
use crate::keys::FORMS;

/// Check the keys against each other.
pub(crate) fn arguments(arguments: &Arguments, errors: &mut Errors) {
    check_form(arguments, errors);
    check_retry_topic(arguments, errors);
    check_failures(arguments, errors);
    check_settle(arguments, errors);
    check_batch(arguments, errors);
    check_mqtt(arguments, errors);
    check_groups(arguments, errors);
    check_rabbitmq(arguments, errors);
}

/// Check the keys against the signature.
pub(crate) fn signature(arguments: &Arguments, signature: &Signature, errors: &mut Errors) {
    let Some((key, word)) = answers(arguments) else {
        return;
    };
    let says_nothing = |what: &str| {
        format!(
            "`{key}` publishes what the handler returns, but {what}: return a value, or remove `{key}`"
        )
    };
    match &signature.output {
        ReturnType::Default => errors.at(word, says_nothing("it returns nothing")),
        ReturnType::Type(_, returned) if is_unit(returned) => {
            errors.at(returned, says_nothing("this is nothing"));
        }
        ReturnType::Type(..) => {}
    }
}

/// The key that has what the handler returns published, and its word.
fn answers(arguments: &Arguments) -> Option<(&'static str, &Ident)> {
    ["reply_to", "replies"]
        .into_iter()
        .find_map(|key| Some((key, arguments.word(key)?)))
}

/// The argument that names the address, if there is exactly one.
pub(crate) fn form(arguments: &Arguments) -> Option<&Entry> {
    let mut forms = FORMS.iter().filter_map(|form| arguments.find(form));
    let form = forms.next()?;
    forms.next().is_none().then_some(form)
}

/// Whether the attribute says that MQTT's rules hold.
pub(crate) fn is_mqtt(arguments: &Arguments) -> bool {
    arguments.has("filter") || arguments.has("mqtt")
}

fn check_form(arguments: &Arguments, errors: &mut Errors) {
    let mut written = arguments.names().filter(|(name, _)| FORMS.contains(name));
    let Some((first, _)) = written.next() else {
        if arguments.address_is_unclear() {
            return;
        }
        errors.at_span(
            Span::call_site(),
            "where do messages come from? add `address = \"orders\"` \
             (or `queue`, `topic` or `filter`)",
        );
        return;
    };
    for (other, word) in written {
        errors.at(
            word,
            format!(
                "`{first}` already says where messages come from: remove `{other}` or `{first}`"
            ),
        );
    }
}

fn check_retry_topic(arguments: &Arguments, errors: &mut Errors) {
    let constant = arguments.word("retry_topic");
    let function = arguments.word("retry_topic_with");
    if let (Some(_), Some(function)) = (constant, function) {
        errors.at(
            function,
            "`retry_topic` already says where retries go: remove one of the two",
        );
    }
    let retry = constant.or(function);
    if retry.is_none() {
        if let Some(filter) = arguments.find("filter") {
            errors.at(
                filter,
                "a filter cannot be published to, so a retry has nowhere to go: \
                 add `retry_topic = \"devices/retry/state\"` with a topic that the filter matches, \
                 or `retry_topic_with = path` to a `fn(&Delivery) -> Cow<'_, str>`",
            );
        }
        if let Some(elsewhere) = arguments.word("retry_topic_elsewhere") {
            errors.at(
                elsewhere,
                "`retry_topic_elsewhere` speaks of a `retry_topic`: add `retry_topic = \"…\"`",
            );
        }
    }
    for form in ["address", "queue"] {
        if let (Some(retry), true) = (retry, arguments.has(form)) {
            errors.at(
                retry,
                format!(
                    "retries go back to the own `{form}`: remove `{retry}`, \
                     or write `topic = \"…\"` if every reader gets each message"
                ),
            );
        }
    }
}

fn check_failures(arguments: &Arguments, errors: &mut Errors) {
    if !arguments.has("dead_letter") {
        for key in ["on_error", "on_panic", "on_timeout", "on_decode"] {
            if let (Some(entry), true) = (arguments.find(key), arguments.says(key, "dead_letter")) {
                errors.at(
                    entry,
                    "there is no dead letter to go to: add `dead_letter = \"orders.dead\"`",
                );
            }
        }
    }
    if let (Some(word), false) = (arguments.word("on_timeout"), arguments.has("timeout")) {
        errors.at(
            word,
            "without a timeout this never happens: add `timeout = \"30s\"`",
        );
    }
}

fn check_settle(arguments: &Arguments, errors: &mut Errors) {
    let on_arrival = arguments.says("settle", "at_most_once");
    if on_arrival && is_mqtt(arguments) {
        if let Some(settle) = arguments.find("settle") {
            errors.at(
                settle,
                "at most once is a quality of service on MQTT: write `mqtt(qos = 0)`",
            );
        }
        return;
    }
    let unacknowledged = arguments.group("mqtt").is_some_and(has_qos_zero);
    if let Some(delay) = arguments.find("delay")
        && arguments.says("delay", "hold")
        && (on_arrival || unacknowledged)
    {
        let cause = if on_arrival {
            "`settle = at_most_once`"
        } else {
            "`qos = 0`"
        };
        errors.at(
            delay,
            format!(
                "`hold` keeps the delivery unsettled, but {cause} settles it on arrival: \
                 write `delay = process` or `delay = journal`"
            ),
        );
    }
}

fn check_batch(arguments: &Arguments, errors: &mut Errors) {
    let (Some(word), Some(batch)) = (arguments.word("batch"), arguments.group("batch")) else {
        return;
    };
    if !batch.has("size") {
        errors.at(
            word,
            "how many make a batch? write `batch(size = 64, wait = \"20ms\")`",
        );
    }
    if let Some((key, word)) = answers(arguments) {
        errors.at(
            word,
            format!("a batch has no single answer: remove `{key}`, and publish with a `Publisher`"),
        );
    }
}

fn check_mqtt(arguments: &Arguments, errors: &mut Errors) {
    let Some(mqtt) = arguments.group("mqtt") else {
        return;
    };
    if let Some(queue) = arguments.word("queue") {
        errors.at(
            queue,
            "MQTT has no queues: write `topic` or `filter`, \
             and `mqtt(shared = \"workers\")` to share its messages",
        );
    }
    let (Some(no_local), true) = (mqtt.word("no_local"), mqtt.is_true("no_local")) else {
        return;
    };
    if mqtt.has("shared") {
        errors.at(
            no_local,
            "MQTT does not allow `no_local` together with `shared` (MQTT 5 section 3.8.3.1): \
             remove one of them",
        );
    }
    let copying = [
        "max_attempts",
        "dead_letter",
        "backoff",
        "retry_topic",
        "retry_topic_with",
    ];
    if let Some(copying) = copying.into_iter().find(|key| arguments.has(key)) {
        errors.at(
            no_local,
            format!(
                "`{copying}` makes copies, and `no_local` keeps a handler's own copies from it: \
                 remove `no_local`"
            ),
        );
    }
}

fn check_groups(arguments: &Arguments, errors: &mut Errors) {
    if !arguments.has("filter") {
        return;
    }
    for group in ["amqp", "rabbitmq"] {
        if let Some(word) = arguments.word(group) {
            errors.at(
                word,
                format!("a `filter` is read from MQTT only: remove `{group}(…)`"),
            );
        }
    }
}

fn check_rabbitmq(arguments: &Arguments, errors: &mut Errors) {
    let Some(rabbitmq) = arguments.group("rabbitmq") else {
        return;
    };
    if let (Some(passive), true, true) = (
        rabbitmq.word("passive"),
        rabbitmq.is_true("passive"),
        rabbitmq.is_true("declare"),
    ) {
        errors.at(
            passive,
            "`declare` makes the queue, `passive` only looks for it: remove one of them",
        );
    }
    if let (Some(limit), false) = (rabbitmq.word("delivery_limit"), queue_may_count(rabbitmq)) {
        errors.at(
            limit,
            "only a quorum queue counts deliveries: write `queue_type = quorum`",
        );
    }
    if let (Some(exclusive), true, true) = (
        rabbitmq.word("exclusive"),
        rabbitmq.is_true("exclusive"),
        rabbitmq.says("queue_type", "quorum"),
    ) {
        errors.at(
            exclusive,
            "a quorum queue cannot be exclusive: write `queue_type = classic`",
        );
    }
    if !rabbitmq.has("exchange") {
        if let Some(word) = rabbitmq.word("exchange_type") {
            errors.at(
                word,
                "`exchange_type` speaks of an exchange: add `exchange = \"shop\"`",
            );
        }
        if let (Some(word), false) = (rabbitmq.word("routing_key"), arguments.has("topic")) {
            errors.at(
                word,
                "`routing_key` binds to an exchange: add `exchange = \"shop\"`",
            );
        }
    }
}

fn queue_may_count(rabbitmq: &Arguments) -> bool {
    !rabbitmq.says("queue_type", "classic") && !rabbitmq.says("queue_type", "stream")
}

fn has_qos_zero(mqtt: &Arguments) -> bool {
    match mqtt.find("qos").map(|entry| &entry.value) {
        Some(Value::Expression(qos)) => qos.to_token_stream().to_string() == "0",
        _ => false,
    }
}

/// Whether a type is written as `()`, or as a `Result` with it.
fn is_unit(returned: &Type) -> bool {
    match returned {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return false;
            };
            let first = arguments.args.first();
            last.ident == "Result"
                && matches!(first, Some(syn::GenericArgument::Type(value)) if is_unit(value))
        }),
        _ => false,
    }
}
