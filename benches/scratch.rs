#![allow(missing_docs)]
use ruststream::broker::{Broker, memory::Memory};
use ruststream::{App, Bytes, Json, Message, Outcome, Publisher};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(serde::Deserialize)]
#[allow(dead_code)]
struct Reading {
    device: u64,
    at: u64,
    value: f64,
}
static SUM: AtomicU64 = AtomicU64::new(0);
#[ruststream::subscriber(address = "json", on_decode = drop)]
async fn json(r: Json<Reading>) -> Outcome {
    SUM.store(SUM.load(Ordering::Relaxed) + r.0.device, Ordering::Relaxed);
    Outcome::Ack
}
#[ruststream::subscriber(address = "bytes")]
async fn bytes(r: Bytes) -> Outcome {
    SUM.store(
        SUM.load(Ordering::Relaxed) + r.len() as u64,
        Ordering::Relaxed,
    );
    Outcome::Ack
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let what = args.get(1).cloned().unwrap_or("json".into());
    let n: u64 = args.get(2).and_then(|s| s.parse().ok()).unwrap_or(10000);
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async {
            let broker = Memory::new();
            let app = App::new("bench")
                .broker(broker.clone())
                .start()
                .await
                .unwrap();
            let publisher = Publisher::new(broker.sink());
            let payload = Bytes::from_static(br#"{"device":12345,"at":1700000000,"value":21.5}"#);
            let to =
                ruststream::ByteString::from_static(if what == "json" { "json" } else { "bytes" });
            let mut left = n;
            while left > 0 {
                for _ in 0..64.min(left) {
                    publisher
                        .publish(to.clone(), Message::new(payload.clone()))
                        .await
                        .unwrap();
                }
                left -= 64.min(left);
                tokio::task::yield_now().await;
            }
            loop {
                if app.stats()[&to].acked == n {
                    break;
                }
                tokio::task::yield_now().await;
            }
            app.stop().await.unwrap();
        });
}
