//! Handlers that wake themselves, as some libraries' `yield_now` does: nobody else waits for them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use ruststream::Bytes;
use ruststream::broker::memory::Memory;
use ruststream::registration::Options;
use ruststream::testing::Script;
use ruststream::testing::TestApp;
use ruststream::testing::virtual_time;

/// Gives way once, and is ready again at once.
fn give_way() -> impl Future<Output = ()> {
    let mut has_waited = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A handler of `busy` messages that gives way until it may end; others it acks.
fn busy_until(may_end: &Arc<AtomicBool>, change: impl FnOnce(&mut Options)) -> Script {
    let may_end = Arc::clone(may_end);
    let script = Script::address("orders").named("fulfil").with(|options| {
        options.concurrency = Some(2);
        options.max_attempts = Some(1);
        change(options);
    });
    script.runs(move |payload: Bytes| {
        let may_end = Arc::clone(&may_end);
        async move {
            while payload == "busy" && !may_end.load(Ordering::Relaxed) {
                give_way().await;
            }
        }
    })
}

/// Runs it in a thread of its own, because a failure is that it does not end.
fn ends<T: Send + 'static, F: Future<Output = T>>(run: impl FnOnce() -> F + Send + 'static) -> T {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(virtual_time(run())).ok());
    ended
        .recv_timeout(Duration::from_secs(20))
        .expect("it hangs or panics")
}

#[test]
fn a_handler_that_waits_for_another_task_by_giving_way_lets_it_run() {
    for workers in [1, 2] {
        let acked = ends(move || async move {
            let may_end = Arc::default();
            let script = busy_until(&may_end, |options| options.workers = Some(workers));
            let app = Script::app("shop", [script]);
            let app = TestApp::start(Memory::amqp(), app).await.unwrap();
            app.publish("orders", "busy").unwrap();
            app.settle_down().await;
            may_end.store(true, Ordering::Relaxed);
            app.settle_down().await;
            app.stats("fulfil").acked
        });
        assert_eq!(acked, 1, "{workers} workers");
    }
}

// spec: C8
#[test]
fn a_handler_that_gives_way_for_ever_is_timed_out_and_its_neighbours_go_on() {
    let (acked, failures) = ends(|| async {
        let script = busy_until(&Arc::default(), |options| {
            options.timeout = Some(Duration::from_secs(1));
        });
        let app = Script::app("shop", [script]);
        let app = TestApp::start(Memory::amqp(), app).await.unwrap();
        app.publish("orders", "busy").unwrap();
        app.publish("orders", "quick").unwrap();
        app.settle_down().await;
        tokio::time::advance(Duration::from_secs(2)).await;
        app.settle_down().await;
        let stats = app.stats("fulfil");
        (stats.acked, stats.failures)
    });
    assert_eq!((acked, failures), (1, 1));
}

// spec: C7
#[test]
fn a_handler_that_gives_way_for_ever_does_not_keep_a_stop_from_ending() {
    let left = ends(|| async {
        let script = busy_until(&Arc::default(), |_| {});
        let app = Script::app("shop", [script]).drain(Duration::from_secs(1));
        let mut app = TestApp::start(Memory::amqp(), app).await.unwrap();
        app.publish("orders", "busy").unwrap();
        app.settle_down().await;
        {
            let stop = app.pause();
            let clock = async {
                // Time does not pass by itself while a task is always ready.
                loop {
                    tokio::time::advance(Duration::from_millis(100)).await;
                }
            };
            tokio::select! {
                stopped = stop => assert!(stopped.is_err(), "the handler had not finished"),
                () = clock => {}
            }
        }
        app.messages("orders").len()
    });
    assert_eq!(left, 1);
}
