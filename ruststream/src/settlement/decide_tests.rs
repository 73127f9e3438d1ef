//! The A, M and R tables of the specification as rows, and the invariants of its section C.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::settlement::Reason::MaxAttempts;
use Disposition::Accept;
use Disposition::Reject;
use Outcome::Ack;
use Outcome::Drop;
use Outcome::Retry;
use Outcome::RetryAfter;

const DAY: Duration = Duration::from_hours(24);
const NOW: Duration = Duration::ZERO;
const TEN_MS: Duration = Duration::from_millis(10);

/// AMQP 1.0, at-least-once, a first delivery with a header section, nothing declared.
const AMQP: Facts = Facts {
    attempt: 1,
    counted: Some(0),
    cap: None,
    dead_letter: false,
    settled: false,
    returns: Returns::Counted,
    rejects: true,
    limit: None,
    delay: Delay::Process,
};

/// MQTT at `QoS` 1 or 2.
const MQTT: Facts = Facts {
    counted: None,
    returns: Returns::OnResume,
    rejects: false,
    ..AMQP
};

/// A RabbitMQ classic queue, manual mode.
const CLASSIC: Facts = Facts {
    counted: None,
    returns: Returns::Uncounted,
    ..AMQP
};

/// A RabbitMQ quorum queue, manual mode.
const QUORUM: Facts = Facts {
    limit: Some(20),
    ..AMQP
};

/// Settled on arrival: at-most-once, automatic acknowledgement.
const SETTLED: Facts = Facts {
    counted: None,
    settled: true,
    ..AMQP
};

/// MQTT at `QoS` 0.
const QOS_0: Facts = Facts {
    settled: true,
    ..MQTT
};

const fn capped(facts: Facts, cap: u32) -> Facts {
    Facts {
        cap: NonZeroU32::new(cap),
        ..facts
    }
}

const fn dead(facts: Facts) -> Facts {
    Facts {
        dead_letter: true,
        ..facts
    }
}

/// A delivery that the broker has counted before.
const fn counted(facts: Facts, count: u32) -> Facts {
    Facts {
        attempt: count + 1,
        counted: Some(count),
        ..facts
    }
}

/// A copy: no count of the broker, the attempt comes from the header.
const fn copied(facts: Facts, attempt: u32) -> Facts {
    Facts {
        attempt,
        counted: None,
        ..facts
    }
}

const fn held(facts: Facts) -> Facts {
    Facts {
        delay: Delay::Hold,
        ..facts
    }
}

const fn does(plan: Plan) -> (Plan, bool) {
    (plan, false)
}

const fn refuses(plan: Plan) -> (Plan, bool) {
    (plan, true)
}

const fn settle(how: Disposition) -> Plan {
    Plan::Settle(how)
}

const fn back(pause: Duration) -> Plan {
    Plan::Return { pause }
}

const fn copy(pause: Duration, then: Option<Disposition>) -> Plan {
    Plan::Publish {
        copy: CopyKind::Retry,
        pause,
        then,
    }
}

const fn dead_copy(then: Option<Disposition>) -> Plan {
    Plan::Publish {
        copy: CopyKind::DeadLetter,
        pause: NOW,
        then,
    }
}

const fn wait(before: Option<Disposition>, after: Option<Disposition>) -> Plan {
    Plan::Wait {
        delay: DAY,
        before,
        after,
    }
}

/// Statements, a situation in words, the outcome, what is known, and what is done (and whether the
/// outcome is refused as `AckError::Unsupported`).
type Row = (&'static str, &'static str, Outcome, Facts, (Plan, bool));

fn check(rows: &[Row]) {
    for (spec, situation, outcome, facts, expected) in rows {
        let decision = decide(*outcome, None, facts);
        assert_eq!(
            (decision.plan, decision.refused),
            *expected,
            "{spec}: {situation}"
        );
    }
}

