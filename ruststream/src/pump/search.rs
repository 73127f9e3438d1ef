//! Walks every interleaving of a few deliveries through the state machine: each plan, each answer
//! to a publish and to a settlement, a lost connection and a stop between any two steps.

use std::collections::HashSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);
const LIMITS: Limits = Limits {
    held: 1,
    waiting: 1,
    waiting_bytes: 100,
    dead_letter: true,
};

/// The plans that `decide` can make for an unsettled delivery, and for one settled on arrival.
const UNSETTLED: [Plan; 9] = [
    Plan::Settle(Disposition::Accept),
    Plan::Settle(Disposition::Reject),
    Plan::Return {
        pause: Duration::ZERO,
    },
    Plan::Return { pause: PAUSE },
    Plan::Publish {
        copy: CopyKind::Retry,
        pause: PAUSE,
        then: Some(Disposition::Accept),
    },
    Plan::Publish {
        copy: CopyKind::DeadLetter,
        pause: Duration::ZERO,
        then: Some(Disposition::Accept),
    },
    Plan::Wait {
        delay: SECOND,
        before: Some(Disposition::Reject),
        after: None,
    },
    Plan::Wait {
        delay: SECOND,
        before: None,
        after: Some(Disposition::Accept),
    },
    Plan::Leave,
];
const SETTLED: [Plan; 3] = [
    Plan::Publish {
        copy: CopyKind::Retry,
        pause: PAUSE,
        then: None,
    },
    Plan::Wait {
        delay: SECOND,
        before: None,
        after: None,
    },
    Plan::Nothing,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    core: Core,
    deliveries: Vec<Ghost>,
    now: Elapsed,
    stopped: bool,
    /// How many more things may go wrong.
    faults: u8,
}

/// What is true of one delivery, whatever the state machine thinks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ghost {
    id: Id,
    plan: Option<Plan>,
    connected: bool,
    /// Whether the broker would deliver the message again.
    broker_has_it: bool,
    settlements: u8,
    copies: u8,
    asked: Option<Step>,
    gone: bool,
}

impl World {
    fn new(settled: &[bool]) -> Self {
        let mut core = Core::new(LIMITS);
        let deliveries = settled
            .iter()
            .map(|settled| Ghost {
                id: core.insert(*settled, 60),
                plan: None,
                connected: true,
                broker_has_it: !settled,
                settlements: 0,
                copies: 0,
                asked: None,
                gone: false,
            })
            .collect();
        Self {
            core,
            deliveries,
            now: Duration::ZERO,
            stopped: false,
            faults: 2,
        }
    }

    fn take(&mut self, index: usize, step: Step) {
        let ghost = &mut self.deliveries[index];
        assert!(
            !ghost.gone || step == Step::None,
            "a delivery that is gone is left alone: {step:?}"
        );
        match step {
            Step::None => return,
            Step::Settle(how) => {
                assert!(
                    ghost.connected,
                    "nothing is settled over another connection"
                );
                assert_eq!(ghost.settlements, 0, "nothing is settled twice");
                ghost.settlements = 1;
                let plan = ghost.plan.expect("only a planned delivery is settled");
                let needs_copy =
                    matches!(plan, Plan::Publish { .. } | Plan::Wait { before: None, .. });
                assert!(
                    !needs_copy || ghost.copies > 0,
                    "no settlement before its copy is safe: {plan:?} {how:?}"
                );
            }
            Step::Publish { .. } => {}
            Step::Leave | Step::Stale => {
                assert!(
                    ghost.broker_has_it,
                    "what is left is with the broker: {ghost:?}"
                );
                ghost.gone = true;
            }
            Step::Forget => {
                let decided = matches!(ghost.plan, Some(Plan::Settle(_) | Plan::Nothing));
                let safe = decided || ghost.broker_has_it || ghost.copies > 0;
                assert!(safe, "nothing is forgotten that nobody has: {ghost:?}");
                ghost.gone = true;
            }
        }
        ghost.asked = matches!(step, Step::Settle(_) | Step::Publish { .. }).then_some(step);
    }

    fn answer_publish(&mut self, index: usize, result: Result<Published, Failure>) {
        let ghost = &mut self.deliveries[index];
        ghost.asked = None;
        if result.is_ok() {
            ghost.copies += 1;
        }
        let step = self.core.handle_published(ghost.id, result, self.now);
        self.take(index, step);
    }

    fn answer_settlement(&mut self, index: usize, result: Result<(), AckError>, taken: bool) {
        let ghost = &mut self.deliveries[index];
        let Some(Step::Settle(how)) = ghost.asked.take() else {
            unreachable!("it was asked")
        };
        if taken {
            ghost.broker_has_it = how == Disposition::Return;
        }
        let step = self.core.handle_settled(ghost.id, result);
        self.take(index, step);
    }

