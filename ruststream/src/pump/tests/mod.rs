//! The pump on the embedded broker, handlers made by hand.

mod batches;
mod outcomes;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::End;
use super::Pump;
use super::Stop;
use crate::Outcome;
use crate::broker::Broker;
use crate::broker::Subscription;
use crate::broker::memory::Memory;
use crate::delivery::Delivery;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::extract::Scope;
use crate::handler::Slot;
use crate::handler::Typed;
use crate::handler::Verdict;
use crate::message::Message;
use crate::mount::MountPoint;
use crate::mount::Policy;
use crate::mount::RetryTo;
use crate::policy::Delay;
use crate::policy::OnDecode;
use crate::policy::OnFailure;
use crate::registration::Form;
use crate::registration::MqttOptions;
use crate::registration::Options;
use crate::registration::RabbitmqOptions;
use crate::registration::Registration;
use crate::settle::Settle;
use crate::state::StateMap;
use crate::stats::Counters;
use crate::stats::HealthCell;
use crate::stats::Stats;

type Run = Pin<Box<dyn Future<Output = Verdict> + Send>>;
type Handler = Arc<dyn Fn(&mut Incoming<'_>) -> Result<Run, Rejection> + Send + Sync>;

/// A mount point under test, running.
struct Rig {
    broker: Memory,
    counters: Arc<Counters>,
    stop: Stop,
    task: JoinHandle<End>,
}

/// How a mount point is set up.
struct Setup {
    broker: Memory,
    form: Form,
    address: ByteString,
    policy: Policy,
    mqtt: Option<MqttOptions>,
    rabbitmq: Option<RabbitmqOptions>,
    drain: Duration,
}

impl Setup {
    fn new(broker: Memory) -> Self {
        Self {
            broker,
            form: Form::Address,
            address: "orders".into(),
            policy: Policy {
                max_attempts: None,
                dead_letter: None,
                retry_to: RetryTo::Own,
                dead_letter_headers: true,
                backoff: None,
                on_error: OnFailure::Retry,
                on_panic: OnFailure::Retry,
                on_timeout: OnFailure::Retry,
                on_decode: OnDecode::Drop,
                timeout: None,
                delay: Delay::Process,
                settle: Settle::AtLeastOnce,
                concurrency: 1,
                workers: 1,
                ordered_by: None,
                prefetch: 64,
                batch: None,
                reply_to: None,
                replies: false,
                keep_unread: false,
                retain_dead_letters: false,
            },
            mqtt: None,
            rabbitmq: None,
            drain: Duration::from_secs(25),
        }
    }

    fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Run with a handler that answers each delivery at once.
    async fn run(self, outcome: impl Fn(&Delivery) -> Outcome + Send + Sync + 'static) -> Rig {
        self.run_handler(move |incoming| {
            let outcome = outcome(incoming.delivery());
            Ok(Box::pin(async move { Verdict::Done(outcome) }))
        })
        .await
    }

    async fn run_handler(
        self,
        handler: impl Fn(&mut Incoming<'_>) -> Result<Run, Rejection> + Send + Sync + 'static,
    ) -> Rig {
        let subscription = Subscription {
            app: "shop".into(),
            mount: "fulfil".into(),
            form: self.form,
            address: self.address.clone(),
            window: self.policy.prefetch,
            settle: self.policy.settle,
            amqp: None,
            mqtt: self.mqtt,
            rabbitmq: self.rabbitmq,
        };
        let mount = MountPoint {
            name: "fulfil".into(),
            registration: registration(Arc::new(handler)),
            broker: "default".into(),
            system: "memory",
            form: self.form,
            address: self.address,
            capabilities: self
                .broker
                .capabilities(&subscription)
                .expect("the broker serves it"),
            policy: self.policy,
        };
        let source = self
            .broker
            .subscribe(subscription)
            .await
            .expect("the broker takes it");
        let stop = Stop {
            draining: CancellationToken::new(),
            abort: CancellationToken::new(),
            drain: self.drain,
        };
        let counters = Arc::<Counters>::default();
        let pump = Pump {
            mount: Arc::new(mount),
            source,
            sink: self.broker.sink(),
            scope: Scope::new(
                StateMap::default(),
                self.broker.sink(),
                crate::publisher::Brokers::default(),
                stop.draining.clone(),
            ),
            counters: Arc::clone(&counters),
            health: Arc::<HealthCell>::default(),
            stop: stop.clone(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the test owns the task and awaits it in `stop`"
        )]
        let task = tokio::spawn(pump.run());
        Rig {
            broker: self.broker,
            counters,
            stop,
            task,
        }
    }
}

impl Rig {
    async fn publish(&self, to: &'static str, message: impl Into<Message>) {
        use crate::broker::Publishing;
        let published = match self.broker.sink().publish(to.into(), message.into()) {
            Publishing::Done(published) => published,
            Publishing::Pending(publishing) => publishing.await,
        };
        published.expect("the broker takes it");
    }

    /// Let everything happen that needs no time.
    async fn settle_down(&self) {
        tokio::time::advance(Duration::ZERO).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Let time pass.
    async fn pass(&self, time: Duration) {
        self.settle_down().await;
        #[expect(clippy::disallowed_methods, reason = "virtual time")]
        tokio::time::sleep(time).await;
        self.settle_down().await;
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    async fn stop(self) -> End {
        self.stop.draining.cancel();
        self.task.await.expect("the pump does not panic")
    }
}

/// A registration whose slots run `handler`. It is leaked: registrations are constant data.
fn registration(handler: Handler) -> &'static Registration {
    // A slot maker is a plain function pointer, so the handler reaches it through the test's thread.
    thread_local!(static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) });
    fn slot() -> Box<dyn Slot> {
        let handler = HANDLER
            .with_borrow(Clone::clone)
            .expect("the test has put it there");
        Typed::boxed(move |incoming: &mut Incoming<'_>| handler(incoming))
    }
    HANDLER.set(Some(handler));
    Box::leak(Box::new(Registration::new(
        "fulfil",
        ("tests", "tests.rs", 1),
        Form::Address,
        "orders",
        Options::NONE,
        slot,
        std::any::TypeId::of::<()>,
        |_| (),
        false,
    )))
}
