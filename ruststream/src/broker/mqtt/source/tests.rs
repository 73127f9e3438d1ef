//! Any order of deliveries, settlements, losses and resumptions.

use std::collections::BTreeMap;
use std::task::Waker;

use bytes::Buf;
use bytes::Bytes;
use proptest::prelude::*;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::Publish;

use super::*;
use crate::broker::BrokerError;
use crate::broker::Subscription;
use crate::broker::mqtt::settings::Settings;
use crate::broker::mqtt::spec::Spec;
use crate::broker::mqtt::state::Server;
use crate::broker::mqtt::wire;
use crate::registration::Form;
use crate::settle::Settle;

const WINDOW: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver {
        exactly_once: bool,
    },
    Take,
    /// One of those in hand, of whichever connection.
    Settle(prop::sample::Index),
    Leave(prop::sample::Index),
    /// What was settled is said.
    Flush,
    Disconnect,
    Connect {
        session_present: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<bool>().prop_map(|exactly_once| Step::Deliver { exactly_once }),
        6 => Just(Step::Take),
        6 => any::<prop::sample::Index>().prop_map(Step::Settle),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
        3 => Just(Step::Flush),
        1 => Just(Step::Disconnect),
        2 => any::<bool>().prop_map(|session_present| Step::Connect { session_present }),
    ]
}

/// What a delivery of the connection that lives has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Settled,
    Left,
    Acknowledged,
}

struct Model {
    link: Arc<Link>,
    source: MqttSource,
    is_up: bool,
    next_id: u16,
    /// Of the connection that lives, by packet id, which grows with the order of arrival.
    fates: BTreeMap<u16, Fate>,
    /// What handlers have: the token, and the connection and packet id that it is of.
    hands: Vec<(Token, u64, u16)>,
    connection: u64,
}

impl Model {
    fn new() -> Self {
        let subscription = Subscription {
            app: "shop".into(),
            mount: "fulfil".into(),
            form: Form::Topic,
            address: "orders".into(),
            window: WINDOW,
            settle: Settle::default(),
            amqp: None,
            mqtt: None,
            rabbitmq: None,
        };
        let settings = Arc::new(Settings::parse("mqtt://localhost").expect("a URL"));
        let spec = Spec::of(&[&subscription], &settings);
        let link = Arc::new(Link::new(spec, settings));
        Self {
            source: MqttSource::detached(Arc::clone(&link), 0),
            link,
            is_up: false,
            next_id: 0,
            fates: BTreeMap::new(),
            hands: Vec::new(),
            connection: 0,
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Deliver { exactly_once } if self.is_up => self.deliver(exactly_once),
            Step::Take => self.take()?,
            Step::Settle(index) if !self.hands.is_empty() => {
                let (token, connection, id) = self.hands.remove(index.index(self.hands.len()));
                let settled = self.source.settle(token, Disposition::Accept, 0);
                let is_of_now = self.is_up && connection == self.connection;
                prop_assert_eq!(settled == Poll::Ready(Ok(())), is_of_now, "{:?}", settled);
                if is_of_now {
                    self.fates.insert(id, Fate::Settled);
                }
            }
            Step::Leave(index) if !self.hands.is_empty() => {
                let (token, connection, id) = self.hands.remove(index.index(self.hands.len()));
                self.source.leave(token);
                if self.is_up && connection == self.connection {
                    self.fates.insert(id, Fate::Left);
                }
            }
            Step::Flush => self.source.flush(),
            Step::Disconnect if self.is_up => {
                let mut state = self.link.lock();
                self.link.set_epoch(0);
                state.handle_disconnected(&BrokerError::transient("lost"));
                drop(state);
                self.is_up = false;
                self.fates.clear();
            }
            Step::Connect { session_present } if !self.is_up => {
                let mut state = self.link.lock();
                state.handle_connected(Server::default(), session_present);
                self.link.set_epoch(state.epoch);
                let epoch = state.epoch;
                state.tell(0, Arrival::Connected { epoch });
                drop(state);
                self.is_up = true;
                self.connection += 1;
                // Ids are the server's, and begin again.
                self.next_id = 0;
            }
            _ => {}
        }
        self.check()
    }

    fn deliver(&mut self, exactly_once: bool) {
        let waits = |fate: &&Fate| **fate != Fate::Acknowledged;
        if self.fates.values().filter(waits).count() >= WINDOW as usize {
            return;
        }
        self.next_id += 1;
        let qos = if exactly_once {
            QoS::ExactlyOnce
        } else {
            QoS::AtLeastOnce
        };
        let payload = Bytes::copy_from_slice(&self.next_id.to_be_bytes());
        let mut publish = Publish::new("orders", qos, payload, None);
        publish.pkid = self.next_id;
        let handled = self.link.lock().handle_packet(
            Packet::Publish(publish),
            crate::broker::mqtt::connection::now,
        );
        assert_eq!(handled, Ok(()));
        self.fates.insert(self.next_id, Fate::Open);
    }

    fn take(&mut self) -> Result<(), TestCaseError> {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(arrival) = self.source.poll_next(&mut cx) {
            if let Arrival::Delivery(mut delivery) = arrival {
                let id = delivery.payload().clone().get_u16();
                let token = delivery.token.take().expect("it is to be settled");
                prop_assert!(self.is_up, "nothing of a lost connection is handed out");
                self.hands.push((token, self.connection, id));
                break;
            }
        }
        Ok(())
    }

    /// What was said to the server.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut out = std::mem::take(&mut self.link.lock().out);
        let mut last = 0;
        while let Some(packet) = wire::read(&mut out, wire::LONGEST).expect("it is our own") {
            let id = match packet {
                Packet::PubAck(ack) => ack.pkid,
                Packet::PubRec(ack) => ack.pkid,
                other => panic!("{other:?}"),
            };
            prop_assert!(id > last, "in the order of arrival");
            last = id;
            prop_assert_eq!(
                self.fates.insert(id, Fate::Acknowledged),
                Some(Fate::Settled)
            );
            let before = self.fates.range(..id);
            let is_first = before
                .into_iter()
                .all(|(_, fate)| matches!(fate, Fate::Acknowledged | Fate::Left));
            prop_assert!(is_first, "none before it waits");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    // spec: C13 C16 M15 M18
    #[test]
    fn only_what_was_settled_on_this_connection_is_acknowledged_and_in_order(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut model = Model::new();
        model.step(Step::Connect { session_present: false })?;
        for step in steps {
            model.step(step)?;
        }
        // In the end whatever may be said is said.
        model.step(Step::Connect { session_present: true })?;
        while !model.hands.is_empty() {
            let (token, connection, id) = model.hands.remove(0);
            let settled = model.source.settle(token, Disposition::Accept, 0);
            if settled == Poll::Ready(Ok(())) {
                prop_assert_eq!(connection, model.connection);
                model.fates.insert(id, Fate::Settled);
            }
        }
        model.step(Step::Flush)?;
        let mut open = false;
        for (id, fate) in &model.fates {
            open |= *fate == Fate::Open;
            prop_assert!(*fate != Fate::Settled || open, "{} waits for nothing", id);
        }
    }
}
