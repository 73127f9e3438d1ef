//! A delivery and a mount point around it, for the tests of extractors.

use std::slice;
use std::sync::Arc;

use bytestring::ByteString;
use tokio_util::sync::CancellationToken;

use crate::broker::Published;
use crate::broker::Publishing;
use crate::broker::Sink;
use crate::delivery::Delivery;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::extract::Scope;
use crate::message::Copy;
use crate::message::Message;
use crate::message::Native;
use crate::state::StateMap;

pub(crate) struct Fixture {
    pub(crate) delivery: Delivery,
    pub(crate) scope: Scope,
}

impl Fixture {
    pub(crate) fn new(message: impl Into<Message>) -> Self {
        let native = Arc::new(Native::new("orders", message.into()));
        Self {
            delivery: Delivery::new(native, None),
            scope: Scope {
                state: StateMap::default(),
                sink: Arc::new(Nowhere),
                shutdown: CancellationToken::new(),
            },
        }
    }

    pub(crate) fn take<E: Extract>(&mut self) -> Result<E, Rejection> {
        E::extract(&mut Incoming::new(
            slice::from_mut(&mut self.delivery),
            &self.scope,
        ))
    }
}

/// A sink that takes everything.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn publish(&self, _to: ByteString, _message: Message) -> Publishing {
        Publishing::Done(Ok(Published::Confirmed))
    }

    fn publish_copy(&self, _copy: Copy) -> Publishing {
        Publishing::Done(Ok(Published::Confirmed))
    }
}
