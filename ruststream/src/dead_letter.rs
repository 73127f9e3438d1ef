//! The headers that the framework writes on copies: the count of a retry copy (spec C2, C27) and
//! the reasons of a dead letter (C10).

use std::borrow::Cow;
use std::sync::Arc;

use bytestring::ByteString;

use crate::delivery::Delivery;
use crate::headers::HeaderMap;
use crate::headers::names;
use crate::message::Copy;
use crate::message::CopyKind;
use crate::settlement::Reason;

/// The longest error text on a dead letter, in bytes (spec C10).
const LONGEST_ERROR: usize = 1024;

/// A replayed message that fails again is an ordinary retry: with these it would count from the
/// start for ever (spec C2).
const DEAD: &[&str] = &[
    names::DEAD_REASON,
    names::DEAD_ERROR,
    names::DEAD_ATTEMPTS,
    names::DEAD_ADDRESS,
    names::DEAD_HANDLER,
    names::DEAD_AT,
];

/// Why a delivery died, and when.
#[derive(Debug)]
pub(crate) struct Death<'a> {
    pub(crate) reason: Reason,
    pub(crate) error: Option<&'a str>,
    pub(crate) handler: &'a ByteString,
    /// RFC 3339.
    pub(crate) at: String,
}

/// A retry copy of `delivery` to `to`. `bare` leaves out what only diagnoses: a broker may have
/// refused the message because of it (spec C5).
pub(crate) fn retry_copy(
    delivery: &Delivery,
    handler: &ByteString,
    to: ByteString,
    bare: bool,
) -> Copy {
    let mut set = HeaderMap::new();
    set.append(names::RETRY_COUNT, delivery.attempt());
    set.append(names::HANDLER, handler.clone());
    if !bare {
        set.append(names::TOPIC, ByteString::from(delivery.address()));
        if delivery.message().id().is_none() && delivery.headers().first(names::ID).is_none() {
            set.append(names::ID, format!("{:032x}", fastrand::u128(..)));
        }
    }
    Copy {
        original: Arc::clone(&delivery.native),
        to,
        kind: CopyKind::Retry,
        set,
        without: DEAD,
        retain: false,
    }
}

/// A dead letter of `delivery` to `to`. Without a death it goes as it arrived
/// (`dead_letter_headers = false`, or a broker that refused the headers).
pub(crate) fn dead_letter(delivery: &Delivery, to: ByteString, death: Option<&Death<'_>>) -> Copy {
    let mut set = HeaderMap::new();
    if let Some(death) = death {
        set.append(names::DEAD_REASON, death.reason.as_str());
        if let Some(error) = death.error {
            set.append(names::DEAD_ERROR, cut(error).into_owned());
        }
        set.append(names::DEAD_ATTEMPTS, delivery.attempt());
        set.append(names::DEAD_ADDRESS, ByteString::from(delivery.address()));
        set.append(names::DEAD_HANDLER, death.handler.clone());
        set.append(names::DEAD_AT, death.at.clone());
    }
    // A second death replaces the first one whole: without an error of its own, the earlier error must not stay.
    let without = if death.is_some() { DEAD } else { &[] };
    Copy {
        original: Arc::clone(&delivery.native),
        to,
        kind: CopyKind::DeadLetter,
        set,
        without,
        retain: false,
    }
}

