//! Native messages to use again, so that a message in steady state costs no allocation.

use std::sync::Arc;

use bytestring::ByteString;

use crate::message::Message;
use crate::message::Native;

/// Native messages that were settled.
///
/// The one that was given last is taken first, while it is still near. `used` is short, and what
/// does not fit into it is emptied, so that a burst of large payloads is not kept for ever.
#[derive(Debug, Default)]
pub(super) struct Pool {
    used: Vec<Arc<Native>>,
    empty: Vec<Arc<Native>>,
}

impl Pool {
    /// A native message, from the pool if there is one that nobody holds.
    #[expect(
        clippy::inline_always,
        reason = "every message passes here, and what its caller knows of it decides most of it"
    )]
    #[inline(always)]
    pub(super) fn take(&mut self, address: ByteString, message: Message) -> Arc<Native> {
        if let Some(mut native) = self.used.pop() {
            // A message is large to move: it is written where it stays, and never swapped.
            if let Some(inner) = Arc::get_mut(&mut native) {
                inner.address = address;
                inner.message = message;
                return native;
            }
            // Its handler has kept it: then it is the handler's.
        }
        self.take_empty(address, message)
    }

    #[cold]
    fn take_empty(&mut self, address: ByteString, message: Message) -> Arc<Native> {
        if let Some(mut native) = self.empty.pop()
            && let Some(inner) = Arc::get_mut(&mut native)
        {
            inner.address = address;
            inner.message = message;
            return native;
        }
        Arc::new(Native::new(address, message))
    }

    /// Give a settled message back.
    #[inline]
    pub(super) fn give(&mut self, native: Arc<Native>) {
        if self.used.len() < USED {
            self.used.push(native);
        } else {
            self.give_emptied(native);
        }
    }

    /// Give a message back without its payload. One that is held even now is left to its holder.
    #[cold]
    fn give_emptied(&mut self, mut native: Arc<Native>) {
        if self.empty.len() < EMPTY
            && let Some(inner) = Arc::get_mut(&mut native)
        {
            inner.address = ByteString::new();
            inner.message = Message::default();
            self.empty.push(native);
        }
    }
}

/// How many used messages are kept with their payloads.
const USED: usize = 128;

/// How many emptied messages are kept.
const EMPTY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_nobody_holds_is_used_again() {
        let mut pool = Pool::default();
        let first = pool.take("a".into(), Message::new("1"));
        let place = Arc::as_ptr(&first);
        pool.give(first);
        let second = pool.take("b".into(), Message::new("2"));
        assert_eq!(Arc::as_ptr(&second), place);
        assert_eq!(second.address(), "b");
        assert_eq!(second.message().payload().as_ref(), b"2");
    }

    #[test]
    fn a_message_that_is_held_is_never_changed() {
        let mut pool = Pool::default();
        let first = pool.take("a".into(), Message::new("1"));
        pool.give(Arc::clone(&first));
        let second = pool.take("b".into(), Message::new("2"));
        assert_ne!(Arc::as_ptr(&second), Arc::as_ptr(&first));
        assert_eq!(first.message().payload().as_ref(), b"1");
    }

    #[test]
    fn a_burst_keeps_few_payloads_and_a_bounded_number_of_messages() {
        let mut pool = Pool::default();
        let burst: Vec<_> = (0..5_000)
            .map(|_| pool.take("a".into(), Message::new("1")))
            .collect();
        for native in burst {
            pool.give(native);
        }
        assert_eq!(pool.used.len(), USED);
        assert_eq!(pool.empty.len(), EMPTY);
        assert!(
            pool.empty
                .iter()
                .all(|native| native.message().payload().is_empty())
        );
    }
}
