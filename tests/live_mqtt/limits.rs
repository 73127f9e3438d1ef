//! Windows, sizes, floods, and handlers that do not give way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ruststream::App;
use ruststream::Attempt;
use ruststream::Message;
use ruststream::Outcome;
use ruststream::PublishError;
use ruststream::Publisher;
use ruststream::broker::Broker;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::MqttOptions;
use ruststream::testing::Script;
use support::Mosquitto;
use support::Starts;
use support::mosquitto::Config;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;

use crate::until;

fn app(server: &Mosquitto, scripts: impl IntoIterator<Item = Script>) -> App {
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    Script::app("shop", scripts).broker(broker)
}

async fn client(server: &Mosquitto, name: &str) -> Client {
    Client::connect(&server.url(), Connect::new(name)).await
}

fn message(topic: &str, text: impl Into<Bytes>) -> Publish {
    Publish {
        qos: 1,
        ..Publish::new(topic, text)
    }
}

/// Counts how many are inside at once.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Inside {
    async fn stay(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        crate::a_moment().await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

// spec: C15 M20 M21
// case: F14 J03
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_in_the_process_than_the_receive_maximum() {
    let server = Mosquitto::with(Config::new().forgetful()).await;
    let inside = Arc::new(Inside::default());
    let (counted, starts) = (Arc::clone(&inside), Starts::new());
    let noted = starts.clone();
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| {
            options.prefetch = Some(8);
            options.concurrency = Some(16);
        })
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            noted.note(&payload, attempt);
            let counted = Arc::clone(&counted);
            async move { counted.stay().await }
        });
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..1_000 {
        device.publish(message("jobs", number.to_string())).await;
    }
    until("all are handled", || starts.count() == 1_000).await;
    assert_eq!(inside.most.load(Ordering::SeqCst), 8);
    running.stop().await.expect("it stops in order");
}

// spec: C15 C30
// case: F13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_ends_when_the_handlers_run_out_of_time() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let noted = starts.clone();
    let script = Script::topic("jobs")
        .named("work")
        .with(|options| {
            options.prefetch = Some(4);
            options.concurrency = Some(4);
            options.max_attempts = Some(1);
            options.timeout = Some(Duration::from_millis(300));
        })
        .runs(move |(payload, attempt): (Bytes, Attempt)| {
            noted.note(&payload, attempt);
            async move {
                if payload.starts_with(b"hang") {
                    std::future::pending::<()>().await;
                }
            }
        });
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..4 {
        device
            .publish(message("jobs", format!("hang {number}")))
            .await;
    }
    for number in 0..4 {
        device
            .publish(message("jobs", format!("good {number}")))
            .await;
    }
    until("the rest is handled", || starts.count() == 8).await;
    running.stop().await.expect("it stops in order");
}

// case: F15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_long_is_withheld_and_the_others_come() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    let url = format!("{}?max_packet_size=16384", server.url());
    let broker = Mqtt::new(&url).expect("it is a URL");
    let running = Script::app("shop", [script]).broker(broker).start().await;
    let running = running.expect("it starts");
    let mut device = client(&server, "device").await;
    device.publish(message("jobs", vec![b'x'; 20_000])).await;
    device.publish(message("jobs", "short")).await;
    until("the short one is handled", || {
        starts.payloads() == ["short"]
    })
    .await;
    let connects = server.log().text().matches("as shop-").count();
    assert_eq!(connects, 1, "{}", server.log().text());
    running.stop().await.expect("it stops in order");
}

// case: F15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_that_is_too_long_for_the_server_fails_alone() {
    let server = Mosquitto::with(Config::new().max_packet_size(1_000)).await;
    let starts = Starts::new();
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    let running = app(&server, [script]).start().await.expect("it starts");
    let publisher = running.publisher();
    publisher
        .publish("jobs", Message::new("first"))
        .await
        .expect("it fits");
    let long = publisher
        .publish("jobs", Message::new(vec![0; 2_000]))
        .await;
    let error = long.expect_err("it does not fit");
    assert!(!error.is_transient());
    assert!(
        error.reason().contains("the server takes 1000 at most"),
        "{error}"
    );
    publisher
        .publish("jobs", Message::new("last"))
        .await
        .expect("it fits");
    until("both are handled", || {
        starts.payloads() == ["first", "last"]
    })
    .await;
    let connects = server.log().text().matches("publisher-").count();
    assert!(connects > 0);
    assert_eq!(
        server.log().text().matches("as shop-").count(),
        2,
        "one to read, one to publish"
    );
    running.stop().await.expect("it stops in order");
}

