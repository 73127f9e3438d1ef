use futures_util::SinkExt;
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::handshake::server::ErrorResponse;
use tokio_tungstenite::tungstenite::handshake::server::Request;
use tokio_tungstenite::tungstenite::handshake::server::Response;

use super::*;
use crate::net::dial::dial;
use crate::net::testing::LIMIT;
use crate::net::testing::Server;
use crate::net::testing::endpoint;

#[tokio::test]
async fn bytes_go_both_ways_whatever_their_frames() {
    let server = Server::start(async |stream| echo_in_pieces(stream, true).await).await;
    let mut stream = dial(&server.at("ws", "127.0.0.1"), None, LIMIT)
        .await
        .expect("it is one");
    let sent: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    for piece in sent.chunks(10_000) {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
        let mut back = vec![0; piece.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert!(back == piece, "they differ");
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_without_the_subprotocol_is_refused() {
    let server = Server::start(async |stream| echo_in_pieces(stream, false).await).await;
    let error = failure(&server.at("ws", "127.0.0.1")).await;
    assert!(!error.is_transient());
    assert!(error.reason.contains("no websocket for MQTT"), "{error}");
}

#[tokio::test]
async fn a_path_without_a_websocket_is_named_as_such() {
    for (status, transient) in [("404 Not Found", false), ("503 Service Unavailable", true)] {
        let server = Server::start(move |mut stream| async move {
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap();
            assert!(request[..count].starts_with(b"GET /elsewhere HTTP/1.1\r\n"));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        })
        .await;
        let url = format!("ws://svc:p%40ss-W0rd@127.0.0.1:{}/elsewhere", server.port);
        let error = failure(&endpoint(&url)).await;
        assert_eq!(error.is_transient(), transient, "{error}");
        assert!(error.reason.contains(status), "{error}");
        assert!(!error.reason.contains("ss-W0rd"), "{error}");
    }
}

#[tokio::test]
async fn a_text_frame_ends_the_connection() {
    let server = Server::start(async |stream| {
        let mut socket = accept_hdr_async(stream, agree).await.unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        while socket.next().await.is_some_and(|frame| frame.is_ok()) {}
    })
    .await;
    let mut stream = dial(&server.at("ws", "127.0.0.1"), None, LIMIT)
        .await
        .expect("it is one");
    let error = stream.read(&mut [0; 8]).await.expect_err("it is text");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// Sends what it gets in frames of a seventh of it, with pings between.
async fn echo_in_pieces(stream: TcpStream, agrees: bool) {
    let accepted = if agrees {
        accept_hdr_async(stream, agree).await
    } else {
        accept_async(stream).await
    };
    let Ok(mut socket) = accepted else { return };
    while let Some(Ok(frame)) = socket.next().await {
        if let Message::Binary(bytes) = frame {
            for piece in bytes.chunks(bytes.len().div_ceil(7).max(1)) {
                socket.send(Message::Ping(Bytes::new())).await.unwrap();
                let piece = Bytes::copy_from_slice(piece);
                socket.send(Message::Binary(piece)).await.unwrap();
            }
        }
    }
}

#[expect(
    clippy::result_large_err,
    clippy::unnecessary_wraps,
    reason = "the library's signature"
)]
fn agree(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    assert_eq!(request.uri().path(), "/mqtt");
    assert_eq!(request.headers()["sec-websocket-protocol"], "mqtt");
    response
        .headers_mut()
        .insert("sec-websocket-protocol", HeaderValue::from_static("mqtt"));
    Ok(response)
}

async fn failure(endpoint: &Endpoint) -> BrokerError {
    match dial(endpoint, None, LIMIT).await {
        Ok(_) => panic!("it connected"),
        Err(error) => error,
    }
}
