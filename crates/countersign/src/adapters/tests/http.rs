//! HTTP calls, row by row.

use super::service::{Service, answer};
use super::{KEY, Told, attempt, call, found, probe, probed};
use crate::adapters::http::HttpAdapter;
use crate::config::Config;
use crate::config::adapters::AdapterSettings;
use countersign_core::call::{Evidence, Send};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const LOOPBACK: &str = "allow_private = [\"127.0.0.0/8\"]\n";

/// An adapter by its settings.
pub fn adapter(base: &str, more: &str) -> HttpAdapter {
    let text = format!("[adapters.payments]\nkind = \"http\"\nbase = \"{base}\"\n{more}");
    let config = Config::parse(&text, Path::new("")).unwrap();
    let AdapterSettings::Http(settings) = &config.adapters["payments"] else { panic!("is http") };
    let environment = |name: &str| (name == "TOKEN").then(|| "Bearer sesame-open-sesame".to_owned());
    HttpAdapter::new("payments", settings, &environment).unwrap()
}

/// An adapter for a service on loopback.
pub fn adapter_to(service: &Service, more: &str) -> HttpAdapter {
    adapter(&format!("http://{}/v1", service.address), &format!("{LOOPBACK}{more}"))
}

pub fn post(path: &str) -> Send {
    Send::Http { method: "POST".into(), path: path.to_owned(), body: Some(serde_json::json!({"amount": 4800})) }
}

pub fn get(path: &str) -> Send {
    Send::Http { method: "GET".into(), path: path.to_owned(), body: None }
}

/// What one attempt at a service finds.
fn at(service: &Service, timeout_ms: u64) -> (&'static str, Evidence) {
    found(attempt(&adapter_to(service, ""), &call(post("/payouts"), timeout_ms), &Told::free()))
}

#[test]
fn a_request_is_sent_whole_under_its_key_and_only_once() {
    let service = Service::saying(answer(201, "{\"id\":\"p1\"}"));
    let adapter = adapter_to(&service, "headers = { Authorization = { env = \"TOKEN\" } }");
    let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 5_000), &Told::free()));
    assert_eq!((found, evidence.status, evidence.result.as_deref()), ("done", Some(201), Some("{\"id\":\"p1\"}")));
    let requests = service.requests();
    assert_eq!((requests.len(), service.connections()), (1, 1));
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/payouts HTTP/1.1\r\n"), "{head}");
    let lower = head.to_lowercase();
    for line in [
        &format!("idempotency-key: {KEY}"),
        "content-type: application/json",
        "authorization: bearer sesame-open-sesame",
        "connection: close",
        &format!("user-agent: countersign/{}", env!("CARGO_PKG_VERSION")),
        &format!("host: {}", service.address),
    ] {
        assert!(lower.contains(&format!("\r\n{line}")), "{line}: {head}");
    }
    assert_eq!(body, "{\"amount\":4800}");
}

#[test]
fn every_status_means_what_the_table_says() {
    for (status, expected) in [
        (200, "done"),
        (202, "done"),
        (302, "unknown"),
        (303, "unknown"),
        (307, "refused"),
        (400, "refused"),
        (404, "refused"),
        (408, "unknown"),
        (409, "unknown"),
        (412, "refused"),
        (422, "refused"),
        (425, "unknown"),
        (429, "not sent"),
        (500, "unknown"),
        (503, "unknown"),
    ] {
        let service = Service::saying(answer(status, "{}"));
        let (found, evidence) = at(&service, 5_000);
        assert_eq!((found, evidence.status), (expected, Some(i64::from(status))), "{evidence:?}");
        assert!(evidence.words().contains(&status.to_string()), "{}", evidence.words());
    }
}

