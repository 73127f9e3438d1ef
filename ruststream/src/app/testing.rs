//! A broker that connects to nothing, and handlers without the macro: for this crate's own tests.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;

use bytestring::ByteString;

use crate::App;
use crate::broker::Arrival;
use crate::broker::BoxFuture;
use crate::broker::Broker;
use crate::broker::BrokerError;
use crate::broker::Capabilities;
use crate::broker::PublishError;
use crate::broker::Publishing;
use crate::broker::Returns;
use crate::broker::Sink;
use crate::broker::Source;
use crate::broker::Subscription;
use crate::config::Config;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::handler::Slot;
use crate::handler::Verdict;
use crate::message::Copy;
use crate::message::Message;
use crate::registration::Form;
use crate::registration::Options;
use crate::registration::Registration;
use crate::registration::Requirements;
use crate::registry::Registry;
use crate::settle::AckError;
use crate::settle::Disposition;
use crate::settle::Token;

/// An AMQP-like broker that connects to nothing.
#[derive(Clone, Debug)]
pub(crate) struct Fake {
    pub(crate) capabilities: Result<Capabilities, BrokerError>,
    pub(crate) location: &'static str,
    /// What becomes of a subscription to an address that begins like this.
    pub(crate) refuses: Option<&'static str>,
    pub(crate) hangs: Option<&'static str>,
    /// Whether its sources have a fault.
    pub(crate) panics: bool,
    pub(crate) subscribed: Arc<AtomicUsize>,
    pub(crate) closed: Arc<AtomicUsize>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Ok(Capabilities {
                returns: Returns::Counted,
                rejects: true,
                releases: true,
                delivery_limit: None,
                settled: false,
                delays: false,
                keeps_rejected: false,
                fan_out: false,
            }),
            location: "fake://here",
            refuses: None,
            hangs: None,
            panics: false,
            subscribed: Arc::default(),
            closed: Arc::default(),
        }
    }

    /// With these capabilities changed.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        if let Ok(capabilities) = &mut self.capabilities {
            change(capabilities);
        }
        self
    }

    pub(crate) fn subscriptions(&self) -> usize {
        self.subscribed.load(Ordering::Relaxed)
    }

    #[cfg(feature = "memory")]
    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Broker for Fake {
    fn system(&self) -> &'static str {
        "fake"
    }

    fn location(&self) -> String {
        self.location.to_owned()
    }

    fn capabilities(&self, subscription: &Subscription) -> Result<Capabilities, BrokerError> {
        let capabilities = self.capabilities.clone()?;
        let fan_out =
            capabilities.fan_out || matches!(subscription.form, Form::Topic | Form::Filter);
        Ok(Capabilities {
            fan_out,
            ..capabilities
        })
    }

    fn canonical(&self, _: Form, address: &str) -> String {
        address.trim_start_matches("/queues/").to_owned()
    }

    fn subscribe(
        &self,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, BrokerError>> {
        self.subscribed.fetch_add(1, Ordering::Relaxed);
        let is = |start: Option<&str>| {
            start.is_some_and(|start| subscription.address.starts_with(start))
        };
        let (refuses, hangs) = (is(self.refuses), is(self.hangs));
        let panics = self.panics;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            if refuses {
                return Err(BrokerError::permanent("no such queue"));
            }
            let source = Silent {
                panics,
                ..Silent::default()
            };
            Ok(Box::new(source) as Box<dyn Source>)
        })
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(Nowhere)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let closed = Arc::clone(&self.closed);
        Box::pin(async move {
            closed.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// A source without deliveries.
#[derive(Debug, Default)]
struct Silent {
    waker: Option<std::task::Waker>,
    stopped: bool,
    panics: bool,
}

impl Source for Silent {
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        self.poll_next(cx)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        assert!(!self.panics, "a fault of the driver");
        if self.stopped {
            return Poll::Ready(Arrival::Ended);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn settle(&mut self, _: Token, _: Disposition, _: u32) -> Poll<Result<(), AckError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_settled(&mut self, _: &mut Context<'_>) -> Poll<(u32, Result<(), AckError>)> {
        Poll::Pending
    }

    fn leave(&mut self, _: Token) {}

    fn set_window(&mut self, _: u32) {}

    fn stop(&mut self) {
        self.stopped = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[derive(Debug)]
struct Nowhere;

impl Sink for Nowhere {
    fn publish(&self, _: ByteString, _: Message) -> Publishing {
        Publishing::Done(Err(PublishError::permanent("nowhere")))
    }

    fn publish_copy(&self, _: Copy) -> Publishing {
        Publishing::Done(Err(PublishError::permanent("nowhere")))
    }
}

/// A slot of a handler that is never started.
#[derive(Debug)]
struct Idle;

impl Slot for Idle {
    fn start(&mut self, _: &mut Incoming<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<Verdict> {
        Poll::Pending
    }

    fn clear(&mut self) {}
}

/// A handler in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    pub(crate) name: &'static str,
    pub(crate) line: u32,
    pub(crate) form: Form,
    pub(crate) address: &'static str,
    pub(crate) options: Options,
    pub(crate) function: fn() -> TypeId,
    pub(crate) requires: fn(&mut Requirements),
    pub(crate) slot: fn() -> Box<dyn Slot>,
}

/// A handler of this name that reads `address`.
pub(crate) fn handler(name: &'static str, address: &'static str) -> Handler {
    Handler {
        name,
        line: 7,
        form: Form::Address,
        address,
        options: Options::NONE,
        function: TypeId::of::<()>,
        requires: |_| {},
        slot: || Box::new(Idle),
    }
}

impl Handler {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    pub(crate) fn needs(mut self, requires: fn(&mut Requirements)) -> Self {
        self.requires = requires;
        self
    }

    pub(crate) fn is(mut self, function: fn() -> TypeId) -> Self {
        self.function = function;
        self
    }

    #[cfg(feature = "memory")]
    pub(crate) fn runs(mut self, slot: fn() -> Box<dyn Slot>) -> Self {
        self.slot = slot;
        self
    }

    fn register(self) -> &'static Registration {
        Box::leak(Box::new(Registration::new(
            self.name,
            ("shop", "src/shop.rs", self.line),
            self.form,
            self.address,
            self.options,
            self.slot,
            self.function,
            self.requires,
            false,
        )))
    }
}

/// An application of these handlers, without brokers and without configuration.
pub(crate) fn bare<const N: usize>(handlers: [Handler; N]) -> App {
    App::new("shop")
        .config(Config::none())
        .registry(Registry::of(handlers.map(Handler::register)))
}

/// An application of these handlers on a broker that connects to nothing.
pub(crate) fn app<const N: usize>(handlers: [Handler; N]) -> App {
    bare(handlers).broker(Fake::new())
}

/// Everything that is wrong with it, one text each.
pub(crate) fn problems(app: &App) -> Vec<String> {
    match app.check() {
        Ok(()) => Vec::new(),
        Err(error) => error.problems().iter().map(ToString::to_string).collect(),
    }
}

/// What should be known of it.
pub(crate) fn warnings(app: &App) -> Vec<String> {
    let description = app.describe().unwrap();
    description
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// That there is exactly one text, and that it has all of these parts.
#[track_caller]
pub(crate) fn only(texts: Vec<String>, parts: &[&str]) {
    let [text] = texts.as_slice() else {
        panic!("expected one, found {texts:#?}");
    };
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

/// The type of a function item.
pub(crate) fn type_of<F: 'static>(_: F) -> TypeId {
    TypeId::of::<F>()
}
