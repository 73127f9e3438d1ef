//! A proxy between a client and its server that fails as it is told.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::process::Address;

/// A proxy on a free port of loopback. It records what passes, and does nothing to it until it is
/// told. It works on threads of its own, so it goes on while the test's runtime is busy.
///
/// Dropped, it cuts everything and listens no more.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// The way that bytes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told of every change that may let bytes go on.
    changed: Condvar,
    /// Counts the changes, for those who wait in a runtime.
    steps: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    server: SocketAddr,
    connections: Vec<Connection>,
    refusing: bool,
    paused: [bool; 2],
    delay: Duration,
    /// Cut a connection as soon as so many bytes of it, counted from its beginning, went to the server.
    cut_after: Option<usize>,
    over: bool,
}

#[derive(Debug)]
struct Connection {
    ends: Option<[TcpStream; 2]>,
    bytes: [Vec<u8>; 2],
}

impl Proxy {
    /// To a URL such as `mqtt://127.0.0.1:1883`.
    #[must_use]
    pub fn to(url: &str) -> Self {
        let server = resolve(url);
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                server,
                connections: Vec::new(),
                refusing: false,
                paused: [false; 2],
                delay: Duration::ZERO,
                cut_after: None,
                over: false,
            }),
            changed: Condvar::new(),
            steps: watch::Sender::new(0),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accepting.accept(&listener));
        Self { shared, address }
    }

    /// The server's URL with the proxy's place in it: the scheme, the login and the path are kept.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        let host_and_port = Address::parse(server).host_and_port;
        server.replacen(&host_and_port, &self.address.to_string(), 1)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Send new connections to another server.
    pub fn redirect(&self, url: &str) {
        let server = resolve(url);
        self.shared.change(|state| state.server = server);
    }

    /// How many connections were made so far, the refused ones aside.
    #[must_use]
    pub fn connects(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Wait for the connection of that number, the first being 1.
    pub async fn connected(&self, number: usize) {
        self.wait("a connection", |state| state.connections.len() >= number)
            .await;
    }

    /// What has passed on a connection, the first being 0.
    #[must_use]
    pub fn bytes(&self, connection: usize, way: Way) -> Vec<u8> {
        let state = self.shared.lock();
        let connection = state.connections.get(connection);
        connection.map_or_else(Vec::new, |connection| {
            connection.bytes[way as usize].clone()
        })
    }

    /// Wait until this has passed on a connection.
    pub async fn passed(&self, connection: usize, way: Way, bytes: &[u8]) {
        self.wait("these bytes", |state| {
            let passed = state.connections.get(connection);
            passed.is_some_and(|passed| {
                let passed = &passed.bytes[way as usize];
                passed.windows(bytes.len()).any(|window| window == bytes)
            })
        })
        .await;
    }

    /// Cut all connections, at both ends.
    pub fn cut(&self) {
        self.shared.change(|state| {
            for connection in &mut state.connections {
                connection.cut();
            }
        });
    }

    /// Cut one connection, the first being 0.
    pub fn cut_one(&self, connection: usize) {
        self.shared
            .change(|state| state.connections[connection].cut());
    }

    /// From now on cut each connection as soon as its server has received `bytes` of it: the server
    /// has taken what the client will not hear of. What the server says before that is passed on.
    pub fn cut_after(&self, bytes: usize) {
        self.shared.change(|state| {
            state.cut_after = Some(bytes);
            for connection in &mut state.connections {
                if connection.bytes[Way::Up as usize].len() >= bytes {
                    connection.cut();
                }
            }
        });
    }

    /// No longer cut by count.
    pub fn cut_no_more(&self) {
        self.shared.change(|state| state.cut_after = None);
    }

    /// Hold what goes one way; it is kept, and goes on with [`resume`](Self::resume). With `Down` held
    /// the server receives what the client does not hear the answer to.
    pub fn pause(&self, way: Way) {
        self.shared
            .change(|state| state.paused[way as usize] = true);
    }

    /// Hold nothing any more.
    pub fn resume(&self) {
        self.shared.change(|state| state.paused = [false; 2]);
    }

    /// Close new connections at once, without asking the server.
    pub fn refuse(&self) {
        self.shared.change(|state| state.refusing = true);
    }

    /// Take new connections again.
    pub fn admit(&self) {
        self.shared.change(|state| state.refusing = false);
    }

    /// From now on let every piece wait so long before it is passed on.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = delay);
    }

    async fn wait(&self, what: &str, done: impl Fn(&State) -> bool) {
        let mut steps = self.shared.steps.subscribe();
        let waiting = steps.wait_for(|_| done(&self.shared.lock()));
        let waited = timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{what} did not come within {PATIENCE:?}");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.over = true);
        self.cut();
        // The thread that accepts looks when somebody comes.
        drop(TcpStream::connect(self.address));
    }
}

