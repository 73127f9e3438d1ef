//! Publishing to the embedded broker.

use std::fmt;
use std::sync::Arc;
use std::sync::MutexGuard;

use bytestring::ByteString;
use tokio::sync::oneshot;

use super::Shared;
use super::publish::Publisher;
use super::state::State;
use crate::broker::BoxFuture;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Publishing;
use crate::broker::Sink;
use crate::message::Copy;
use crate::message::Message;

/// Publishes at once: the broker is here.
pub(super) struct MemorySink {
    shared: Arc<Shared>,
    publisher: Publisher,
}

impl MemorySink {
    pub(super) fn new(shared: Arc<Shared>, publisher: Publisher) -> Self {
        Self { shared, publisher }
    }
}

impl Sink for MemorySink {
    fn publish(&self, to: ByteString, message: Message) -> Publishing {
        let mut state = self.shared.lock();
        if message.is_plain()
            && state.is_plain()
            && let Some(way) = state.straight(&to)
        {
            way.put(to, message);
            Shared::unlock(state);
            return Publishing::Done(Ok(Published::Confirmed));
        }
        self.publish_in_full(state, to, message)
    }

    fn publish_copy(&self, copy: Copy) -> Publishing {
        let message = copy.message();
        self.publish(copy.to, message)
    }

    fn request(
        &self,
        to: ByteString,
        message: Message,
    ) -> BoxFuture<'static, Result<Message, PublishError>> {
        let id = format!("{:032x}", fastrand::u128(..));
        let reply_to = ByteString::from(format!("ruststream/replies/{id}"));
        let (question, answer) = oneshot::channel();
        self.shared.with(|state| {
            state.questions.insert(reply_to.clone(), question);
        });
        let waiting = Waiting {
            shared: Arc::clone(&self.shared),
            reply_to: reply_to.clone(),
        };
        let message = message.with_reply_to(reply_to).with_correlation_id(id);
        let published = self.publish(to, message);
        Box::pin(async move {
            // Dropped, it waits no more.
            let _waiting = waiting;
            let published = match published {
                Publishing::Done(result) => result,
                Publishing::Pending(future) => future.await,
            };
            if published? == Published::Unread {
                return Err(PublishError::transient(
                    "nobody reads the address of the request, so nobody answers",
                ));
            }
            answer
                .await
                .map_err(|_| PublishError::transient("the broker is gone"))
        })
    }
}

/// A question that waits for its answer.
struct Waiting {
    shared: Arc<Shared>,
    reply_to: ByteString,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.with(|state| {
            state.questions.remove(&self.reply_to);
        });
    }
}

impl MemorySink {
    fn publish_in_full(
        &self,
        mut state: MutexGuard<'_, State>,
        to: ByteString,
        message: Message,
    ) -> Publishing {
        state.timed |= message.time_to_live().is_some();
        let now = self.shared.now_if_timed(&state);
        let gate = match &state.faults {
            Some(_) => state.gate(&to),
            None => None,
        };
        let result = state.publish(to, message, self.publisher, now);
        Shared::unlock(state);
        if let Some(gate) = gate {
            return Publishing::Pending(Box::pin(async move {
                gate.cancelled().await;
                result
            }));
        }
        Publishing::Done(result)
    }
}

impl fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySink")
            .field("publisher", &self.publisher)
            .finish_non_exhaustive()
    }
}
