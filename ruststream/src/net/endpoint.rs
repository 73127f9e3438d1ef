//! Where a server is, from its URL. No error and no `Debug` shows more of the URL than its scheme,
//! host and port: a password with an unescaped character may end up in any other part of it.

use std::fmt;
use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;
use url::Url;

use super::query::Query;
use super::secret::Secret;
use crate::broker::BrokerError;

/// A scheme that a driver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// As in the URL, in lower case.
    pub(crate) name: &'static str,
    /// The port when the URL has none.
    pub(crate) port: u16,
    /// Whether the connection is encrypted.
    pub(crate) tls: bool,
    /// Whether the protocol is carried in a websocket.
    pub(crate) websocket: bool,
}

/// A server, the credentials for it, and the parameters that came with them.
#[derive(Clone)]
pub(crate) struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<Secret>,
    path: String,
    pairs: Vec<(String, String)>,
}

impl Endpoint {
    /// Read a URL with one of `schemes`, of which there is at least one.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with an example of a right one.
    pub(crate) fn parse(url: &str, schemes: &[Scheme]) -> Result<Self, BrokerError> {
        let Some((name, rest)) = url.split_once("://") else {
            return Err(broken(schemes.first(), "has no `://` after its scheme"));
        };
        let Some(scheme) = schemes
            .iter()
            .find(|scheme| scheme.name.eq_ignore_ascii_case(name))
        else {
            return Err(broken(
                schemes.first(),
                "has a scheme that is not known here",
            ));
        };
        check_text(rest).map_err(|problem| broken(Some(scheme), problem))?;
        // Under a scheme of its own: the parser has rules for `ws` that it has for no other.
        let url = Url::parse(&format!("server://{rest}"))
            .map_err(|error| broken(Some(scheme), describe(error)))?;
        let host = read_host(&url).map_err(|problem| broken(Some(scheme), problem))?;
        let decode = |text: &str, problem: &str| match percent_decode_str(text).decode_utf8() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => Err(broken(Some(scheme), problem)),
        };
        let password = url
            .password()
            .map(|password| decode(password, "has a password that is not UTF-8"))
            .transpose()?
            .map(Secret::new);
        let user = decode(url.username(), "has a user name that is not UTF-8")?;
        let mut pairs = Vec::new();
        // Not `query_pairs`: there a `+` is a blank, which no one means in a file's name.
        for pair in url.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !pair.is_empty() {
                let problem = "has a parameter that is not UTF-8";
                pairs.push((decode(name, problem)?, decode(value, problem)?));
            }
        }
        Ok(Self {
            scheme: *scheme,
            host,
            port: url.port().unwrap_or(scheme.port),
            user: (!user.is_empty() || password.is_some()).then_some(user),
            password,
            path: url.path().to_owned(),
            pairs,
        })
    }

    /// The scheme it was given with.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, an IPv6 address without its brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port, the scheme's own where the URL has none.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The user, decoded; it may be empty where there is a password.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password, decoded.
    pub(crate) fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The path as it was written: empty, or with its leading `/`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The one name that the path is, decoded: nothing without a path, an empty one for `/`.
    ///
    /// # Errors
    ///
    /// It has several, or is not UTF-8.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "for protocols whose servers have parts with names"
        )
    )]
    pub(crate) fn path_name(&self) -> Result<Option<String>, BrokerError> {
        let Some(name) = self.path.strip_prefix('/') else {
            return Ok(None);
        };
        if name.contains('/') {
            return Err(BrokerError::permanent(format!(
                "the path of `{}` must be one name: write a `/` in it as `%2F`",
                self.authority()
            )));
        }
        match percent_decode_str(name).decode_utf8() {
            Ok(name) => Ok(Some(name.into_owned())),
            Err(_) => Err(BrokerError::permanent(format!(
                "the path of `{}` is not UTF-8",
                self.authority()
            ))),
        }
    }

    /// The parameters, to be taken one by one.
    pub(crate) fn query(&self) -> Query {
        Query::new(self.authority(), self.pairs.clone())
    }

    /// Where it is, without credentials and parameters, for logs and errors.
    pub(crate) fn location(&self) -> String {
        format!("{}{}", self.authority(), self.path)
    }

    /// `host:port`, an IPv6 address in brackets.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn authority(&self) -> String {
        format!("{}://{}", self.scheme.name, self.address())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("location", &self.location())
            .finish_non_exhaustive()
    }
}

/// What the parser would take in silence, and mean something else by.
fn check_text(rest: &str) -> Result<(), &'static str> {
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("has a blank or a control character, which is written percent-encoded (`%20`)");
    }
    let (_, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if after.contains('@') {
        return Err(
            "has an `@` after its host: in a user or password write `/` as `%2F`, `?` as `%3F`, \
             `#` as `%23` and `@` as `%40`, and so an `@` elsewhere",
        );
    }
    if after.contains('#') {
        return Err("has a `#`: write it as `%23`");
    }
    Ok(())
}

fn describe(error: url::ParseError) -> &'static str {
    match error {
        url::ParseError::EmptyHost => "has no host (an IPv6 address stands in `[` and `]`)",
        url::ParseError::InvalidPort => {
            "has a port that is not a number up to 65535; a `:` in a password is written as `%3A`, a `/` as `%2F`"
        }
        url::ParseError::InvalidIpv6Address => "has an invalid IPv6 address between `[` and `]`",
        url::ParseError::InvalidDomainCharacter => {
            "has a host with a character that no host has; an IPv6 address stands in `[` and `]`"
        }
        _ => "cannot be read as a URL",
    }
}

fn read_host(url: &Url) -> Result<String, &'static str> {
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() {
        return Err("has no host");
    }
    if url.port() == Some(0) {
        return Err("has port 0, which no server has");
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.trim_end_matches(']');
        return match address.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => Err("has an invalid IPv6 address between `[` and `]`"),
        };
    }
    // The parser leaves the host of such a scheme as it is, but for what it percent-encodes.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if host.chars().all(is_plain) {
        Ok(host.to_owned())
    } else {
        Err(
            "has a host with other characters than letters, digits, `-`, `_` and `.`; \
             an international name is written in its ASCII form (`xn--…`)",
        )
    }
}

fn broken(scheme: Option<&Scheme>, problem: &str) -> BrokerError {
    let (name, port) = scheme.map_or(("scheme", 1), |scheme| (scheme.name, scheme.port));
    BrokerError::permanent(format!(
        "the URL of the server {problem}; a right one is `{name}://user:password@localhost:{port}`"
    ))
}

#[cfg(test)]
mod tests;