impl Connection {
    fn cut(&mut self) {
        for end in self.ends.take().into_iter().flatten() {
            // It may be closed already.
            drop(end.shutdown(Shutdown::Both));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
        self.steps.send_modify(|steps| *steps += 1);
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            let (server, refusing) = {
                let state = self.lock();
                if state.over {
                    return;
                }
                (state.server, state.refusing)
            };
            if refusing {
                continue;
            }
            // A client whose server is down sees its connection close, as with any proxy.
            if let Ok(server) = TcpStream::connect(server) {
                // Not to be had when the client is gone again.
                drop(self.join(client, server));
            }
        }
    }

    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ends = Some([client.try_clone()?, server.try_clone()?]);
        let (client_in, server_in) = (client.try_clone()?, server.try_clone()?);
        let mut number = 0;
        self.change(|state| {
            number = state.connections.len();
            state.connections.push(Connection {
                ends,
                bytes: [Vec::new(), Vec::new()],
            });
        });
        for (way, from, to) in [(Way::Up, client_in, server), (Way::Down, server_in, client)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.carry(number, way, from, to));
        }
        Ok(())
    }

    /// Carry one way until either end is closed.
    fn carry(&self, number: usize, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let Some(piece) = self.pass(number, way, &piece[..count]) else {
                break;
            };
            // The record is there before the other end can react to it.
            if to.write_all(piece).is_err() {
                break;
            }
            if way == Way::Up {
                self.cut_if_due(number);
            }
        }
        // One way ended in good order ends the other: none of our protocols goes on half closed.
        self.change(|state| state.connections[number].cut());
    }

    /// Wait for leave to carry a piece, and record it; `None` when the connection was cut meanwhile. Of
    /// a piece that goes beyond what the server may have, only that much goes on.
    fn pass<'a>(&self, number: usize, way: Way, mut piece: &'a [u8]) -> Option<&'a [u8]> {
        let mut state = self.lock();
        let delay = state.delay;
        if !delay.is_zero() {
            drop(state);
            std::thread::sleep(delay);
            state = self.lock();
        }
        while state.paused[way as usize] && state.connections[number].ends.is_some() {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let cut_after = state.cut_after;
        let connection = &mut state.connections[number];
        connection.ends.as_ref()?;
        let record = &mut connection.bytes[way as usize];
        if let (Way::Up, Some(most)) = (way, cut_after) {
            piece = &piece[..piece.len().min(most.saturating_sub(record.len()))];
        }
        record.extend_from_slice(piece);
        drop(state);
        self.steps.send_modify(|steps| *steps += 1);
        Some(piece)
    }

    fn cut_if_due(&self, number: usize) {
        let mut state = self.lock();
        let cut_after = state.cut_after;
        let connection = &mut state.connections[number];
        if cut_after.is_some_and(|most| connection.bytes[Way::Up as usize].len() >= most) {
            connection.cut();
        }
    }
}

fn resolve(url: &str) -> SocketAddr {
    let address = Address::parse(url).host_and_port;
    let mut found = address.to_socket_addrs().expect("a host and a port");
    // A name such as `localhost` may stand for the newer kind of address first.
    let first = found.find(SocketAddr::is_ipv4);
    first.expect("the host has an address")
}
