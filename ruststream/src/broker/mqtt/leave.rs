//! Leaving: a mount point that stops gives up its subscription where others, or nobody, would get
//! what comes after it (spec C29).
//!
//! A server has assigned messages to this session that it has not sent yet. They are taken and
//! handled first: a group's other members never get what was assigned to one that left. The session
//! is known to be empty when nothing came between a PINGREQ and its answer, with everything before
//! it acknowledged.

use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::v5::Unsubscribe;

use super::member::Stage;
use super::state::State;
use super::wire;

/// Do what is next for mount points that leave. Returns whether a PINGREQ is to leave now, which is
/// asked only when none is on its way.
pub(super) fn tend(state: &mut State, may_ping: bool) -> bool {
    let mut pings = false;
    for index in 0..state.members.len() {
        match state.members[index].stage {
            Stage::Unsubscribing(None) => {
                let packet_id = state.outbound.free_id();
                let packet = Packet::Unsubscribe(Unsubscribe {
                    pkid: packet_id,
                    filters: vec![state.members[index].spec.wire_filter()],
                    properties: None,
                });
                let is_said = wire::write(&packet, &mut state.out).is_ok();
                state.members[index].stage = if is_said {
                    Stage::Unsubscribing(Some(packet_id))
                } else {
                    Stage::Draining(None)
                };
            }
            Stage::Draining(None) if may_ping => {
                let is_quiet = state.members[index].is_empty() && state.open(index) == 0;
                if is_quiet {
                    let arrived = state.members[index].arrived;
                    state.members[index].stage = Stage::Draining(Some(arrived));
                    pings = true;
                }
            }
            _ => {}
        }
    }
    pings
}

/// The server sends nothing new any more.
pub(super) fn handle_unsuback(state: &mut State, packet_id: u16) {
    for member in &mut state.members {
        if member.stage == Stage::Unsubscribing(Some(packet_id)) {
            member.stage = Stage::Draining(None);
            member.is_subscribed = false;
        }
    }
}

/// The server has sent what it had before the PINGREQ.
pub(super) fn handle_pingresp(state: &mut State) {
    let State { members, wakes, .. } = state;
    for member in members {
        if let Stage::Draining(Some(arrived)) = member.stage {
            if member.arrived == arrived {
                member.stage = Stage::Ended;
                member.ring(wakes);
            } else {
                member.stage = Stage::Draining(None);
            }
        }
    }
}

/// Whether nobody would come back for the session: every mount point gave its subscription up.
pub(super) fn ends_session(state: &State) -> bool {
    state.members.iter().all(|member| !member.is_subscribed)
}
