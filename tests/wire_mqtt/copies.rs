//! What copies and dead letters look like, and what becomes of one that the server does not take.

use std::time::Duration;

use ruststream::Outcome;
use ruststream::registration::Unread;
use ruststream::testing::Script;
use support::Starts;
use support::mqtt::Connection;
use support::mqtt::packet::Ack;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Property;
use support::mqtt::packet::Publish;

use crate::SILENCE;
use crate::Wire;
use crate::confirm;
use crate::jobs;
use crate::message;
use crate::mqtt;
use crate::until;

fn retries(script: Script) -> Script {
    Starts::new().answer(script, |_| Outcome::Retry)
}

/// Everything that a PUBLISH can say.
fn rich() -> Publish {
    Publish::new("jobs", vec![0, 159, 146, 150])
        .at(1, 9)
        .with(Property::PayloadFormatIndicator(1))
        .with(Property::MessageExpiryInterval(3_600))
        .with(Property::ResponseTopic("answers".into()))
        .with(Property::CorrelationData(vec![0_u8, 255].into()))
        .user("tag", "a")
        .user("tag", "")
        .user("tag", "b")
        .user("", "empty name")
        .user("other", "ünïcode")
        .with(Property::ContentType("application/octet-stream".into()))
}

// spec: C11 C27 C1
// case: B13 C07 C10
#[tokio::test]
async fn a_copy_says_everything_that_its_original_said() {
    let script = retries(jobs()).with(|options| options.max_attempts = Some(2));
    let mut wire = Wire::of(script).await;
    let mut original = rich();
    original.retain = true;
    original.dup = true;
    wire.reader.send(Packet::Publish(original.clone())).await;
    let mut writer = wire.writer().await;
    let copy = confirm(&mut writer).await;
    assert_eq!(copy.payload, original.payload);
    assert!(!copy.retain && !copy.dup, "{copy:?}");
    let own: Vec<_> = copy
        .properties
        .user()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("x-ruststream-"))
        .collect();
    assert_eq!(own, original.properties.user());
    for property in original.properties.all() {
        match property {
            Property::User(..) | Property::MessageExpiryInterval(_) => {}
            kept => assert!(copy.properties.has(kept), "{kept:?}: {copy:?}"),
        }
    }
    let expiry = copy.properties.find(|property| match property {
        Property::MessageExpiryInterval(seconds) => Some(*seconds),
        _ => None,
    });
    assert!(matches!(expiry, Some(3_599..=3_600)), "{expiry:?}");
    assert_eq!(copy.properties.value("x-ruststream-topic"), Some("jobs"));
    assert!(copy.properties.value("x-ruststream-id").is_some());
}

// spec: C11
#[tokio::test]
async fn the_expiry_of_a_copy_is_counted_down() {
    let script = Starts::new().answer(jobs(), |_| {
        Outcome::RetryAfter(Duration::from_millis(1_200))
    });
    let mut wire = Wire::of(script.with(|options| options.max_attempts = Some(2))).await;
    let original = Publish::new("jobs", "a")
        .at(1, 1)
        .with(Property::MessageExpiryInterval(60));
    wire.reader.send(Packet::Publish(original)).await;
    let mut writer = wire.writer().await;
    let copy = confirm(&mut writer).await;
    assert!(
        copy.properties.has(&Property::MessageExpiryInterval(59)),
        "{copy:?}"
    );
}

// spec: C10 C11 M43
// case: C08
#[tokio::test]
async fn a_dead_letter_does_not_expire_and_says_why_it_died() {
    let script = retries(jobs()).with(|options| {
        options.max_attempts = Some(1);
        options.dead_letter = Some("jobs.dead");
    });
    let mut wire = Wire::of(script).await;
    wire.reader.send(Packet::Publish(rich())).await;
    let mut writer = wire.writer().await;
    let letter = confirm(&mut writer).await;
    assert_eq!(letter.topic, "jobs.dead");
    assert!(
        !letter
            .properties
            .all()
            .iter()
            .any(|one| matches!(one, Property::MessageExpiryInterval(_)))
    );
    for (name, value) in [
        ("x-ruststream-dead-reason", "max_attempts"),
        ("x-ruststream-dead-attempts", "1"),
        ("x-ruststream-dead-address", "jobs"),
        ("x-ruststream-dead-handler", "work"),
    ] {
        assert_eq!(letter.properties.value(name), Some(value), "{name}");
    }
    assert_eq!(letter.properties.value("x-ruststream-retry-count"), None);
}

