//! Receiving from a real MQTT server: the raw client, this driver, the framework, and any other
//! program that keeps to the same protocol, in one run.
//!
//! ```text
//! cargo bench --bench mqtt                           15 rounds, QoS 0 and QoS 1
//! cargo bench --bench mqtt -- --rounds 5 --messages 50000
//! cargo bench --bench mqtt -- --other peer=path/to/program
//! ```
//!
//! Every side gets the same 512-byte JSON documents, decodes each and acknowledges each; it is a
//! process of its own that subscribes, prints `ready`, and prints `done <microseconds> <CPU
//! microseconds>` from the first message to the last. Sides take turns, so that a ratio compares
//! runs that follow each other; printed is the median of the ratios to the raw client, with the
//! interval that holds the middle half of them. mosquitto and the publisher run on the same machine.

#![expect(clippy::print_stdout, reason = "a bench reports to whoever runs it")]

use std::env;
use std::error::Error;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use rumqttc::v5::AsyncClient;
use rumqttc::v5::Event;
use rumqttc::v5::Incoming;
use rumqttc::v5::MqttOptions as RawOptions;
use rumqttc::v5::mqttbytes::QoS;
use ruststream::App;
use ruststream::Json;
use ruststream::Outcome;
use ruststream::State;
use ruststream::broker::Arrival;
use ruststream::broker::Broker;
use ruststream::broker::Subscription;
use ruststream::broker::mqtt::Mqtt;
use ruststream::config::Config;
use ruststream::registration::Form;
use ruststream::registration::MqttOptions;
use ruststream::settle::Disposition;
use ruststream::settle::Settle;
use ruststream::subscriber;
use support::Mosquitto;
use support::mosquitto::Config as MosquittoConfig;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Packet;
use support::mqtt::packet::Publish;
use tokio::sync::Notify;

type Failure = Box<dyn Error + Send + Sync>;

/// What every side decodes.
#[derive(serde::Deserialize, serde::Serialize)]
struct Reading {
    id: u64,
    device: String,
    temperature: f64,
    humidity: f64,
    samples: Vec<u32>,
    note: String,
}

/// A document of 512 bytes.
fn document() -> Vec<u8> {
    let mut reading = Reading {
        id: 1001,
        device: "boiler-7".to_owned(),
        temperature: 21.5,
        humidity: 0.43,
        samples: (0..40).map(|number| 1000 + number * 7).collect(),
        note: String::new(),
    };
    let bare = serde_json::to_vec(&reading)
        .expect("it is plain data")
        .len();
    reading.note = "x".repeat(512 - bare);
    serde_json::to_vec(&reading).expect("it is plain data")
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["side", side, url, qos, messages] => run_side(side, url, qos.parse()?, messages.parse()?),
        _ => compare(Wanted::parse(&arguments)?),
    }
}

/// What is to be compared.
struct Wanted {
    rounds: usize,
    messages: u64,
    window: u32,
    /// Other programs: a name and where it is.
    others: Vec<(String, PathBuf)>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut wanted = Self {
            rounds: 15,
            messages: 100_000,
            window: 1000,
            others: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or("each option has a value")?;
            match argument.as_str() {
                "--rounds" => wanted.rounds = value.parse()?,
                "--messages" => wanted.messages = value.parse()?,
                "--window" => wanted.window = value.parse()?,
                "--other" => {
                    let (name, path) = value.split_once('=').ok_or("as in `peer=path`")?;
                    wanted.others.push((name.to_owned(), path.into()));
                }
                other => return Err(format!("unknown option `{other}`").into()),
            }
        }
        Ok(wanted)
    }
}

/// What a run of one side came to, per second and in CPU time per message.
#[derive(Clone, Copy)]
struct Figure {
    rate: f64,
    cpu: f64,
}

