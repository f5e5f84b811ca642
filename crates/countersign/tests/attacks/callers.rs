//! Callers that the gate does not know yet: what they make it hold and count, and what those it knows make it skip.

use crate::attacks::world::{Answer, Caller, World, wait_until};
use countersign_signature::Headers;
use serde_json::json;
use std::io::Write as _;
use std::net::TcpStream;

/// The operation with the largest body.
const APPROVE: &str = "/v1/reviews/rev_1/approve";
/// As much as it takes.
const LARGE: usize = 1 << 20;

fn resident_bytes(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// A request that announces a large body, and has sent nothing of it.
fn announce(world: &World, signed: Option<&Headers>) -> TcpStream {
    let addr = world.url().strip_prefix("http://").unwrap();
    let mut head = format!("POST {APPROVE} HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\n");
    head += &format!("Content-Length: {LARGE}\r\n");
    if let Some(Headers { content_digest, input, signature, .. }) = signed {
        let digest = content_digest.as_deref().unwrap();
        head += &format!("Content-Digest: {digest}\r\nSignature-Input: {input}\r\nSignature: {signature}\r\n");
    }
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream
}

/// A signature by somebody else, in the name of the caller's key.
fn forged(caller: &Caller, method: &str, path: &str, body: &str) -> Headers {
    let signature = format!("sig1=:{}==:", "A".repeat(86));
    Headers { signature, ..caller.sign(method, path, body) }
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.json["error"]["code"].as_str().unwrap_or_default())
}

#[test]
fn strangers_make_the_gate_hold_bodies_that_nobody_signed() {
    const STRANGERS: usize = 200;
    let world = World::serving("");
    let admin = world.caller("admin");
    assert_eq!(admin.ask("GET", "/v1/halts", "").status, 200);
    let before = resident_bytes(world.pid());
    let piece = vec![b' '; 64 << 10];
    let mut streams = Vec::new();
    for at in 0..STRANGERS {
        let signed = (at % 2 == 1).then(|| forged(&admin, "POST", APPROVE, "x"));
        let mut stream = announce(&world, signed.as_ref());
        // All but the last piece, so that none of them is answered yet.
        for _ in 1..LARGE / piece.len() {
            stream.write_all(&piece).unwrap();
        }
        streams.push(stream);
    }
    let grown = resident_bytes(world.pid()).saturating_sub(before);
    assert!(grown < STRANGERS * LARGE / 3, "{STRANGERS} strangers made the gate hold {grown} bytes");
    let halt = json!({"scope": "all", "reason": "an attack"}).to_string();
    assert_eq!(admin.ask("POST", "/v1/halts", &halt).status, 200);
    drop(streams);
}

#[test]
fn signed_requests_whose_bodies_never_come_use_up_the_room_of_all_others() {
    // More than there is room for.
    const ANNOUNCED: usize = 140;
    let world = World::serving("[rate_limit]\nper_key = 1000000\n");
    let admin = world.caller("admin");
    let streams: Vec<_> = (0..ANNOUNCED).map(|_| announce(&world, Some(&admin.sign("POST", APPROVE, "x")))).collect();
    let large = json!({"shown": "x".repeat(50_000)}).to_string();
    let approve = || admin.ask("POST", APPROVE, &large);
    let mut refused = approve();
    wait_until("there is no room", || {
        refused = approve();
        refused.status == 503
    });
    assert_eq!((code(&refused), refused.header("retry-after")), ((503, "busy"), Some("1")), "{refused:?}");
    // What is small finds room, and a halt always does.
    let agent = json!({"value": {"status": "none"}}).to_string();
    assert_ne!(admin.ask("PUT", "/v1/facts/Account/1", &agent).status, 503);
    let halt = json!({"scope": "all", "reason": "x".repeat(500)}).to_string();
    assert_eq!(admin.ask("POST", "/v1/halts", &halt).status, 200);
    drop(streams);
    wait_until("there is room again", || approve().status != 503);
}

#[test]
fn a_signed_head_is_sent_with_another_body_and_then_with_its_own() {
    let world = World::serving("");
    let admin = world.caller("admin");
    let (own, other) = (json!({"scope": "agent:a", "reason": "r"}), json!({"scope": "all", "reason": "r"}));
    let (own, other) = (own.to_string(), other.to_string());
    let signed = admin.sign("POST", "/v1/halts", &own);
    assert_eq!(code(&admin.send("POST", "/v1/halts", &other, &signed, &[])), (401, "digest_mismatch"));
    assert_eq!(code(&admin.send("POST", "/v1/halts", &own, &signed, &[])), (401, "signature_replayed"));
    let uncovered = Headers { content_digest: None, ..admin.sign("POST", "/v1/halts", "") };
    let digest = admin.sign("POST", "/v1/halts", &own).content_digest;
    let added = Headers { content_digest: digest, ..uncovered };
    assert_eq!(code(&admin.send("POST", "/v1/halts", &own, &added, &[])), (401, "signature_incomplete"));
    assert!(world.entries().iter().all(|entry| entry["leaf"]["kind"] != "halt"), "nothing was halted");
}

#[test]
fn an_auditor_floods_the_way_that_is_kept_for_halts() {
    let world = World::serving("[rate_limit]\nper_key = 20\nper_peer = 1000\n");
    world.run_ok(&["operator", "new", "auditor-1", "--role", "auditor"]);
    let (auditor, admin) = (world.caller("auditor-1"), world.caller("admin"));
    let halt = json!({"scope": "all", "reason": "a test"}).to_string();
    let ask = |caller: &Caller, path: &str| caller.ask("POST", path, &halt).status;
    let told: Vec<_> = (0..200).map(|_| ask(&auditor, "/v1/halts")).collect();
    assert!(told.contains(&429) && told.iter().all(|status| [403, 429].contains(status)), "{told:?}");
    let told: Vec<_> = (0..100).map(|_| ask(&admin, "/v1/halts/resume")).collect();
    assert!(told.contains(&429), "resumes stop nothing and are limited: {told:?}");
    let told: Vec<_> = (0..100).map(|_| ask(&admin, "/v1/halts")).collect();
    assert!(told.iter().all(|status| *status == 200), "{told:?}");
}

#[test]
fn a_stranger_has_refusals_counted_for_the_holder_of_a_key_that_it_only_names() {
    let world = World::serving("[rate_limit]\nper_key = 1\nper_peer = 1000\n");
    let admin = world.caller("admin");
    let mut own = 0;
    for _ in 0..10 {
        own += u64::from(admin.ask("GET", "/v1/halts", "").status == 429);
        for _ in 0..20 {
            let told = admin.send("GET", "/v1/halts", "", &forged(&admin, "GET", "/v1/halts", ""), &[]);
            assert!([401, 429].contains(&told.status), "{told:?}");
        }
    }
    assert!(own > 0, "its requests are used up, or this shows nothing");
    let counted = format!("countersign_denials_total{{code=\"rate_limited\"}} {own}\n");
    let metrics = world.text("/metrics");
    assert!(metrics.contains(&counted), "{own} were refused: {metrics}");
}
