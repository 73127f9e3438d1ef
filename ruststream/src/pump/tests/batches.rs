//! What forms and what goes alone (spec C31).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::*;
use crate::policy::BatchOptions;

fn in_batches(size: u32) -> Setup {
    Setup::new(Memory::amqp()).policy(|policy| {
        policy.batch = Some(BatchOptions {
            size,
            wait: Duration::from_secs(1),
        });
    })
}

// spec: C31
#[tokio::test(start_paused = true)]
async fn an_item_that_goes_alone_does_not_disturb_the_batch_that_forms() {
    let is_first = AtomicBool::new(true);
    let rig = in_batches(2)
        .run_handler(move |_| {
            let outcome = if is_first.swap(false, Ordering::Relaxed) {
                Outcome::Retry
            } else {
                Outcome::Ack
            };
            Ok(Box::pin(async move { Verdict::Done(outcome) }))
        })
        .await;
    // The first two are retried as a batch, and come back one by one while the third waits.
    for payload in ["1", "2", "3"] {
        rig.publish("orders", payload).await;
    }
    rig.pass(Duration::from_secs(2)).await;
    assert_eq!((rig.stats().starts, rig.stats().acked), (4, 3));
}

#[cfg(feature = "testing")]
#[tokio::test(start_paused = true)]
async fn a_batch_that_formed_on_a_lost_connection_is_not_waited_for() {
    let rig = in_batches(2).run(|_| Outcome::Ack).await;
    rig.publish("orders", "1").await;
    rig.settle_down().await;
    rig.broker.observe().cut("fulfil");
    rig.pass(Duration::from_secs(2)).await;
    assert_eq!((rig.stats().starts, rig.stats().acked), (1, 1));
}
