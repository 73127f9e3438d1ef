//! What each outcome says, and when.

use std::time::Duration;

use bytes::Bytes;
use ruststream::AckError;
use ruststream::Attempt;
use ruststream::Batch;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::policy::BatchOptions;
use ruststream::registration::AckOrder;
use support::Starts;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use tokio::sync::watch;

use crate::SILENCE;
use crate::Wire;
use crate::confirm;
use crate::jobs;
use crate::message;
use crate::mqtt;
use crate::until;

// spec: M1 M3 M4 M5 M14
#[tokio::test]
async fn ack_and_drop_at_qos_1_are_one_puback_each() {
    for outcome in [Outcome::Ack, Outcome::Drop] {
        let mut wire = Wire::of(Starts::new().answer(jobs(), move |_| outcome)).await;
        wire.reader.send(message(1, 7, "a")).await;
        assert_eq!(wire.reader.expect_puback().await, Ack::of(7));
        wire.reader.expect_silence(SILENCE).await;
        wire.peer.expect_nobody(SILENCE).await;
    }
}

// spec: M2 M4 M14
#[tokio::test]
async fn ack_and_drop_at_qos_2_are_one_pubrec_and_the_handshake_is_completed() {
    for outcome in [Outcome::Ack, Outcome::Drop] {
        let script = Starts::new().answer(jobs(), move |_| outcome);
        let mut wire = Wire::of(script.with(mqtt(|mqtt| mqtt.qos = Some(2)))).await;
        assert_eq!(wire.subscribe.filters[0].qos, 2);
        wire.reader.send(message(2, 7, "a")).await;
        assert_eq!(wire.reader.expect_pubrec().await, Ack::of(7));
        wire.reader.send(Packet::PubRel(Ack::of(7))).await;
        assert_eq!(wire.reader.expect_pubcomp().await, Ack::of(7));
        wire.reader.expect_silence(SILENCE).await;
    }
}

// spec: M2
#[tokio::test]
async fn a_message_at_qos_2_that_is_sent_again_is_acknowledged_again_and_handled_once() {
    let starts = Starts::new();
    let script = starts.answer(jobs(), |_| Outcome::Ack);
    let mut wire = Wire::of(script.with(mqtt(|mqtt| mqtt.qos = Some(2)))).await;
    wire.reader.send(message(2, 7, "a")).await;
    wire.reader.expect_pubrec().await;
    // The PUBREC was lost with the connection; the session goes on.
    drop(wire.reader);
    let (_, mut reader) = wire.peer.session(present()).await;
    reader.grant().await;
    let Packet::Publish(again) = message(2, 7, "a") else {
        unreachable!("it is a message");
    };
    reader.send(Packet::Publish(again.clone().again())).await;
    assert_eq!(reader.expect_pubrec().await, Ack::of(7));
    reader.send(Packet::PubRel(Ack::of(7))).await;
    reader.expect_pubcomp().await;
    assert_eq!(starts.count(), 1);
    // The id is free now, and another message has it.
    reader.send(Packet::Publish(again)).await;
    reader.expect_pubrec().await;
    assert_eq!(starts.count(), 2);
}

fn present() -> support::mqtt::packet::ConnAck {
    support::mqtt::packet::ConnAck {
        session_present: true,
        ..Default::default()
    }
}

// spec: M6 M14 M15 M16 M18 M20
#[tokio::test]
async fn a_retry_with_nothing_declared_says_nothing_and_a_settler_is_refused() {
    let (answers, mut answer) = watch::channel(None);
    let script = jobs().runs(move |(payload, settler): (Bytes, Settler)| {
        let answers = answers.clone();
        async move {
            if &payload[..] == b"a" {
                answers.send_replace(Some(settler.retry().await));
            } else {
                settler.ack().await.expect("it can be said");
            }
        }
    });
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 1, "a")).await;
    let answer = answer.wait_for(Option::is_some).await.expect("it answers");
    assert_eq!(*answer, Some(Err(AckError::Unsupported)));
    drop(answer);
    wire.reader.send(message(1, 2, "b")).await;
    // It is taken out of the order (C16).
    assert_eq!(wire.reader.expect_puback().await, Ack::of(2));
    wire.reader.expect_silence(SILENCE).await;
    let stats = wire.running.stats()["work"];
    assert_eq!((stats.stuck, stats.unsupported), (1, 1));
}

