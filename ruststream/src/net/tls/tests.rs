use std::path::Path;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertifiedIssuer;
use rcgen::DnType;
use rcgen::IsCa;
use rcgen::KeyPair;
use rcgen::date_time_ymd;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::sign::SingleCertAndKey;

use super::*;
use crate::net::dial::dial;
use crate::net::dial::explain;
use crate::net::dial::is_tls_record;
use crate::net::testing::LIMIT;
use crate::net::testing::Server;

// case: F20
#[tokio::test]
async fn a_server_of_a_private_ca_is_trusted_when_the_ca_is_given() {
    let ca = Authority::new();
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    greet(&server, "localhost", &Tls::system().ca_pem(ca.pem())).await;
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "ca.pem", &ca.pem());
    greet(&server, "localhost", &Tls::system().ca_file(path)).await;
}

// case: F20 L01
#[tokio::test]
async fn an_unknown_ca_is_an_error_with_a_cure() {
    let ca = Authority::new();
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    let tls = Tls::system().ca_pem(Authority::named("another").pem());
    let error = refusal(&server, "localhost", &tls).await;
    assert!(!error.is_transient());
    let expected = format!(
        "the certificate of `localhost:{}` is refused: it is signed by a CA that is not trusted \
         here: set `ca=` / `Tls::ca_file` to the certificate of that CA",
        server.port
    );
    assert_eq!(error.reason, expected);
}

#[tokio::test]
async fn a_ca_that_was_made_anew_is_an_error_with_a_cure() {
    let ca = Authority::new();
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    let error = refusal(&server, "localhost", &authority()).await;
    assert!(!error.is_transient());
    assert!(
        error.reason.contains("under the same name: set `ca=`"),
        "{error}"
    );
}

// case: F20
#[tokio::test]
async fn a_certificate_for_another_host_names_both() {
    let ca = Authority::new();
    let server = ca.server(&ca.leaf(&["a.example", "10.0.0.1"])).await;
    let tls = Tls::system().ca_pem(ca.pem());
    let error = refusal(&server, "localhost", &tls).await;
    assert!(!error.is_transient());
    for part in [
        "not for `localhost`",
        "`a.example`",
        "`10.0.0.1`",
        "`server_name=`",
    ] {
        assert!(error.reason.contains(part), "{part}: {error}");
    }
    greet(&server, "localhost", &tls.server_name("a.example")).await;
}

// case: F21
#[tokio::test]
async fn an_ip_address_in_a_certificate_is_a_name() {
    let ca = Authority::new();
    let tls = Tls::system().ca_pem(ca.pem());
    let server = ca.server(&ca.leaf(&["127.0.0.1"])).await;
    greet(&server, "127.0.0.1", &tls).await;
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    let error = refusal(&server, "127.0.0.1", &tls).await;
    for part in ["not for `127.0.0.1`", "`localhost`"] {
        assert!(error.reason.contains(part), "{part}: {error}");
    }
}

// case: F21
#[tokio::test]
async fn a_certificate_of_version_1_is_named_as_such() {
    let ca = Authority::new();
    let (_, key) = ca.leaf(&["localhost"]);
    let old = CertificateDer::from_pem_slice(include_bytes!("version1.pem")).unwrap();
    let server = ca.server(&(old, key)).await;
    let error = refusal(&server, "localhost", &Tls::system().ca_pem(ca.pem())).await;
    assert!(!error.is_transient());
    assert!(
        error.reason.contains("the certificate of `localhost:"),
        "{error}"
    );
    assert!(
        error.reason.contains("X.509 certificate of version 1"),
        "{error}"
    );
}

#[tokio::test]
async fn an_expired_certificate_says_since_when() {
    let ca = Authority::new();
    let tls = Tls::system().ca_pem(ca.pem());
    let expired = ca.sign(&["localhost"], |params| {
        params.not_after = date_time_ymd(2001, 2, 3);
    });
    let error = refusal(&ca.server(&expired).await, "localhost", &tls).await;
    assert!(!error.is_transient());
    assert!(
        error.reason.contains("expired on 2001-02-03T00:00:00Z"),
        "{error}"
    );
    let early = ca.sign(&["localhost"], |params| {
        params.not_before = date_time_ymd(3001, 2, 3);
    });
    let error = refusal(&ca.server(&early).await, "localhost", &tls).await;
    assert!(
        error
            .reason
            .contains("not valid before 3001-02-03T00:00:00Z"),
        "{error}"
    );
}

// case: F20
#[tokio::test]
async fn a_plain_port_does_not_answer_in_tls() {
    let talks = Server::start(async |mut stream| {
        stream.read_exact(&mut [0; 16]).await.unwrap();
        stream.write_all(b"AMQP\0\0\x09\x01").await.unwrap();
        stream.shutdown().await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    })
    .await;
    let error = refusal(&talks, "localhost", &authority()).await;
    assert!(!error.is_transient());
    assert!(error.reason.contains("does not answer in TLS"), "{error}");
    let closes = Server::start(async |mut stream| {
        // Read to the end of the hello, for a close with bytes unread is a reset.
        stream.read(&mut [0; 4096]).await.map(drop).unwrap();
    })
    .await;
    let error = refusal(&closes, "localhost", &authority()).await;
    assert!(error.is_transient());
    assert!(error.reason.contains("during the TLS handshake"), "{error}");
}