// spec: A1 A3 A4 A6 A10 A13 A17 A35 A37-A41 A44-A46 A52 A53 C4 C26
#[test]
fn amqp_outcomes_come_to_the_plans_of_table_a() {
    #[rustfmt::skip]
    check(&[
        ("A1",      "ack",                                       Ack,             AMQP,                               does(settle(Accept))),
        ("A13",     "drop",                                      Drop,            AMQP,                               does(settle(Reject))),
        ("A3 A6",   "retry",                                     Retry,           AMQP,                               does(back(NOW))),
        ("A6 C12",  "retry, counted by the broker",              Retry,           counted(AMQP, 1),                   does(back(TEN_MS))),
        ("A6",      "retry without a header section",            Retry,           copied(AMQP, 1),                    does(back(NOW))),
        ("A10 A46", "retry_after",                               RetryAfter(DAY), AMQP,                               does(wait(Some(Reject), None))),
        ("A38",     "retry below the cap",                       Retry,           capped(AMQP, 3),                    does(back(NOW))),
        ("A35 A38", "second attempt below the cap",              Retry,           capped(counted(AMQP, 1), 3),        does(back(TEN_MS))),
        ("A39",     "retry_after below the cap",                 RetryAfter(DAY), capped(AMQP, 3),                    does(wait(Some(Reject), None))),
        ("A40 C4",  "retry at the cap, dead letter",             Retry,           dead(capped(counted(AMQP, 2), 3)),  does(dead_copy(Some(Accept)))),
        ("A37 A40", "retry_after at the cap, dead letter",       RetryAfter(DAY), dead(capped(counted(AMQP, 2), 3)),  does(dead_copy(Some(Accept)))),
        ("A41 A52", "retry at the cap, no dead letter",          Retry,           capped(counted(AMQP, 2), 3),        does(settle(Reject))),
        ("A37 A41", "retry_after at the cap, no dead letter",    RetryAfter(DAY), capped(counted(AMQP, 2), 3),        does(settle(Reject))),
        ("A44",     "a cap of 1 is reached by the first",        Retry,           capped(AMQP, 1),                    does(settle(Reject))),
        ("A45 C4",  "retry of a copy under a cap",               Retry,           capped(copied(AMQP, 2), 3),         does(copy(TEN_MS, Some(Accept)))),
        ("A40",     "retry of a copy at the cap",                Retry,           dead(capped(copied(AMQP, 3), 3)),   does(dead_copy(Some(Accept)))),
        // A dead letter without a cap is a cap of 1.
        ("A53",     "dead letter without a cap, retry",          Retry,           dead(capped(AMQP, 1)),              does(dead_copy(Some(Accept)))),
        ("A53",     "dead letter without a cap, retry_after",    RetryAfter(DAY), dead(capped(AMQP, 1)),              does(dead_copy(Some(Accept)))),
        ("A53",     "dead letter without a cap, a later retry",  Retry,           dead(capped(copied(AMQP, 4), 1)),   does(dead_copy(Some(Accept)))),
        ("C26",     "far from the broker's own limit",           Retry,           counted(QUORUM, 3),                 does(back(pace::pause(4)))),
        ("C26",     "the next return would reach the limit",     Retry,           counted(QUORUM, 19),                does(copy(pace::pause(20), Some(Accept)))),
        ("C26",     "the same under a cap above the limit",      Retry,           capped(counted(QUORUM, 19), 30),    does(copy(pace::pause(20), Some(Accept)))),
    ]);
}

// spec: A21-A30 C18 C32
#[test]
fn what_was_settled_on_arrival_is_never_settled_again() {
    #[rustfmt::skip]
    check(&[
        ("A22",     "ack",                                       Ack,             SETTLED,                            refuses(Plan::Nothing)),
        ("A23",     "drop",                                      Drop,            SETTLED,                            refuses(Plan::Nothing)),
        ("A24 A28", "retry, nothing declared",                   Retry,           SETTLED,                            refuses(Plan::Nothing)),
        ("A26",     "retry under a cap, no count",               Retry,           capped(SETTLED, 3),                 does(copy(NOW, None))),
        ("A26 C18", "retry under a cap, count 0 is no count",    Retry,           capped(counted(SETTLED, 0), 3),     does(copy(NOW, None))),
        ("A27",     "retry under a cap, counted",                Retry,           capped(counted(SETTLED, 1), 3),     refuses(Plan::Nothing)),
        ("A28",     "retry without a cap, counted",              Retry,           counted(SETTLED, 1),                refuses(Plan::Nothing)),
        ("A29",     "retry_after",                               RetryAfter(DAY), SETTLED,                            does(wait(None, None))),
        ("A29",     "retry_after, hold has nothing to hold",     RetryAfter(DAY), held(SETTLED),                      does(wait(None, None))),
        ("A29",     "retry_after below the cap",                 RetryAfter(DAY), capped(SETTLED, 3),                 does(wait(None, None))),
        ("C18",     "dead letter without a cap, retry",          Retry,           dead(capped(SETTLED, 1)),           does(dead_copy(None))),
        ("A41",     "retry at the cap, no dead letter",          Retry,           capped(copied(SETTLED, 3), 3),      does(Plan::Nothing)),
    ]);
}