// spec: M36 M37 M38 M39 M40 C14
// case: C14
#[tokio::test]
async fn a_copy_goes_to_a_plain_topic_and_never_to_a_filter_or_a_group() {
    let shared = retries(jobs()).with(|options| {
        options.max_attempts = Some(2);
        mqtt(|mqtt| mqtt.shared = Some("g"))(options);
    });
    let mut wire = Wire::of(shared).await;
    assert_eq!(wire.subscribe.filters[0].topics, "$share/g/jobs");
    wire.reader.send(message(1, 1, "a")).await;
    let mut writer = wire.writer().await;
    assert_eq!(confirm(&mut writer).await.topic, "jobs");

    let filter = Script::filter("plant/+/temp")
        .named("work")
        .with(|options| {
            options.retry_topic = Some("plant/retry/temp");
            options.max_attempts = Some(2);
            options.dead_letter = Some("plant-dead");
        });
    let mut wire = Wire::of(retries(filter)).await;
    let hot = Publish::new("plant/7/temp", "hot").at(1, 1);
    wire.reader.send(Packet::Publish(hot)).await;
    let mut writer = wire.writer().await;
    let copy = confirm(&mut writer).await;
    assert_eq!(copy.topic, "plant/retry/temp");
    wire.reader.expect_puback().await;
    // It comes back by its filter, and ends with the topic of the first delivery.
    let back = Publish {
        id: Some(2),
        ..copy
    };
    wire.reader.send(Packet::Publish(back)).await;
    let letter = confirm(&mut writer).await;
    assert_eq!(letter.topic, "plant-dead");
    assert_eq!(
        letter.properties.value("x-ruststream-dead-address"),
        Some("plant/7/temp")
    );
}

async fn refuse(writer: &mut Connection, code: u8) -> Publish {
    let publish = writer.expect_publish().await;
    let id = publish.id.expect("it has one");
    writer.send(Packet::PubAck(Ack::of(id).code(code))).await;
    publish
}

// spec: C5
#[tokio::test]
async fn a_copy_that_is_refused_for_now_is_published_again_and_nothing_is_acknowledged_before() {
    let script = retries(jobs()).with(|options| options.max_attempts = Some(2));
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    // Quota exceeded.
    refuse(&mut writer, 0x97).await;
    refuse(&mut writer, 0x97).await;
    wire.reader.expect_silence(SILENCE).await;
    confirm(&mut writer).await;
    wire.reader.expect_puback().await;
    assert_eq!(wire.running.stats()["work"].failed_copies, 2);
}

// spec: C5
#[tokio::test]
async fn a_copy_that_is_refused_for_good_is_tried_bare_then_as_a_dead_letter_then_left() {
    let script = retries(jobs()).with(|options| {
        options.max_attempts = Some(3);
        options.dead_letter = Some("jobs.dead");
    });
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    // Not authorized.
    let copy = refuse(&mut writer, 0x87).await;
    assert!(copy.properties.value("x-ruststream-topic").is_some());
    let bare = refuse(&mut writer, 0x87).await;
    assert_eq!(
        (
            bare.topic.as_str(),
            bare.properties.value("x-ruststream-topic")
        ),
        ("jobs", None)
    );
    assert_eq!(bare.properties.value("x-ruststream-retry-count"), Some("1"));
    let mut letter = refuse(&mut writer, 0x87).await;
    assert_eq!(letter.topic, "jobs.dead");
    // The dead letter is tried without its diagnostic headers as well, where that is left to do.
    if wire.running.stats()["work"].stuck == 0 {
        letter = refuse(&mut writer, 0x87).await;
        assert_eq!(letter.topic, "jobs.dead");
    }
    until("it is left", || wire.running.stats()["work"].stuck == 1).await;
    wire.reader.expect_silence(SILENCE).await;
    writer.expect_silence(SILENCE).await;
}