/// Cut to the longest error, on a character boundary.
fn cut(error: &str) -> Cow<'_, str> {
    if error.len() <= LONGEST_ERROR {
        return Cow::Borrowed(error);
    }
    Cow::Borrowed(&error[..error.floor_char_boundary(LONGEST_ERROR)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeaderValue;
    use crate::message::Message;
    use crate::message::Native;

    fn delivery(message: Message) -> Delivery {
        let mut delivery = Delivery::new(Arc::new(Native::new("orders", message)), None);
        delivery.attempt = 3;
        delivery
    }

    fn death<'a>(error: Option<&'a str>, handler: &'a ByteString) -> Death<'a> {
        Death {
            reason: Reason::Error,
            error,
            handler,
            at: "2026-01-02T03:04:05Z".to_owned(),
        }
    }

    fn pairs(message: &Message) -> Vec<(String, HeaderValue)> {
        message
            .headers()
            .iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    }

    // spec: A47 M47 C2 C27
    #[test]
    fn a_retry_copy_carries_the_attempt_that_failed_once_and_where_it_came_from() {
        let message = Message::new("x")
            .with_id("m1")
            .with_header("tenant", "a")
            .with_header("X-Ruststream-Retry-Count", "1")
            .with_header(names::RETRY_COUNT, 2);
        let copy = retry_copy(&delivery(message), &"fulfil".into(), "orders".into(), false);
        let expected = [
            ("tenant", HeaderValue::from("a")),
            (names::RETRY_COUNT, HeaderValue::from(3_u32)),
            (names::HANDLER, HeaderValue::from("fulfil")),
            (names::TOPIC, HeaderValue::from("orders")),
        ];
        assert_eq!(
            pairs(&copy.message()),
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }

    // spec: C27
    #[test]
    fn the_first_copy_gives_an_id_to_a_message_without_one_and_later_copies_keep_it() {
        let first = retry_copy(
            &delivery(Message::new("x")),
            &"fulfil".into(),
            "orders".into(),
            false,
        )
        .message();
        let id = first
            .headers()
            .first(names::ID)
            .cloned()
            .expect("it has an id");
        let second =
            retry_copy(&delivery(first), &"fulfil".into(), "orders".into(), false).message();
        assert_eq!(second.headers().all(names::ID).collect::<Vec<_>>(), [&id]);
    }

    // spec: C27
    #[test]
    fn a_copy_of_a_copy_keeps_the_first_topic() {
        let first = retry_copy(
            &delivery(Message::new("x")),
            &"fulfil".into(),
            "orders.retry".into(),
            false,
        )
        .message();
        let mut second = Delivery::new(Arc::new(Native::new("orders.retry", first)), None);
        second.attempt = 4;
        assert_eq!(second.address(), "orders");
        let third = retry_copy(&second, &"fulfil".into(), "orders.retry".into(), false).message();
        assert_eq!(
            third.headers().first(names::TOPIC),
            Some(&HeaderValue::from("orders"))
        );
    }

    // spec: C2
    #[test]
    fn a_retry_of_a_replayed_dead_letter_is_a_plain_retry() {
        let handler = "fulfil".into();
        let dead = dead_letter(
            &delivery(Message::new("x")),
            "dead".into(),
            Some(&death(Some("no stock"), &handler)),
        )
        .message();
        let copy = retry_copy(&delivery(dead), &handler, "orders".into(), false).message();
        assert!(
            DEAD.iter().all(|name| copy.headers().first(name).is_none()),
            "{copy:?}"
        );
    }

    // spec: A51 M43 C2 C10
    #[test]
    fn a_dead_letter_is_the_message_as_it_arrived_with_the_reasons_appended() {
        let message = Message::new("x")
            .with_header("tenant", "a")
            .with_header(names::RETRY_COUNT, 2)
            .with_priority(5);
        let dead = dead_letter(
            &delivery(message),
            "dead".into(),
            Some(&death(Some("no stock"), &"fulfil".into())),
        )
        .message();
        assert_eq!(dead.payload().as_ref(), b"x");
        assert_eq!(dead.priority(), Some(5));
        let expected = [
            ("tenant", HeaderValue::from("a")),
            (names::RETRY_COUNT, HeaderValue::from(2)),
            (names::DEAD_REASON, HeaderValue::from("error")),
            (names::DEAD_ERROR, HeaderValue::from("no stock")),
            (names::DEAD_ATTEMPTS, HeaderValue::from(3_u32)),
            (names::DEAD_ADDRESS, HeaderValue::from("orders")),
            (names::DEAD_HANDLER, HeaderValue::from("fulfil")),
            (names::DEAD_AT, HeaderValue::from("2026-01-02T03:04:05Z")),
        ];
        assert_eq!(
            pairs(&dead),
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }

    // spec: C10
    #[test]
    fn a_second_death_replaces_the_first() {
        let handler = "fulfil".into();
        let once = dead_letter(
            &delivery(Message::new("x")),
            "dead".into(),
            Some(&death(Some("no stock"), &handler)),
        )
        .message();
        let twice =
            dead_letter(&delivery(once), "dead".into(), Some(&death(None, &handler))).message();
        assert_eq!(twice.headers().all(names::DEAD_REASON).count(), 1);
        assert_eq!(twice.headers().first(names::DEAD_ERROR), None);
    }

    // spec: C10
    #[test]
    fn an_error_is_cut_to_a_kibibyte_on_a_character_boundary() {
        let error = "é".repeat(600);
        let dead = dead_letter(
            &delivery(Message::new("x")),
            "dead".into(),
            Some(&death(Some(&error), &"fulfil".into())),
        )
        .message();
        let text = dead
            .headers()
            .first(names::DEAD_ERROR)
            .and_then(HeaderValue::as_str)
            .map(str::to_owned);
        assert_eq!(text, Some("é".repeat(512)));
        let odd = format!("a{error}");
        assert_eq!(cut(&odd).len(), 1023);
    }

    // spec: C11
    #[test]
    fn expiry_and_retain_do_not_reach_a_dead_letter() {
        let message = Message::new("x")
            .with_time_to_live(std::time::Duration::from_secs(2))
            .retained();
        let dead = dead_letter(&delivery(message.clone()), "dead".into(), None).message();
        assert_eq!((dead.time_to_live(), dead.is_retained()), (None, false));
        let copy =
            retry_copy(&delivery(message), &"fulfil".into(), "orders".into(), true).message();
        assert_eq!(
            (
                copy.time_to_live().map(|ttl| ttl.as_secs()),
                copy.is_retained()
            ),
            (Some(2), false)
        );
    }
}