// spec: M1 M4 M5 M6 M8-M11 M14 M16 M18 M23-M25 M34 M35 M42 M44 M45
#[test]
fn mqtt_outcomes_come_to_the_plans_of_table_m() {
    #[rustfmt::skip]
    check(&[
        ("M1 M2",   "ack",                                       Ack,             MQTT,                               does(settle(Accept))),
        ("M4 M14",  "drop is acknowledged too",                  Drop,            MQTT,                               does(settle(Accept))),
        ("M6 M16",  "retry, nothing declared",                   Retry,           MQTT,                               refuses(Plan::Leave)),
        ("M8 M9",   "retry under a cap",                         Retry,           capped(MQTT, 3),                    does(copy(NOW, Some(Accept)))),
        ("M9 C12",  "retry of a copy under a cap",               Retry,           capped(copied(MQTT, 2), 3),         does(copy(TEN_MS, Some(Accept)))),
        ("M10 M24", "retry_after, nothing declared",             RetryAfter(DAY), MQTT,                               does(wait(Some(Accept), None))),
        ("M34 M35", "retry_after below the cap",                 RetryAfter(DAY), capped(MQTT, 3),                    does(wait(Some(Accept), None))),
        ("M25 A53", "dead letter without a cap, retry",          Retry,           dead(capped(MQTT, 1)),              does(dead_copy(Some(Accept)))),
        ("M42 C4",  "retry at the cap, dead letter",             Retry,           dead(capped(copied(MQTT, 3), 3)),   does(dead_copy(Some(Accept)))),
        ("M34 M42", "retry_after at the cap, dead letter",       RetryAfter(DAY), dead(capped(copied(MQTT, 3), 3)),   does(dead_copy(Some(Accept)))),
        ("M44",     "retry at the cap, no dead letter",          Retry,           capped(copied(MQTT, 3), 3),         does(settle(Accept))),
        ("M45",     "a cap of 1 is reached by the first",        Retry,           capped(MQTT, 1),                    does(settle(Accept))),
    ]);
}

// spec: M26-M32 C18
#[test]
fn nothing_is_sent_at_qos_0() {
    #[rustfmt::skip]
    check(&[
        ("M26 M27", "ack",                                       Ack,             QOS_0,                              refuses(Plan::Nothing)),
        ("M26 M27", "drop",                                      Drop,            QOS_0,                              refuses(Plan::Nothing)),
        ("M26 M28", "retry, nothing declared",                   Retry,           QOS_0,                              refuses(Plan::Nothing)),
        ("M29 M32", "retry under a cap",                         Retry,           capped(QOS_0, 3),                   does(copy(NOW, None))),
        ("M30 M32", "retry_after",                               RetryAfter(DAY), QOS_0,                              does(wait(None, None))),
        ("C18",     "dead letter without a cap, retry",          Retry,           dead(capped(QOS_0, 1)),             does(dead_copy(None))),
    ]);
}

// spec: R24 R25 C22
#[test]
fn rabbitmq_outcomes_come_to_the_plans_of_table_r() {
    #[rustfmt::skip]
    check(&[
        ("R24",     "ack",                                       Ack,             CLASSIC,                            does(settle(Accept))),
        ("R24",     "drop",                                      Drop,            CLASSIC,                            does(settle(Reject))),
        ("R24",     "retry requeues",                            Retry,           CLASSIC,                            does(back(NOW))),
        ("R24",     "retry requeues on a quorum queue",          Retry,           QUORUM,                             does(back(NOW))),
        ("R24",     "retry_after has no protocol form",          RetryAfter(DAY), CLASSIC,                            does(wait(Some(Reject), None))),
        ("C22",     "a cap where nobody counts goes by copy",    Retry,           capped(CLASSIC, 3),                 does(copy(NOW, Some(Accept)))),
        ("C22",     "and ends at the cap",                       Retry,           capped(copied(CLASSIC, 3), 3),      does(settle(Reject))),
        ("A38",     "a cap where the queue counts requeues",     Retry,           capped(QUORUM, 3),                  does(back(NOW))),
        ("R25",     "automatic mode, ack",                       Ack,             SETTLED,                            refuses(Plan::Nothing)),
        ("R25",     "automatic mode, drop",                      Drop,            SETTLED,                            refuses(Plan::Nothing)),
        ("R25",     "automatic mode, retry",                     Retry,           SETTLED,                            refuses(Plan::Nothing)),
    ]);
}

