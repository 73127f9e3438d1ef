//! `workers`: handlers spread over tasks behave as they do in one.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ruststream::App;
use ruststream::Json;
use ruststream::Outcome;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::subscriber;

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Ack,
    Drop,
    Panic,
    Hang,
}

#[subscriber(
    address = "work",
    concurrency = 4,
    workers = 2,
    max_attempts = 2,
    dead_letter = "work.dead",
    timeout = "1s"
)]
async fn work(what: Json<What>) -> Outcome {
    let inside = INSIDE.fetch_add(1, Ordering::SeqCst) + 1;
    MOST.fetch_max(inside, Ordering::SeqCst);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    match what.0 {
        What::Ack => Outcome::Ack,
        What::Drop => Outcome::Drop,
        What::Panic => panic!("as asked"),
        What::Hang => std::future::pending().await,
    }
}

#[subscriber(address = "by-hand", concurrency = 2, workers = 2, on_decode = drop)]
async fn by_hand(what: Json<What>, settler: Settler) {
    let settled = if what.0 == What::Ack {
        settler.ack().await
    } else {
        settler.drop().await
    };
    settled.expect("the broker takes it");
}

async fn eventually(mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("it comes to be within 20 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_in_workers_are_acked_dropped_panicking_and_timed_out_like_any() {
    let broker = Memory::amqp();
    let app = App::new("workers")
        .broker(broker.clone())
        .only((work,))
        .start()
        .await
        .expect("it starts");
    let publisher = app.publisher();
    for _ in 0..100 {
        publisher
            .publish("work", Json(What::Ack))
            .await
            .expect("it is published");
    }
    for what in [What::Drop, What::Panic, What::Hang] {
        publisher
            .publish("work", Json(what))
            .await
            .expect("it is published");
    }
    publisher
        .publish("work", "not json")
        .await
        .expect("it is published");
    eventually(|| {
        app.stats()["work"].acked == 100 && broker.observe().queue_depth("work.dead") == 3
    })
    .await;
    let stats = app.stats()["work"];
    assert_eq!((stats.dropped, stats.undecodable), (1, 1));
    // On a busy machine more than the two that hang may be out of time once.
    assert!(stats.failures >= 4, "two panics, and two that hang");
    assert!(
        (1..=4).contains(&MOST.load(Ordering::SeqCst)),
        "the concurrency is exact"
    );
    app.stop().await.expect("it stops");
}

// spec: C30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settler_works_from_a_worker() {
    let broker = Memory::amqp();
    let app = App::new("workers")
        .broker(broker.clone())
        .only((by_hand,))
        .start()
        .await
        .expect("it starts");
    let publisher = app.publisher();
    publisher
        .publish("by-hand", Json(What::Ack))
        .await
        .expect("it is published");
    publisher
        .publish("by-hand", Json(What::Drop))
        .await
        .expect("it is published");
    publisher
        .publish("by-hand", "not json")
        .await
        .expect("it is published");
    eventually(|| {
        let stats = app.stats()["by_hand"];
        (stats.acked, stats.dropped) == (1, 2)
    })
    .await;
    assert_eq!(broker.observe().unsettled("by-hand"), 0);
    app.stop().await.expect("it stops");
}