    /// Every world that can come next.
    fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        let mut then = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        for (index, ghost) in self.deliveries.iter().enumerate() {
            if ghost.gone {
                continue;
            }
            if ghost.plan.is_none() {
                let plans: &[Plan] = if ghost.broker_has_it {
                    &UNSETTLED
                } else {
                    &SETTLED
                };
                for plan in plans {
                    then(&|world| {
                        world.deliveries[index].plan = Some(*plan);
                        let step = world.core.handle_plan(
                            world.deliveries[index].id,
                            *plan,
                            PAUSE,
                            world.now,
                        );
                        world.take(index, step);
                    });
                }
            }
            match ghost.asked {
                Some(Step::Publish { .. }) => {
                    then(&|world| world.answer_publish(index, Ok(Published::Confirmed)));
                    if self.faults > 0 {
                        for failure in [Failure::Passing, Failure::Permanent] {
                            then(&|world| {
                                world.faults -= 1;
                                world.answer_publish(index, Err(failure));
                            });
                        }
                    }
                }
                Some(Step::Settle(_)) if ghost.connected => {
                    then(&|world| world.answer_settlement(index, Ok(()), true));
                    if self.faults > 0 {
                        for taken in [true, false] {
                            then(&|world| {
                                world.faults -= 1;
                                world.answer_settlement(index, Err(AckError::Refused), taken);
                            });
                        }
                    }
                }
                // The connection broke while the settlement was on its way.
                Some(Step::Settle(_)) => {
                    then(&|world| world.answer_settlement(index, Err(AckError::Stale), false));
                    for taken in [true, false] {
                        then(&|world| {
                            world.answer_settlement(index, Err(AckError::Refused), taken);
                        });
                    }
                }
                _ => {}
            }
        }
        if self.faults > 0 && self.deliveries.iter().any(|ghost| ghost.connected) {
            then(&|world| {
                world.faults -= 1;
                let gone = world.core.handle_disconnected();
                for index in 0..world.deliveries.len() {
                    world.deliveries[index].connected = false;
                    if gone.contains(&world.deliveries[index].id) {
                        world.take(index, Step::Stale);
                    }
                }
            });
        }
        if !self.stopped {
            then(&|world| {
                world.stopped = true;
                world.core.handle_stop(world.now, world.now + SECOND / 2);
            });
        }
        if let Some(due) = self.core.next_timer() {
            then(&|world| {
                world.now = world.now.max(due);
                let (id, step) = world.core.poll_timer(world.now).expect("a timer is due");
                let index = world
                    .deliveries
                    .iter()
                    .position(|ghost| ghost.id == id && !ghost.gone);
                world.take(index.expect("a timer belongs to a delivery"), step);
            });
        }
        next
    }
}

fn search(settled: &[bool]) -> usize {
    let mut seen = HashSet::new();
    let mut open = vec![World::new(settled)];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let next = world.successors();
        if next.is_empty() {
            assert!(
                world.core.is_empty(),
                "what ends leaves nothing half done: {world:?}"
            );
            assert_eq!(
                (
                    world.core.held,
                    world.core.waiting,
                    world.core.waiting_bytes
                ),
                (0, 0, 0),
                "bounds are given back"
            );
            assert!(
                world.deliveries.iter().all(|ghost| ghost.gone),
                "nothing vanishes without a last step: {world:?}"
            );
            assert!(
                world.core.timers.is_empty(),
                "no timer outlives its delivery"
            );
        }
        open.extend(next);
    }
    seen.len()
}

// spec: C4 C5 C7 C13
#[test]
fn no_interleaving_of_two_unsettled_deliveries_loses_or_doubles_a_settlement() {
    assert!(
        search(&[false, false]) > 10_000,
        "the search covers many states"
    );
}

// spec: C4 C5 C18
#[test]
fn no_interleaving_with_a_delivery_settled_on_arrival_loses_a_copy() {
    assert!(
        search(&[false, true]) > 5_000,
        "the search covers many states"
    );
}

// spec: C6
#[test]
fn beyond_the_bound_of_waiting_copies_the_original_is_held_and_beyond_that_the_retry_is_paced() {
    let mut core = Core::new(LIMITS);
    let plan = Plan::Wait {
        delay: SECOND,
        before: Some(Disposition::Reject),
        after: None,
    };
    let ids = [
        core.insert(false, 60),
        core.insert(false, 60),
        core.insert(false, 60),
    ];
    assert_eq!(
        core.handle_plan(ids[0], plan, PAUSE, Duration::ZERO),
        Step::Settle(Disposition::Reject),
        "the first waits in memory"
    );
    assert_eq!(
        core.handle_plan(ids[1], plan, PAUSE, Duration::ZERO),
        Step::None,
        "the second is held"
    );
    assert_eq!(
        core.handle_plan(ids[2], plan, PAUSE, Duration::ZERO),
        Step::None,
        "the third is paced"
    );
    let (id, step) = core.poll_timer(PAUSE).expect("the paced one is due first");
    assert_eq!(
        (id, step),
        (
            ids[2],
            Step::Publish {
                what: What::Copy(CopyKind::Retry),
                bare: false
            }
        )
    );
}

// spec: C5
#[test]
fn a_refused_retry_copy_goes_without_diagnostics_then_as_a_dead_letter_then_the_original_stays() {
    let mut core = Core::new(LIMITS);
    let id = core.insert(false, 1);
    let plan = Plan::Publish {
        copy: CopyKind::Retry,
        pause: Duration::ZERO,
        then: Some(Disposition::Accept),
    };
    let mut steps = vec![core.handle_plan(id, plan, PAUSE, Duration::ZERO)];
    while !core.is_empty() && steps.len() < 10 {
        steps.push(core.handle_published(id, Err(Failure::Permanent), Duration::ZERO));
    }
    let publish = |kind, bare| Step::Publish {
        what: What::Copy(kind),
        bare,
    };
    let expected = [
        publish(CopyKind::Retry, false),
        publish(CopyKind::Retry, true),
        publish(CopyKind::DeadLetter, false),
        publish(CopyKind::DeadLetter, true),
        Step::Leave,
    ];
    assert_eq!(steps, expected);
}
