//! What outcomes come to on the broker.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_acked_message_is_gone() {
    let rig = Setup::new(Memory::amqp()).run(|_| Outcome::Ack).await;
    rig.publish("orders", "1").await;
    rig.settle_down().await;
    assert_eq!((rig.stats().starts, rig.stats().acked), (1, 1));
    assert_eq!(
        rig.stop().await,
        End {
            unfinished: 0,
            lost_copies: 0
        }
    );
}
