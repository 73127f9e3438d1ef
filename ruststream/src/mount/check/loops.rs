//! Loops and holes: copies that come back for ever, and copies that nobody reads (spec C20).

use super::Findings;
use crate::mount::bind::Bound;
use crate::registration::Form;

pub(super) fn check(mount: &Bound, all: &[Bound], findings: &mut Findings) {
    dead_letter(mount, all, findings);
    retry_topic(mount, all, findings);
    let options = mount.options();
    if let Some(reply_to) = options.reply_to
        && reads(mount, reply_to)
    {
        findings.warning(
            mount
                .problem_with("reply_to", format!("its answers go to `{reply_to}`, which it reads itself"))
                .cure("answer to an address of its own, unless every answer is meant to be handled again"),
        );
    }
}

fn dead_letter(mount: &Bound, all: &[Bound], findings: &mut Findings) {
    let Some(dead_letter) = mount.options().dead_letter else {
        return;
    };
    if reads(mount, dead_letter) {
        findings.problem(
            mount
                .problem_with(
                    "dead_letter",
                    format!("its dead letters go to `{dead_letter}`, which it reads itself: they would come back for ever"),
                )
                .cure("name a dead letter that this handler does not read"),
        );
        return;
    }
    let readers = others(mount, all)
        .filter(|other| !other.options().reads_dead_letters && reads(other, dead_letter));
    for other in readers {
        findings.problem(
            mount
                .problem_with(
                    "dead_letter",
                    format!("its dead letters go to `{dead_letter}`, which {} reads", other.draft.place()),
                )
                .cure("name another dead letter, or declare `reads_dead_letters` on the one that reads it"),
        );
    }
}

fn retry_topic(mount: &Bound, all: &[Bound], findings: &mut Findings) {
    let options = mount.options();
    let Some(retry_topic) = options.retry_topic else {
        return;
    };
    let is_read =
        reads(mount, retry_topic) || others(mount, all).any(|other| reads(other, retry_topic));
    if !is_read && !options.retry_topic_elsewhere {
        findings.problem(
            mount
                .problem_with(
                    "retry_topic",
                    format!("its retries go to `{retry_topic}`, which no handler of this application reads"),
                )
                .cure("name a topic that one reads, or declare `retry_topic_elsewhere` if another program does"),
        );
    }
}

/// The other mount points on the same broker.
fn others<'a>(mount: &'a Bound, all: &'a [Bound]) -> impl Iterator<Item = &'a Bound> {
    all.iter()
        .filter(|other| other.point.name != mount.point.name)
        .filter(|other| other.point.broker == mount.point.broker)
}

/// Whether what is published to `address` arrives at `mount`.
fn reads(mount: &Bound, address: &str) -> bool {
    match mount.point.form {
        Form::Filter => crate::address::matches(&mount.point.address, address),
        form => mount.broker.canonical(form, address) == mount.canonical(),
    }
}