// spec: M8 M9 M25 C4 M45 M47 C2
#[tokio::test]
async fn a_retry_below_the_cap_is_a_confirmed_copy_and_then_the_acknowledgement() {
    let script = Starts::new().answer(jobs(), |start| match start.attempt {
        1 => Outcome::Retry,
        _ => Outcome::Ack,
    });
    let mut wire = Wire::of(script.with(|options| options.max_attempts = Some(3))).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    let copy = writer.expect_publish().await;
    assert_eq!(
        (copy.topic.as_str(), copy.text().as_str(), copy.qos),
        ("jobs", "a", 1)
    );
    assert_eq!(copy.properties.value("x-ruststream-retry-count"), Some("1"));
    assert_eq!(copy.properties.value("x-ruststream-handler"), Some("work"));
    // Not confirmed yet, so nothing is said about the original.
    wire.reader.expect_silence(SILENCE).await;
    writer
        .send(Packet::PubAck(Ack::of(copy.id.expect("it has one"))))
        .await;
    assert_eq!(wire.reader.expect_puback().await, Ack::of(5));
    writer.expect_silence(SILENCE).await;
}

// spec: M10 M11 M24 M35 A46
#[tokio::test]
async fn a_delayed_retry_is_acknowledged_first_and_its_copy_comes_after_the_delay() {
    const DELAY: Duration = Duration::from_millis(300);
    let script = Starts::new().answer(jobs(), |_| Outcome::RetryAfter(DELAY));
    let mut wire = Wire::of(script.with(|options| options.max_attempts = Some(3))).await;
    let begun = now();
    wire.reader.send(message(1, 5, "a")).await;
    assert_eq!(wire.reader.expect_puback().await, Ack::of(5));
    let mut writer = wire.writer().await;
    let copy = confirm(&mut writer).await;
    assert!(begun.elapsed() >= DELAY, "{:?}", begun.elapsed());
    assert_eq!(copy.properties.value("x-ruststream-retry-count"), Some("1"));
    wire.reader.expect_silence(SILENCE).await;
}

#[expect(clippy::disallowed_methods, reason = "a delay is of real time here")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

// spec: M42 M43 M44
#[tokio::test]
async fn at_the_cap_it_is_published_to_the_dead_letter_or_abandoned() {
    let retries = || Starts::new().answer(jobs(), |_| Outcome::Retry);
    let declared = retries().with(|options| {
        options.max_attempts = Some(1);
        options.dead_letter = Some("jobs.dead");
    });
    let mut wire = Wire::of(declared).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    let letter = writer.expect_publish().await;
    assert_eq!(
        (letter.topic.as_str(), letter.text().as_str()),
        ("jobs.dead", "a")
    );
    wire.reader.expect_silence(SILENCE).await;
    writer
        .send(Packet::PubAck(Ack::of(letter.id.expect("it has one"))))
        .await;
    wire.reader.expect_puback().await;

    let mut wire = Wire::of(retries().with(|options| options.max_attempts = Some(1))).await;
    wire.reader.send(message(1, 5, "a")).await;
    wire.reader.expect_puback().await;
    wire.peer.expect_nobody(SILENCE).await;
}

// spec: M12 M13
#[tokio::test]
async fn an_abandoned_batch_says_nothing_for_any_of_its_messages() {
    let script = jobs()
        .with(|options| {
            options.batch = Some(BatchOptions {
                size: 2,
                wait: Duration::from_secs(5),
            });
        })
        .runs(|batch: Batch<Bytes>| async move {
            batch.abandon();
        });
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 1, "a")).await;
    wire.reader.send(message(1, 2, "b")).await;
    let stuck = || wire.running.stats()["work"].stuck == 2;
    until("both are left", stuck).await;
    wire.reader.expect_silence(SILENCE).await;
    wire.peer.expect_nobody(SILENCE).await;
}

// spec: M20 M21 M22 C15
#[tokio::test]
async fn the_window_is_the_receive_maximum_and_qos_0_comes_when_it_is_full() {
    let starts = Starts::new();
    let script = starts.answer(jobs(), |_| Outcome::Retry);
    let mut wire = Wire::of(script.with(|options| options.prefetch = Some(2))).await;
    assert!(wire.connect.properties.has(&Property::ReceiveMaximum(2)));
    wire.reader.send(message(1, 1, "a")).await;
    wire.reader.send(message(1, 2, "b")).await;
    wire.reader.send(message(0, 0, "c")).await;
    until("all three were started", || starts.count() == 3).await;
    wire.reader.expect_silence(SILENCE).await;
}

