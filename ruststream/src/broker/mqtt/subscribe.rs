//! Subscribing, and what the server says to it.

use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::SubAck;
use rumqttc::v5::mqttbytes::v5::Subscribe;

use super::member::Stage;
use super::reasons;
use super::spec::Spec;
use super::state::State;
use super::wire;
use crate::address;
use crate::broker::Arrival;
use crate::broker::BrokerError;

/// Subscribe everything that does not receive. Returns whether anything was asked.
///
/// A session that goes on is subscribed again as well: a server may have lost a subscription and kept
/// the session, as mosquitto does with shared ones when it is restarted. It is asked then to send
/// retained messages only if the subscription is new to it, or they would come again with every
/// reconnect (MQTT 5 section 3.8.3.1).
pub(super) fn ask(state: &mut State, spec: &Spec) -> bool {
    let mut asked = Vec::new();
    for index in 0..state.members.len() {
        let member = &state.members[index];
        if member.stage != Stage::Receiving || member.is_connected {
            continue;
        }
        if let Some(error) = lacks(state, index) {
            refused(state, index, error);
        } else {
            asked.push(index);
        }
    }
    for indexes in asked.chunks(FILTERS_AT_ONCE) {
        let packet_id = state.outbound.free_id();
        let filters = indexes
            .iter()
            .map(|index| spec.members[*index].subscription(state.members[*index].is_subscribed))
            .collect();
        let packet = Packet::Subscribe(Subscribe {
            pkid: packet_id,
            filters,
            properties: None,
        });
        if wire::write(&packet, &mut state.out).is_err() {
            // A hundred filters of the greatest length are far below the longest packet.
            continue;
        }
        state.subscribing.insert(packet_id, indexes.to_vec());
    }
    !asked.is_empty()
}

/// What a subscription needs and the server said that it has not.
fn lacks(state: &State, index: usize) -> Option<BrokerError> {
    let spec = &state.members[index].spec;
    if spec.group.is_some() && !state.server.shared {
        return Some(BrokerError::permanent(
            "the server has no shared subscriptions: leave out `mqtt(shared)`, or use a server that has them",
        ));
    }
    if address::looks_like_filter(&spec.filter) && !state.server.wildcards {
        return Some(BrokerError::permanent(
            "the server has no wildcard subscriptions: subscribe to topics, or use a server that has them",
        ));
    }
    None
}

/// The server's answer. Returns whether something has to be asked again later.
pub(super) fn handle_suback(state: &mut State, suback: &SubAck) -> bool {
    let Some(indexes) = state.subscribing.remove(&suback.pkid) else {
        return false;
    };
    let reason = suback
        .properties
        .as_ref()
        .and_then(|properties| properties.reason_string.as_deref());
    let mut again = false;
    for (at, index) in indexes.into_iter().enumerate() {
        let spec = &state.members[index].spec;
        let filter = spec.wire_filter();
        let error = match suback.return_codes.get(at) {
            Some(code) => reasons::refused_subscription(*code, spec.qos as u8, &filter, reason),
            None => Some(BrokerError::transient(format!(
                "the server did not say whether it granted the subscription to `{filter}`"
            ))),
        };
        match error {
            None => {
                state.members[index].is_subscribed = true;
                receives(state, index);
            }
            Some(error) => {
                again = true;
                refused(state, index, error);
            }
        }
    }
    again
}

fn receives(state: &mut State, index: usize) {
    let epoch = state.epoch;
    if let Some(started) = state.members[index].started.take() {
        // Whoever started it may have given up.
        started.send(Ok(())).ok();
    }
    state.tell(index, Arrival::Connected { epoch });
}

fn refused(state: &mut State, index: usize, error: BrokerError) {
    let State { members, wakes, .. } = state;
    let member = &mut members[index];
    match member.started.take() {
        Some(started) if !error.is_transient() => {
            started.send(Err(error)).ok();
        }
        Some(started) => {
            started.send(Ok(())).ok();
            member.down(&error, wakes);
        }
        None => member.down(&error, wakes),
    }
}

/// Filters in one SUBSCRIBE.
const FILTERS_AT_ONCE: usize = 100;