/// Every message that arrives has its handler publish many.
async fn floods(pause: bool) {
    const MESSAGES: usize = 300;
    const EACH: usize = 50;
    let server = Mosquitto::with(Config::new().forgetful()).await;
    let out = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&out);
    let reader = Script::filter("out/+")
        .named("read")
        .with(|options| {
            options.retry_topic = Some("out/retry");
            options.prefetch = Some(1_000);
        })
        .runs(move |_: Bytes| {
            counted.fetch_add(1, Ordering::SeqCst);
            async {}
        });
    let writer = Script::topic("in")
        .named("write")
        .with(|options| {
            options.concurrency = Some(8);
            options.max_attempts = Some(100);
        })
        .runs(|(payload, publisher): (Bytes, Publisher)| async move {
            let all: Vec<_> = (0..EACH)
                .map(|number| publisher.publish(format!("out/{number}"), payload.clone()))
                .collect();
            for one in all {
                one.await?;
            }
            Ok::<_, PublishError>(())
        });
    let running = app(&server, [reader, writer])
        .start()
        .await
        .expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..MESSAGES {
        device.publish(message("in", number.to_string())).await;
        if pause && number == MESSAGES / 2 {
            server.pause();
            crate::a_while(Duration::from_secs(5)).await;
            server.resume();
        }
    }
    crate::until_in(Duration::from_mins(1), "all was published and read", || {
        out.load(Ordering::SeqCst) >= MESSAGES * EACH
    })
    .await;
    running.stop().await.expect("it stops in order");
}

// case: F17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_may_publish_any_number_of_messages() {
    floods(false).await;
}

// case: F17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_may_publish_any_number_of_messages_while_the_server_stands_still() {
    floods(true).await;
}

// spec: C6
// case: H10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_that_wait_hold_no_place_of_the_receive_maximum() {
    let server = Mosquitto::start().await;
    let starts = Starts::new();
    let script = Script::topic("jobs").named("work").with(|options| {
        options.prefetch = Some(10);
        options.max_attempts = Some(3);
    });
    let script = starts.answer(script, |start| {
        if start.payload.starts_with(b"later") {
            Outcome::RetryAfter(Duration::from_hours(1))
        } else {
            Outcome::Ack
        }
    });
    let running = app(&server, [script]).start().await.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..10 {
        device
            .publish(message("jobs", format!("later {number}")))
            .await;
    }
    device.publish(message("jobs", "now")).await;
    until("the other one is handled", || starts.count() == 11).await;
    drop(running);
}

// case: I14
fn a_handler_that_blocks_its_thread_costs_no_connection(runtime: tokio::runtime::Runtime) {
    runtime.block_on(async {
        let server = Mosquitto::start().await;
        let starts = Starts::new();
        let noted = starts.clone();
        let script = Script::topic("jobs").named("work").runs(
            move |(payload, attempt): (Bytes, Attempt)| {
                noted.note(&payload, attempt);
                async move {
                    if &payload[..] == b"blocks" {
                        std::thread::sleep(Duration::from_secs(6));
                    }
                }
            },
        );
        let url = format!("{}?keep_alive=2s", server.url());
        let broker = Mqtt::new(&url).expect("it is a URL");
        let running = Script::app("shop", [script]).broker(broker).start().await;
        let running = running.expect("it starts");
        let mut device = client(&server, "device").await;
        device.publish(message("jobs", "blocks")).await;
        device.publish(message("jobs", "follows")).await;
        until("both are handled", || running.stats()["work"].acked == 2).await;
        let log = server.log().text();
        assert_eq!(starts.payloads(), ["blocks", "follows"], "{log}");
        assert_eq!(log.matches("as shop-").count(), 1, "{log}");
        running.stop().await.expect("it stops in order");
    });
}