#[test]
fn what_breaks_after_the_request_left_is_unknown() {
    let closes = |text: &'static str| Service::saying(text);
    for (service, part) in [
        (closes(""), "the answer was incomplete or never arrived"),
        (closes("HTTP/1.1 20"), "the answer was incomplete or never arrived"),
        (closes("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), "broke off"),
        (closes("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "broke off"),
        (closes("HTTP/1.1 400 No\r\ncontent-length: 10\r\n\r\nhalf"), "broke off"),
        (closes("this is not HTTP\r\n\r\n"), "the answer was incomplete or never arrived"),
    ] {
        let (found, evidence) = at(&service, 5_000);
        assert_eq!(found, "unknown", "{evidence:?}");
        assert!(evidence.words().contains(part), "{}", evidence.words());
        assert_eq!(service.requests().len(), 1, "sent once");
    }
}

#[test]
fn a_service_that_closes_before_it_reads_leaves_a_doubt_all_the_same() {
    let service = Service::raw(|stream, _| drop(stream.shutdown(std::net::Shutdown::Both)));
    let (found, evidence) = at(&service, 5_000);
    assert_eq!(found, "unknown", "{evidence:?}");
}

#[test]
fn a_service_that_hangs_or_drips_is_given_up_in_time() {
    let hangs = Service::new(|_, stream| drop(stream.read(&mut [0])));
    let drips = Service::new(|_, stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"));
        while stream.write_all(b".").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    for service in [hangs, drips] {
        let started = Instant::now();
        let (found, evidence) = at(&service, 200);
        assert_eq!(found, "unknown", "{evidence:?}");
        assert!(evidence.words().contains("took too long"), "{}", evidence.words());
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(190) && took < Duration::from_secs(30), "{took:?}");
    }
}

#[test]
fn the_first_of_two_answers_counts() {
    let service = Service::saying(answer(200, "first") + &answer(500, "second"));
    let (found, evidence) = at(&service, 5_000);
    assert_eq!((found, evidence.result.as_deref()), ("done", Some("first")));
}

#[test]
fn a_huge_answer_is_cut_and_done() {
    let service = Service::new(|_, stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"));
        // Ends when the gate has read enough and closes.
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let (found, evidence) = at(&service, 10_000);
    let result = evidence.result.unwrap();
    assert_eq!(found, "done");
    assert!(evidence.is_cut && result.len() <= 16_384, "{}", result.len());
}

#[test]
fn what_fails_before_the_request_is_not_sent() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let refused = adapter(&format!("http://{closed}"), LOOPBACK);
    let unnamed = adapter("http://payments.example", LOOPBACK)
        .with_names(Arc::new(|_, _| Err(std::io::Error::other("no such host"))));
    let empty = adapter("http://payments.example", LOOPBACK).with_names(Arc::new(|_, _| Ok(Vec::new())));
    let slow = adapter("http://payments.example", &format!("{LOOPBACK}connect_timeout = \"50ms\"")).with_names(
        Arc::new(|_, _| {
            std::thread::sleep(Duration::from_secs(2));
            Ok(Vec::new())
        }),
    );
    for (adapter, part) in [
        (refused, "no connection to"),
        (unnamed, "payments.example was not found: no such host"),
        (empty, "has no address"),
        (slow, "was not found: it took too long"),
    ] {
        let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 1_000), &Told::free()));
        assert_eq!(found, "not sent", "{evidence:?}");
        assert!(evidence.words().contains(part), "{}", evidence.words());
    }
}

#[test]
fn addresses_inside_are_not_called_unless_they_are_listed() {
    let service = Service::saying(answer(200, "{}"));
    let port = service.address.port();
    // Listed is something else, so that plain HTTP is let pass by the settings.
    let other = "allow_private = [\"10.0.0.0/8\"]\n";
    let named = |name: &'static str| {
        adapter(&format!("http://payments.example:{port}"), other)
            .with_names(Arc::new(move |_, port| Ok(vec![SocketAddr::new(name.parse().unwrap(), port)])))
    };
    for (adapter, part) in [
        (adapter(&format!("http://127.0.0.1:{port}"), other), "127.0.0.1 is not a public address"),
        (adapter(&format!("http://[::ffff:127.0.0.1]:{port}"), other), "127.0.0.1 is not a public address"),
        (adapter(&format!("http://localhost:{port}"), other), "is not a public address"),
        (named("127.0.0.1"), "127.0.0.1 is not a public address"),
        (named("::ffff:127.0.0.1"), "127.0.0.1 is not a public address"),
        (named("169.254.169.254"), "169.254.169.254 is not a public address"),
        (named("fd00:ec2::254"), "fd00:ec2::254 is not a public address"),
        (named("8.8.8.8"), "not encrypted"),
    ] {
        let (found, evidence) = found(attempt(&adapter, &call(post("/payouts"), 1_000), &Told::free()));
        assert_eq!(found, "not sent", "{evidence:?}");
        assert!(evidence.words().contains(part), "{}", evidence.words());
    }
    assert_eq!(service.connections(), 0);
}

