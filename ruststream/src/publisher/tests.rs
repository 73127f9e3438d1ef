//! What leaves, under which trace, and what is refused before it does.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Waker;

use super::*;
use crate::extract::testing::Fixture;
use crate::extract::testing::delivery;
use crate::message::Copy;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A sink with MQTT's idea of an address, which writes down what it was given.
#[derive(Debug, Default)]
struct Peer {
    sent: Mutex<Vec<(ByteString, Message)>>,
    later: bool,
}

impl Peer {
    fn sent(&self) -> Vec<(ByteString, Message)> {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn addresses(&self) -> Vec<ByteString> {
        self.sent().into_iter().map(|(to, _)| to).collect()
    }
}

impl Sink for Peer {
    fn publish(&self, to: ByteString, message: Message) -> Publishing {
        if to.contains(['+', '#']) {
            return Publishing::Done(Err(PublishError::permanent("not a topic")));
        }
        self.sent.lock().unwrap().push((to, message));
        if self.later {
            Publishing::Pending(Box::pin(async { Ok(Published::Unread) }))
        } else {
            Publishing::Done(Ok(Published::Confirmed))
        }
    }

    fn publish_copy(&self, copy: Copy) -> Publishing {
        self.publish(copy.to.clone(), copy.message())
    }
}

fn ready(mut publish: Publish) -> Result<Published, PublishError> {
    match Pin::new(&mut publish).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("not ready"),
    }
}

/// A publisher as a handler of this message has it.
fn in_handler(message: Message) -> (Publisher, Arc<Peer>) {
    let peer = Arc::new(Peer::default());
    let mut fixture = Fixture::new(message);
    fixture.scope.sink = peer.clone();
    (fixture.take().unwrap(), peer)
}

fn traced(trace: impl Into<HeaderValue>) -> Message {
    Message::new("").with_header(names::TRACEPARENT, trace)
}

// case: F08
#[test]
fn an_address_that_cannot_be_published_to_is_refused_and_the_next_publish_works() {
    let (publisher, peer) = in_handler(Message::new(""));
    for address in ["a/+", "a/#", ""] {
        let error = ready(publisher.publish(address, "x")).unwrap_err();
        assert!(!error.is_transient());
    }
    assert_eq!(
        ready(publisher.publish("a/b", "x")).unwrap(),
        Published::Confirmed
    );
    assert_eq!(peer.addresses(), ["a/b"]);
}

// case: F08
#[test]
fn an_empty_address_is_refused_on_every_broker() {
    let publisher: Publisher = Fixture::new("").take().unwrap();
    assert!(ready(publisher.publish("", "x")).is_err());
    assert!(
        ready(publisher.publish("a/#", "x")).is_ok(),
        "a legal address elsewhere"
    );
}

#[test]
fn messages_leave_when_publish_is_called_not_when_it_is_awaited() {
    let (publisher, peer) = in_handler(Message::new(""));
    let first = publisher.publish("a", "1");
    let second = publisher.publish("b", "2");
    assert_eq!(peer.addresses(), ["a", "b"]);
    assert!(ready(second).is_ok());
    assert!(ready(first).is_ok());
}

#[test]
fn a_message_that_nobody_reads_is_not_an_error_but_seen() {
    let peer = Arc::new(Peer {
        later: true,
        ..Peer::default()
    });
    let publisher = Publisher::new(peer);
    assert_eq!(
        ready(publisher.publish("a", "1")).unwrap(),
        Published::Unread
    );
}

#[test]
fn what_a_handler_publishes_continues_the_trace_of_its_delivery() {
    let (publisher, peer) = in_handler(traced(TRACE));
    let own = Message::new("").with_header("TraceParent", "own");
    let sends = [publisher.publish("a", "1"), publisher.publish("b", own)];
    assert!(sends.into_iter().all(|publish| ready(publish).is_ok()));

    let sent = peer.sent();
    let trace = sent[0].1.headers().first(names::TRACEPARENT);
    assert_eq!(trace.and_then(HeaderValue::as_str), Some(TRACE));
    assert_eq!(
        sent[1].1.headers().len(),
        1,
        "the message's own stays alone"
    );
}

