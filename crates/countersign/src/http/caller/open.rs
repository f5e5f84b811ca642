//! An open gate: every caller is believed, so only loopback may call, and no web page through its reader's browser.
//!
//! Any page can make a browser call loopback, so requests that a page of another site could have caused are refused: those
//! with a foreign `Origin`, and those whose `Host` is not this machine. An identified gate needs none of this, since a page
//! cannot sign.

use super::HttpError;
use super::certificate::scheme;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use countersign_api::{AGENT_HEADER, ErrorCode};
use countersign_core::ids::AgentId;

/// Under which name operators' entries stand when the caller gives none.
const OPERATOR: &str = "operator";

/// The agent that the request names.
pub fn agent(headers: &HeaderMap) -> Result<AgentId, HttpError> {
    named(headers)?.ok_or_else(|| {
        HttpError::new(
            ErrorCode::AgentMissing,
            "the header `Countersign-Agent` is missing",
            "name the agent that acts, for example `Countersign-Agent: refund-1`",
        )
    })
}

/// The operator that the request names, or the usual one.
pub fn operator(headers: &HeaderMap) -> Result<AgentId, HttpError> {
    match named(headers)? {
        Some(operator) => Ok(operator),
        None => AgentId::new(OPERATOR).map_err(HttpError::internal),
    }
}

fn named(headers: &HeaderMap) -> Result<Option<AgentId>, HttpError> {
    let mut values = headers.get_all(AGENT_HEADER).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refused = |why: String| {
        let hint = "send it once, as UTF-8, at most 256 bytes, in normal form C";
        Err(HttpError::new(
            ErrorCode::AgentInvalid,
            format!("the header `Countersign-Agent` is not acceptable: {why}"),
            hint,
        ))
    };
    if values.next().is_some() {
        return refused("it is there more than once".to_owned());
    }
    let Ok(name) = std::str::from_utf8(value.as_bytes()) else {
        return refused("it is not UTF-8".to_owned());
    };
    match AgentId::new(name) {
        // The gate's own entries stand under this name; no one else's may.
        Ok(name) if name == AgentId::gate() => refused("this name is the gate's own".to_owned()),
        Ok(name) => Ok(Some(name)),
        Err(error) => refused(error.to_string()),
    }
}

/// The host that a request was sent to, as its client wrote it.
pub fn host(request: &Request) -> &str {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri().authority().map(|authority| authority.as_str())).unwrap_or_default()
}

/// Refuses requests that a web page could have caused.
pub fn refuse_strangers(request: &Request) -> Result<(), HttpError> {
    let host = host(request);
    if !is_loopback(host) {
        return Err(HttpError::new(
            ErrorCode::WrongHost,
            "the `Host` of this request is not this machine",
            "call the gate as 127.0.0.1, [::1] or localhost",
        ));
    }
    if is_own_origin(scheme(request.extensions()), host, request.headers()) {
        return Ok(());
    }
    Err(HttpError::new(
        ErrorCode::CrossOrigin,
        "this request comes from a web page of another site",
        "call the gate from a program; a page may only call the gate it was loaded from",
    ))
}

/// Whether a request was caused by no page, or by one that was loaded from this very host and port. Browsers say truly where they
/// send a request and which page caused it; another port of the same machine is another origin.
pub fn is_own_origin(scheme: &str, host: &str, headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    origins.all(|origin| {
        let rest = origin.as_bytes().strip_prefix(scheme.as_bytes()).and_then(|rest| rest.strip_prefix(b"://"));
        rest == Some(host.as_bytes())
    })
}

/// Whether a host, with or without a port, is this machine.
pub fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => authority,
    };
    let ip = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || ip.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_port_of_this_machine_is_a_stranger() {
        let is_own = |origins: &[&'static str]| {
            let headers = origins.iter().map(|origin| (header::ORIGIN, axum::http::HeaderValue::from_static(origin)));
            is_own_origin("http", "127.0.0.1:8420", &headers.collect())
        };
        assert!(is_own(&[]) && is_own(&["http://127.0.0.1:8420"]));
        for other in
            ["http://127.0.0.1:3000", "http://localhost:8420", "https://127.0.0.1:8420", "http://127.0.0.1", "null"]
        {
            assert!(!is_own(&[other]), "{other}");
        }
        assert!(!is_own(&["http://127.0.0.1:8420", "http://localhost:3000"]), "the second counts as well");
        let encrypted = [(header::ORIGIN, axum::http::HeaderValue::from_static("https://gate.example"))];
        assert!(is_own_origin("https", "gate.example", &encrypted.into_iter().collect()));
    }

    #[test]
    fn only_names_of_this_machine_pass() {
        for host in ["127.0.0.1", "127.0.0.1:8642", "localhost:1", "LOCALHOST", "[::1]:8642", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1:8642", "127.0.0.1:x"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
