//! RabbitMQ, a node that a whole test binary shares or one of the test's own.

use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::process::Guard;
use crate::process::place;

/// Which RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 4.0.
    Four,
    /// 3.10.
    Three,
}

impl Generation {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Four, Self::Three];

    /// As `scripts/brokers` calls it.
    fn server(self) -> &'static str {
        match self {
            Self::Four => "rabbitmq4",
            Self::Three => "rabbitmq3",
        }
    }

    /// The name of a value that `scripts/brokers` prints.
    fn name(self, what: &str) -> String {
        format!("{}_{what}", self.server().to_uppercase())
    }
}

/// A node of RabbitMQ, user and password `guest`.
///
/// A node of the test's own is killed when it is dropped or the test's process ends.
#[derive(Debug)]
pub struct Rabbit {
    generation: Generation,
    url: String,
    management: String,
    run: PathBuf,
    port: Option<u16>,
    shared: bool,
    /// Of a node that this process started.
    own: Option<(Guard, TempDir)>,
}

static FOUR: OnceCell<Rabbit> = OnceCell::const_new();
static THREE: OnceCell<Rabbit> = OnceCell::const_new();
static NAMES: AtomicU64 = AtomicU64::new(0);

impl Rabbit {
    /// The node that everybody shares: the one that `RABBITMQ4_URL` (or 3) names, such as
    /// `scripts/test` exports, or else one that this process starts at its first use and that ends with
    /// it. Nobody may restart it; take a [`vhost`](Self::vhost) or names of your own there.
    pub async fn shared(generation: Generation) -> &'static Self {
        let cell = match generation {
            Generation::Four => &FOUR,
            Generation::Three => &THREE,
        };
        cell.get_or_init(|| async move {
            let given = |what| std::env::var(generation.name(what)).ok();
            let Some(url) = given("URL") else {
                let mut started = Self::start(generation).await;
                started.shared = true;
                return started;
            };
            let needed = "is exported by `scripts/brokers up` together with the URL";
            Self {
                generation,
                url,
                management: given("MANAGEMENT_URL").expect(needed),
                run: given("RUN").expect(needed).into(),
                port: None,
                shared: true,
                own: None,
            }
        })
        .await
    }

    /// A node of the test's own; takes 3 to 10 s.
    pub async fn start(generation: Generation) -> Self {
        Self::with(generation, "").await
    }

    /// The same with more lines in its configuration, such as `consumer_timeout = 2000`.
    pub async fn with(generation: Generation, configuration: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("rabbitmq-").tempdir();
        let folder = folder.expect("there is a folder for temporary files");
        std::fs::write(folder.path().join("extra.conf"), configuration)
            .expect("a temporary folder can be written to");
        let run = folder.path().to_owned();
        let script = place::repository("scripts/brokers");
        let down = r#""$0" down --kill; rm -rf "$BROKERS_RUN""#;
        let down = ["sh", "-c", down, &script.to_string_lossy()];
        let guard = Guard::running(&down, &[("BROKERS_RUN", &run.to_string_lossy())]);
        let mut node = Self {
            generation,
            url: String::new(),
            management: String::new(),
            run,
            port: Some(place::free_ports(20)),
            shared: false,
            own: Some((guard, folder)),
        };
        node.up(&[]).await;
        node
    }

    /// Where a client finds it, for AMQP 0-9-1 and, with 4, for AMQP 1.0.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Where an MQTT client finds it.
    #[must_use]
    pub fn mqtt_url(&self) -> String {
        let (head, port) = self.url.rsplit_once(':').expect("the URL has a port");
        let port: u16 = port.parse().expect("the port is a number");
        format!("{}:{}", head.replacen("amqp", "mqtt", 1), port + 1)
    }

    /// A virtual host of the caller's own: its URL. It stays until the node ends.
    pub async fn vhost(&self) -> String {
        let name = unique("vhost");
        self.ctl(&["add_vhost", &name]).await;
        self.ctl(&["set_permissions", "-p", &name, "guest", ".*", ".*", ".*"])
            .await;
        format!("{}/{name}", self.url)
    }

    /// Run `rabbitmqctl`, and have what it says; fails the test when that fails.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["ctl", self.generation.server(), "--quiet"];
        all.extend(arguments);
        self.script(&all).await
    }

    /// Ask the management interface: a method, a path such as `/api/queues/%2F`, and the body of it if
    /// there is one. The answer is null where there is none.
    ///
    /// # Errors
    ///
    /// The status, when it is no success.
    pub async fn management(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<serde_json::Value, u16> {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "15",
            "--request",
            method,
        ]);
        curl.args([
            "--header",
            "content-type: application/json",
            "--write-out",
            "\n%{http_code}",
        ]);
        if let Some(body) = body {
            curl.args(["--data", &body.to_string()]);
        }
        // As it is: `%2F` is the name of the default virtual host.
        curl.arg("--path-as-is")
            .arg(format!("{}{path}", self.management));
        let output = run(curl).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "curl {path}: {output:?}");
        let (answer, status) = text.rsplit_once('\n').expect("curl writes the status");
        match status.parse().expect("a status is a number") {
            200..300 => Ok(serde_json::from_str(answer).unwrap_or_default()),
            status => Err(status),
        }
    }

    /// How many messages of a queue are ready and how many unacknowledged, by `rabbitmqctl`, which unlike
    /// the management interface is never behind.
    pub async fn depth(&self, vhost: &str, queue: &str) -> (u64, u64) {
        let listing = ["list_queues", "-p", vhost, "--no-table-headers", "name"];
        let counts = ["messages_ready", "messages_unacknowledged"];
        let text = self.ctl(&[&listing[..], &counts].concat()).await;
        let row = text.lines().find_map(|line| {
            let mut fields = line.split('\t');
            (fields.next() == Some(queue)).then(|| fields.map(str::parse).collect::<Vec<_>>())
        });
        match row.as_deref() {
            Some([Ok(ready), Ok(unacknowledged)]) => (*ready, *unacknowledged),
            _ => panic!("there is no queue {queue} in {vhost}:\n{text}"),
        }
    }

    /// End it in good order. The test's own only, as with whatever ends it.
    pub async fn stop(&self) {
        self.own();
        self.script(&["down", self.generation.server()]).await;
    }

    /// End it as a crash would. A quorum queue that was declared within the last 8 s is unusable after
    /// that, by the server's own fault.
    pub async fn kill(&self) {
        self.own();
        self.script(&["down", "--kill", self.generation.server()])
            .await;
    }

    /// Start it again, with its data and its ports; ended first, in good order, if it runs.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.up(&["--keep"]).await;
    }

    fn own(&self) {
        assert!(!self.shared, "others share this node: take one of your own");
    }

    async fn up(&mut self, how: &[&str]) {
        let words = [&["up", self.generation.server()], how].concat();
        let text = self.script(&words).await;
        let value = |what: &str| {
            let name = self.generation.name(what);
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let value = lines.find_map(|(key, value)| (key == name).then(|| value.to_owned()));
            value.unwrap_or_else(|| panic!("`scripts/brokers up` did not say {name}:\n{text}"))
        };
        (self.url, self.management) = (value("URL"), value("MANAGEMENT_URL"));
    }

    async fn script(&self, words: &[&str]) -> String {
        let mut command = Command::new(place::repository("scripts/brokers"));
        command.args(words).env("BROKERS_RUN", &self.run);
        command.env("RABBITMQ_EXTRA_CONF", self.run.join("extra.conf"));
        match self.port {
            Some(port) => command.env("BROKERS_PORT", port.to_string()),
            None => command.env_remove("BROKERS_PORT"),
        };
        let output = run(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "scripts/brokers {words:?}:\n{said}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        if self.own.is_some() {
            let mut command = Command::new(place::repository("scripts/brokers"));
            command.args(["down", "--kill", self.generation.server()]);
            // Where it cannot be run there was nothing started either.
            drop(command.env("BROKERS_RUN", &self.run).output());
        }
    }
}

/// A name that nobody else uses on a server that is shared.
#[must_use]
pub fn unique(stem: &str) -> String {
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("{stem}-{}-{number}", std::process::id())
}

/// Run a command beside the runtime, which a restart of some seconds would else stand still for.
async fn run(mut command: Command) -> Output {
    let name = command.get_program().to_owned();
    let (tell, told) = tokio::sync::oneshot::channel();
    // Nobody is there to be told when the test has ended.
    std::thread::spawn(move || drop(tell.send(command.output())));
    let output = tokio::time::timeout(Duration::from_mins(3), told).await;
    output
        .expect("a command ends within minutes")
        .expect("the thread says how it went")
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", name.display()))
}
