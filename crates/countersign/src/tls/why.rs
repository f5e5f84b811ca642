//! What went wrong in TLS, in words: the cause, and what to do about it.

use countersign_core::utc::Utc;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertRevocationListError, CertificateError};
use std::error::Error;
use std::fmt;
use std::io;

/// How many of the names in a certificate are said: it may have thousands.
const NAMES_SHOWN_MAX: usize = 8;

/// On which side the error was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Client,
    /// The one that listens.
    Server,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub cause: String,
    pub hint: String,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

impl Error for Why {}

impl Why {
    fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }

    /// Of a host that no certificate can name.
    pub(super) fn of_host(host: &str) -> Self {
        Self::new(format!("`{host}` cannot be in a certificate"), "the address needs a host name or an IP address")
    }

    /// Of a handshake that did not end in time.
    pub fn of_time(other: &str) -> Self {
        Self::new(
            format!("the TLS handshake with {other} took too long"),
            "is this its port, and does it speak TLS there?",
        )
    }

    /// Of an error that was met on this side, with the other one named.
    pub fn of(error: &(dyn Error + 'static), side: Side, other: &str) -> Self {
        Self::of_tls(error, side, other).unwrap_or_else(|| {
            Self::new(
                format!("the connection with {other} ended before TLS was spoken: {error}"),
                "try again; if it stays like this, look at the log of the other side",
            )
        })
    }

    /// The same where TLS is the cause; `None` where it is something else, such as the network.
    pub fn of_tls(error: &(dyn Error + 'static), side: Side, other: &str) -> Option<Self> {
        Some(match tls_error(error)? {
            rustls::Error::InvalidCertificate(error) => certificate(error, side, other),
            rustls::Error::InvalidCertRevocationList(error) => revocation_list(error),
            rustls::Error::NoCertificatesPresented => Self::new(
                format!("{other} has shown no certificate, and this listener takes no one without"),
                "give the client a certificate, or leave out `require_client_certificate` under [tls]",
            ),
            rustls::Error::AlertReceived(alert) => alerted(*alert, side, other),
            rustls::Error::InvalidMessage(_) => match side {
                Side::Client => Self::new(
                    format!("{other} does not speak TLS"),
                    "is this its port? an address without TLS begins with http://",
                ),
                Side::Server => Self::new(
                    format!("{other} does not speak TLS"),
                    "the address of this listener begins with https://",
                ),
            },
            rustls::Error::PeerIncompatible(error) => Self::new(
                format!("there is no version or method of TLS that {other} and this side both speak: {error:?}"),
                "TLS 1.2 and 1.3 are spoken; update the other side",
            ),
            other_error => {
                Self::new(format!("TLS with {other} failed: {other_error}"), "look at the log of the other side")
            }
        })
    }

    /// Whether the other side has refused the certificate of this one, or wants one: then it has looked at nothing that was sent.
    pub fn is_refusal(error: &(dyn Error + 'static)) -> bool {
        use AlertDescription as Alert;
        matches!(
            tls_error(error),
            Some(rustls::Error::AlertReceived(
                Alert::CertificateRequired
                    | Alert::NoCertificate
                    | Alert::BadCertificate
                    | Alert::UnsupportedCertificate
                    | Alert::CertificateRevoked
                    | Alert::CertificateExpired
                    | Alert::CertificateUnknown
                    | Alert::UnknownCA
                    | Alert::AccessDenied
                    | Alert::DecryptError
            ))
        )
    }
}

/// The error of TLS in a chain of causes. One of input and output holds its own where `source` does not look.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match held {
            Some(held) => Some(held as &'a (dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn certificate(error: &CertificateError, side: Side, other: &str) -> Why {
    use CertificateError as Wrong;
    let whose = format!("the certificate of {other}");
    let renew = match side {
        Side::Client => {
            "its operator renews it; a running gate takes the new file by itself. Or is this machine's clock wrong?"
        }
        Side::Server => "give the client a new one; is this machine's clock right?",
    };
    let trust = match side {
        Side::Client => {
            "name the file with the certificate of its authority: --ca, COUNTERSIGN_CA or `ca` in countersign.toml \
             (of an MCP server, `ca` in its own table)"
        }
        Side::Server => "its authority must be in the file that `client_ca` under [tls] names",
    };
    match error {
        Wrong::ExpiredContext { not_after, .. } => Why::new(format!("{whose} expired at {}", time(not_after)), renew),
        Wrong::Expired => Why::new(format!("{whose} has expired"), renew),
        Wrong::NotValidYetContext { not_before, .. } => {
            Why::new(format!("{whose} is good only from {} on", time(not_before)), "is this machine's clock right?")
        }
        Wrong::NotValidYet => Why::new(format!("{whose} is not good yet"), "is this machine's clock right?"),
        Wrong::Revoked => Why::new(format!("{whose} has been revoked"), "get one with a new key from its authority"),
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            Why::new(format!("{whose} comes from no authority that is trusted here"), trust)
        }
        Wrong::NotValidForNameContext { presented, .. } if !presented.is_empty() => Why::new(
            format!(
                "{whose} is for other names: {}",
                presented.iter().take(NAMES_SHOWN_MAX).map(|name| plain(name)).collect::<Vec<_>>().join(", ")
            ),
            "call it by one of these, or get it a certificate that has this name as a subjectAltName",
        ),
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => Why::new(
            format!("{whose} does not have this name"),
            "get it a certificate that has this name as a subjectAltName; the common name does not count",
        ),
        Wrong::UnknownRevocationStatus => Why::new(
            format!("no list says whether {whose} has been revoked"),
            "the file that `crl` names must hold the list of every authority of its chain",
        ),
        Wrong::ExpiredRevocationListContext { next_update, .. } => Why::new(
            format!(
                "the list that would say whether {whose} has been revoked is out of date since {}",
                time(next_update)
            ),
            "put a new list where `crl` says; it is read again without a restart",
        ),
        Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => Why::new(
            format!("{whose} is for another use"),
            "its extendedKeyUsage must have serverAuth for a server and clientAuth for a client",
        ),
        Wrong::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => Why::new(
            format!("{whose} is that of an authority, which no one may be called by"),
            "make one that is no authority (basicConstraints CA:FALSE), signed by it or by itself",
        ),
        error => Why::new(format!("{whose} is refused: {error}"), trust),
    }
}

fn revocation_list(error: &CertRevocationListError) -> Why {
    Why::new(
        format!("the list of revoked certificates cannot be used: {error:?}"),
        "`crl` names a file in PEM with the lists of the authorities themselves",
    )
}

fn alerted(alert: AlertDescription, side: Side, other: &str) -> Why {
    use AlertDescription as Alert;
    let mine = match side {
        Side::Client => "the client certificate that was shown",
        Side::Server => "this listener's certificate",
    };
    let named = "`certificate` and `certificate_key` in countersign.toml name a client's";
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => {
            Why::new(format!("{other} takes no one without a client certificate"), named)
        }
        Alert::CertificateExpired => Why::new(format!("{other} says that {mine} has expired"), "renew it"),
        Alert::CertificateRevoked => {
            Why::new(format!("{other} says that {mine} has been revoked"), "get one with a new key from its authority")
        }
        Alert::UnknownCA => Why::new(
            format!("{other} does not trust the authority of {mine}"),
            match side {
                Side::Client => "get one from an authority that it trusts",
                Side::Server => "give the client the certificate of this listener's authority",
            },
        ),
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            Why::new(format!("{other} refuses {mine} ({alert:?})"), "the log of the other side says why")
        }
        alert => Why::new(format!("{other} ended TLS with an alert: {alert:?}"), "the log of the other side says why"),
    }
}

fn time(at: &UnixTime) -> Utc {
    Utc(at.as_secs().saturating_mul(1000))
}

/// A name as it stands in a certificate: the library says of which kind it is, too.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(name, |inner| inner.trim_matches('"'))
}