// case: F20
#[tokio::test]
async fn an_encrypted_port_answers_plain_text_with_an_alert() {
    let ca = Authority::new();
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    let mut stream = dial(&server.at("plain", "localhost"), None, LIMIT)
        .await
        .expect("TCP is up");
    stream
        .write_all(b"\x10\x10\0\x04MQTT\x05\x02\0\x3c\0\0\x03abc")
        .await
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(is_tls_record(&answer), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_it_or_says_so() {
    let ca = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(ca.0.der().clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots.into(), default_provider().into())
            .build()
            .unwrap();
    let config = server_builder()
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(resolver(&ca.leaf(&["localhost"])));
    let server = serve(config).await;

    let tls = Tls::system().ca_pem(ca.pem());
    let endpoint = server.at("tls", "localhost");
    let mut stream = dial(&endpoint, Some(&tls), LIMIT)
        .await
        .expect("the server says no later");
    let error = stream
        .read(&mut [0; 8])
        .await
        .expect_err("it wants a certificate");
    let error = explain(&error, &endpoint);
    assert!(!error.is_transient());
    assert!(
        error
            .reason
            .contains("asks for a client certificate: set `client_cert=`"),
        "{error}"
    );

    let (certificate, key) = ca.leaf_pem(&["client"]);
    let pem = tls
        .clone()
        .client_certificate_pem(certificate.clone(), key.clone());
    greet(&server, "localhost", &pem).await;
    let folder = TempDir::new().unwrap();
    let files = tls.client_certificate_files(
        write(&folder, "client.pem", &certificate),
        write(&folder, "client.key", &key),
    );
    greet(&server, "localhost", &files).await;
}

#[tokio::test]
async fn a_ready_configuration_is_used_as_it_is() {
    let ca = Authority::new();
    let config = Tls::system().ca_pem(ca.pem()).client_config().unwrap();
    let server = ca.server(&ca.leaf(&["localhost"])).await;
    let tls = Tls::from_config(Arc::clone(&config));
    assert!(Arc::ptr_eq(&tls.client_config().unwrap(), &config));
    greet(&server, "localhost", &tls).await;
}

#[tokio::test]
async fn a_renewed_file_is_read_at_the_next_connect() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "ca.pem", &old.pem());
    let tls = Tls::system().ca_file(&path);
    let server = new.server(&new.leaf(&["localhost"])).await;
    refusal(&server, "localhost", &tls).await;
    std::fs::write(&path, new.pem()).unwrap();
    greet(&server, "localhost", &tls).await;
}

#[cfg(feature = "websocket")]
#[tokio::test]
async fn a_websocket_can_be_encrypted() {
    use tokio_tungstenite::tungstenite::handshake::server::Request;
    use tokio_tungstenite::tungstenite::handshake::server::Response;

    let ca = Authority::new();
    let config = server_builder()
        .with_no_client_auth()
        .with_cert_resolver(resolver(&ca.leaf(&["localhost"])));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            #[expect(clippy::result_large_err, reason = "the library's signature")]
            let agree = |request: &Request, mut response: Response| {
                let asked = request.headers()["sec-websocket-protocol"].clone();
                response
                    .headers_mut()
                    .insert("sec-websocket-protocol", asked);
                Ok(response)
            };
            let mut socket = tokio_tungstenite::accept_hdr_async(stream, agree)
                .await
                .unwrap();
            socket.close(None).await.unwrap();
        }
    })
    .await;
    let tls = Tls::system().ca_pem(ca.pem());
    let mut stream = dial(&server.at("wss", "localhost"), Some(&tls), LIMIT)
        .await
        .expect("it is one");
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    let ca = Authority::new();
    let (certificate, key) = ca.leaf_pem(&["client"]);
    let (_, other_key) = ca.leaf_pem(&["other"]);
    let folder = TempDir::new().unwrap();
    let good = write(&folder, "good.pem", &certificate);
    let good_key = write(&folder, "good.key", &key);
    let other_key = write(&folder, "other.key", &other_key);
    let empty = write(&folder, "empty.pem", "");
    let broken = write(
        &folder,
        "broken.pem",
        &certificate.replace("-----END", "-----ENT"),
    );
    let garbled = write(
        &folder,
        "garbled.key",
        &key.replace("KEY-----\n", "KEY-----\n!"),
    );
    let encrypted = write(
        &folder,
        "encrypted.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let missing = folder.path().join("missing.pem");
    let client = |certificate: &Path, key: &Path| {
        Tls::system()
            .ca_pem(ca.pem())
            .client_certificate_files(certificate, key)
    };
    #[rustfmt::skip]
    let rows = [
        (Tls::system().ca_file(&missing),      "missing.pem",   "no such file"),
        (Tls::system().ca_file(folder.path()), "",              "it is a directory"),
        (Tls::system().ca_file(&empty),        "empty.pem",     "no certificate in"),
        (Tls::system().ca_file(&broken),       "broken.pem",    "not valid PEM"),
        (Tls::system().ca_file(&good_key),     "good.key",      "no certificate in"),
        (client(&missing, &good_key),          "missing.pem",   "no such file"),
        (client(&good, &missing),              "missing.pem",   "no such file"),
        (client(&good, &good),                 "good.pem",      "no private key in"),
        (client(&good, &encrypted),            "encrypted.key", "without a passphrase"),
        (client(&good, &garbled),              "garbled.key",   "not valid PEM"),
        (client(&good, &other_key),            "other.key",     "is not that of the first certificate"),
    ];
    let secret = &key.lines().nth(1).unwrap()[..20];
    for (tls, file, problem) in rows {
        let error = tls.client_config().expect_err(problem);
        assert!(!error.is_transient(), "{error}");
        assert!(error.reason.contains(file), "{file}: {error}");
        assert!(error.reason.contains(problem), "{problem}: {error}");
        assert!(!error.reason.contains(secret), "{error}");
    }
    client(&good, &good_key)
        .client_config()
        .expect("all is well");
}