fn compare(wanted: Wanted) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let here = env::current_exe()?;
    let mut sides: Vec<(String, PathBuf)> = ["raw", "driver", "framework"]
        .map(|name| (name.to_owned(), here.clone()))
        .into();
    sides.extend(wanted.others.iter().cloned());
    println!(
        "{} rounds of {} messages of {} bytes, window {}",
        wanted.rounds,
        wanted.messages,
        document().len(),
        wanted.window
    );
    for qos in [0, 1] {
        let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); sides.len()];
        for _ in 0..wanted.rounds {
            for (index, (name, program)) in sides.iter().enumerate() {
                let figure = runtime.block_on(run(program, name, qos, &wanted))?;
                figures[index].push(figure);
            }
        }
        println!(
            "\nQoS {qos:<10} {:>12} {:>12} {:>10} {:>18}",
            "messages/s", "CPU us each", "to raw", "middle half"
        );
        for (index, (name, _)) in sides.iter().enumerate() {
            let rate = median(figures[index].iter().map(|figure| figure.rate).collect());
            let cpu = median(figures[index].iter().map(|figure| figure.cpu).collect());
            let mut ratios: Vec<f64> = figures[index]
                .iter()
                .zip(&figures[0])
                .map(|(figure, raw)| figure.rate / raw.rate)
                .collect();
            ratios.sort_by(f64::total_cmp);
            let (low, high) = (ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]);
            println!(
                "{name:<14} {rate:>12.0} {cpu:>12.2} {:>10.3} {:>18}",
                median(ratios),
                format!("{low:.3} - {high:.3}")
            );
        }
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One side, on a server that has served nobody before.
async fn run(program: &PathBuf, side: &str, qos: u8, wanted: &Wanted) -> Result<Figure, Failure> {
    // What it would save to the disk is not what is measured.
    let server = Mosquitto::with(MosquittoConfig::new().forgetful()).await;
    let mut child = Command::new(program)
        .args([
            "side",
            side,
            &server.url(),
            &qos.to_string(),
            &wanted.messages.to_string(),
        ])
        .env("WINDOW", wanted.window.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("it is piped")?).lines();
    let ready = lines.next().ok_or("it ended before it was ready")??;
    if ready != "ready" {
        return Err(format!("it said `{ready}`").into());
    }
    publish(&server.url(), wanted.messages).await;
    let done = lines.next().ok_or("it ended before it was done")??;
    child.wait()?;
    let numbers: Vec<f64> = done
        .strip_prefix("done ")
        .ok_or_else(|| format!("it said `{done}`"))?
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let messages = to_f64(wanted.messages);
    Ok(Figure {
        rate: messages * 1e6 / numbers[0],
        cpu: numbers[1] / messages,
    })
}

/// Publish everything at QoS 1, a thousand unconfirmed at once: the server sets the pace.
async fn publish(url: &str, messages: u64) {
    const AT_ONCE: u64 = 1000;
    let payload = document();
    let mut client = Client::connect(url, Connect::new("publisher")).await;
    let connection = client.connection();
    let (mut sent, mut confirmed) = (0, 0);
    let mut bytes = Vec::new();
    while confirmed < messages {
        bytes.clear();
        while sent < messages && sent - confirmed < AT_ONCE {
            let id = u16::try_from(sent % 60_000).unwrap_or(0) + 1;
            let packet = Packet::Publish(Publish::new("bench", payload.clone()).at(1, id));
            bytes.extend_from_slice(&packet.encode());
            sent += 1;
        }
        if !bytes.is_empty() {
            connection.send_raw(&bytes).await;
        }
        // Answers are taken in groups too.
        for _ in 0..(sent - confirmed).div_ceil(4) {
            match connection.expect().await {
                Packet::PubAck(_) => confirmed += 1,
                other => panic!("a PUBACK was expected, not {other:?}"),
            }
        }
    }
}

/// Counts what a side has done, and says when it is done.
struct Count {
    messages: u64,
    done: AtomicU64,
    begun: std::sync::OnceLock<(Instant, u64)>,
    end: Notify,
}

impl Count {
    fn new(messages: u64) -> Arc<Self> {
        Arc::new(Self {
            messages,
            done: AtomicU64::new(0),
            begun: std::sync::OnceLock::new(),
            end: Notify::new(),
        })
    }

    #[expect(clippy::disallowed_methods, reason = "a bench takes time")]
    fn add(&self, reading: &Reading) {
        std::hint::black_box(reading.temperature + reading.humidity);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done == 1 {
            self.begun.get_or_init(|| (Instant::now(), cpu()));
        }
        if done == self.messages {
            let (begun, cpu_then) = self.begun.get().expect("it began with the first");
            println!("done {} {}", begun.elapsed().as_micros(), cpu() - cpu_then);
            self.end.notify_one();
        }
    }
}