// spec: M26 M27 M28 M31
#[tokio::test]
async fn at_qos_0_nothing_is_said_and_a_settler_is_refused() {
    let (answers, mut answer) = watch::channel(Vec::new());
    let script = jobs().with(mqtt(|mqtt| mqtt.qos = Some(0))).runs(
        move |(payload, settler): (Bytes, Settler)| {
            let answers = answers.clone();
            async move {
                let answer = match &payload[..] {
                    b"ack" => settler.ack().await,
                    b"drop" => settler.drop().await,
                    b"retry" => settler.retry().await,
                    _ => return,
                };
                answers.send_modify(|all| all.push(answer));
            }
        },
    );
    let mut wire = Wire::of(script).await;
    for text in ["ack", "drop", "retry", "nothing"] {
        wire.reader.send(message(0, 0, text)).await;
    }
    let all = answer
        .wait_for(|all| all.len() == 3)
        .await
        .expect("it answers");
    assert!(
        all.iter()
            .all(|answer| *answer == Err(AckError::Unsupported))
    );
    drop(all);
    wire.reader.expect_silence(SILENCE).await;
    wire.peer.expect_nobody(SILENCE).await;
}

// spec: M29 M30 M32 C18
#[tokio::test]
async fn copies_at_qos_0_are_published_at_qos_1_although_there_is_nothing_to_acknowledge() {
    for outcome in [
        Outcome::Retry,
        Outcome::RetryAfter(Duration::from_millis(20)),
    ] {
        let script = Starts::new()
            .answer(jobs(), move |_| outcome)
            .with(|options| {
                options.max_attempts = Some(2);
                mqtt(|mqtt| mqtt.qos = Some(0))(options);
            });
        let mut wire = Wire::of(script).await;
        wire.reader.send(message(0, 0, "a")).await;
        let mut writer = wire.writer().await;
        let copy = confirm(&mut writer).await;
        assert_eq!((copy.qos, copy.topic.as_str()), (1, "jobs"));
        writer.expect_silence(SILENCE).await;
        wire.reader.expect_silence(SILENCE).await;
    }
}

/// Four messages whose handlers end in the order 4, 3, 2, 1.
async fn ending_backwards(order: AckOrder) -> Vec<u16> {
    let (turn, turns) = watch::channel(5);
    let starts = Starts::new();
    let noted = starts.clone();
    let script = jobs()
        .with(|options| {
            options.concurrency = Some(4);
            mqtt(|mqtt| mqtt.ack_order = Some(order))(options);
        })
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            noted.note(&payload, attempt);
            let mut turns = turns.clone();
            async move {
                let own = i32::from(payload[0] - b'0');
                turns
                    .wait_for(|turn| *turn <= own)
                    .await
                    .expect("turns go on");
            }
        });
    let mut wire = Wire::of(script).await;
    for id in 1..=4 {
        wire.reader.send(message(1, id, &id.to_string())).await;
    }
    until("all are at work", || starts.count() == 4).await;
    for own in (1..=4).rev() {
        turn.send_replace(own);
        let done = u64::try_from(5 - own).expect("it is small");
        until("it is done", || wire.running.stats()["work"].acked == done).await;
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(wire.reader.expect_puback().await.id);
    }
    ids
}

// spec: C16
// case: D09
#[tokio::test]
async fn acknowledgements_leave_in_the_order_of_arrival_unless_declared_otherwise() {
    assert_eq!(ending_backwards(AckOrder::Arrival).await, [1, 2, 3, 4]);
    assert_eq!(ending_backwards(AckOrder::Completion).await, [4, 3, 2, 1]);
}

// spec: C13
// case: D07
#[tokio::test]
async fn an_acknowledgement_that_is_late_does_not_reach_the_next_connection() {
    let (gate, gates) = watch::channel(false);
    let starts = Starts::new();
    let noted = starts.clone();
    let script = jobs().with(|options| options.concurrency = Some(2)).runs(
        move |(payload, attempt): (Bytes, Attempt)| {
            noted.note(&payload, attempt);
            let mut gates = gates.clone();
            async move {
                if &payload[..] == b"m1" {
                    gates.wait_for(|open| *open).await.expect("it opens");
                } else {
                    std::future::pending::<()>().await;
                }
            }
        },
    );
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 1, "m1")).await;
    until("it is at work", || starts.count() == 1).await;
    drop(wire.reader);
    // The server has lost the session, and gives the packet id to another message.
    let (_, mut reader) = wire
        .peer
        .session(support::mqtt::packet::ConnAck::default())
        .await;
    reader.grant().await;
    reader.send(message(1, 1, "m2")).await;
    until("the other is at work", || starts.count() == 2).await;
    gate.send_replace(true);
    until("the late one is refused", || {
        wire.running.stats()["work"].stale == 1
    })
    .await;
    reader.expect_silence(SILENCE).await;
}
