//! What holds whatever happens.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::consumer::Consumer;
use super::super::observe::EventKind;
use super::*;
use crate::registration::MqttOptions;
use crate::registration::QueueType;
use crate::registration::RabbitmqOptions;

/// Something that can happen.
#[derive(Clone, Debug)]
enum Step {
    Publish,
    Poll(usize),
    Settle(usize, usize, Disposition),
    Leave(usize, usize),
    Window(usize, u32),
    Cut(usize),
    Crash(usize),
    Stop(usize),
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        4 => Just(Disposition::Accept),
        1 => Just(Disposition::Reject),
        2 => Just(Disposition::Return),
        1 => Just(Disposition::Release),
    ];
    let reader = 0..READERS.len();
    prop_oneof![
        6 => Just(Step::Publish),
        12 => reader.clone().prop_map(Step::Poll),
        6 => (reader.clone(), any::<prop::sample::Index>(), how)
            .prop_map(|(reader, at, how)| Step::Settle(reader, at.index(64), how)),
        1 => (reader.clone(), any::<prop::sample::Index>())
            .prop_map(|(reader, at)| Step::Leave(reader, at.index(64))),
        1 => (reader.clone(), 1..6_u32).prop_map(|(reader, window)| Step::Window(reader, window)),
        1 => reader.clone().prop_map(Step::Cut),
        1 => reader.clone().prop_map(Step::Crash),
        1 => reader.clone().prop_map(Step::Stop),
        2 => reader.prop_map(Step::Restart),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Amqp,
    Quorum,
    Classic,
    Session,
}

const READERS: [&str; 2] = ["one", "two"];

fn wanted(kind: Kind, mount: &'static str, window: u32) -> Subscription {
    let rabbitmq = |queue_type| {
        Some(RabbitmqOptions {
            queue_type: Some(queue_type),
            delivery_limit: Some(3),
            ..RabbitmqOptions::NONE
        })
    };
    let plain = Subscription {
        mount: mount.into(),
        ..subscription(Form::Queue, "q", window)
    };
    match kind {
        Kind::Amqp => plain,
        Kind::Quorum => Subscription {
            rabbitmq: rabbitmq(QueueType::Quorum),
            ..plain
        },
        Kind::Classic => Subscription {
            rabbitmq: rabbitmq(QueueType::Classic),
            ..plain
        },
        Kind::Session => Subscription {
            form: Form::Filter,
            mqtt: Some(MqttOptions {
                shared: Some("g"),
                ..MqttOptions::NONE
            }),
            ..plain
        },
    }
}

struct Run {
    broker: Memory,
    kind: Kind,
    readers: [Option<Reader>; 2],
    /// Tokens not yet used, with whether they are void.
    tokens: [Vec<(Token, bool)>; 2],
}

impl Run {
    fn open(&mut self, at: usize) {
        if self.readers[at].is_none() {
            let subscription = wanted(self.kind, READERS[at], 2);
            self.readers[at] = Some(Reader::subscribe(&self.broker, subscription));
        }
    }

    /// Whatever the reader was handed is void.
    fn void(&mut self, at: usize) {
        for token in &mut self.tokens[at] {
            token.1 = true;
        }
    }

    fn run(&mut self, step: Step, number: usize) -> Result<(), TestCaseError> {
        match step {
            Step::Publish => {
                let message = Message::new(number.to_string());
                let published = self.broker.observe().publish("q", message);
                prop_assert!(published.is_ok());
            }
            Step::Poll(at) => {
                if let Some(reader) = &mut self.readers[at]
                    && let Some(Arrival::Delivery(mut delivery)) = reader.arrival()
                    && let Some(token) = delivery.token.take()
                {
                    self.tokens[at].push((token, false));
                    let valid = self.tokens[at].iter().filter(|(_, void)| !void).count();
                    prop_assert!(valid <= 5, "no window is wider");
                }
            }
            Step::Settle(at, index, how) => {
                let count = self.tokens[at].len();
                if count > 0
                    && let Some(reader) = &mut self.readers[at]
                {
                    let (token, void) = self.tokens[at].swap_remove(index % count);
                    let result = reader.settle_token(token, how);
                    if void {
                        prop_assert_eq!(result, Err(AckError::Stale));
                    } else {
                        prop_assert_ne!(result, Err(AckError::Stale));
                    }
                }
            }
            Step::Leave(at, index) => {
                let count = self.tokens[at].len();
                if count > 0
                    && let Some(reader) = &mut self.readers[at]
                {
                    let (token, _) = self.tokens[at].swap_remove(index % count);
                    reader.source.leave(token);
                }
            }
            Step::Window(at, window) => {
                if let Some(reader) = &mut self.readers[at] {
                    reader.set_window(window);
                }
            }
            Step::Cut(at) => {
                self.broker.observe().cut(READERS[at]);
                // A connection that was not up has nothing to lose.
                self.void(at);
            }
            Step::Crash(at) => {
                self.readers[at] = None;
                self.tokens[at].clear();
            }
            Step::Stop(at) => {
                if let Some(reader) = &mut self.readers[at] {
                    reader.source.stop();
                }
            }
            Step::Restart(at) => {
                if let Some(reader) = self.readers[at].take() {
                    reader.close();
                    self.tokens[at].clear();
                }
                self.open(at);
            }
        }
        Ok(())
    }
}

