//! Hostile handlers: panics at every point, numbers without bounds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ruststream::Bytes;
use ruststream::Extract;
use ruststream::Outcome;
use ruststream::Publisher;
use ruststream::Settler;
use ruststream::broker::memory::Memory;
use ruststream::error::ErrorKind;
use ruststream::extract::Incoming;
use ruststream::extract::Rejection;
use ruststream::policy::BatchOptions;
use ruststream::policy::Delay;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use support::Starts;

const SECOND: Duration = Duration::from_secs(1);

fn fulfil() -> Script {
    Script::address("orders").named("fulfil")
}

fn capped(script: Script) -> Script {
    script.with(|options| {
        options.max_attempts = Some(2);
        options.dead_letter = Some("dead");
        options.concurrency = Some(4);
    })
}

async fn start(script: Script) -> TestApp {
    let app = Script::app("shop", [script]);
    TestApp::start(Memory::amqp(), app)
        .await
        .expect("the application starts")
}

fn blow_up() {
    panic!("a handler panics");
}

fn throw(value: impl Send + 'static) {
    std::panic::panic_any(value);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a handler panics");
    }
}

/// Panics when it is dropped, even in a panic.
struct Charge(&'static str);

impl Drop for Charge {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

impl Extract for Bomb {
    fn extract(_: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(Self)
    }
}

struct Mine;

impl Extract for Mine {
    fn extract(_: &mut Incoming<'_>) -> Result<Self, Rejection> {
        panic!("a handler panics");
    }
}

async fn all_are_dead_lettered(name: &str, script: Script) {
    let app = start(script).await;
    for number in 0..20 {
        app.publish("orders", format!("{number}"))
            .expect("a queue takes it");
    }
    app.settled()
        .await
        .unwrap_or_else(|unsettled| panic!("{name}: {unsettled}"));
    assert_eq!(app.messages("dead").len(), 20, "{name}");
    app.stop()
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_is_a_failed_attempt() {
    for workers in [1, 3] {
        let script = || capped(fulfil()).with(|options| options.workers = Some(workers));
        let slow = || script().with(|options| options.timeout = Some(SECOND));
        all_are_dead_lettered(
            "text",
            script().runs(|_: Bytes| async {
                blow_up();
            }),
        )
        .await;
        all_are_dead_lettered(
            "not text",
            script().runs(|_: Bytes| async {
                throw(17_u8);
            }),
        )
        .await;
        all_are_dead_lettered(
            "before its future",
            script().runs(|_: Bytes| {
                blow_up();
                async {}
            }),
        )
        .await;
        all_are_dead_lettered("payload's drop", script().runs(|_: (Bytes, Bomb)| async {})).await;
        all_are_dead_lettered("extractor", script().runs(|_: (Bytes, Mine)| async {})).await;
        all_are_dead_lettered(
            "extractor beside a settler",
            script().runs(|_: (Settler, Mine)| async {}),
        )
        .await;
        all_are_dead_lettered(
            "dropped at the timeout",
            slow().runs(|_: (Bytes, Bomb)| std::future::pending::<()>()),
        )
        .await;
        all_are_dead_lettered(
            "dropped at the timeout, held",
            slow().runs(|_: Bytes| async {
                let _bomb = Bomb;
                std::future::pending::<()>().await;
            }),
        )
        .await;
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn a_panic_whose_value_panics_when_it_is_dropped_is_a_failed_attempt() {
    for workers in [1, 3] {
        let script = capped(fulfil()).with(|options| options.workers = Some(workers));
        all_are_dead_lettered(
            "bomb",
            script.runs(|_: Bytes| async {
                throw(Bomb);
            }),
        )
        .await;
    }
}

// spec: A43 C7
#[tokio::test(start_paused = true)]
async fn handlers_that_panic_while_dropped_do_not_kill_a_process_that_drops_the_application() {
    for workers in [1, 3] {
        let script = capped(fulfil()).with(|options| options.workers = Some(workers));
        let mut app = start(script.runs(|_: Bytes| async {
            let _charge = Charge("a handler panics");
            std::future::pending::<()>().await;
        }))
        .await;
        for number in 0..20 {
            app.publish("orders", format!("{number}")).unwrap();
        }
        app.settle_down().await;
        app.crash().await;
        assert_eq!(app.messages("orders").len(), 20);
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn an_order_that_panics_is_a_failed_attempt() {
    let script =
        capped(fulfil()).with(|options| options.ordered_by = Some(|_| panic!("a handler panics")));
    let starts = Starts::new();
    all_are_dead_lettered("order", starts.answer(script, |_| Outcome::Ack)).await;
    assert_eq!(starts.count(), 0);
}

// spec: C6
#[tokio::test(start_paused = true)]
async fn delays_and_timeouts_without_bounds_overflow_nothing() {
    for delay in [Delay::Process, Delay::Hold] {
        for time in [
            Duration::MAX,
            Duration::from_secs(u64::MAX),
            Duration::from_secs(1 << 40),
        ] {
            let starts = Starts::new();
            let script = fulfil().with(|options| {
                options.delay = Some(delay);
                options.timeout = Some(time);
                options.concurrency = Some(2);
            });
            let script = starts.answer(script, move |start| {
                if start.payload == "1" {
                    Outcome::retry_after(time)
                } else {
                    Outcome::Ack
                }
            });
            let app = start(script).await;
            app.publish("orders", "1").unwrap();
            app.advance(SECOND).await;
            app.publish("orders", "2").unwrap();
            app.advance(SECOND).await;
            assert_eq!(starts.payloads(), ["1", "2"], "{delay:?} {time:?}");
            app.stop().await.unwrap();
        }
    }
}

// spec: C7 C8
#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_for_ever_with_bounds_beyond_time_does_no_harm() {
    for time in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let starts = Starts::new();
        let script = fulfil().with(|options| {
            options.timeout = Some(time);
            options.concurrency = Some(2);
        });
        let app = Script::app("shop", [starts.hang(script)]).drain(time);
        let mut app = TestApp::start(Memory::amqp(), app).await.unwrap();
        app.publish("orders", "1").unwrap();
        app.publish("orders", "2").unwrap();
        app.advance(SECOND).await;
        assert_eq!(starts.count(), 2);
        let stopping = tokio::time::timeout(3600 * SECOND, app.pause()).await;
        assert!(
            stopping.is_err(),
            "it waits for ever, as it was told: {stopping:?}"
        );
        app.settle_down().await;
        assert_eq!(app.messages("orders").len(), 2);
    }
}

// spec: C31
#[tokio::test(start_paused = true)]
async fn a_batch_that_waits_for_ever_starts_when_it_is_full_or_the_stop_comes() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let script = fulfil().with(|options| {
        options.prefetch = Some(64);
        options.batch = Some(BatchOptions {
            size: 3,
            wait: Duration::MAX,
        });
    });
    let mut app = start(script.runs(move |batch: ruststream::Batch<Bytes>| {
        counted.fetch_add(batch.len(), Ordering::Relaxed);
        async {}
    }))
    .await;
    for _ in 0..4 {
        app.publish("orders", "x").unwrap();
    }
    app.advance(SECOND).await;
    assert_eq!(starts.load(Ordering::Relaxed), 3);
    app.pause().await.unwrap();
    assert_eq!(starts.load(Ordering::Relaxed), 4);
}

// spec: C31
#[tokio::test(start_paused = true)]
async fn a_batch_larger_than_the_window_is_refused_at_the_start() {
    let script = fulfil().with(|options| {
        options.prefetch = Some(1);
        options.batch = Some(BatchOptions {
            size: 64,
            wait: SECOND,
        });
    });
    let script = script.runs(|_: ruststream::Batch<Bytes>| async {});
    let error = TestApp::start(Memory::amqp(), Script::app("shop", [script]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

// spec: C15
#[tokio::test(start_paused = true)]
async fn a_thousand_handlers_at_once_are_a_thousand() {
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let (most_now, running) = (Arc::clone(&most), Arc::clone(&now));
    let script = fulfil().with(|options| {
        options.concurrency = Some(1000);
        options.prefetch = Some(2000);
        options.workers = Some(7);
    });
    let app = start(script.runs(move |_: Bytes| {
        let (most, now) = (Arc::clone(&most_now), Arc::clone(&running));
        async move {
            let at_once = now.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(at_once, Ordering::Relaxed);
            tokio::time::timeout(SECOND, std::future::pending::<()>())
                .await
                .ok();
            now.fetch_sub(1, Ordering::Relaxed);
        }
    }))
    .await;
    for number in 0..5000 {
        app.publish("orders", format!("{number}")).unwrap();
    }
    app.settled().await.unwrap();
    assert_eq!(most.load(Ordering::Relaxed), 1000);
    assert_eq!(app.stats("fulfil").acked, 5000);
    app.stop().await.unwrap();
}

/// Says so when it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// spec: C8
#[tokio::test(start_paused = true)]
async fn timeouts_come_in_time_however_many_messages_wait() {
    let (gone, over) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (flag, is_over) = (Arc::clone(&gone), Arc::clone(&over));
    let script = capped(fulfil()).with(|options| {
        options.timeout = Some(SECOND);
        options.prefetch = Some(500);
        options.on_timeout = Some(ruststream::policy::OnFailure::Drop);
    });
    // Each message that is handled makes another, so that the pump never runs dry.
    let app = start(
        script.runs(move |(payload, publisher): (Bytes, Publisher)| {
            let flag = (payload == "hang").then(|| Gone(Arc::clone(&flag)));
            let is_over = is_over.load(Ordering::Relaxed);
            async move {
                if let Some(_flag) = flag {
                    std::future::pending::<()>().await;
                } else if !is_over {
                    publisher.publish("orders", "x").await.unwrap();
                }
            }
        }),
    )
    .await;
    app.publish("orders", "hang").unwrap();
    for _ in 0..1000 {
        app.publish("orders", "x").unwrap();
    }
    for _ in 0..20 {
        tokio::time::advance(SECOND / 10).await;
    }
    let is_gone = gone.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    assert!(is_gone, "2 s have passed");
    app.settled().await.unwrap();
}
