//! Mount points that share an MQTT connection, and connections that must not be taken for one
//! (spec C17).

use super::Findings;
use crate::address;
use crate::mount::bind::Bound;

pub(super) fn check(mounts: &[Bound], findings: &mut Findings) {
    for (index, one) in mounts.iter().enumerate() {
        for other in mounts.iter().skip(index + 1) {
            if one.point.broker != other.point.broker || !one.is_mqtt() || !other.is_mqtt() {
                continue;
            }
            let place = other.draft.place();
            if packed(one, other) {
                if address::overlaps(&one.point.address, &other.point.address) {
                    findings.problem(
                        one.problem(format!(
                            "its messages are {place}'s too, on one connection, where a packet belongs to one of them"
                        ))
                        .cure("give one of them a connection of its own: leave out `mqtt(connection)` or `mqtt(no_local)`, or name another"),
                    );
                }
            } else if let (Some(id), Some(of_other)) = (client_id(one), client_id(other))
                && id == of_other
            {
                findings.problem(
                    one.problem(format!(
                        "it has the client id `{id}` of {place}, and a server ends the connection of one when the other comes"
                    ))
                    .cure("give one of them another `mqtt(client_id)`, or pack both with `mqtt(connection)`"),
                );
            }
        }
    }
}

/// Whether two mount points share a connection: the one they name, or the one that is published on.
fn packed(one: &Bound, other: &Bound) -> bool {
    match (is_local(one), is_local(other)) {
        (true, true) => true,
        (false, false) => {
            let (one, other) = (connection(one), connection(other));
            one.is_some() && one == other
        }
        _ => false,
    }
}

/// Whether it must be on the connection that is published on: the server compares connections.
fn is_local(mount: &Bound) -> bool {
    mount.options().mqtt.and_then(|mqtt| mqtt.no_local) == Some(true)
}

fn connection(mount: &Bound) -> Option<&'static str> {
    mount.options().mqtt.and_then(|mqtt| mqtt.connection)
}

fn client_id(mount: &Bound) -> Option<&'static str> {
    mount.options().mqtt.and_then(|mqtt| mqtt.client_id)
}
