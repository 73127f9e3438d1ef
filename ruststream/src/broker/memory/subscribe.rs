//! What a subscription reads: a queue, a share of a topic, or an MQTT session. Pure.

use std::sync::Arc;

use bytestring::ByteString;

use super::ahead::Signal;
use super::bindings::Binding;
use super::bindings::DEFAULT_TOPIC_EXCHANGE;
use super::bindings::Kind;
use super::consumer::Consumer;
use super::consumer::Settling;
use super::entry::Moment;
use super::queue::Life;
use super::queue::Queue;
use super::queue::Style;
use super::rules;
use super::rules::Rules;
use super::session::Age;
use super::session::Session;
use super::state::Place;
use super::state::State;
use crate::broker::BrokerError;
use crate::broker::Subscription;
use crate::registration::Form;
use crate::registration::QueueType;
use crate::settle::Settle;

impl State {
    /// Add a reader, with the signal to its source. It connects with its first poll; messages wait for it from now on.
    pub(super) fn subscribe(
        &mut self,
        subscription: &Subscription,
        forced: Option<Rules>,
        client: u32,
        now: Moment,
    ) -> Result<(usize, Arc<Signal>), BrokerError> {
        rules::capabilities(forced, self.counting, false, subscription)?;
        self.reap(now);
        let rules = Rules::of(forced, subscription);
        let at = match rules {
            Rules::Amqp => self.open_amqp(subscription),
            Rules::Mqtt => self.open_mqtt(subscription, client),
            Rules::Rabbitmq => self.open_rabbitmq(subscription)?,
        };
        let settling = match (subscription.settle, rules) {
            (Settle::AtMostOnce, Rules::Rabbitmq) => Settling::Automatic,
            (Settle::AtMostOnce, Rules::Amqp) => Settling::OnArrival,
            _ => Settling::ByReader,
        };
        let consumer = Consumer::new(
            at,
            subscription.mount.clone(),
            subscription.window,
            settling,
        );
        let signal = Arc::clone(&consumer.signal);
        let reader = if let Some(reader) = self.consumers.iter().position(Option::is_none) {
            self.consumers[reader] = Some(consumer);
            reader
        } else {
            self.consumers.push(Some(consumer));
            self.consumers.len() - 1
        };
        self.queues[at].consumers.push(reader);
        self.routes.change();
        Ok((reader, signal))
    }

    /// Declare a queue, as an operator would.
    pub(super) fn declare(&mut self, name: ByteString, style: Style) -> usize {
        match self.places.get(&Place::Queue(name.clone())) {
            Some(&at) => {
                // What a publish made takes the shape that is declared first.
                if self.queues[at].life == Life::Kept {
                    self.queues[at].life = Life::Declared;
                    self.queues[at].style = style;
                    self.routes.change();
                }
                at
            }
            None => self.add_queue(
                Place::Queue(name.clone()),
                Queue::new(name, style, Life::Declared),
            ),
        }
    }

    fn open_amqp(&mut self, subscription: &Subscription) -> usize {
        if subscription.form != Form::Topic {
            return self.declare(subscription.address.clone(), Style::Amqp);
        }
        let options = subscription.amqp.unwrap_or_default();
        let mut name = match options.subscription {
            Some(name) => ByteString::from_static(name),
            None => own_name(subscription),
        };
        let is_shared = options.shared_subscription != Some(false);
        let life = if options.durable == Some(false) {
            Life::Temporary
        } else {
            Life::Declared
        };
        let mut place = Place::Topic(name.clone(), subscription.address.clone());
        let mut number = 1_u32;
        while !is_shared && self.places.get(&place).is_some_and(|at| self.is_read(*at)) {
            number += 1;
            name = format!("{}-{number}", own_name(subscription)).into();
            place = Place::Topic(name.clone(), subscription.address.clone());
        }
        match self.places.get(&place) {
            Some(at) => *at,
            None => self.add_queue(place, Queue::new(name, Style::Amqp, life)),
        }
    }

    fn is_read(&self, at: usize) -> bool {
        !self.queues[at].consumers.is_empty()
    }

