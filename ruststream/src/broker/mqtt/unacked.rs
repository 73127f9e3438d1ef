//! The deliveries of one connection that the server waits for: which acknowledgement leaves when.
//! Pure.

use std::collections::VecDeque;

use crate::registration::AckOrder;

/// An acknowledgement that leaves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) packet_id: u16,
    /// PUBREC in place of PUBACK (MQTT 5 section 4.3.3).
    pub(super) is_exactly_once: bool,
}

/// Deliveries that have no acknowledgement yet, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    slots: VecDeque<Slot>,
    /// The key of the first slot.
    first: u64,
}

#[derive(Debug)]
struct Slot {
    ack: Ack,
    /// The mount point it is for.
    member: usize,
    order: AckOrder,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its handler is not done with it.
    Open,
    /// It may leave, after those before it.
    Settled,
    /// There is nothing more to say: it was acknowledged, or left without a word for good, as long
    /// as the connection lives (spec M18, C15).
    Gone,
}

impl Unacked {
    /// A delivery came: the key that its token has.
    pub(super) fn arrived(&mut self, ack: Ack, member: usize, order: AckOrder) -> u64 {
        self.slots.push_back(Slot {
            ack,
            member,
            order,
            stage: Stage::Open,
        });
        self.first + self.slots.len() as u64 - 1
    }

    /// Settle a delivery. `send` gets what may leave now, in the order in which it must (spec C16).
    ///
    /// Returns whether there was such a delivery, open.
    pub(super) fn settle(&mut self, key: u64, send: impl FnMut(Ack)) -> bool {
        self.close(key, Stage::Settled, send)
    }

    /// Leave a delivery without a word: it blocks nobody, and holds its place of the receive maximum.
    pub(super) fn leave(&mut self, key: u64, send: impl FnMut(Ack)) -> bool {
        self.close(key, Stage::Gone, send)
    }

    fn close(&mut self, key: u64, stage: Stage, mut send: impl FnMut(Ack)) -> bool {
        let Some(slot) = key
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| self.slots.get_mut(index))
            .filter(|slot| slot.stage == Stage::Open)
        else {
            return false;
        };
        slot.stage = stage;
        if stage == Stage::Settled && slot.order == AckOrder::Completion {
            send(slot.ack);
            slot.stage = Stage::Gone;
        }
        while let Some(slot) = self.slots.front() {
            match slot.stage {
                Stage::Open => break,
                Stage::Settled => send(slot.ack),
                Stage::Gone => {}
            }
            self.slots.pop_front();
            self.first += 1;
        }
        true
    }

    /// Deliveries of a member that its handlers may still settle.
    pub(super) fn open(&self, member: usize) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.member == member && slot.stage == Stage::Open)
            .count()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The connection is gone, and with it every right to acknowledge (spec C13).
    pub(super) fn clear(&mut self) {
        // Keys go on, so that a key of a gone connection is never one of the next.
        self.first += self.slots.len() as u64;
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(packet_id: u16) -> Ack {
        Ack {
            packet_id,
            is_exactly_once: false,
        }
    }

    /// Deliveries with the packet ids 1, 2, 3 … and their keys.
    fn filled(orders: &[AckOrder]) -> (Unacked, Vec<u64>) {
        let mut unacked = Unacked::default();
        let keys = (1..)
            .zip(orders)
            .map(|(id, order)| unacked.arrived(ack(id), 0, *order))
            .collect();
        (unacked, keys)
    }

    fn settle(unacked: &mut Unacked, key: u64) -> Vec<u16> {
        let mut sent = Vec::new();
        assert!(unacked.settle(key, |ack| sent.push(ack.packet_id)));
        sent
    }

    // spec: C16
    // case: D09
    #[test]
    fn acknowledgements_leave_in_the_order_of_arrival() {
        let (mut unacked, keys) = filled(&[AckOrder::Arrival; 4]);
        assert!(settle(&mut unacked, keys[3]).is_empty());
        assert!(settle(&mut unacked, keys[1]).is_empty());
        assert_eq!(settle(&mut unacked, keys[0]), [1, 2]);
        assert_eq!(settle(&mut unacked, keys[2]), [3, 4]);
        assert_eq!(unacked.len(), 0);
    }

    // spec: C16
    #[test]
    fn one_that_is_left_is_taken_out_of_the_order() {
        let (mut unacked, keys) = filled(&[AckOrder::Arrival; 3]);
        assert!(settle(&mut unacked, keys[2]).is_empty());
        assert!(settle(&mut unacked, keys[1]).is_empty());
        let mut sent = Vec::new();
        assert!(unacked.leave(keys[0], |ack| sent.push(ack.packet_id)));
        assert_eq!(sent, [2, 3]);
    }

    #[test]
    fn by_completion_each_leaves_at_once() {
        let (mut unacked, keys) = filled(&[AckOrder::Arrival, AckOrder::Completion]);
        assert_eq!(settle(&mut unacked, keys[1]), [2]);
        assert_eq!(settle(&mut unacked, keys[0]), [1]);
    }

    // spec: C13
    #[test]
    fn a_key_of_a_gone_connection_is_none_of_the_next() {
        let (mut unacked, keys) = filled(&[AckOrder::Arrival; 2]);
        unacked.clear();
        let next = unacked.arrived(ack(1), 0, AckOrder::Arrival);
        for key in keys {
            assert_ne!(key, next);
            assert!(!unacked.settle(key, |_| panic!("it is nobody's")));
        }
        assert_eq!(settle(&mut unacked, next), [1]);
    }

    #[test]
    fn a_delivery_is_settled_once() {
        let (mut unacked, keys) = filled(&[AckOrder::Arrival; 2]);
        assert!(settle(&mut unacked, keys[1]).is_empty());
        assert!(!unacked.settle(keys[1], |_| panic!("it was settled")));
        assert!(!unacked.leave(keys[1], |_| panic!("it was settled")));
        assert!(!unacked.settle(99, |_| panic!("there is none")));
    }
}
