//! Publishing: confirmed, pipelined, and traced.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytestring::ByteString;

use crate::broker::BoxFuture;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Publishing;
use crate::broker::Sink;
use crate::codec::EncodeError;
use crate::codec::IntoMessage;
use crate::codec::reason::shown;
use crate::delivery::Delivery;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::headers::HeaderValue;
use crate::headers::names;
use crate::message::Message;

/// Publishes messages. Cheap to clone.
///
/// In a handler it publishes to the broker that the handler reads from, and says in `traceparent`
/// which delivery it was handling, unless the message says something else. Another broker is had by
/// [`on`](Publisher::on).
///
/// # Examples
///
/// One message, confirmed; and several in flight at once:
///
/// ```
/// use ruststream::IntoMessage;
/// use ruststream::Json;
/// use ruststream::Publisher;
/// use ruststream::PublishError;
///
/// async fn announce(publisher: Publisher, order: Json<u64>) -> Result<(), PublishError> {
///     publisher.publish("orders.done", &order).await?;
///
///     let invoice = Json("42.00").into_message()?.with_header("tenant", "a");
///     let invoice = publisher.publish("invoices", invoice);
///     let label = publisher.publish("labels", Json(7));
///     invoice.await?;
///     label.await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Publisher {
    sink: Arc<dyn Sink>,
    brokers: Brokers,
    trace: Option<ByteString>,
}

impl Publisher {
    /// A publisher on one broker, outside an application.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self::with_brokers(sink, Brokers::default())
    }

    pub(crate) fn with_brokers(sink: Arc<dyn Sink>, brokers: Brokers) -> Self {
        Self {
            sink,
            brokers,
            trace: None,
        }
    }

    /// Publish to `to` and have the broker confirm it.
    ///
    /// The message is on its way when this returns; the future only waits for the confirmation.
    /// Several may be in flight, and they leave in the order of the calls.
    ///
    /// # Errors
    ///
    /// What the codec or the broker says. An address that the broker's protocol does not publish to
    /// (empty, or with a wildcard on MQTT) is refused before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the message back.
    pub fn publish(&self, to: impl Into<ByteString>, message: impl IntoMessage) -> Publish {
        match message.into_message() {
            Ok(message) => self.send(to.into(), message),
            Err(error) => Publish::refused(error.into()),
        }
    }

    /// Publish a question to `to` and wait for its answer, for `timeout` at most.
    ///
    /// Whoever answers publishes to the question's reply address with its correlation id, as a
    /// handler does that declares `replies`. The answer is waited for by this process only: it is not
    /// delivered again, and one that comes late is dropped.
    ///
    /// # Errors
    ///
    /// The question could not be published, nobody reads it (as far as the broker says so), no answer
    /// came in time, or the broker has no requests. A question without an answer may have been handled.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the answer is not waited for. The question may have been asked.
    pub fn request<A, M>(
        &self,
        to: A,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<Message, PublishError>> + Send + use<A, M>
    where
        A: Into<ByteString>,
        M: IntoMessage,
    {
        let to = to.into();
        let answer = self.ask(to.clone(), message);
        async move {
            match tokio::time::timeout(timeout, answer?).await {
                Ok(answer) => answer,
                Err(_) => Err(PublishError::transient(format!(
                    "no answer from `{}` within {timeout:?}",
                    shown(&to)
                ))),
            }
        }
    }

    fn ask(
        &self,
        to: ByteString,
        message: impl IntoMessage,
    ) -> Result<BoxFuture<'static, Result<Message, PublishError>>, PublishError> {
        let mut message = message.into_message()?;
        if to.is_empty() {
            return Err(no_address());
        }
        if let Some(trace) = &self.trace {
            continue_trace(&mut message, trace);
        }
        Ok(self.sink.request(to, message))
    }

    /// The publisher for another broker of the application.
    ///
    /// # Errors
    ///
    /// No broker has this name; the error lists those there are.
    pub fn on(&self, broker: &str) -> Result<Self, PublishError> {
        let sink = self.brokers.find(broker)?;
        Ok(Self {
            sink: Arc::clone(sink),
            brokers: self.brokers.clone(),
            trace: self.trace.clone(),
        })
    }

    #[inline]
    fn send(&self, to: ByteString, mut message: Message) -> Publish {
        if to.is_empty() {
            return Publish::refused(no_address());
        }
        if let Some(trace) = &self.trace {
            continue_trace(&mut message, trace);
        }
        Publish::new(self.sink.publish(to, message))
    }
}

impl Extract for Publisher {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        // A batch has no one delivery to continue the trace of.
        let trace = (!from.is_batch())
            .then(|| trace_of(from.delivery()))
            .flatten();
        let scope = from.scope;
        Ok(Self {
            sink: Arc::clone(&scope.sink),
            brokers: scope.brokers.clone(),
            trace: trace.cloned(),
        })
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("sink", &self.sink)
            .field("brokers", &self.brokers)
            .finish_non_exhaustive()
    }
}

impl From<EncodeError> for PublishError {
    fn from(error: EncodeError) -> Self {
        Self::permanent(error.to_string())
    }
}

