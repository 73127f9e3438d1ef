//! Settling by hand.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;

use crate::AckError;
use crate::Extract;
use crate::Outcome;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;
use crate::settle::Token;

/// The right to settle the delivery by hand: early, or from a task that the handler spawned.
///
/// A handler that takes one settles with it; its return value then says nothing. When the handler
/// returns normally and the `Settler` is dropped unused, the delivery gets no outcome at all: it
/// stays unsettled until its connection ends (spec A14). An `Err`, a panic or a timeout before it
/// was used is a failed attempt like any other (spec C30). The handler's `timeout` runs until the
/// delivery is settled.
///
/// # Examples
///
/// ```
/// use ruststream::Settler;
///
/// async fn import(settler: Settler) {
///     // The answer says whether the broker took it.
///     if let Err(refused) = settler.ack().await {
///         tracing::warn!(%refused, "not acked");
///     }
/// }
/// # let _ = import;
/// ```
#[must_use = "a delivery whose settler is dropped unused gets no outcome"]
pub struct Settler {
    right: Arc<Right>,
}

impl Settler {
    /// Done.
    ///
    /// # Errors
    ///
    /// Why it was not taken; see [`AckError`].
    ///
    /// # Cancel safety
    ///
    /// Once polled the outcome is on its way; dropping the future only forgets the answer.
    pub async fn ack(self) -> Result<(), AckError> {
        self.settle(Outcome::Ack).await
    }

    /// Not wanted.
    ///
    /// # Errors
    ///
    /// As for [`ack`](Self::ack).
    pub async fn drop(self) -> Result<(), AckError> {
        self.settle(Outcome::Drop).await
    }

    /// Again, at once.
    ///
    /// # Errors
    ///
    /// As for [`ack`](Self::ack).
    pub async fn retry(self) -> Result<(), AckError> {
        self.settle(Outcome::Retry).await
    }

    /// Again, after `delay`. Answers when the delay has begun.
    ///
    /// # Errors
    ///
    /// As for [`ack`](Self::ack).
    pub async fn retry_after(self, delay: Duration) -> Result<(), AckError> {
        self.settle(Outcome::RetryAfter(delay)).await
    }

    /// To the declared dead letter.
    ///
    /// # Errors
    ///
    /// As for [`ack`](Self::ack).
    pub async fn dead_letter(self) -> Result<(), AckError> {
        self.settle(Outcome::DeadLetter).await
    }

    async fn settle(self, outcome: Outcome) -> Result<(), AckError> {
        let (answer, answered) = oneshot::channel();
        if !self.right.post(Said::Outcome(outcome, answer)) {
            return Err(AckError::Closed);
        }
        answered.await.unwrap_or(Err(AckError::Closed))
    }
}

impl Extract for Settler {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self {
            right: from.settle_by_hand(),
        })
    }

    fn requires(needs: &mut Requirements) {
        needs.settles();
        needs.per_message("Settler");
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        // Nothing is to be said when it has spoken, or when the pump was first.
        self.right.post(Said::Nothing);
    }
}

impl fmt::Debug for Settler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settler").finish_non_exhaustive()
    }
}

/// Who may settle a delivery: its settler, until the pump takes the right back.
#[derive(Debug)]
pub(crate) struct Right {
    id: u32,
    claim: Mutex<Option<Claim>>,
    posts: Arc<Posts>,
}

/// The right itself; whoever holds it settles. Without a token the delivery was settled on arrival.
#[derive(Debug)]
pub(crate) struct Claim(pub(crate) Option<Token>);

impl Right {
    pub(crate) fn new(id: u32, token: Option<Token>, posts: Arc<Posts>) -> Self {
        Self {
            id,
            claim: Mutex::new(Some(Claim(token))),
            posts,
        }
    }

    /// Use the right to say this; whether it was still to be had. The pump finds either the right or
    /// the word, never neither: it could not tell then whether its settler was dropped unused.
    fn post(&self, said: Said) -> bool {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(claim) = claim.take() else {
            return false;
        };
        let id = self.id;
        self.posts.push(Post { id, claim, said });
        true
    }

    /// Take the right, if nobody has used it.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.claim
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Right {
    /// The pump ends: whoever holds the settler is told that it is closed.
    pub(crate) fn revoke(&self) {
        self.claim
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// What settlers said to their pump.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    queue: Mutex<VecDeque<Post>>,
    pump: AtomicWaker,
}

/// One word of a settler.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) id: u32,
    pub(crate) claim: Claim,
    pub(crate) said: Said,
}

/// What it said.
#[derive(Debug)]
pub(crate) enum Said {
    /// This, and it waits for the answer.
    Outcome(Outcome, oneshot::Sender<Result<(), AckError>>),
    /// It was dropped unused.
    Nothing,
}

impl Posts {
    fn push(&self, post: Post) {
        self.queue().push_back(post);
        self.pump.wake();
    }

    pub(crate) fn pop(&self) -> Option<Post> {
        self.queue().pop_front()
    }

    /// Take back the right of a settler that was dropped unused and was not heard yet.
    pub(crate) fn recall_unused(&self, id: u32) -> Option<Claim> {
        let mut queue = self.queue();
        let unused = |post: &Post| post.id == id && matches!(post.said, Said::Nothing);
        let index = queue.iter().position(unused)?;
        queue.remove(index).map(|post| post.claim)
    }

    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.pump.register(waker);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Post>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_of_a_dropped_settler_is_not_seen_gone_before_its_word_is_there() {
        let posts = Arc::<Posts>::default();
        let right = Arc::new(Right::new(7, None, Arc::clone(&posts)));
        let settler = Settler {
            right: Arc::clone(&right),
        };
        std::thread::scope(|scope| {
            // Nothing can be posted for now, so the drop comes as far as its word and waits.
            let no_word = posts.queue();
            scope.spawn(move || drop(settler));
            let mut locked = 0;
            while locked < 1_000 {
                match right.claim.try_lock() {
                    Ok(claim) => assert!(claim.is_some(), "the right is gone without a word"),
                    Err(_) => locked += 1,
                }
                std::thread::yield_now();
            }
            drop(no_word);
        });
        assert!(right.claim().is_none());
        assert!(posts.recall_unused(7).is_some());
    }
}
