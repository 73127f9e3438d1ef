//! What a failed handshake means, in plain words and with the cure.

use std::time::Duration;
use std::time::UNIX_EPOCH;

use rustls_pki_types::UnixTime;
use tokio_rustls::rustls::AlertDescription;
use tokio_rustls::rustls::CertificateError;
use tokio_rustls::rustls::Error;

use crate::broker::BrokerError;

/// What `error` means for the connection to `location`.
pub(in crate::net) fn explain(error: &Error, location: &str) -> BrokerError {
    match error {
        Error::InvalidCertificate(certificate) => BrokerError::permanent(format!(
            "the certificate of `{location}` is refused: {}",
            certificate_problem(certificate)
        )),
        Error::NoCertificatesPresented => {
            BrokerError::permanent(format!("`{location}` shows no certificate"))
        }
        Error::InvalidMessage(_) => BrokerError::permanent(format!(
            "`{location}` does not answer in TLS: this is probably its port for plain connections, \
             TLS has one of its own"
        )),
        Error::PeerIncompatible(reason) => BrokerError::permanent(format!(
            "`{location}` and this client have no way of encrypting in common, TLS 1.2 or 1.3 is \
             needed: {reason:?}"
        )),
        Error::AlertReceived(alert) => explain_alert(*alert, location),
        // What else there is speaks of a peer that breaks the protocol, or of a broken connection.
        other => BrokerError::transient(format!(
            "the encrypted connection to `{location}` failed: {other}"
        )),
    }
}

/// What is wrong with a certificate, to follow a colon.
pub(super) fn problem(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) => certificate_problem(certificate),
        other => other.to_string(),
    }
}

fn explain_alert(alert: AlertDescription, location: &str) -> BrokerError {
    use AlertDescription as A;
    let reason = match alert {
        A::CertificateRequired | A::NoCertificate => {
            "asks for a client certificate: set `client_cert=` and `client_key=`, or \
             `Tls::client_certificate_files`"
        }
        A::HandshakeFailure => {
            "refuses the handshake: it asks for a client certificate (`client_cert=` and \
             `client_key=`, or `Tls::client_certificate_files`), or there is no way of encrypting in \
             common"
        }
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown => {
            "refuses the client certificate"
        }
        A::UnknownCA => "refuses the client certificate: it does not trust who signed it",
        A::CertificateExpired => "refuses the client certificate: it has expired",
        A::CertificateRevoked => "refuses the client certificate: it is revoked",
        A::AccessDenied => "refuses this client's certificate",
        A::ProtocolVersion => "speaks neither TLS 1.2 nor TLS 1.3",
        A::UnrecognisedName => "does not know the name it is called by: set `server_name=`",
        other => {
            return BrokerError::transient(format!(
                "`{location}` ended the encrypted connection: {other:?}"
            ));
        }
    };
    BrokerError::permanent(format!("`{location}` {reason}"))
}

#[allow(deprecated, reason = "each kind has a form with and without context")]
fn certificate_problem(error: &CertificateError) -> String {
    use CertificateError as C;
    match error {
        C::UnknownIssuer => "it is signed by a CA that is not trusted here: set `ca=` / \
                             `Tls::ca_file` to the certificate of that CA"
            .to_owned(),
        C::BadSignature => "it is signed by another CA than the one that is trusted here under the same \
                            name: set `ca=` / `Tls::ca_file` to that CA's present certificate"
            .to_owned(),
        C::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names = if presented.is_empty() {
                "no name at all".to_owned()
            } else {
                let names: Vec<_> = presented.iter().map(|name| plain_name(name)).collect();
                format!("`{}` only", names.join("`, `"))
            };
            format!(
                "it is not for `{}`, it is for {names}: connect by such a name, or set `server_name=` \
                 / `Tls::server_name`",
                expected.to_str()
            )
        }
        C::NotValidForName => "it is for another host".to_owned(),
        C::Expired => "it has expired (or this machine's clock is wrong)".to_owned(),
        C::ExpiredContext { not_after, .. } => format!(
            "it expired on {} (or this machine's clock is wrong)",
            show_time(*not_after)
        ),
        C::NotValidYet => "it is not valid yet (or this machine's clock is wrong)".to_owned(),
        C::NotValidYetContext { not_before, .. } => format!(
            "it is not valid before {} (or this machine's clock is wrong)",
            show_time(*not_before)
        ),
        C::Revoked => "it is revoked".to_owned(),
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            "it is not made for a server: its extended key usage lacks server authentication"
                .to_owned()
        }
        C::BadEncoding => "it is not a valid X.509 certificate".to_owned(),
        C::UnhandledCriticalExtension => "it has a critical extension that is not known here".to_owned(),
        // The verifier's own words; there is no type for them here.
        other => match other.to_string() {
            words if words.contains("UnsupportedCertVersion") => {
                "it is an X.509 certificate of version 1 or 2: make one of version 3, which has the \
                 host as a subject alternative name"
                    .to_owned()
            }
            words if words.contains("CaUsedAsEndEntity") => {
                "it is that of a CA, which cannot be a server's as well: sign one for the server with it"
                    .to_owned()
            }
            words => words,
        },
    }
}

/// `DnsName("a.example")` as `a.example`.
fn plain_name(name: &str) -> &str {
    name.split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .map_or(name, |inner| inner.trim_matches('"'))
}

/// A point of time for people. One beyond the year 9999 has no such form.
fn show_time(time: UnixTime) -> String {
    let seconds = time.as_secs().min(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}