    fn open_mqtt(&mut self, subscription: &Subscription, client: u32) -> usize {
        let options = subscription.mqtt.unwrap_or_default();
        let client_id = match (options.client_id, options.connection) {
            (Some(id), _) => ByteString::from_static(id),
            (None, Some(connection)) => format!("{}-{connection}", subscription.app).into(),
            (None, None) => format!("{}-{}", subscription.app, subscription.mount).into(),
        };
        let group = options.shared.map(ByteString::from_static);
        let filter = subscription.address.clone();
        let expiry = rules::session_expiry(subscription);
        self.timed |= expiry.is_some();
        let place = Place::Session(client_id, group.clone(), filter.clone());
        let session = Session {
            filter,
            group,
            qos: crate::broker::mqtt_rules::qos(subscription),
            not_from: (options.no_local == Some(true)).then_some(client),
            retain_as_published: options.retain_as_published == Some(true),
            retain_handling: options.retain_handling.unwrap_or(0),
            expiry,
            ends: Moment::NEVER,
            subscribed: true,
            age: Age::Unborn,
            owner: None,
        };
        if let Some(&at) = self.places.get(&place) {
            // Subscribing again replaces the options and keeps the messages (MQTT 5 section 3.8.4).
            if let Some(known) = self.queues[at].session_mut() {
                *known = Session {
                    age: known.age,
                    owner: known.owner,
                    ends: known.ends,
                    ..session
                };
            }
            at
        } else {
            let style = Style::Session(Box::new(session));
            let name = subscription.mount.clone();
            self.add_queue(place, Queue::new(name, style, Life::Declared))
        }
    }

    fn open_rabbitmq(&mut self, subscription: &Subscription) -> Result<usize, BrokerError> {
        let options = subscription.rabbitmq.unwrap_or_default();
        let is_topic = subscription.form == Form::Topic;
        let name = if is_topic {
            own_name(subscription)
        } else {
            subscription.address.clone()
        };
        let known = self.places.get(&Place::Queue(name.clone())).copied();
        let must_exist = options.passive == Some(true) || options.declare == Some(false);
        if must_exist && known.is_none_or(|at| self.queues[at].life == Life::Kept) {
            return Err(BrokerError::permanent(format!(
                "there is no queue `{name}`: declare it, or let the handler do so with `rabbitmq(declare = true)`"
            )));
        }
        let style = match rules::quorum_limit(subscription) {
            Some(limit) => Style::Quorum { limit },
            None => Style::Classic,
        };
        let at = self.declare(name.clone(), style);
        let queue = &mut self.queues[at];
        let differs = matches!(
            (options.queue_type, &queue.style),
            (Some(QueueType::Classic), Style::Quorum { .. })
                | (Some(QueueType::Quorum), Style::Classic)
        );
        if differs {
            return Err(BrokerError::permanent(format!(
                "queue `{name}` was declared with another `queue_type`"
            )));
        }
        if options.exclusive == Some(true) && !queue.consumers.is_empty() {
            return Err(BrokerError::permanent(format!(
                "queue `{name}` has a reader, so this one cannot be `exclusive`"
            )));
        }
        queue.single_active |= options.single_active == Some(true);
        if is_topic || options.exchange.is_some() {
            self.bind(at, subscription)?;
        }
        Ok(at)
    }

    fn bind(&mut self, at: usize, subscription: &Subscription) -> Result<(), BrokerError> {
        let options = subscription.rabbitmq.unwrap_or_default();
        let kind = match options.exchange_type {
            None => Kind::Topic,
            Some(name) => Kind::parse(name).ok_or_else(|| {
                BrokerError::permanent(format!(
                    "the embedded broker has no exchange type `{name}`, it has direct, fanout and topic"
                ))
            })?,
        };
        let binding = Binding {
            exchange: ByteString::from_static(options.exchange.unwrap_or(DEFAULT_TOPIC_EXCHANGE)),
            kind,
            key: match options.routing_key {
                Some(key) => ByteString::from_static(key),
                None => subscription.address.clone(),
            },
            queue: at,
        };
        if !self.bindings.contains(&binding) {
            self.bindings.push(binding);
        }
        Ok(())
    }
}

fn own_name(subscription: &Subscription) -> ByteString {
    format!("{}.{}", subscription.app, subscription.mount).into()
}
