//! Where a publish goes, found once per address and remembered until subscriptions change.

use std::collections::HashMap;

use bytestring::ByteString;

/// The queues that take what is published to one address.
#[derive(Debug)]
pub(super) struct Route {
    to: ByteString,
    pub(super) queues: Vec<usize>,
    /// Shared groups: a message goes to one member of each.
    pub(super) groups: Vec<Group>,
    /// The queue, if it is one and no session: what most publishes need to know.
    pub(super) only: Option<usize>,
    version: u64,
}

/// The members of a shared group, and whose turn it is.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: ByteString,
    pub(super) filter: ByteString,
    pub(super) members: Vec<usize>,
    pub(super) turn: usize,
}

/// Routes by address.
#[derive(Debug, Default)]
pub(super) struct Routes {
    all: Vec<Route>,
    by_address: HashMap<ByteString, usize>,
    /// The route last used among the addresses that look alike, to spare the hash.
    recent: [Option<usize>; RECENT],
    version: u64,
}

impl Routes {
    /// Forget where things go: subscriptions have changed.
    pub(super) fn change(&mut self) {
        self.version += 1;
    }

    /// The remembered route to `to`.
    #[inline]
    pub(super) fn find(&mut self, to: &str) -> Option<usize> {
        let place = place(to);
        if let Some(at) = self.recent[place]
            && let Some(route) = self.all.get(at)
            && route.version == self.version
            && is_same(&route.to, to)
        {
            return Some(at);
        }
        let at = *self.by_address.get(to)?;
        (self.all[at].version == self.version).then(|| {
            self.recent[place] = Some(at);
            at
        })
    }

    /// Remember the route to `to`.
    pub(super) fn insert(
        &mut self,
        to: ByteString,
        queues: Vec<usize>,
        groups: Vec<Group>,
        only: Option<usize>,
    ) -> usize {
        if self.all.len() >= REMEMBERED {
            self.all.clear();
            self.by_address.clear();
            self.recent = [None; RECENT];
        }
        let at = *self.by_address.entry(to.clone()).or_insert(self.all.len());
        let route = Route {
            to,
            queues,
            groups,
            only,
            version: self.version,
        };
        match self.all.get_mut(at) {
            Some(known) => *known = route,
            None => self.all.push(route),
        }
        at
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &Route {
        &self.all[at]
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut Route {
        &mut self.all[at]
    }
}

/// Whether two addresses are the same, which clones of one are at a glance.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}

#[inline]
fn place(to: &str) -> usize {
    let last = to.as_bytes().last().map_or(0, |byte| usize::from(*byte));
    (to.len() + last) % RECENT
}

/// How many routes are found without hashing.
const RECENT: usize = 16;

/// How many routes are remembered: topics may be many, as in one per device.
const REMEMBERED: usize = 4096;
