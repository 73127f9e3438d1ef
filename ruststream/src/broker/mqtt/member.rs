//! One mount point on a connection: what waits for its source.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Waker;

use tokio::sync::oneshot;

use super::spec::MemberSpec;
use super::state::Wakes;
use crate::broker::Arrival;
use crate::broker::BrokerError;
use crate::broker::Discard;
use crate::delivery::Delivery;

/// The answer to a subscription at start-up.
pub(super) type Started = oneshot::Sender<Result<(), BrokerError>>;

/// A mount point on a connection.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) spec: MemberSpec,
    pub(super) stage: Stage,
    /// Whether the server's session has the subscription.
    pub(super) is_subscribed: bool,
    /// Whether it was told that it receives.
    pub(super) is_connected: bool,
    /// Why it does not receive, as it was told last.
    told: Option<String>,
    /// Deliveries that were left without a word on this connection.
    pub(super) left: u32,
    /// Deliveries that came, ever.
    pub(super) arrived: u64,
    /// Who waits for the answer to the first subscription.
    pub(super) started: Option<Started>,
    /// Rung when something other than deliveries is new, so that a source need not look.
    pub(super) bell: Arc<AtomicBool>,
    pub(super) waker: Option<Waker>,
    ready: VecDeque<Delivery>,
    /// Those of `ready` that the server does not keep.
    unconfirmed: usize,
    events: VecDeque<Arrival>,
    overflowed: u64,
    unmatched: u64,
}

/// Where a mount point is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Receiving,
    /// It gives its subscription up, by this packet once it has left.
    Unsubscribing(Option<u16>),
    /// What the server still has for it is handed out: until nothing came between a PINGREQ and its
    /// answer, when `arrived` was so much at the PINGREQ.
    Draining(Option<u64>),
    /// Nothing more is handed out but what the server does not keep.
    Ended,
    /// Its source is gone.
    Closed,
}

impl Member {
    pub(super) fn new(spec: MemberSpec) -> Self {
        Self {
            spec,
            stage: Stage::Receiving,
            is_subscribed: false,
            is_connected: false,
            told: None,
            left: 0,
            arrived: 0,
            started: None,
            bell: Arc::new(AtomicBool::new(false)),
            waker: None,
            ready: VecDeque::new(),
            unconfirmed: 0,
            events: VecDeque::new(),
            overflowed: 0,
            unmatched: 0,
        }
    }

    pub(super) fn has_room_for_unconfirmed(&self) -> bool {
        self.unconfirmed < MOST_UNCONFIRMED
    }

    /// Whether it still hands out what comes.
    pub(super) fn takes(&self) -> bool {
        !matches!(self.stage, Stage::Ended | Stage::Closed)
    }

    pub(super) fn push(&mut self, delivery: Delivery, wakes: &mut Wakes) {
        self.arrived += 1;
        if !self.takes() {
            return;
        }
        self.unconfirmed += usize::from(delivery.token.is_none());
        self.ready.push_back(delivery);
        wakes.extend(self.waker.take());
    }

    pub(super) fn overflowed(&mut self, wakes: &mut Wakes) {
        self.overflowed += 1;
        self.ring(wakes);
    }

    pub(super) fn unmatched(&mut self, wakes: &mut Wakes) {
        self.unmatched += 1;
        self.ring(wakes);
    }

    /// Tell it what happened to the connection.
    pub(super) fn tell(&mut self, arrival: Arrival, wakes: &mut Wakes) {
        match &arrival {
            Arrival::Connected { .. } => {
                self.is_connected = true;
                self.told = None;
            }
            Arrival::Disconnected(_) => self.is_connected = false,
            _ => {}
        }
        self.events.push_back(arrival);
        self.ring(wakes);
    }

    /// The connection is gone: so is what came over it and the server keeps (spec C13).
    pub(super) fn handle_disconnected(&mut self, error: &BrokerError, wakes: &mut Wakes) {
        self.left = 0;
        self.ready.retain(|delivery| delivery.token.is_none());
        if let Stage::Unsubscribing(_) | Stage::Draining(_) = self.stage {
            self.stage = Stage::Ended;
        }
        self.down(error, wakes);
    }

    /// It does not receive. Told again and again, it says so once for each reason.
    pub(super) fn down(&mut self, error: &BrokerError, wakes: &mut Wakes) {
        if self.is_connected || self.told.as_deref() != Some(&error.reason) {
            self.told = Some(error.reason.clone());
            self.tell(Arrival::Disconnected(error.clone()), wakes);
        }
        self.ring(wakes);
    }

    /// What happened to the connection, in order.
    pub(super) fn next_event(&mut self) -> Option<Arrival> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let (messages, why) = if self.overflowed > 0 {
            (std::mem::take(&mut self.overflowed), Discard::Overflow)
        } else if self.unmatched > 0 {
            (std::mem::take(&mut self.unmatched), Discard::Unmatched)
        } else {
            self.bell.store(false, Ordering::Relaxed);
            return None;
        };
        Some(Arrival::Discarded { messages, why })
    }

    /// Move what may be handed out to `ahead`: `room` deliveries at most that are to be settled.
    /// Returns how many of those there were.
    pub(super) fn take(&mut self, ahead: &mut VecDeque<Delivery>, room: u32) -> u32 {
        let mut taken = 0;
        while let Some(delivery) = self.ready.front() {
            if delivery.token.is_some() {
                if taken == room {
                    break;
                }
                taken += 1;
            } else {
                self.unconfirmed -= 1;
            }
            ahead.extend(self.ready.pop_front());
        }
        taken
    }

    /// Drop what was not handed out and comes again when the session resumes.
    pub(super) fn give_back(&mut self) -> Vec<u64> {
        let mut keys = Vec::new();
        self.ready.retain(|delivery| match &delivery.token {
            Some(token) => {
                keys.push(token.key);
                false
            }
            None => true,
        });
        keys
    }

    /// Whether there is nothing to hand out.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn ring(&mut self, wakes: &mut Wakes) {
        self.bell.store(true, Ordering::Relaxed);
        wakes.extend(self.waker.take());
    }
}

/// Messages at quality of service 0 that wait for a mount point at most: the server does not hold
/// back any.
const MOST_UNCONFIRMED: usize = 1024;