// case: I14
#[test]
fn a_handler_that_blocks_the_only_thread_costs_no_connection() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("it can be had");
    a_handler_that_blocks_its_thread_costs_no_connection(runtime);
}

// case: I14
#[test]
fn a_handler_that_blocks_one_of_two_threads_costs_no_connection() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    a_handler_that_blocks_its_thread_costs_no_connection(runtime.expect("it can be had"));
}

// spec: C17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_never_returns_does_not_slow_the_others() {
    let server = Mosquitto::start().await;
    let (stuck, good) = (Starts::new(), Starts::new());
    let scripts = [
        stuck.hang(
            Script::topic("stuck")
                .named("stuck")
                .with(|options| options.prefetch = Some(1)),
        ),
        good.answer(Script::topic("good").named("good"), |_| Outcome::Ack),
    ];
    let running = app(&server, scripts)
        .drain(Duration::from_millis(100))
        .start()
        .await;
    let running = running.expect("it starts");
    let mut device = client(&server, "device").await;
    for number in 0..100 {
        device.publish(message("stuck", number.to_string())).await;
        device.publish(message("good", number.to_string())).await;
    }
    until("the good ones are handled", || good.count() == 100).await;
    assert_eq!(stuck.count(), 1);
    drop(running);
}

// spec: C17
// case: F23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_mount_points_on_one_connection_start_soon_and_each_gets_its_message() {
    const MOUNTS: usize = 1_000;
    let server = Mosquitto::with(Config::new().forgetful()).await;
    let broker = Mqtt::new(&server.url()).expect("it is a URL");
    let begun = crate::now();
    let subscriptions: Vec<_> = (0..MOUNTS).map(subscription).collect();
    broker.prepare(&subscriptions);
    let sources: Vec<_> = subscriptions
        .into_iter()
        .map(|one| broker.subscribe(one))
        .collect();
    let mut sources: Vec<_> = futures_all(sources).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(server.log().text().matches("as shop-").count(), 1);

    let device = crate::task({
        let url = server.url();
        async move {
            let mut device = Client::connect(&url, Connect::new("device")).await;
            for number in 0..MOUNTS {
                let id = u16::try_from(number + 1).expect("it is small");
                let message =
                    Publish::new(format!("device/{number}"), number.to_string()).at(1, id);
                device.send(Packet::Publish(message)).await;
            }
            for _ in 0..MOUNTS {
                device.next().await;
            }
        }
    });
    let mut seen = BTreeSet::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let payload = std::future::poll_fn(|cx| {
            loop {
                match source.poll_next(cx) {
                    std::task::Poll::Ready(ruststream::broker::Arrival::Delivery(delivery)) => {
                        return std::task::Poll::Ready(delivery.payload().clone());
                    }
                    std::task::Poll::Ready(_) => {}
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                }
            }
        });
        let payload = tokio::time::timeout(support::PATIENCE, payload).await;
        assert_eq!(payload.expect("it comes"), number.to_string());
        seen.insert(number);
    }
    device.await.expect("it published");
    assert_eq!(seen.len(), MOUNTS);
}

fn subscription(number: usize) -> ruststream::broker::Subscription {
    ruststream::broker::Subscription {
        app: "shop".into(),
        mount: format!("mount-{number}").into(),
        form: ruststream::registration::Form::Topic,
        address: format!("device/{number}").into(),
        window: 8,
        settle: ruststream::Settle::AtLeastOnce,
        amqp: None,
        mqtt: Some(MqttOptions {
            connection: Some("all"),
            ..MqttOptions::NONE
        }),
        rabbitmq: None,
    }
}

async fn futures_all<T>(
    futures: Vec<
        ruststream::broker::BoxFuture<'static, Result<T, ruststream::broker::BrokerError>>,
    >,
) -> Vec<T>
where
    T: Send + 'static,
{
    let mut tasks = Vec::new();
    for future in futures {
        tasks.push(crate::task(future));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.push(
            task.await
                .expect("it does not panic")
                .expect("it subscribes"),
        );
    }
    all
}
