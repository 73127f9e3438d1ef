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
    /// An argument refused the delivery after all, in a worker.
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
            text: error.to_string(),
        }))
    }

    /// An error that decides for itself.
    #[cold]
    #[must_use]
    pub fn by_itself(outcome: Outcome, error: &dyn fmt::Display) -> Verdict {
        Verdict::Failed(Box::new(Self {
            outcome: Some(outcome),
            text: error.to_string(),
        }))
    }
}

/// A slot for one handler: how to start it, and the box its future lives in.
pub struct Typed<S, F> {
    start: S,
    running: Pin<Box<Option<F>>>,
}

impl<S, F> Typed<S, F>
where
    S: FnMut(&mut Incoming<'_>) -> Result<F, Rejection> + Send + 'static,
    F: Future<Output = Verdict> + Send + 'static,
{
    /// A free slot.
    #[must_use]
    pub fn boxed(start: S) -> Box<dyn Slot> {
        Box::new(Self {
            start,
            running: Box::pin(None),
        })
    }
}

impl<S, F> Slot for Typed<S, F>
where
    S: FnMut(&mut Incoming<'_>) -> Result<F, Rejection> + Send,
    F: Future<Output = Verdict> + Send,
{
    fn start(&mut self, from: &mut Incoming<'_>) -> Result<(), Rejection> {
        let future = (self.start)(from)?;
        self.running.set(Some(future));
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Verdict> {
        let Some(running) = self.running.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let verdict = std::task::ready!(running.poll(cx));
        self.running.set(None);
        Poll::Ready(verdict)
    }

    fn clear(&mut self) {
        self.running.set(None);
    }
}

impl<S, F> fmt::Debug for Typed<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("running", &self.running.is_some())
            .finish_non_exhaustive()
    }
}