/// A publish that was begun: ready when the broker has confirmed it.
///
/// Dropping it does not take the message back. [`Published::Unread`] says that the broker took the
/// message and knows nobody who reads it (MQTT); here that is not an error.
#[must_use = "a publish is known to have succeeded only when it is awaited"]
pub struct Publish(Option<Publishing>);

impl Publish {
    #[inline]
    fn new(publishing: Publishing) -> Self {
        Self(Some(publishing))
    }

    #[cold]
    fn refused(error: PublishError) -> Self {
        Self::new(Publishing::Done(Err(error)))
    }
}

/// Not ready again after it was: it is to be polled once.
impl Future for Publish {
    type Output = Result<Published, PublishError>;

    /// Inlined where it is awaited: a publish that was done at once is a plain value there.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.take() {
            Some(Publishing::Done(result)) => Poll::Ready(result),
            Some(Publishing::Pending(future)) => self.poll_pending(future, cx),
            None => Poll::Pending,
        }
    }
}

impl Publish {
    fn poll_pending(
        &mut self,
        mut future: BoxFuture<'static, Result<Published, PublishError>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Published, PublishError>> {
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(Publishing::Pending(future));
        }
        polled
    }
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Publish").field(&self.0).finish()
    }
}

/// The brokers of an application by name, for publishing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brokers(Option<Arc<[Named]>>);

type Named = (ByteString, Arc<dyn Sink>);

impl Brokers {
    pub(crate) fn new(brokers: impl IntoIterator<Item = Named>) -> Self {
        Self(Some(brokers.into_iter().collect()))
    }

    fn find(&self, name: &str) -> Result<&Arc<dyn Sink>, PublishError> {
        let brokers = self.0.as_deref().unwrap_or_default();
        brokers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, sink)| sink)
            .ok_or_else(|| Self::unknown(brokers, name))
    }

    #[cold]
    fn unknown(brokers: &[Named], name: &str) -> PublishError {
        let name = shown(name);
        let known: Vec<&str> = brokers.iter().map(|(known, _)| &**known).collect();
        PublishError::permanent(if known.is_empty() {
            format!("no broker is called `{name}`: the application has no named brokers")
        } else {
            format!(
                "no broker is called `{name}`; there are: `{}`",
                known.join("`, `")
            )
        })
    }
}

/// The answer to a delivery: where it goes, and what (spec C28).
///
/// It goes to `to`, which [`answer_to`] says. It carries the
/// question's correlation id, else the question's id, unless it has one of its own.
///
/// # Errors
///
/// Neither names an address.
pub(crate) fn answer(
    to: Option<ByteString>,
    question: &Delivery,
    mut message: Message,
) -> Result<(ByteString, Message), PublishError> {
    let asked = question.message();
    let to = to.ok_or_else(nowhere)?;
    if message.correlation_id().is_none() {
        let ties = asked.correlation_id().cloned();
        let ties = ties.or_else(|| asked.id().map(|id| id.to_owned().into()));
        if let Some(ties) = ties {
            message = message.with_correlation_id(ties);
        }
    }
    if let Some(trace) = trace_of(question) {
        continue_trace(&mut message, trace);
    }
    Ok((to, message))
}

/// Where a handler's answer goes (spec C28): to the handler's `reply_to`, or to the delivery's own
/// reply address, which comes first with `replies`.
pub(crate) fn answer_to(
    declared: Option<&ByteString>,
    replies: bool,
    question: &Delivery,
) -> Option<ByteString> {
    let asked = question.message().reply_to();
    let asked = asked.filter(|to| !to.is_empty()).map(ByteString::from);
    let declared = declared.cloned();
    if replies {
        asked.or(declared)
    } else {
        declared.or(asked)
    }
}

#[cold]
fn no_address() -> PublishError {
    PublishError::permanent("the address to publish to is empty")
}

#[cold]
fn nowhere() -> PublishError {
    PublishError::permanent(
        "there is nowhere to answer to: the delivery names no reply address; declare `reply_to`",
    )
}

/// The delivery's `traceparent`, if it is one (W3C Trace Context section 3.2).
fn trace_of(delivery: &Delivery) -> Option<&ByteString> {
    match delivery.headers().first(names::TRACEPARENT)? {
        HeaderValue::Text(text) if is_traceparent(text.as_bytes()) => Some(text),
        _ => None,
    }
}

fn continue_trace(message: &mut Message, trace: &ByteString) {
    let headers = message.headers_mut();
    let has = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(names::TRACEPARENT));
    if !has {
        headers.append(ByteString::from_static(names::TRACEPARENT), trace.clone());
    }
}

/// Anything else is not sent on: it would only confuse whoever reads it.
fn is_traceparent(text: &[u8]) -> bool {
    const LENGTH: usize = 55;
    let Some((head, rest)) = text.split_at_checked(LENGTH) else {
        return false;
    };
    let shape = head.iter().enumerate().all(|(at, byte)| match at {
        2 | 35 | 52 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    let has = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    // A later version may be longer, after another dash.
    let tail = rest.is_empty() || (&head[..2] != b"00" && rest[0] == b'-' && rest.len() <= 200);
    shape && tail && &head[..2] != b"ff" && has(&head[3..35]) && has(&head[36..52])
}

#[cfg(test)]
mod tests;
