//! Nothing lost while processes die: many messages through a shared group of two services, one killed
//! again and again, and the server restarted.
//!
//! The short form runs with the tests; `scripts/kill-mqtt` runs the long one.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ruststream::Outcome;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::testing::Script;
use support::Mosquitto;
use support::child;
use support::mosquitto::Config;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;
use support::process::Process;

const KILLS: usize = 10;
const RESTARTS: usize = 3;
/// Published after one service has left for good.
const AFTER: u32 = 1_000;

// spec: C29 M3 M7 M19
// case: D12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_a_service_is_killed_and_the_server_restarted() {
    run(20_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; run by scripts/kill-mqtt"]
async fn the_long_form() {
    let Ok(messages) = std::env::var("MQTT_CAMPAIGN") else {
        return;
    };
    run(messages.parse().expect("MQTT_CAMPAIGN is a number")).await;
}

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
async fn run(messages: u32) {
    let config = Config::new()
        .line("autosave_on_changes false")
        .line("autosave_interval 1800");
    let mut server = Mosquitto::with(config).await;
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let record = |name: &str| folder.path().join(name);
    let start = |server: &Mosquitto, name: &'static str| {
        let file = record(name).display().to_string();
        child::scenario(
            "campaign::service",
            &[("URL", &server.url()), ("NAME", name), ("RECORD", &file)],
        )
    };
    let mut mortal = start(&server, "mortal");
    let steady = start(&server, "steady");
    mortal.line_with("ready").await;
    steady.line_with("ready").await;

    let mut publisher = connect(&server).await;
    let steps = u32::try_from(KILLS + RESTARTS).expect("it is small");
    let mut next = 0;
    for step in 1..=steps {
        let until = messages / steps * step;
        let middle = next + (until - next) / 2;
        if step % 4 == 0 {
            // One stands still, so that the server has something in flight and waiting when it ends.
            publish(&mut publisher, next..middle).await;
            steady.pause();
            publish(&mut publisher, middle..until).await;
            server.restart().await;
            steady.resume();
            publisher = connect(&server).await;
        } else {
            // Killed while messages come.
            let killing = async {
                mortal.kill().await;
                let again = start(&server, "mortal");
                again.line_with("ready").await;
                again
            };
            publish(&mut publisher, next..middle).await;
            let (again, ()) = tokio::join!(killing, publish(&mut publisher, middle..until));
            mortal = again;
        }
        next = until;
    }
    publish(&mut publisher, next..messages).await;
    let patience = Duration::from_secs(30) + Duration::from_millis(u64::from(messages) / 2);
    let files = [record("mortal"), record("steady")];
    let (total, lost) = accounted(&files, messages, patience).await;
    println!(
        "{messages} messages, {KILLS} kills, {RESTARTS} restarts of the server: lost {lost}, \
         handled again {}",
        total - u64::from(messages - lost)
    );
    assert_eq!(lost, 0, "of {messages} messages");

    // One leaves for good; what would be assigned to it from now on goes to the other.
    let status = mortal.term().await;
    assert!(status.success(), "{status}: {}", mortal.lines().text());
    publish(&mut publisher, messages..messages + AFTER).await;
    let (_, lost) = accounted(&files, messages + AFTER, patience).await;
    assert_eq!(lost, 0, "of what came after one service had left");
    end(&steady).await;
}

async fn end(service: &Process) {
    let status = service.term().await;
    assert!(status.success(), "{status}: {}", service.lines().text());
}

async fn connect(server: &Mosquitto) -> Client {
    Client::connect(&server.url(), Connect::new("publisher")).await
}

/// Publish a range of numbers, a few hundred unconfirmed at once, all taken by the server at the end.
///
/// mosquitto forgets shared subscriptions when it is restarted, and says so until the services have
/// subscribed again: nobody has such a message, so it is published once more.
async fn publish(client: &mut Client, numbers: std::ops::Range<u32>) {
    const AT_ONCE: usize = 400;
    let mut waiting: VecDeque<u32> = numbers.collect();
    let mut sent: HashMap<u16, u32> = HashMap::new();
    let mut next_id = 0;
    while !waiting.is_empty() || !sent.is_empty() {
        let mut bytes = Vec::new();
        while sent.len() < AT_ONCE
            && let Some(number) = waiting.pop_front()
        {
            next_id = next_id % 60_000 + 1;
            let message = Publish::new("campaign/1", number.to_be_bytes().to_vec());
            bytes.extend_from_slice(&Packet::Publish(message.at(1, next_id)).encode());
            sent.insert(next_id, number);
        }
        if !bytes.is_empty() {
            client.connection().send_raw(&bytes).await;
        }
        for _ in 0..sent.len().div_ceil(2) {
            let Packet::PubAck(ack) = client.connection().expect().await else {
                panic!("a PUBACK was expected");
            };
            let number = sent.remove(&ack.id).expect("it was sent");
            if ack.code == NOBODY {
                waiting.push_back(number);
            } else {
                assert_eq!(ack.code, 0);
            }
        }
    }
}

/// No matching subscribers (MQTT 5 section 3.4.2.1).
const NOBODY: u8 = 0x10;

/// How many numbers were recorded in all, and how many of `0..messages` were not, once none is missing
/// or nothing more comes.
async fn accounted(files: &[std::path::PathBuf], messages: u32, patience: Duration) -> (u64, u32) {
    let count = || {
        let mut seen = vec![false; messages as usize];
        let mut total = 0;
        for file in files {
            let bytes = std::fs::read(file).expect("each service has a record");
            for number in bytes.chunks_exact(4) {
                let number = u32::from_be_bytes(number.try_into().expect("it is four bytes"));
                total += 1;
                if let Some(seen) = seen.get_mut(number as usize) {
                    *seen = true;
                }
            }
        }
        let lost = seen.iter().filter(|seen| !**seen).count();
        (total, u32::try_from(lost).expect("no more than all"))
    };
    let waiting = async {
        while count().1 > 0 {
            crate::a_moment().await;
        }
    };
    // What is missing then is counted below.
    tokio::time::timeout(patience, waiting).await.ok();
    count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario, run by a test in a process of its own"]
async fn service() {
    if !child::is_scenario() {
        return;
    }
    let record = Arc::new(Record::open(Path::new(&child::argument("RECORD"))));
    let script = Script::filter("campaign/+")
        .named("record")
        .with(|options| {
            options.retry_topic = Some("campaign/retry");
            options.concurrency = Some(4);
            options.prefetch = Some(200);
            options.mqtt = Some(MqttOptions {
                shared: Some("recorders"),
                ..MqttOptions::NONE
            });
        })
        .runs(move |payload: Bytes| {
            // Before it is acknowledged, and so that a kill does not take it back.
            record.write(&payload);
            async { Outcome::Ack }
        });
    let broker = Mqtt::new(&child::argument("URL")).expect("it is the URL of the server");
    let app = Script::app(child::argument("NAME"), [script]).broker(broker);
    let running = app.start().await.expect("it starts");
    let term = crate::termination();
    child::say("ready");
    term.await;
    running.stop().await.expect("it stops in order");
}

/// The numbers that were handled, as they come.
struct Record(File);

impl Record {
    fn open(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Self(file.expect("the record can be written"))
    }

    fn write(&self, number: &[u8]) {
        (&self.0)
            .write_all(number)
            .expect("the record can be written");
    }
}
