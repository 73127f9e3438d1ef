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
use crate::publisher::Brokers;
use crate::state::StateMap;

pub(crate) struct Fixture {
    pub(crate) delivery: Delivery,
    pub(crate) scope: Scope,
}

impl Fixture {
    pub(crate) fn new(message: impl Into<Message>) -> Self {
        Self {
            delivery: delivery(message),
            scope: Scope::new(
                StateMap::default(),
                Arc::new(Nowhere),
                Brokers::default(),
                CancellationToken::new(),
            ),
        }
    }

    pub(crate) fn take<E: Extract>(&mut self) -> Result<E, Rejection> {
        E::extract(&mut Incoming::new(
            slice::from_mut(&mut self.delivery),
            &self.scope,
        ))
    }
}

pub(crate) fn delivery(message: impl Into<Message>) -> Delivery {
    Delivery::new(Arc::new(Native::new("orders", message.into())), None)
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