/// No matching subscribers.
const NOBODY: u8 = 0x10;

// spec: C25
#[tokio::test]
async fn a_retry_copy_that_nobody_reads_is_a_failed_publish() {
    let script = retries(jobs()).with(|options| options.max_attempts = Some(2));
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    refuse(&mut writer, NOBODY).await;
    wire.reader.expect_silence(SILENCE).await;
    confirm(&mut writer).await;
    wire.reader.expect_puback().await;
}

// spec: C25
#[tokio::test]
async fn a_dead_letter_that_nobody_reads_is_accepted_and_counted_or_kept_as_declared() {
    let dying = |unread| {
        retries(jobs()).with(move |options| {
            options.max_attempts = Some(1);
            options.dead_letter = Some("jobs.dead");
            mqtt(|mqtt| {
                mqtt.dead_letter_unread = unread;
                mqtt.dead_letter_retain = Some(true);
            })(options);
        })
    };
    let mut wire = Wire::of(dying(None)).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    let letter = refuse(&mut writer, NOBODY).await;
    assert!(letter.retain);
    wire.reader.expect_puback().await;
    assert_eq!(wire.running.stats()["work"].unread_dead_letters, 1);

    let mut wire = Wire::of(dying(Some(Unread::Keep))).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    refuse(&mut writer, NOBODY).await;
    wire.reader.expect_silence(SILENCE).await;
    confirm(&mut writer).await;
    wire.reader.expect_puback().await;
}

// spec: C4 C18
#[tokio::test]
async fn a_copy_of_a_message_at_qos_2_is_at_qos_2_and_confirmed_by_pubcomp() {
    let script = retries(jobs()).with(|options| {
        options.max_attempts = Some(2);
        mqtt(|mqtt| mqtt.qos = Some(2))(options);
    });
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(2, 5, "a")).await;
    let mut writer = wire.writer().await;
    let copy = writer.expect_publish().await;
    assert_eq!(copy.qos, 2);
    let id = copy.id.expect("it has one");
    writer.send(Packet::PubRec(Ack::of(id))).await;
    writer.expect_pubrel().await;
    wire.reader.expect_silence(SILENCE).await;
    writer.send(Packet::PubComp(Ack::of(id))).await;
    assert_eq!(wire.reader.expect_pubrec().await, Ack::of(5));
}

// spec: C4 C5
#[tokio::test]
async fn a_connection_that_breaks_before_the_confirmation_keeps_the_original() {
    let script = retries(jobs()).with(|options| options.max_attempts = Some(2));
    let mut wire = Wire::of(script).await;
    wire.reader.send(message(1, 5, "a")).await;
    let mut writer = wire.writer().await;
    writer.expect_publish().await;
    drop(writer);
    wire.reader.expect_silence(SILENCE).await;
    let mut writer = wire.writer().await;
    confirm(&mut writer).await;
    wire.reader.expect_puback().await;
}

// spec: C28
#[tokio::test]
async fn an_answer_is_published_and_confirmed_before_the_question_is_acknowledged() {
    use ruststream::Message;
    use ruststream::handler::Verdict;
    let script =
        jobs().runs(|_: bytes::Bytes| async { Verdict::Answer(Box::new(Message::new("42"))) });
    let mut wire = Wire::of(script).await;
    let question = Publish::new("jobs", "?")
        .at(1, 5)
        .with(Property::ResponseTopic("asker/7".into()))
        .with(Property::CorrelationData("id".into()));
    wire.reader.send(Packet::Publish(question)).await;
    let mut writer = wire.writer().await;
    let answer = writer.expect_publish().await;
    assert_eq!(
        (answer.topic.as_str(), answer.text().as_str()),
        ("asker/7", "42")
    );
    assert!(
        answer
            .properties
            .has(&Property::CorrelationData("id".into()))
    );
    wire.reader.expect_silence(SILENCE).await;
    writer
        .send(Packet::PubAck(Ack::of(answer.id.expect("it has one"))))
        .await;
    wire.reader.expect_puback().await;
}
