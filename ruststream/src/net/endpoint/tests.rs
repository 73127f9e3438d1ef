use proptest::prelude::*;

use super::*;

// case: L01
#[test]
fn no_error_and_no_debug_shows_a_credential() {
    let urls = [
        "mqtt://svc:p%40ss-W0rd@localhost",
        "mqtt://svc:p%40ss-W0rd@localhost:70000",
        "mqtt://svc:p%40ss-W0rd@",
        "mqtt://svc:p%40ss-W0rd@[::zz]",
        "mqtt://svc:p%40ss-W0rd@lo calhost",
        "mqtt://svc:p%40ss-W0rd@loc*host",
        "mqtt://svc:p@ss-W0rd/1@localhost",
        "mqtt://svc:1/p@ss-W0rd@localhost",
        "mqtt://svc:1?p@ss-W0rd@localhost",
        "mqtt://svc:1#p@ss-W0rd@localhost",
        "mqtt://svc:1#ss-W0rd",
        "mqtt://svc:1?ss-W0rd=1",
        "mqtt://svc:p%ff-ss-W0rd@localhost",
        "http://svc:p%40ss-W0rd@localhost",
        "svc:p%40ss-W0rd@localhost",
        "svc:p%40ss-W0rd://localhost",
    ];
    for url in urls {
        let shown = match parse(url) {
            Ok(endpoint) => {
                let query = endpoint.query().finish();
                // Without an `@` the user stands where the host does.
                let place = endpoint.location().replace("mqtt://svc", "");
                format!("{endpoint:?} {place} {query:?}").replace("mqtt://svc", "")
            }
            Err(error) => {
                assert!(!error.is_transient(), "{url}");
                format!("{error} {error:?}")
            }
        };
        for part in [
            "svc",
            "p%40ss",
            "p@ss",
            "W0rd",
            "cEBzcy1XMHJk",
            "c3ZjOnBAc3MtVzByZA",
        ] {
            assert!(!shown.contains(part), "{url} -> {shown}");
        }
    }
}

#[test]
fn credentials_are_decoded() {
    let endpoint = parse("mqtt://sv%2Fc:p%40ss+%2FW0rd@localhost").expect("valid");
    assert_eq!(endpoint.user(), Some("sv/c"));
    assert_eq!(endpoint.password().map(Secret::expose), Some("p@ss+/W0rd"));
    let endpoint = parse("mqtt://localhost").expect("valid");
    assert_eq!((endpoint.user(), endpoint.password()), (None, None));
    let endpoint = parse("mqtt://:secret@localhost").expect("valid");
    assert_eq!(endpoint.user(), Some(""));
}

#[test]
#[rustfmt::skip]
fn a_url_says_where_the_server_is() {
    let rows = [
        ("mqtt://localhost",                 "localhost",   1883, "",       "mqtt://localhost:1883"),
        ("MQTT://localhost:1",               "localhost",   1,    "",       "mqtt://localhost:1"),
        ("mqtts://u:p@a.example/x?keep=1s",  "a.example",   8883, "/x",     "mqtts://a.example:8883/x"),
        ("mqtt://[::1]:1884/",               "::1",         1884, "/",      "mqtt://[::1]:1884/"),
        ("mqtt://127.0.0.1/%2Fshop",         "127.0.0.1",   1883, "/%2Fshop", "mqtt://127.0.0.1:1883/%2Fshop"),
        ("mqtt://my_server",                 "my_server",   1883, "",       "mqtt://my_server:1883"),
    ];
    for (url, host, port, path, location) in rows {
        let endpoint = parse(url).expect(url);
        assert_eq!(
            (endpoint.host(), endpoint.port(), endpoint.path(), endpoint.location().as_str()),
            (host, port, path, location),
            "{url}"
        );
    }
}

#[test]
fn what_is_wrong_is_said_with_an_example() {
    let rows = [
        ("localhost:1883", "no `://`"),
        ("http://localhost", "scheme"),
        ("mqtt://", "no host"),
        ("mqtt://:1883", "no host"),
        ("mqtt://localhost:99999", "port"),
        ("mqtt://localhost:0", "port 0"),
        ("mqtt://::1", "`[`"),
        ("mqtt://[::1", "IPv6"),
        ("mqtt://local host", "blank"),
        ("mqtt://m\u{fc}nchen.example", "ASCII form"),
        ("mqtt://localhost#x", "`%23`"),
        ("mqtt://u:a/b@localhost", "`%2F`"),
    ];
    for (url, word) in rows {
        let error = parse(url).expect_err(url).to_string();
        assert!(error.contains(word), "{url}: {error}");
        assert!(error.contains("`mqtt"), "{url}: {error}");
    }
}

#[test]
fn a_path_is_one_name() {
    let name = |url: &str| parse(url).expect(url).path_name();
    assert_eq!(name("mqtt://h").expect("valid"), None);
    assert_eq!(name("mqtt://h/").expect("valid").as_deref(), Some(""));
    assert_eq!(name("mqtt://h/%2f").expect("valid").as_deref(), Some("/"));
    assert_eq!(
        name("mqtt://h/shop").expect("valid").as_deref(),
        Some("shop")
    );
    let error = name("mqtt://h/a/b").expect_err("two names");
    assert!(error.to_string().contains("`%2F`"), "{error}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), rest in "[a-z0-9:/?#@\\[\\]%&=.+ ]{0,40}") {
        for url in [text.clone(), format!("mqtt://{text}"), format!("mqtt://{rest}")] {
            if let Ok(endpoint) = parse(&url) {
                prop_assert!(!endpoint.host().is_empty());
                let _shown = (endpoint.location(), endpoint.path_name().is_ok(), endpoint.query().finish().is_ok());
            }
        }
    }

    // case: L01
    #[test]
    fn no_password_is_shown(password in "[!-~]{1,6}SECRET[!-~]{0,6}") {
        let shown = match parse(&format!("mqtt://svc:{password}@localhost/path?a=1")) {
            Ok(endpoint) => format!("{endpoint:?} {} {:?}", endpoint.location(), endpoint.query().finish()),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains("SECRET"), "{}", shown);
    }

    #[test]
    fn an_encoded_password_comes_back(password in any::<String>()) {
        let encoded = percent_encoding::utf8_percent_encode(&password, percent_encoding::NON_ALPHANUMERIC);
        let endpoint = parse(&format!("mqtt://svc:{encoded}@localhost")).expect("it is encoded");
        prop_assert_eq!(endpoint.password().map_or("", Secret::expose), password);
    }
}

fn parse(url: &str) -> Result<Endpoint, BrokerError> {
    let scheme = |name, port, tls| Scheme {
        name,
        port,
        tls,
        websocket: false,
    };
    Endpoint::parse(
        url,
        &[scheme("mqtt", 1883, false), scheme("mqtts", 8883, true)],
    )
}