// spec: C6 C9 C12
#[test]
fn delays_dead_letters_and_paces_come_to_the_plans_of_section_c() {
    const DEAD: Outcome = Outcome::DeadLetter;
    const ZERO: Outcome = RetryAfter(Duration::ZERO);
    #[rustfmt::skip]
    check(&[
        ("C6",      "hold keeps the original",                   RetryAfter(DAY), held(AMQP),                         does(wait(None, Some(Accept)))),
        ("C6",      "hold keeps the original on MQTT",           RetryAfter(DAY), held(MQTT),                         does(wait(None, Some(Accept)))),
        ("C6 H06",  "a delay of zero is an immediate copy",      ZERO,            AMQP,                               does(copy(NOW, Some(Accept)))),
        ("C6 H06",  "a delay of zero on MQTT, nothing declared", ZERO,            MQTT,                               does(copy(NOW, Some(Accept)))),
        ("C6 C12",  "a delay of zero is paced",                  ZERO,            capped(copied(AMQP, 2), 3),         does(copy(TEN_MS, Some(Accept)))),
        ("C6",      "a delay of zero at the cap",                ZERO,            dead(capped(copied(AMQP, 3), 3)),   does(dead_copy(Some(Accept)))),
        ("C9",      "dead letter on the first attempt",          DEAD,            dead(capped(AMQP, 5)),              does(dead_copy(Some(Accept)))),
        ("C9",      "dead letter on MQTT",                       DEAD,            dead(capped(MQTT, 5)),              does(dead_copy(Some(Accept)))),
        ("C9",      "dead letter at QoS 0",                      DEAD,            dead(capped(QOS_0, 5)),             does(dead_copy(None))),
        ("C9 A13",  "dead letter, none declared",                DEAD,            AMQP,                               does(settle(Reject))),
        ("C9 M5",   "dead letter, none declared, MQTT",          DEAD,            MQTT,                               does(settle(Accept))),
        ("C9",      "drop ignores the declared dead letter",     Drop,            dead(capped(AMQP, 1)),              does(settle(Reject))),
        ("C9",      "drop ignores it at the cap, MQTT",          Drop,            dead(capped(copied(MQTT, 3), 3)),   does(settle(Accept))),
    ]);
}

/// A situation in words, the outcome, its cause, what is known, and the reason that is told.
type ReasonRow = (&'static str, Outcome, Option<Reason>, Facts, Option<Reason>);

// spec: C8 C9 C10 C23
#[test]
fn the_reason_says_why_a_delivery_died() {
    let spent_facts = dead(capped(counted(AMQP, 2), 3));
    #[rustfmt::skip]
    let rows: &[ReasonRow] = &[
        ("its attempts are spent",           Retry,               None,                  spent_facts,           Some(MaxAttempts)),
        ("an error at the cap",              Retry,               Some(Reason::Error),   spent_facts,           Some(Reason::Error)),
        ("a panic at the cap",               Retry,               Some(Reason::Panic),   spent_facts,           Some(Reason::Panic)),
        ("a timeout at the cap",             RetryAfter(DAY),     Some(Reason::Timeout), spent_facts,           Some(Reason::Timeout)),
        ("the handler said so",              Outcome::DeadLetter, None,                  dead(capped(AMQP, 5)), Some(Reason::Outcome)),
        ("`on_error = dead_letter`",         Outcome::DeadLetter, Some(Reason::Error),   dead(capped(AMQP, 5)), Some(Reason::Error)),
        ("undecodable",                      Outcome::DeadLetter, Some(Reason::Decode),  dead(capped(AMQP, 5)), Some(Reason::Decode)),
        ("undecodable without dead letter",  Drop,                Some(Reason::Decode),  AMQP,                  Some(Reason::Decode)),
        ("an ack needs none",                Ack,                 None,                  AMQP,                  None),
        ("a retry needs none",               Retry,               Some(Reason::Error),   AMQP,                  None),
    ];
    for (situation, outcome, cause, facts, reason) in rows {
        assert_eq!(
            decide(*outcome, *cause, facts).reason,
            *reason,
            "{situation}"
        );
    }
}

// spec: C23
#[test]
fn what_is_spent_on_arrival_is_dead_lettered_or_given_up() {
    #[rustfmt::skip]
    let rows: &[(&str, Facts, Plan)] = &[
        ("dead letter",         dead(capped(counted(AMQP, 7), 3)),   dead_copy(Some(Accept))),
        ("none",                capped(counted(AMQP, 7), 3),         settle(Reject)),
        ("dead letter, MQTT",   dead(capped(copied(MQTT, 8), 3)),    dead_copy(Some(Accept))),
        ("none, MQTT",          capped(copied(MQTT, 8), 3),          settle(Accept)),
        ("dead letter, QoS 0",  dead(capped(copied(QOS_0, 8), 3)),   dead_copy(None)),
        ("none, QoS 0",         capped(copied(QOS_0, 8), 3),         Plan::Nothing),
    ];
    for (situation, facts, plan) in rows {
        let decision = spent(facts, MaxAttempts);
        let expected = Decision {
            plan: *plan,
            refused: false,
            reason: Some(MaxAttempts),
        };
        assert_eq!(decision, expected, "{situation}");
    }
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Ack),
        Just(Drop),
        Just(Retry),
        Just(Outcome::DeadLetter),
        Just(RetryAfter(Duration::ZERO)),
        Just(RetryAfter(Duration::MAX)),
        (0_u64..=1 << 40).prop_map(|ms| RetryAfter(Duration::from_millis(ms))),
    ]
}

fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0_u32..6, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

prop_compose! {
    /// Whatever a broker may say: the combinations need not be sensible for the invariants to hold.
    fn any_facts()(
        attempt in any_number().prop_map(|attempt| attempt.max(1)),
        counted in proptest::option::of(any_number()),
        cap in proptest::option::of(any_number()),
        dead_letter in any::<bool>(),
        settled in any::<bool>(),
        returns in prop_oneof![Just(Returns::Counted), Just(Returns::Uncounted), Just(Returns::OnResume)],
        rejects in any::<bool>(),
        limit in proptest::option::of(any_number()),
        delay in prop_oneof![Just(Delay::Process), Just(Delay::Hold), Just(Delay::Journal), Just(Delay::Broker)],
    ) -> Facts {
        // A dead letter without a cap is a cap of 1 (spec A53): the mount point says so.
        let cap = cap.and_then(NonZeroU32::new).or_else(|| NonZeroU32::new(u32::from(dead_letter)));
        Facts { attempt, counted, cap, dead_letter, settled, returns, rejects, limit, delay }
    }
}

/// Every word said to the broker, in order, and whether a copy is safe before it.
fn words(plan: &Plan) -> Vec<(Disposition, bool)> {
    match *plan {
        Plan::Settle(how) => vec![(how, false)],
        Plan::Return { .. } => vec![(Disposition::Return, false)],
        Plan::Publish { then, .. } => then.map(|how| (how, true)).into_iter().collect(),
        Plan::Wait { before, after, .. } => {
            let before = before.map(|how| (how, false));
            before
                .into_iter()
                .chain(after.map(|how| (how, true)))
                .collect()
        }
        Plan::Leave | Plan::Nothing => Vec::new(),
    }
}

fn is_again(plan: &Plan) -> bool {
    let is_retry_copy = matches!(
        plan,
        Plan::Publish {
            copy: CopyKind::Retry,
            ..
        }
    );
    is_retry_copy || matches!(plan, Plan::Return { .. } | Plan::Wait { .. })
}

