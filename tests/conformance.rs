//! The conformance suite, on the embedded broker by each protocol's rules.

use ruststream::broker::memory::Memory;
use ruststream::registration::Form;
use ruststream::registration::Options;
use ruststream::registration::QueueType;
use ruststream::registration::RabbitmqOptions;
use ruststream::testing::conformance::MemoryPeer;
use ruststream::testing::conformance::Rules;
use ruststream::testing::conformance::check;

async fn passes(peer: MemoryPeer) {
    let deviations = check(&peer).await.expect("the applications start and stop");
    let shown: Vec<String> = deviations.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

fn queue(kind: QueueType) -> impl FnOnce(&mut Options) {
    move |options| {
        options.rabbitmq = Some(RabbitmqOptions {
            queue_type: Some(kind),
            ..RabbitmqOptions::NONE
        });
    }
}

// spec: A8 A13 A37-A41 A53 C8
// case: M01
#[tokio::test(start_paused = true)]
async fn amqp_rules_conform() {
    passes(MemoryPeer::new(Memory::amqp(), Rules::Returning)).await;
}

// case: M01
#[tokio::test(start_paused = true)]
async fn amqp_rules_conform_with_a_count_on_everything() {
    passes(MemoryPeer::new(
        Memory::amqp().always_counting(),
        Rules::Returning,
    ))
    .await;
}

// case: M01
#[tokio::test(start_paused = true)]
async fn amqp_rules_conform_where_nobody_counts() {
    passes(MemoryPeer::new(
        Memory::amqp().never_counting(),
        Rules::Returning,
    ))
    .await;
}

// spec: M6 M8 M25 M42 M44 C8
// case: M01
#[tokio::test(start_paused = true)]
async fn mqtt_rules_conform() {
    passes(MemoryPeer::new(Memory::mqtt(), Rules::Resuming)).await;
}

// spec: R24 C8
// case: M01
#[tokio::test(start_paused = true)]
async fn rabbitmq_rules_conform_on_quorum_queues() {
    let peer = MemoryPeer::new(Memory::rabbitmq(), Rules::Returning);
    passes(peer.declaring(Form::Queue, queue(QueueType::Quorum))).await;
}

// spec: R24 C22 C8
// case: M01
#[tokio::test(start_paused = true)]
async fn rabbitmq_rules_conform_on_classic_queues() {
    let peer = MemoryPeer::new(Memory::rabbitmq(), Rules::Returning);
    passes(peer.declaring(Form::Queue, queue(QueueType::Classic))).await;
}