#[test]
fn a_name_that_is_rebound_is_checked_each_time_and_never_resolved_twice() {
    let service = Service::saying(answer(200, "{}"));
    let address = service.address;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // The first answer is fine, every later one points elsewhere inside.
    let names = move |_: &str, port: u16| {
        let inside = SocketAddr::from(([127, 0, 0, 2], port));
        Ok(vec![if counted.fetch_add(1, Ordering::SeqCst) == 0 { address } else { inside }])
    };
    let adapter = adapter(&format!("http://payments.example:{}", address.port()), "allow_private = [\"127.0.0.1/32\"]")
        .with_names(Arc::new(names));
    let call = call(post("/payouts"), 1_000);
    assert_eq!(found(attempt(&adapter, &call, &Told::free())).0, "done");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what was checked is what was connected to");
    let (second, evidence) = found(attempt(&adapter, &call, &Told::free()));
    assert_eq!(second, "not sent", "{evidence:?}");
    assert!(evidence.words().contains("127.0.0.2 is not a public address"), "{}", evidence.words());
}

#[test]
fn of_several_addresses_only_those_that_may_be_are_called() {
    let service = Service::saying(answer(200, "{}"));
    let address = service.address;
    let names = move |_: &str, port: u16| Ok(vec![SocketAddr::from(([169, 254, 169, 254], port)), address]);
    let adapter = adapter("http://payments.example", LOOPBACK).with_names(Arc::new(names));
    assert_eq!(found(attempt(&adapter, &call(post("/payouts"), 1_000), &Told::free())).0, "done");
}

#[test]
fn a_redirect_is_never_followed() {
    let elsewhere = Service::saying(answer(200, "{}"));
    for (status, expected) in [(302, "unknown"), (307, "refused")] {
        let there = format!("http://{}/latest/meta-data", elsewhere.address);
        let service = Service::saying(format!("HTTP/1.1 {status} X\r\nlocation: {there}\r\ncontent-length: 0\r\n\r\n"));
        let (found, evidence) = at(&service, 1_000);
        assert_eq!(found, expected);
        assert!(evidence.words().contains("none is followed"), "{}", evidence.words());
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn what_can_never_be_sent_is_refused_at_once() {
    let service = Service::saying(answer(200, "{}"));
    for path in ["/../admin", "/a/%2e%2e/b", "payouts", "/a b"] {
        let send = call(post(path), 1_000);
        let (climbing, evidence) = found(attempt(&adapter_to(&service, ""), &send, &Told::free()));
        assert_eq!(climbing, "refused", "{evidence:?}");
        assert!(evidence.words().contains("below the adapter's base"), "{}", evidence.words());
    }
    let with_body = Send::Http { method: "DELETE".into(), path: "/a".into(), body: Some(serde_json::json!({})) };
    let (bodied, evidence) = found(attempt(&adapter_to(&service, ""), &call(with_body, 1_000), &Told::free()));
    assert_eq!((bodied, evidence.words().contains("DELETE has no body")), ("refused", true), "{evidence:?}");
    let command = call(Send::Command { args: Vec::new() }, 1_000);
    assert_eq!(found(attempt(&adapter_to(&service, ""), &command, &Told::free())).0, "refused");
    assert_eq!(service.connections(), 0);
}

#[test]
fn a_halt_counts_until_the_first_byte() {
    let service = Service::raw(|stream, requests| {
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes));
        requests.lock().unwrap().push(String::from_utf8_lossy(&bytes).into_owned());
    });
    let adapter = adapter_to(&service, "");
    let call = call(post("/payouts"), 1_000);
    let (before, evidence) = found(attempt(&adapter, &call, &Told::halted_after(0)));
    assert_eq!((before, service.connections()), ("not sent", 0));
    assert!(evidence.words().ends_with("halted"), "{}", evidence.words());
    let (late, _) = found(attempt(&adapter, &call, &Told::halted_after(1)));
    assert_eq!(late, "not sent", "the line was open, and nothing was sent over it");
    // The same of a deadline that passes while the line is being opened.
    let (late, evidence) = found(attempt(&adapter, &call, &Told::late_after(1)));
    assert!(late == "not sent" && evidence.words().contains("deadline passed"), "{late}: {}", evidence.words());
    drop(adapter);
    // The service has seen the line close, and nothing before.
    let deadline = Instant::now() + Duration::from_secs(5);
    while service.requests().len() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(service.requests(), ["", ""]);
}

