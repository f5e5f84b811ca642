//! HTTP over TLS: whom the gate believes, and that nothing leaves before it does.

use super::http::{adapter, post};
use super::service::{Service, answer, read_request};
use super::{Told, attempt, call, found};
use crate::adapters::http::HttpAdapter;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::Write as _;
use std::sync::Arc;

/// Made for these tests, for `payments.example`; no one else trusts it.
const CERTIFICATE: &[u8] = include_bytes!("tls/service.pem");
const KEY: &[u8] = include_bytes!("tls/service.key");
const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/adapters/tests/tls/ca.pem");

/// A service that speaks TLS.
fn service() -> Service {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).unwrap());
    Service::raw(move |stream, requests| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let request = read_request(&mut stream);
        if request.is_empty() {
            return;
        }
        requests.lock().unwrap().push(request);
        stream.write_all(answer(200, "{}").as_bytes()).unwrap();
        stream.conn.send_close_notify();
        drop(stream.flush());
    })
}

fn named(service: &Service, host: &str, ca: &str) -> HttpAdapter {
    let address = service.address;
    let settings = format!("{}{ca}", super::http::LOOPBACK);
    adapter(&format!("https://{host}:{}", address.port()), &settings)
        .with_names(Arc::new(move |_, _| Ok(vec![address])))
}

#[test]
fn a_service_is_believed_by_its_certificate() {
    let service = service();
    let adapter = named(&service, "payments.example", &format!("ca = \"{CA}\""));
    for _ in 0..2 {
        let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 5_000), &Told::free()));
        assert_eq!(found, "done", "{evidence:?}");
    }
    assert!(service.requests()[0].starts_with("POST /payouts "));
}

#[test]
fn nothing_leaves_for_a_service_that_is_not_believed() {
    let service = service();
    let plain = Service::saying(answer(200, "{}"));
    for (adapter, what) in [
        (named(&service, "payments.example", ""), "another authority"),
        (named(&service, "payouts.example", &format!("ca = \"{CA}\"")), "another name"),
        (named(&plain, "payments.example", &format!("ca = \"{CA}\"")), "no TLS"),
    ] {
        let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 5_000), &Told::free()));
        assert_eq!(found, "not sent", "{what}: {evidence:?}");
        assert!(evidence.words().contains("TLS with"), "{}", evidence.words());
    }
    assert_eq!(service.requests().len(), 0);
}

#[test]
fn a_handshake_that_hangs_is_given_up_in_time() {
    let service = Service::raw(|stream, _| drop(std::io::copy(stream, &mut std::io::sink())));
    let adapter = named(&service, "payments.example", "connect_timeout = \"100ms\"");
    let started = std::time::Instant::now();
    let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 20_000), &Told::free()));
    assert_eq!(found, "not sent", "{evidence:?}");
    assert!(started.elapsed() < std::time::Duration::from_secs(19));
}

#[test]
fn certificates_that_cannot_be_read_are_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (path, part) in
        [("/nowhere/ca.pem", "cannot read /nowhere/ca.pem"), (empty.to_str().unwrap(), "no certificate")]
    {
        let text = format!("[adapters.p]\nkind = \"http\"\nbase = \"https://p.example\"\nca = \"{path}\"");
        let config = crate::config::Config::parse(&text, std::path::Path::new("")).unwrap();
        let error = crate::adapters::build(&config.adapters, &|_| None, "o").err().unwrap();
        let said = crate::terminal::Report::of_error(&error).to_string();
        assert!(said.contains(part) && said.contains("hint: "), "{said}");
    }
}
