use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::net::testing::LIMIT;
use crate::net::testing::Server;
use crate::net::testing::endpoint;

#[tokio::test]
async fn a_server_is_dialled_by_name_and_by_address() {
    let server = Server::start(async |mut stream| {
        stream.write_all(b"hello").await.unwrap();
    })
    .await;
    for host in ["localhost", "127.0.0.1"] {
        let mut stream = dial(&server.at("plain", host), None, LIMIT)
            .await
            .expect(host);
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }
}

#[tokio::test]
async fn small_packets_are_sent_at_once() {
    let server = Server::start(async |_| {}).await;
    let stream = open(&server.at("plain", "127.0.0.1"), LIMIT)
        .await
        .expect("it listens");
    assert!(stream.nodelay().unwrap());
}

// case: F02 L01
#[tokio::test]
async fn a_closed_port_is_refused_for_now() {
    let port = Server::start(async |_| {}).await.stop().await;
    let endpoint = endpoint(&format!("plain://svc:p%40ss-W0rd@127.0.0.1:{port}"));
    let error = failure(&endpoint, LIMIT).await;
    assert!(error.is_transient());
    assert_eq!(
        error.reason,
        format!("`127.0.0.1:{port}` refuses connections: no server listens there")
    );
}

// case: F02
#[tokio::test]
async fn a_name_that_does_not_resolve_is_named() {
    let error = failure(&endpoint("plain://nonexistent.invalid"), LIMIT).await;
    assert!(error.is_transient());
    let words = "the host name `nonexistent.invalid` does not resolve";
    assert!(error.reason.starts_with(words), "{error}");
}

#[cfg(feature = "rustls")]
#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let server = Server::start(async |_stream| std::future::pending().await).await;
    let endpoint = server.at("tls", "127.0.0.1");
    let error = failure(&endpoint, Duration::from_secs(10)).await;
    assert!(error.is_transient());
    let expected = format!("`127.0.0.1:{}` did not answer within 10s", server.port);
    assert_eq!(error.reason, expected);
}

#[cfg(not(feature = "rustls"))]
#[tokio::test]
async fn an_encrypted_scheme_names_the_feature() {
    let error = failure(&endpoint("tls://localhost"), LIMIT).await;
    assert!(!error.is_transient());
    assert!(error.reason.contains("`rustls`"), "{error}");
}

#[cfg(not(feature = "websocket"))]
#[tokio::test]
async fn a_websocket_names_the_feature() {
    let server = Server::start(async |_| {}).await;
    let error = failure(&server.at("ws", "127.0.0.1"), LIMIT).await;
    assert!(!error.is_transient());
    assert!(error.reason.contains("`websocket`"), "{error}");
}

#[test]
fn only_tls_looks_like_tls() {
    assert!(is_tls_record(&[0x15, 3, 3, 0, 2, 2, 40]));
    assert!(!is_tls_record(&[0x20, 3, 0, 0, 0]));
    assert!(!is_tls_record(b"AMQP\0\0\x09\x01"));
    assert!(!is_tls_record(&[]));
}

async fn failure(endpoint: &Endpoint, limit: Duration) -> BrokerError {
    match dial(endpoint, None, limit).await {
        Ok(_) => panic!("it connected"),
        Err(error) => error,
    }
}
