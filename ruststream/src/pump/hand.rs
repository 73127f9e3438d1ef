//! Deliveries that are settled by hand (spec C30).
//!
//! The right to settle is in one place at a time: with the settler, in a post on its way, or back
//! in the pump. The delivery itself never leaves the pump.

use std::sync::Arc;

use super::core::Elapsed;
use super::core::Id;
use super::settle::Care;
use super::settle::Tally;
use super::shell::Shell;
use crate::AckError;
use crate::Outcome;
use crate::delivery::Delivery;
use crate::settlement::Decision;
use crate::settlement::Plan;
use crate::settlement::decide;
use crate::settler::Claim;
use crate::settler::Post;
use crate::settler::Right;
use crate::settler::Said;

impl Shell {
    /// A settler spoke, or was dropped unused.
    pub(super) fn posted(&mut self, post: Post) {
        let Post { id, claim, said } = post;
        let running = self
            .lanes
            .iter()
            .position(|lane| lane.by_hand.is_some() && lane.first_id() == Some(id));
        match (running, said) {
            (Some(index), Said::Outcome(outcome, answer)) => {
                // The handler goes on without its delivery: its verdict will say nothing.
                let lane = &mut self.lanes[index];
                lane.by_hand = None;
                if let Some(due) = lane.deadline.take() {
                    self.deadlines.remove(&(due, id));
                }
                let Some(mut delivery) = lane.deliveries.pop() else {
                    return;
                };
                delivery.token = claim.0;
                let mut care = Box::new(Care::new(delivery));
                care.settler = Some(answer);
                self.settle_by_hand(id, care, outcome);
            }
            (Some(index), Said::Nothing) => {
                // What that means is known when the handler is done.
                let lane = &mut self.lanes[index];
                lane.by_hand = None;
                lane.is_unused = true;
                if let Some(delivery) = lane.deliveries.first_mut() {
                    delivery.token = claim.0;
                }
            }
            (None, said) => {
                let Some(mut care) = self.care.get_mut(id as usize).and_then(Option::take) else {
                    return;
                };
                self.deadlines.retain(|(_, other)| *other != id);
                care.delivery.token = claim.0;
                care.right = None;
                match said {
                    Said::Outcome(outcome, answer) => {
                        care.settler = Some(answer);
                        self.settle_by_hand(id, care, outcome);
                    }
                    Said::Nothing => self.left_without_outcome(id, care.delivery),
                }
            }
        }
    }

    /// Take the right back from a settler that has not spoken.
    pub(super) fn take_back(&self, id: Id, right: &Right) -> Option<Claim> {
        right
            .claim()
            .or_else(|| self.pump.scope.posts.recall_unused(id))
    }

    /// The handler has returned; its settler may still speak, from wherever it is, until `deadline`.
    pub(super) fn wait_for_settler(
        &mut self,
        delivery: Delivery,
        right: Arc<Right>,
        deadline: Option<Elapsed>,
    ) {
        let id = delivery.id;
        let deadline = deadline.or_else(|| {
            let timeout = self.pump.mount.policy.timeout?;
            Some(self.now().saturating_add(timeout))
        });
        if let Some(due) = deadline {
            self.deadlines.insert((due, id));
        }
        let mut care = Care::new(delivery);
        care.right = Some(right);
        self.care[id as usize] = Some(Box::new(care));
    }

    /// Nothing is said to the broker: the delivery stays unsettled (spec A14, M12).
    pub(super) fn left_without_outcome(&mut self, id: Id, delivery: Delivery) {
        self.warn_of_missing_outcome();
        let plan = if delivery.settled {
            Plan::Nothing
        } else {
            Plan::Leave
        };
        let decision = Decision {
            plan,
            refused: false,
            reason: None,
        };
        self.apply_in_care(id, Box::new(Care::new(delivery)), decision, Tally::None);
    }

    fn settle_by_hand(&mut self, id: Id, mut care: Box<Care>, outcome: Outcome) {
        let mut decision = decide(outcome, None, &self.facts_of(&care.delivery));
        self.repace(&care.delivery, &mut decision);
        self.note_decision(&care.delivery, outcome, &decision, None);
        if decision.refused {
            care.tell(Err(AckError::Unsupported));
        }
        care.reason = decision.reason;
        let tally = Tally::of(&decision.plan, outcome == Outcome::Ack);
        self.apply_in_care(id, care, decision, tally);
    }
}