#[test]
fn what_is_no_traceparent_is_not_sent_on() {
    #[rustfmt::skip]
    let rows: [HeaderValue; 9] = [
        "".into(),
        7_u8.into(),
        TRACE.to_uppercase().into(),
        format!("{TRACE}-more").into(),
        TRACE.replace("00-", "ff-").into(),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01".into(),
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".into(),
        "x".repeat(55).into(),
        "é".repeat(40).into(),
    ];
    for trace in rows {
        let (publisher, peer) = in_handler(traced(trace));
        assert!(ready(publisher.publish("a", "1")).is_ok());
        assert!(peer.sent()[0].1.headers().is_empty());
    }
    assert!(is_traceparent(
        format!("{}-more", TRACE.replacen("00", "01", 1)).as_bytes()
    ));
}

#[test]
fn another_broker_is_found_by_name_and_an_unknown_one_names_those_there_are() {
    let (main, audit) = (Arc::new(Peer::default()), Arc::new(Peer::default()));
    let named = [("main", main.clone()), ("audit", audit.clone())]
        .map(|(name, peer)| (ByteString::from_static(name), peer as Arc<dyn Sink>));
    let publisher = Publisher::with_brokers(main.clone(), Brokers::new(named));

    assert!(ready(publisher.on("audit").unwrap().publish("a", "1")).is_ok());
    assert_eq!((main.sent().len(), audit.sent().len()), (0, 1));
    assert_eq!(
        publisher.on("audits").unwrap_err().reason(),
        "no broker is called `audits`; there are: `main`, `audit`"
    );
    assert!(Publisher::new(main).on("audit").is_err());
}

#[cfg(feature = "json")]
#[test]
fn a_value_that_cannot_be_encoded_is_an_error_of_the_publish() {
    let (publisher, peer) = in_handler(Message::new(""));
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = ready(publisher.publish("a", crate::Json(map))).unwrap_err();
    assert!(error.reason().starts_with("json: "), "{error}");
    assert!(peer.sent().is_empty());
}

// spec: C28
#[test]
fn an_answer_goes_where_it_is_declared_or_asked_for_with_the_questions_correlation_id() {
    let question = delivery(
        Message::new("")
            .with_reply_to("asked")
            .with_id("id")
            .with_correlation_id("cid"),
    );
    let declared = ByteString::from_static("declared");

    let to = |declared, replies| answer_to(declared, replies, &question);
    assert_eq!(to(Some(&declared), false).unwrap(), "declared");
    assert_eq!(to(Some(&declared), true).unwrap(), "asked");
    assert_eq!(to(None, false).unwrap(), "asked");

    let (to, message) = answer(Some(declared.clone()), &question, Message::new("42")).unwrap();
    assert_eq!(to, "declared");
    assert_eq!(message.correlation_id().unwrap(), "cid");
    assert_eq!(message.payload(), "42");

    let own = Message::new("42").with_correlation_id("own");
    let (_, message) = answer(Some(declared), &question, own).unwrap();
    assert_eq!(message.correlation_id().unwrap(), "own");
}

// spec: C28
#[test]
fn a_question_without_a_correlation_id_is_known_by_its_id() {
    let question = delivery(Message::new("").with_id("id"));
    let to = ByteString::from_static("declared");
    let (_, message) = answer(Some(to), &question, Message::new("42")).unwrap();
    assert_eq!(message.correlation_id().unwrap(), "id");
}

#[test]
fn an_answer_that_has_nowhere_to_go_is_a_permanent_error() {
    for question in [Message::new(""), Message::new("").with_reply_to("")] {
        let question = delivery(question);
        let to = answer_to(None, true, &question);
        let error = answer(to, &question, Message::new("42")).unwrap_err();
        assert!(!error.is_transient());
    }
}

#[test]
fn an_answer_continues_the_trace() {
    let to = ByteString::from_static("declared");
    let (_, message) = answer(Some(to), &delivery(traced(TRACE)), Message::new("42")).unwrap();
    let trace = message.headers().first(names::TRACEPARENT);
    assert_eq!(trace.and_then(HeaderValue::as_str), Some(TRACE));
}