#[test]
fn a_service_that_keeps_failing_is_left_alone() {
    let service = Service::saying(answer(500, "{}"));
    let adapter = adapter_to(&service, "breaker = { failures = 2, open_for = \"30s\" }");
    let call = call(post("/payouts"), 1_000);
    let tried: Vec<_> = (0..4).map(|_| found(attempt(&adapter, &call, &Told::free()))).collect();
    assert_eq!(tried.each_ref_words(), ["unknown", "unknown", "not sent", "not sent"]);
    assert!(tried[2].1.words().contains("no calls are sent to it for another 30 s"), "{}", tried[2].1.words());
    assert_eq!(service.connections(), 2);
    let (refused, _) = probed(probe(&adapter, get("/payouts/1"), 1_000));
    assert_eq!((refused, service.connections()), ("unknown", 2), "a probe is left out as well");
}

trait Words {
    fn each_ref_words(&self) -> Vec<&'static str>;
}

impl Words for Vec<(&'static str, Evidence)> {
    fn each_ref_words(&self) -> Vec<&'static str> {
        self.iter().map(|(word, _)| *word).collect()
    }
}

#[test]
fn a_service_that_refuses_is_not_failing() {
    let service = Service::saying(answer(422, "{}"));
    let adapter = adapter_to(&service, "breaker = { failures = 1 }");
    let call = call(post("/payouts"), 1_000);
    for _ in 0..3 {
        assert_eq!(found(attempt(&adapter, &call, &Told::free())).0, "refused");
    }
}

#[test]
fn a_secret_that_is_echoed_is_not_kept() {
    let service = Service::new(|request, stream| drop(stream.write_all(answer(200, request).as_bytes())));
    let adapter = adapter_to(&service, "headers = { Authorization = { env = \"TOKEN\" } }");
    let (_, evidence) = found(attempt(&adapter, &call(post("/payouts"), 1_000), &Told::free()));
    let result = evidence.result.unwrap();
    assert!(result.contains("[secret]") && !result.contains("sesame"), "{result}");
    assert!(service.requests()[0].contains("sesame-open-sesame"), "it was sent");
    assert!(!format!("{adapter:?}").contains("sesame"));
}

#[test]
fn a_probe_counts_only_a_clear_answer() {
    for (status, expected) in [
        (200, "there"),
        (204, "there"),
        (404, "absent"),
        (410, "absent"),
        (401, "unknown"),
        (302, "unknown"),
        (500, "unknown"),
    ] {
        let service = Service::saying(format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n"));
        let (found, evidence) = probed(probe(&adapter_to(&service, ""), get("/payouts/1"), 1_000));
        assert_eq!(found, expected, "{evidence:?}");
        assert!(service.requests()[0].starts_with("GET /v1/payouts/1 "));
    }
    let service = Service::saying("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    assert_eq!(probed(probe(&adapter_to(&service, ""), get("/payouts/1"), 1_000)).0, "unknown");
    let service = Service::saying(answer(200, "{}"));
    assert_eq!(
        probed(probe(&adapter_to(&service, ""), post("/payouts/1"), 1_000)).0,
        "unknown",
        "only a read is a probe"
    );
    assert_eq!(service.connections(), 0);
}