/// Where every message is, by its payload.
fn places(broker: &Memory) -> Vec<String> {
    broker.shared.with(|state| {
        let waiting = state.queues.iter().flat_map(|queue| queue.ready.iter());
        let held = state.consumers.iter().flatten().flat_map(Consumer::held);
        waiting
            .chain(held)
            .map(|entry| String::from_utf8_lossy(entry.native.message().payload()).into_owned())
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    // spec: C13 C15
    #[test]
    fn nothing_is_lost_no_window_is_exceeded_and_no_stale_token_settles(
        kind in prop_oneof![
            Just(Kind::Amqp), Just(Kind::Quorum), Just(Kind::Classic), Just(Kind::Session)
        ],
        has_policy: bool,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut broker = Memory::new();
        if has_policy {
            broker = broker.with_dead_letter_policy("q", "dead");
        }
        let observer = broker.observe();
        let mut run = Run {
            broker: broker.clone(),
            kind,
            readers: [None, None],
            tokens: [Vec::new(), Vec::new()],
        };
        run.open(0);
        let mut published = BTreeSet::new();
        for (number, step) in steps.into_iter().enumerate() {
            if matches!(step, Step::Publish) {
                published.insert(number.to_string());
            }
            run.run(step, number)?;

            broker.shared.with(|state| {
                for consumer in state.consumers.iter().flatten() {
                    let held = consumer.held().count();
                    prop_assert_eq!(held, consumer.in_flight as usize);
                    // A window that shrank waits for what was handed out, and for nothing else.
                    let fits = consumer.in_flight <= consumer.window();
                    prop_assert!(fits || consumer.is_handed_out(), "no window is exceeded");
                }
                Ok(())
            })?;

            let here = places(&broker);
            let gone: Vec<String> = observer
                .events()
                .into_iter()
                .filter(|event| match &event.kind {
                    EventKind::Accepted | EventKind::Discarded { .. } => true,
                    // MQTT: rejected is acknowledged. Elsewhere the policy's event follows.
                    EventKind::Rejected => matches!(kind, Kind::Session),
                    _ => false,
                })
                .map(|event| String::from_utf8_lossy(&event.payload).into_owned())
                .collect();
            let mut all: Vec<String> = here.into_iter().chain(gone).collect();
            all.sort();
            let known: Vec<String> = published.iter().cloned().collect();
            prop_assert_eq!(all, known, "every message is in one place, or gone for one reason");
        }
    }
}

/// The payloads of what a reader accepted or rejected, and what of it the broker has heard for sure.
#[derive(Default)]
struct Said {
    gone: BTreeSet<String>,
    told: BTreeSet<String>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Nobody watches, so that sources take deliveries ahead and collect what was accepted.
    // spec: C13 C15
    #[test]
    fn unwatched_nothing_is_lost_nor_doubled_and_what_was_said_before_a_pause_holds(
        window in prop_oneof![Just(1_u32), Just(3), Just(50)],
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let broker = Memory::amqp();
        let mut readers: [Option<Reader>; 2] = [None, None];
        let mut tokens: [Vec<(Token, String, bool)>; 2] = [Vec::new(), Vec::new()];
        let mut said: [Said; 2] = Default::default();
        let mut published = BTreeSet::new();
        let open = |at: usize| Reader::subscribe(&broker, wanted(Kind::Amqp, READERS[at], window));
        readers[0] = Some(open(0));
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Publish => {
                    for copy in 0..4 {
                        let payload = format!("{number}.{copy}");
                        published.insert(payload.clone());
                        publish(&broker, "q", Message::new(payload));
                    }
                }
                Step::Poll(at) => {
                    if let Some(reader) = &mut readers[at]
                        && let Some(Arrival::Delivery(mut delivery)) = reader.arrival()
                    {
                        let payload = text(&delivery);
                        prop_assert!(!said[at].told.contains(&payload), "what is gone does not come again");
                        let token = delivery.token.take().expect("it is unsettled");
                        let epoch = broker.shared.with(|state| epoch(state, READERS[at]));
                        prop_assert_eq!(token.epoch, epoch, "nothing comes over a lost connection");
                        tokens[at].push((token, payload, false));
                    }
                }
                Step::Settle(at, index, how) => {
                    let count = tokens[at].len();
                    if count > 0 && let Some(reader) = &mut readers[at] {
                        let (token, payload, void) = tokens[at].swap_remove(index % count);
                        let result = reader.settle_token(token, how);
                        if void {
                            prop_assert_eq!(result, Err(AckError::Stale));
                        } else {
                            prop_assert_eq!(result, Ok(()));
                            match how {
                                Disposition::Accept => { said[at].gone.insert(payload); }
                                Disposition::Reject => {
                                    said[at].gone.insert(payload.clone());
                                    said[at].told.insert(payload);
                                }
                                Disposition::Return | Disposition::Release => {}
                            }
                        }
                    }
                }
                Step::Leave(at, index) => {
                    // The pump's pause: from here on the broker has heard everything.
                    let _ = index;
                    if let Some(reader) = &mut readers[at] {
                        reader.idle();
                        let gone = said[at].gone.clone();
                        said[at].told.extend(gone);
                    }
                }
                Step::Window(at, wanted) => {
                    if let Some(reader) = &mut readers[at] {
                        reader.set_window(wanted);
                        let gone = said[at].gone.clone();
                        said[at].told.extend(gone);
                    }
                }
                Step::Cut(at) => {
                    broker.shared.with(|state| {
                        for reader in 0..state.consumers.len() {
                            let is_it = state.consumers[reader].as_ref().is_some_and(|known| known.mount == READERS[at]);
                            if is_it {
                                state.lose(reader, "cut", Moment::default());
                            }
                        }
                    });
                    for token in &mut tokens[at] {
                        token.2 = true;
                    }
                    // What the broker had not heard of is there again; only that may be.
                    let here = places(&broker);
                    let Said { gone, told } = &mut said[at];
                    gone.retain(|payload| told.contains(payload) || !here.contains(payload));
                    told.clone_from(gone);
                }
                Step::Crash(at) | Step::Restart(at) => {
                    let is_crash = matches!(step, Step::Crash(_));
                    if let Some(reader) = readers[at].take() {
                        if is_crash { drop(reader) } else { reader.close() }
                        let gone = said[at].gone.clone();
                        said[at].told.extend(gone);
                        tokens[at].clear();
                    }
                    if !is_crash {
                        readers[at] = Some(open(at));
                    }
                }
                Step::Stop(at) => {
                    if let Some(reader) = &mut readers[at] {
                        reader.source.stop();
                        let gone = said[at].gone.clone();
                        said[at].told.extend(gone);
                        let held = broker.shared.with(|state| {
                            let consumers = state.consumers.iter().flatten();
                            consumers.filter(|known| known.mount == READERS[at]).map(|known| known.in_flight).sum::<u32>()
                        });
                        let valid = tokens[at].iter().filter(|(_, _, void)| !void).count();
                        prop_assert_eq!(held as usize, valid, "a stop gives back all that was not handed out");
                    }
                }
            }

            let here = places(&broker);
            let distinct: BTreeSet<String> = here.iter().cloned().collect();
            prop_assert_eq!(here.len(), distinct.len(), "no message is in two places");
            let gone: BTreeSet<String> = said.iter().flat_map(|said| said.gone.iter().cloned()).collect();
            let told: BTreeSet<String> = said.iter().flat_map(|said| said.told.iter().cloned()).collect();
            prop_assert!(distinct.is_disjoint(&told), "what was told is gone");
            let known: BTreeSet<String> = distinct.union(&gone).cloned().collect();
            prop_assert_eq!(&known, &published, "every message is somewhere, or was accepted or rejected");
            broker.shared.with(|state| {
                for consumer in state.consumers.iter().flatten() {
                    prop_assert_eq!(consumer.held().count(), consumer.in_flight as usize);
                    let fits = consumer.in_flight <= consumer.window();
                    prop_assert!(fits || consumer.is_handed_out(), "no window is exceeded");
                }
                Ok(())
            })?;
        }
    }

    /// However a reader is interrupted, first deliveries keep the order in which they were published.
    #[test]
    fn unwatched_the_order_is_kept_across_stops_and_windows(
        count in 1..120_usize,
        takes in prop::collection::vec((1..50_usize, 1..50_u32), 1..6),
    ) {
        let broker = Memory::amqp();
        for number in 0..count {
            publish(&broker, "q", Message::new(number.to_string()));
        }
        let mut seen = Vec::new();
        for (take, window) in takes {
            let mut reader = Reader::connect(&broker, wanted(Kind::Amqp, READERS[0], 40));
            for turn in 0..take {
                if turn == take / 2 {
                    reader.set_window(window);
                }
                let Some(mut delivery) = reader.next() else { break };
                seen.push(text(&delivery).parse::<usize>().expect("a number"));
                reader.settle(&mut delivery, Disposition::Accept).expect("accepted");
            }
            reader.stop();
            reader.close();
        }
        let expected: Vec<usize> = (0..seen.len()).collect();
        prop_assert_eq!(seen, expected);
    }
}

fn epoch(state: &State, mount: &str) -> u32 {
    let consumers = state.consumers.iter().flatten();
    consumers
        .filter(|known| known.mount == mount)
        .map(|known| known.epoch)
        .max()
        .unwrap_or(0)
}
