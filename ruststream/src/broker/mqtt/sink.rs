//! Publishing, confirmed by the server's acknowledgement.

use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;
use rumqttc::v5::mqttbytes::v5::Publish;

use super::Shared;
use super::connection::now;
use super::convert;
use super::settings::Settings;
use crate::broker::BoxFuture;
use crate::broker::PublishError;
use crate::broker::Publishing;
use crate::broker::Sink;
use crate::message::Copy;
use crate::message::Message;

/// Publishes on the connection that is for it.
pub(super) struct MqttSink {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
}

impl MqttSink {
    pub(super) fn new(settings: Arc<Settings>, shared: Arc<Shared>) -> Self {
        Self { settings, shared }
    }

    fn send(&self, publish: Result<Publish, PublishError>) -> Publishing {
        let sent = publish.and_then(|publish| {
            let link = self
                .shared
                .publisher(&self.settings)
                .map_err(|error| PublishError::transient(error.reason))?;
            Ok(link.publish(publish, now()))
        });
        match sent {
            // On its way when this returns; the future only waits.
            Ok(answer) => Publishing::Pending(Box::pin(async move {
                answer
                    .await
                    .unwrap_or_else(|_| Err(PublishError::transient(super::supervisor::CLOSED)))
            })),
            Err(error) => Publishing::Done(Err(error)),
        }
    }
}

impl Sink for MqttSink {
    fn publish(&self, to: ByteString, message: Message) -> Publishing {
        self.send(convert::publish(&to, message, self.settings.publish_qos))
    }

    fn publish_copy(&self, copy: Copy) -> Publishing {
        self.send(convert::copy(&copy, now()))
    }

    fn request(
        &self,
        to: ByteString,
        message: Message,
    ) -> BoxFuture<'static, Result<Message, PublishError>> {
        let requests = self.shared.requests(&self.settings);
        let publisher = Self::new(Arc::clone(&self.settings), Arc::clone(&self.shared));
        Box::pin(async move {
            let requests = requests.map_err(|error| PublishError::transient(error.reason))?;
            requests
                .ask(message, |message| publisher.publish(to, message))
                .await
        })
    }
}

impl fmt::Debug for MqttSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqttSink")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
