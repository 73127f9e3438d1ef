//! Readers and publishers under test, and what every protocol's tests share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::Wake;
use std::task::Waker;

use super::*;
use crate::broker::Arrival;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Publishing;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Settle;
use crate::settle::Token;

mod amqp;
mod faults;
mod mqtt;
mod properties;
mod rabbitmq;

/// A subscription of the mount point `reader` to `address`.
pub(super) fn subscription(form: Form, address: &'static str, window: u32) -> Subscription {
    Subscription {
        app: "app".into(),
        mount: "reader".into(),
        form,
        address: address.into(),
        window,
        settle: Settle::AtLeastOnce,
        amqp: None,
        mqtt: None,
        rabbitmq: None,
    }
}

/// A source under test: what it yields is asked for, never waited for.
pub(super) struct Reader {
    source: Box<dyn Source>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Reader {
    /// Subscribe; it is not connected yet.
    pub(super) fn subscribe(broker: &Memory, subscription: Subscription) -> Self {
        Self::try_subscribe(broker, subscription).expect("the broker serves it")
    }

    pub(super) fn try_subscribe(
        broker: &Memory,
        subscription: Subscription,
    ) -> Result<Self, BrokerError> {
        let mut subscribing = broker.subscribe(subscription);
        match subscribing
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(source) => Ok(Self {
                source: source?,
                wakes: Arc::default(),
            }),
            Poll::Pending => panic!("subscribing is done at once"),
        }
    }

    /// Subscribe, and take in that it is connected.
    pub(super) fn connect(broker: &Memory, subscription: Subscription) -> Self {
        let mut reader = Self::subscribe(broker, subscription);
        assert_eq!(reader.connected(), 1);
        reader
    }

    pub(super) fn arrival(&mut self) -> Option<Arrival> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.source.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(arrival) => Some(arrival),
            Poll::Pending => None,
        }
    }

    /// How often it was woken.
    pub(super) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    /// The epoch of the connection that it is told of now.
    pub(super) fn connected(&mut self) -> u32 {
        match self.arrival() {
            Some(Arrival::Connected { epoch }) => epoch,
            other => panic!("expected a connection, got {other:?}"),
        }
    }

    /// The next delivery, if there is one.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        match self.arrival() {
            Some(Arrival::Delivery(delivery)) => Some(delivery),
            None | Some(Arrival::Ended) => None,
            other => panic!("expected a delivery, got {other:?}"),
        }
    }

    /// The payload of the next delivery, which is let go unsettled.
    pub(super) fn payload(&mut self) -> Option<String> {
        self.next().map(|delivery| text(&delivery))
    }

    /// Every payload that comes now, unsettled.
    pub(super) fn payloads(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.payload()).collect()
    }

    pub(super) fn settle(
        &mut self,
        delivery: &mut Delivery,
        how: Disposition,
    ) -> Result<(), AckError> {
        let token = delivery.token.take().expect("it can be settled");
        self.settle_token(token, how)
    }

    pub(super) fn settle_token(&mut self, token: Token, how: Disposition) -> Result<(), AckError> {
        match self.source.settle(token, how, 0) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the embedded broker settles at once"),
        }
    }

    /// Do what the pump does before it sleeps: whatever was said has reached the broker then.
    pub(super) fn idle(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(self.source.poll_settled(&mut cx).is_pending());
    }

    /// Receive and settle everything that comes now; the payloads, in order.
    pub(super) fn settle_all(&mut self, how: Disposition) -> Vec<String> {
        std::iter::from_fn(|| {
            let mut delivery = self.next()?;
            let text = text(&delivery);
            self.settle(&mut delivery, how).expect("settled");
            Some(text)
        })
        .collect()
    }

    pub(super) fn leave(&mut self, mut delivery: Delivery) {
        self.source
            .leave(delivery.token.take().expect("it can be left"));
    }

    pub(super) fn set_window(&mut self, window: u32) {
        self.source.set_window(window);
    }

    pub(super) fn stop(&mut self) {
        self.source.stop();
        assert!(matches!(self.arrival(), Some(Arrival::Ended)));
    }

    /// Leave in order.
    pub(super) fn close(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(self.source.poll_close(&mut cx).is_ready());
    }
}

pub(super) fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.payload()).into_owned()
}

pub(super) fn try_publish(
    broker: &Memory,
    to: &'static str,
    message: impl Into<Message>,
) -> Result<Published, PublishError> {
    match broker.sink().publish(to.into(), message.into()) {
        Publishing::Done(result) => result,
        Publishing::Pending(_) => panic!("the embedded broker confirms at once"),
    }
}

/// Publish, whether anyone reads it or not.
pub(super) fn send(broker: &Memory, to: &'static str, message: impl Into<Message>) {
    try_publish(broker, to, message).expect("published");
}

pub(super) fn publish(broker: &Memory, to: &'static str, message: impl Into<Message>) {
    assert_eq!(
        try_publish(broker, to, message).expect("published"),
        Published::Confirmed
    );
}