fn is_retry(outcome: Outcome) -> bool {
    matches!(outcome, Retry | RetryAfter(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    // spec: A6 A8 A41 M44 C1 C4 C6 C9 C12 C22 C23 C26 C32
    #[test]
    fn whatever_is_known_of_a_delivery_no_rule_is_broken(outcome in any_outcome(), facts in any_facts()) {
        let Decision { plan, refused, reason } = decide(outcome, None, &facts);
        let said = words(&plan);
        let is_spent = facts.cap.is_some_and(|cap| facts.attempt >= cap.get());
        let is_dead_letter = matches!(plan, Plan::Publish { copy: CopyKind::DeadLetter, .. });
        let is_returned = matches!(plan, Plan::Return { .. });

        prop_assert!(!is_spent || !is_again(&plan), "nothing goes round again at the cap");
        prop_assert!(
            !is_returned || facts.cap.is_none() || (facts.counted.is_some() && facts.returns == Returns::Counted),
            "a capped retry is counted by someone",
        );
        prop_assert!(
            !is_returned || facts.returns != Returns::Counted || match (facts.counted, facts.limit) {
                (Some(counted), Some(limit)) => u64::from(counted) + 1 < u64::from(limit),
                _ => true,
            },
            "the broker's own limit is never reached by a return",
        );
        prop_assert!(!is_returned || facts.returns != Returns::OnResume, "what cannot be returned is not");
        prop_assert!(!facts.settled || said.is_empty(), "what was settled on arrival is never settled again");
        prop_assert!(said.len() <= 1, "a delivery is settled once");
        prop_assert_eq!(
            said.is_empty(),
            facts.settled || plan == Plan::Leave,
            "what is not left is settled",
        );
        prop_assert!(
            said.iter().all(|(how, _)| *how != Disposition::Release),
            "an outcome is never `released`"
        );
        prop_assert!(
            facts.rejects || said.iter().all(|(how, _)| *how != Reject),
            "nothing is rejected where the protocol cannot",
        );
        prop_assert!(
            !matches!(plan, Plan::Wait { before: Some(_), .. }) || facts.delay == Delay::Process,
            "only `process` settles before the copy is safe",
        );
        prop_assert!(
            said.iter().all(|(how, is_safe)| !is_safe || *how == Accept),
            "once its copy is safe the original is accepted",
        );
        prop_assert!(!is_dead_letter || facts.dead_letter, "only a declared dead letter is published to");
        prop_assert!(!is_dead_letter || reason.is_some(), "a dead letter has a reason");
        prop_assert!(!is_dead_letter || outcome != Drop, "drop never uses the dead letter");
        prop_assert!(
            !facts.dead_letter || !is_spent || !is_retry(outcome) || is_dead_letter,
            "what is spent goes to the dead letter"
        );
        prop_assert!(outcome != Ack || matches!(plan, Plan::Settle(Accept) | Plan::Nothing), "an ack only acks");
        prop_assert!(
            !is_retry(outcome) || is_spent || facts.settled || is_again(&plan) || plan == Plan::Leave,
            "a retry below the cap loses nothing",
        );
        prop_assert!(
            plan != Plan::Leave || (outcome == Retry && facts.returns == Returns::OnResume && facts.cap.is_none()),
            "only an undeclared retry is left, and only where it cannot be returned",
        );
        prop_assert!(plan != Plan::Nothing || facts.settled, "something is done with what is unsettled");
        prop_assert!(
            !refused || plan == Plan::Nothing || plan == Plan::Leave,
            "what is refused is not done as well"
        );
        if let Plan::Return { pause } | Plan::Publish { copy: CopyKind::Retry, pause, .. } = plan {
            prop_assert_eq!(pause, pace::pause(facts.attempt), "an immediate retry is paced");
        }
        if let Plan::Wait { delay, .. } = plan {
            prop_assert_eq!(outcome, RetryAfter(delay), "a delay is neither cut nor stretched");
        }
    }

    // spec: C23
    #[test]
    fn what_is_spent_never_goes_round_again(facts in any_facts()) {
        let decision = spent(&facts, MaxAttempts);
        prop_assert!(!is_again(&decision.plan), "no retry");
        prop_assert!(decision.plan != Plan::Leave, "it is not left behind");
        prop_assert!(!decision.refused, "the cap is kept by giving up");
        prop_assert_eq!(
            matches!(decision.plan, Plan::Publish { copy: CopyKind::DeadLetter, .. }),
            facts.dead_letter,
        );
    }

    // spec: A8 C22
    #[test]
    fn a_message_that_always_retries_starts_exactly_as_often_as_its_cap_says(
        cap in 1_u32..40,
        returns in prop_oneof![Just(Returns::Counted), Just(Returns::Uncounted), Just(Returns::OnResume)],
        counts_first in any::<bool>(),
        limit in proptest::option::of(0_u32..40),
        waits in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let base = Facts { cap: NonZeroU32::new(cap), returns, limit, ..AMQP };
        let first = (counts_first && returns == Returns::Counted).then_some(0);
        let (mut carried, mut count) = (0_u32, first);
        let mut starts = 0;
        loop {
            starts += 1;
            prop_assert!(starts <= 40, "it comes to an end");
            let attempt = carried + count.unwrap_or(0) + 1;
            prop_assert_eq!(attempt, starts, "attempts run from 1 without a gap");
            let outcome = if waits[starts as usize - 1] { RetryAfter(DAY) } else { Retry };
            let plan = decide(outcome, None, &Facts { attempt, counted: count, ..base }).plan;
            match plan {
                Plan::Return { .. } => count = Some(count.unwrap_or(0) + 1),
                _ if is_again(&plan) => (carried, count) = (attempt, first),
                _ => break,
            }
        }
        prop_assert_eq!(starts, cap);
    }
}