// case: L01
#[test]
fn a_key_is_not_shown() {
    let tls = Tls::system()
        .ca_pem("AUTHORITY")
        .client_certificate_pem("CHAIN", "KEY");
    let shown = format!("{tls:?} {:?}", tls.client_config().map(drop));
    for part in ["AUTHORITY", "CHAIN", "KEY", "65, 85"] {
        assert!(!shown.contains(part), "{shown}");
    }
}

#[test]
fn parameters_of_a_url_make_one() {
    let from = |url: &str| {
        let endpoint = crate::net::testing::endpoint(url);
        let mut query = endpoint.query();
        let tls = Tls::from_query(endpoint.scheme().tls, &mut query);
        query.finish()?;
        tls
    };
    assert!(from("tls://h").expect("valid").is_none());
    let tls = from("tls://h?ca=/a+b/c%20d.pem&client_cert=c.pem&client_key=c.key&server_name=n")
        .expect("valid")
        .expect("it is set");
    let shown = format!("{tls:?}");
    assert_eq!(
        shown,
        "Tls { authorities: [`/a+b/c d.pem`], identity: Some((`c.pem`, `c.key`)), server_name: Some(\"n\") }"
    );
    for (url, problem) in [
        (
            "tls://h?client_cert=c.pem",
            "`client_cert` needs `client_key`",
        ),
        (
            "tls://h?client_key=c.key",
            "`client_key` needs `client_cert`",
        ),
        ("tls://h?ca=", "`ca` is empty"),
        (
            "plain://h?ca=c.pem",
            "`ca` is for an encrypted connection only",
        ),
    ] {
        let error = from(url).expect_err(url);
        assert!(error.reason.contains(problem), "{error}");
    }
}

#[test]
fn a_name_that_no_certificate_has_is_refused() {
    let endpoint = crate::net::testing::endpoint("tls://a..b");
    let error = Tls::system().name_for(&endpoint).expect_err("it is none");
    assert!(!error.is_transient());
    assert!(error.reason.contains("`a..b`"), "{error}");
    assert!(Tls::system().server_name("n").name_for(&endpoint).is_ok());
}

type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        Self::named("the CA of a test")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn leaf(&self, names: &[&str]) -> Identity {
        self.sign(names, |_| {})
    }

    fn leaf_pem(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(owned(names)).unwrap();
        (
            params.signed_by(&key, &*self.0).unwrap().pem(),
            key.serialize_pem(),
        )
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(owned(names)).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &*self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.der().clone(), key)
    }

    async fn server(&self, identity: &Identity) -> Server {
        let config = server_builder()
            .with_no_client_auth()
            .with_cert_resolver(resolver(identity));
        serve(config).await
    }
}

/// It says `hello`; a handshake that fails ends the connection, as servers do.
async fn serve(config: ServerConfig) -> Server {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                stream.write_all(b"hello").await.unwrap();
                stream.shutdown().await.unwrap();
            }
        }
    })
    .await
}

fn server_builder()
-> tokio_rustls::rustls::ConfigBuilder<ServerConfig, tokio_rustls::rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// Unlike a server that reads its own certificate, it shows any.
fn resolver((certificate, key): &Identity) -> Arc<SingleCertAndKey> {
    let key = any_supported_type(key).unwrap();
    Arc::new(CertifiedKey::new(vec![certificate.clone()], key).into())
}

async fn greet(server: &Server, host: &str, tls: &Tls) {
    let mut stream = dial(&server.at("tls", host), Some(tls), LIMIT)
        .await
        .expect("it is trusted");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
}

async fn refusal(server: &Server, host: &str, tls: &Tls) -> BrokerError {
    match dial(&server.at("tls", host), Some(tls), LIMIT).await {
        Ok(_) => panic!("it connected"),
        Err(error) => {
            assert!(!format!("{error:?}").contains("ss-W0rd"), "{error:?}");
            error
        }
    }
}

fn authority() -> Tls {
    Tls::system().ca_pem(Authority::new().pem())
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}
