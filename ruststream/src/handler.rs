//! The erasure boundary: a handler's own code ends here, the runtime sees a [`Slot`].
//!
//! A registration makes one slot per unit of concurrency. The handler's future lives in a box that
//! is used again, so nothing is allocated per delivery.

use std::fmt;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use crate::Outcome;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::message::Message;

/// One unit of a handler's concurrency.
pub trait Slot: Send {
    /// Extract the arguments and make the handler's future. It is not polled yet.
    ///
    /// # Errors
    ///
    /// The first extractor that refused. The slot stays free.
    fn start(&mut self, from: &mut Incoming<'_>) -> Result<(), Rejection>;

    /// Poll the running handler; when it is ready the slot is free again.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Verdict>;

    /// [`start`](Slot::start), then the first [`poll`](Slot::poll), in one step: most handlers are
    /// done by then. An argument's refusal is a verdict here.
    fn begin(&mut self, from: &mut Incoming<'_>, cx: &mut Context<'_>) -> Poll<Verdict> {
        match self.start(from) {
            Ok(()) => self.poll(cx),
            Err(rejection) => Poll::Ready(Verdict::Rejected(rejection)),
        }
    }

    /// Drop the running future, after a panic, a timeout or a stop.
    fn clear(&mut self);
}

/// What a handler's run came to.
#[derive(Debug)]
pub enum Verdict {
    /// It returned an outcome.
    Done(Outcome),
    /// It returned an error.
    Failed(Box<Failed>),
    /// An argument refused the delivery.
    Rejected(Rejection),
    /// It returned a value to publish (`reply_to`); the delivery is acked once it is confirmed.
    Answer(Box<Message>),
}

/// An error that a handler returned.
#[derive(Debug)]
pub struct Failed {
    /// What the error itself says should become of the delivery; else the mount point's policy.
    pub outcome: Option<Outcome>,
    /// The error's text, for logs and the dead letter.
    pub text: String,
}

impl Failed {
    /// An error that leaves the decision to `on_error`, or to `max_attempts`.
    #[cold]
    #[must_use]
    pub fn by_policy(error: &dyn fmt::Display) -> Verdict {
        Verdict::Failed(Box::new(Self {
            outcome: None,
            // An alternate display shows an error's causes where it knows them, as `anyhow`'s does.
            text: format!("{error:#}"),
        }))
    }

    /// An error that decides for itself.
    #[cold]
    #[must_use]
    pub fn by_itself(outcome: Outcome, error: &dyn fmt::Display) -> Verdict {
        Verdict::Failed(Box::new(Self {
            outcome: Some(outcome),
            // An alternate display shows an error's causes where it knows them, as `anyhow`'s does.
            text: format!("{error:#}"),
        }))
    }
}

/// Makes slots of closures.
#[derive(Debug)]
pub struct Typed;

impl Typed {
    /// A free slot: how to start its handler, and the box its future lives in.
    #[must_use]
    #[expect(
        clippy::inline_always,
        reason = "so that it is compiled with the handler's module, not again for all of them"
    )]
    #[inline(always)]
    pub fn boxed<S, F>(start: S) -> Box<dyn Slot>
    where
        S: FnMut(&mut Incoming<'_>) -> Result<F, Rejection> + Send + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        Box::new((start, Box::pin(None)))
    }
}

/// A pair rather than a type of its own, because the compiler keeps the code of a method with its self
/// type: a pair of the user's own types is compiled again with the module they stand in, a type of this
/// crate would be compiled again for every handler when one of them changes.
impl<S, F> Slot for (S, Pin<Box<Option<F>>>)
where
    S: FnMut(&mut Incoming<'_>) -> Result<F, Rejection> + Send,
    F: Future<Output = Verdict> + Send,
{
    fn start(&mut self, from: &mut Incoming<'_>) -> Result<(), Rejection> {
        let (start, running) = self;
        // A `match`, because `?` is two calls to be compiled for each handler.
        match start(from) {
            Ok(future) => running.set(Some(future)),
            Err(rejection) => return Err(rejection),
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Verdict> {
        let (_, running) = self;
        let Some(future) = running.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let verdict = std::task::ready!(future.poll(cx));
        running.set(None);
        Poll::Ready(verdict)
    }

    fn clear(&mut self) {
        self.1.set(None);
    }
}
