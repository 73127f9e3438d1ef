//! Questions and their answers: one topic on which answers come, told apart by what the question
//! carried (MQTT 5 section 4.10).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::oneshot;
use tokio::sync::watch;

use super::io::Io;
use super::link::Link;
use super::settings::Settings;
use super::source::MqttSource;
use super::spec::Spec;
use super::supervisor;
use crate::broker::Arrival;
use crate::broker::BrokerError;
use crate::broker::PublishError;
use crate::broker::Published;
use crate::broker::Publishing;
use crate::broker::Source;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::settle::Disposition;

/// The connection on which answers come.
pub(super) struct Requests {
    link: Arc<Link>,
    topic: ByteString,
    waiting: Mutex<HashMap<Bytes, oneshot::Sender<Message>>>,
    /// Whether answers can come.
    receives: watch::Sender<Receives>,
}

#[derive(Clone)]
enum Receives {
    NotYet,
    Yes,
    Refused(BrokerError),
}

/// A question that waits for its answer; dropped, it waits no more.
struct Waiting<'a> {
    requests: &'a Requests,
    id: Bytes,
}

impl Requests {
    /// # Errors
    ///
    /// There is no runtime here.
    pub(super) fn start(
        io: &Io,
        settings: &Arc<Settings>,
        app: Option<&str>,
    ) -> Result<Arc<Self>, BrokerError> {
        let spec = Spec::of_replies(settings, app);
        let topic = spec
            .members
            .first()
            .map(|member| member.filter.clone())
            .unwrap_or_default();
        let link = Arc::new(Link::new(spec, Arc::clone(settings)));
        let requests = Arc::new(Self {
            link: Arc::clone(&link),
            topic,
            waiting: Mutex::default(),
            receives: watch::Sender::new(Receives::NotYet),
        });
        let (started, answer) = oneshot::channel();
        link.lock().members[0].started = Some(started);
        let source = MqttSource::detached(Arc::clone(&link), 0);
        io.serve(&link, supervisor::run(Arc::clone(&link)))?;
        io.spawn(serve(source, answer, Arc::clone(&requests)))?;
        Ok(requests)
    }

    pub(super) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// Publish a question and wait for its answer.
    ///
    /// # Errors
    ///
    /// Answers cannot come, or the question could not be published, or nobody reads it.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the answer is not waited for; the question may have been asked.
    pub(super) async fn ask(
        &self,
        message: Message,
        publish: impl FnOnce(Message) -> Publishing,
    ) -> Result<Message, PublishError> {
        self.can_receive().await?;
        let id = Bytes::copy_from_slice(&fastrand::u128(..).to_be_bytes());
        let (answer, receiver) = oneshot::channel();
        self.lock().insert(id.clone(), answer);
        let waiting = Waiting {
            requests: self,
            id: id.clone(),
        };
        let message = message
            .with_reply_to(self.topic.clone())
            .with_correlation_id(id);
        let published = match publish(message) {
            Publishing::Done(result) => result,
            Publishing::Pending(future) => future.await,
        };
        if published? == Published::Unread {
            return Err(PublishError::transient(
                "nobody reads the topic of the request, so nobody answers",
            ));
        }
        let answer = receiver
            .await
            .map_err(|_| PublishError::transient(supervisor::CLOSED));
        drop(waiting);
        answer
    }

    async fn can_receive(&self) -> Result<(), PublishError> {
        let mut receives = self.receives.subscribe();
        let known = receives
            .wait_for(|known| !matches!(known, Receives::NotYet))
            .await
            .map_err(|_| PublishError::transient(supervisor::CLOSED))?;
        match &*known {
            Receives::Refused(error) => {
                let reason = format!("answers cannot come: {}", error.reason);
                Err(if error.is_transient() {
                    PublishError::transient(reason)
                } else {
                    PublishError::permanent(reason)
                })
            }
            Receives::Yes | Receives::NotYet => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, oneshot::Sender<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, delivery: &Delivery) {
        let asked = delivery
            .message()
            .correlation_id()
            .and_then(|id| self.lock().remove(id));
        if let Some(waiting) = asked {
            // Whoever asked may have stopped waiting.
            waiting.send(delivery.message().clone()).ok();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.requests.lock().remove(&self.id);
    }
}

/// Hand out answers until the connection closes.
async fn serve(
    mut source: MqttSource,
    started: oneshot::Receiver<Result<(), BrokerError>>,
    requests: Arc<Requests>,
) {
    if let Ok(Err(error)) = started.await {
        requests.receives.send_replace(Receives::Refused(error));
    }
    loop {
        let arrival = std::future::poll_fn(|cx| {
            // Acknowledges what was settled.
            source.poll_settled(cx).map(|_| ()).is_ready();
            source.poll_next(cx)
        });
        let arrival = tokio::select! {
            biased;
            arrival = arrival => arrival,
            () = requests.link.ended() => return,
        };
        match arrival {
            Arrival::Delivery(mut delivery) => {
                requests.answered(&delivery);
                if let Some(token) = delivery.token.take() {
                    // Void, it comes again, and is nobody's.
                    source.settle(token, Disposition::Accept, 0).is_ready();
                }
            }
            Arrival::Connected { .. } => {
                requests.receives.send_replace(Receives::Yes);
            }
            Arrival::Disconnected(error) => {
                requests.receives.send_replace(Receives::Refused(error));
            }
            Arrival::Discarded { .. } => {}
            Arrival::Ended => return,
        }
    }
}