/// CPU time of this process so far, in microseconds.
fn cpu() -> u64 {
    // Nanoseconds on a CPU, per thread (proc(5)).
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum::<u64>()
        / 1000
}

fn run_side(side: &str, url: &str, qos: u8, messages: u64) -> Result<(), Failure> {
    let window = env::var("WINDOW")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let count = Count::new(messages);
    let ended = Arc::clone(&count);
    let side = runtime.block_on(async {
        tokio::select! {
            () = ended.end.notified() => Ok(()),
            failed = async {
                match side {
                    "raw" => raw(url, qos, window, count).await,
                    "driver" => driver(url, qos, window, count).await,
                    "framework" => framework(url, qos, window, count).await,
                    other => Err(format!("there is no side `{other}`").into()),
                }
            } => failed,
        }
    });
    // What waits for the network is not part of it.
    runtime.shutdown_timeout(Duration::from_millis(10));
    side
}

/// rumqttc as its documentation has it: one loop that polls, decodes and acknowledges.
async fn raw(url: &str, qos: u8, window: u32, count: Arc<Count>) -> Result<(), Failure> {
    let (host, port) = url
        .trim_start_matches("mqtt://")
        .split_once(':')
        .ok_or("a host and a port")?;
    let mut options = RawOptions::new("bench", host, port.parse()?);
    options.set_manual_acks(true);
    options.set_receive_maximum(Some(u16::try_from(window)?));
    options.set_max_packet_size(Some(1024 * 1024));
    let (client, mut events) = AsyncClient::new(options, usize::try_from(window)? * 2);
    let qos = if qos == 0 {
        QoS::AtMostOnce
    } else {
        QoS::AtLeastOnce
    };
    client.subscribe("bench", qos).await?;
    loop {
        match events.poll().await? {
            Event::Incoming(Incoming::SubAck(_)) => println!("ready"),
            Event::Incoming(Incoming::Publish(publish)) => {
                count.add(&serde_json::from_slice(&publish.payload)?);
                if publish.qos != QoS::AtMostOnce {
                    client.try_ack(&publish)?;
                }
            }
            _ => {}
        }
    }
}

/// This driver, polled by hand.
async fn driver(url: &str, qos: u8, window: u32, count: Arc<Count>) -> Result<(), Failure> {
    let broker = Mqtt::new(url)?;
    let mut source = broker
        .subscribe(Subscription {
            app: "bench".into(),
            mount: "bench".into(),
            form: Form::Topic,
            address: "bench".into(),
            window,
            settle: Settle::AtLeastOnce,
            amqp: None,
            mqtt: Some(MqttOptions {
                qos: Some(qos),
                ..MqttOptions::NONE
            }),
            rabbitmq: None,
        })
        .await?;
    loop {
        let arrival = std::future::poll_fn(|cx| {
            // What was settled is said before it is waited.
            let settled = source.poll_settled(cx);
            debug_assert!(settled.is_pending(), "a settlement here is done at once");
            source.poll_next(cx)
        });
        match arrival.await {
            Arrival::Connected { .. } => println!("ready"),
            Arrival::Delivery(mut delivery) => {
                count.add(&serde_json::from_slice(delivery.payload())?);
                if let Some(token) = delivery.take_token() {
                    let settled = source.settle(token, Disposition::Accept, 0);
                    debug_assert!(settled.is_ready(), "a settlement here is done at once");
                }
            }
            Arrival::Discarded { messages, .. } => {
                return Err(format!("{messages} discarded").into());
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
}

#[subscriber(topic = "bench", on_decode = drop)]
async fn bench(reading: Json<Reading>, count: State<Arc<Count>>) -> Outcome {
    count.add(&reading);
    Outcome::Ack
}

/// A handler.
async fn framework(url: &str, qos: u8, window: u32, count: Arc<Count>) -> Result<(), Failure> {
    let config = Config::toml(format!(
        "handlers.bench.prefetch = {window}\nhandlers.bench.mqtt.qos = {qos}"
    ));
    let running = App::new("bench")
        .config(config)
        .state(count)
        .broker(Mqtt::new(url)?)
        .mount(bench)
        .start()
        .await?;
    println!("ready");
    std::future::pending::<()>().await;
    drop(running);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
