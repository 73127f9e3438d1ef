//! Servers on loopback for the tests of this module.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::endpoint::Endpoint;
use super::endpoint::Scheme;

/// Long enough for a loaded machine.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// A server that hands each connection to a function; it ends when it is dropped.
pub(super) struct Server {
    pub(super) port: u16,
    tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start<F, T>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        Self { port, tasks }
    }

    /// Stop it, and wait until its port is closed.
    pub(super) async fn stop(mut self) -> u16 {
        self.tasks.shutdown().await;
        self.port
    }

    /// It at `scheme` (`plain`, `tls`, `ws`, `wss`) and `host`.
    pub(super) fn at(&self, scheme: &str, host: &str) -> Endpoint {
        endpoint(&format!("{scheme}://svc:p%40ss-W0rd@{host}:{}", self.port))
    }
}

pub(super) fn endpoint(url: &str) -> Endpoint {
    let scheme = |name, tls, websocket| Scheme {
        name,
        port: 1,
        tls,
        websocket,
    };
    let schemes = [
        scheme("plain", false, false),
        scheme("tls", true, false),
        scheme("ws", false, true),
        scheme("wss", true, true),
    ];
    Endpoint::parse(url, &schemes).unwrap()
}
