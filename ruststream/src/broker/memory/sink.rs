//! Publishing to the embedded broker.

use std::fmt;
use std::sync::Arc;
use std::sync::MutexGuard;

use bytestring::ByteString;

use super::Shared;
use super::publish::Publisher;
use super::state::State;
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
            && let Some(at) = state.only_queue(&to)
        {
            state.put(at, to, message);
            Shared::unlock(state);
            return Publishing::Done(Ok(Published::Confirmed));
        }
        self.publish_in_full(state, to, message)
    }

    fn publish_copy(&self, copy: Copy) -> Publishing {
        let message = copy.message();
        self.publish(copy.to, message)
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
