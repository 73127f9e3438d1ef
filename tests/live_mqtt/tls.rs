//! Encrypted connections, and what is said when they cannot be had.

use ruststream::App;
use ruststream::Outcome;
use ruststream::Tls as Trust;
use ruststream::broker::mqtt::Mqtt;
use ruststream::testing::Script;
use support::Mosquitto;
use support::Starts;
use support::mosquitto::Config;
use support::mosquitto::Tls;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Publish;

use crate::until;

fn app(broker: Mqtt, starts: &Starts) -> App {
    let script = starts.answer(Script::topic("jobs").named("work"), |_| Outcome::Ack);
    Script::app("shop", [script]).broker(broker)
}

async fn server(tls: Tls) -> Mosquitto {
    Mosquitto::with(Config::new().with_tls(tls)).await
}

async fn receives(server: &Mosquitto, broker: Mqtt) {
    let starts = Starts::new();
    let running = app(broker, &starts).start().await.expect("it starts");
    let mut device = Client::connect(&server.url(), Connect::new("device")).await;
    let message = Publish::new("jobs", "hello");
    device.publish(Publish { qos: 1, ..message }).await;
    until("it is handled", || starts.count() == 1).await;
    running.stop().await.expect("it stops in order");
}

/// What a start that fails says.
async fn refusal(broker: Mqtt) -> String {
    let error = app(broker, &Starts::new()).start().await;
    let text = error.expect_err("it does not start").to_string();
    assert!(text.contains("`work`"), "it names the mount point: {text}");
    text
}

// case: F20 F21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_authority_is_trusted_when_it_is_named() {
    let server = server(Tls::Plain).await;
    let ca = server.certificates().ca();
    let url = format!("{}?ca={}", server.tls_url(), ca.display());
    receives(&server, Mqtt::new(&url).expect("it is a URL")).await;
    // An address in the certificate is as good as a name.
    let broker = Mqtt::new(&server.tls_url().replace("localhost", "127.0.0.1"));
    let broker = broker
        .expect("it is a URL")
        .with_tls(Trust::system().ca_file(ca));
    receives(&server, broker).await;
}

// case: F20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_authority_is_one_clear_error() {
    let server = server(Tls::Plain).await;
    let text = refusal(Mqtt::new(&server.tls_url()).expect("it is a URL")).await;
    assert!(
        text.contains("not trusted") && text.contains("`ca="),
        "{text}"
    );
    let url = format!("{}?ca=/nonexistent/ca.pem", server.tls_url());
    let text = refusal(Mqtt::new(&url).expect("it is a URL")).await;
    assert!(text.contains("/nonexistent/ca.pem"), "{text}");
}

// case: F20 F21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_wrong_is_named_as_what_it_is() {
    for (tls, words) in [
        (Tls::WrongHost, "certificate"),
        (Tls::Expired, "expired"),
        (Tls::Version1, "certificate"),
    ] {
        let server = server(tls).await;
        let ca = server.certificates().ca();
        let url = format!("{}?ca={}", server.tls_url(), ca.display());
        let text = refusal(Mqtt::new(&url).expect("it is a URL")).await;
        assert!(text.contains(words), "{tls:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_shown_where_one_is_wanted() {
    let server = server(Tls::ClientCertificate).await;
    let ca = server.certificates().ca();
    let (certificate, key) = server.certificates().client();
    let url = format!(
        "{}?ca={}&client_cert={}&client_key={}",
        server.tls_url(),
        ca.display(),
        certificate.display(),
        key.display()
    );
    receives(&server, Mqtt::new(&url).expect("it is a URL")).await;
    let url = format!("{}?ca={}", server.tls_url(), ca.display());
    let text = refusal(Mqtt::new(&url).expect("it is a URL")).await;
    assert!(text.contains("certificate"), "{text}");
}

// case: F20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_text_and_encryption_do_not_mix_in_silence() {
    let server = server(Tls::Plain).await;
    let plain = server.tls_url().replace("mqtts://", "mqtt://");
    let broker = Mqtt::new(&format!("{plain}?connect_timeout=2s")).expect("it is a URL");
    let starts = Starts::new();
    // Whether it is told by an alert or by a close is the server's.
    match app(broker, &starts).start().await {
        Err(error) => assert!(error.to_string().contains("mqtts://"), "{error}"),
        Ok(running) => {
            until("it says why", || {
                let health = format!("{:?}", running.health()["work"]);
                health.contains("encrypted port")
            })
            .await;
            drop(running);
        }
    }
    let ca = server.certificates().ca();
    let encrypted = server.url().replace("mqtt://", "mqtts://");
    let url = format!("{encrypted}?ca={}", ca.display());
    let broker = Mqtt::new(&url).expect("it is a URL");
    match app(broker, &Starts::new()).start().await {
        Err(error) => assert!(error.to_string().contains("TLS"), "{error}"),
        Ok(running) => {
            let why = || format!("{:?}", running.health()["work"]);
            until("it says why", || why().contains("TLS")).await;
            drop(running);
        }
    }
}
