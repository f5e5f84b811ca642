//! Faults: a disk that stalls or fails, a clock that steps, a handler that panics, a caller that stops halfway.

use super::client::{exchange, send};
use super::*;
use crate::http::listen;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::gate::Options;
use countersign_engine::request::Request;
use countersign_signature::sign;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[test]
fn a_full_queue_answers_at_once_and_forgets_nothing() {
    let server = Server::start_with(Options { queue_len: 1, batch_max: 1, ..Options::new("test.example/log") });
    furnish(&server);
    server.disk.hold();
    let (tell, told) = mpsc::channel();
    let callers: u64 = 12;
    // One is being made durable, one waits for that, one is being decided, one is in the queue: all others must be told.
    let held_max = 4;
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        for at in 0..callers {
            let (tell, addr) = (tell.clone(), server.addr);
            scope.spawn(move || {
                let headers = ["Content-Type: application/json", "Countersign-Agent: refund-1"];
                tell.send(send(addr, "POST", "/v1/actions", &headers, refund(&format!("k{at}"), 1, &[]).as_bytes()))
                    .unwrap();
            });
        }
        drop(tell);
        let mut replies: Vec<Reply> = (0..callers - held_max).map(|_| told.recv().unwrap()).collect();
        for reply in &replies {
            assert_error(reply, 503, "busy");
            assert_eq!(reply.header("retry-after"), Some("1"));
        }
        server.disk.release();
        replies.extend(told);
        replies
    });
    let decided = replies.iter().filter(|reply| reply.status == 200).count() as u64;
    assert!(decided >= 1);
    assert_eq!(server.gate.view().position, 4 + decided);
    assert!(server.get("/metrics").text().contains(&format!("countersign_busy_total {}\n", callers - decided)));
    // The same key decides now what was refused then.
    assert_eq!(server.post("/v1/actions", &refund("k0", 1, &[])).status, 200);
}

#[test]
fn a_failed_sync_gives_no_verdict_and_stops_the_gate() {
    let server = furnished();
    server.disk.fail_syncs.store(true, Ordering::SeqCst);
    let body = refund("a", 1, &[]);
    let failed = server.post("/v1/actions", &body);
    assert_error(&failed, 503, "ledger_failed");
    assert!(failed.json()["error"]["hint"].as_str().unwrap().contains("same idempotency key"));
    server.disk.fail_syncs.store(false, Ordering::SeqCst);
    assert_error(&server.post("/v1/actions", &body), 503, "ledger_failed");
    assert_error(&server.put("/v1/facts/Account/42", &account("active", 1)), 503, "ledger_failed");
    assert_error(&server.get("/readyz"), 503, "not_ready");
    // What is durable can still be read.
    assert_eq!(server.get("/v1/facts/Account/42").json()["version"], 1);
}

#[test]
fn a_stage_that_panics_turns_readiness_red() {
    let server = furnished();
    let began = Instant::now();
    // Which thread answers depends on what else there is to do: until a batch is handed over.
    while server.get("/readyz").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "a gate whose commit stage died says that it is ready");
        for _ in 0..64 {
            let confirm = Request::ConfirmClock { by: AgentId::new("ops-1").unwrap(), auth: Auth::None };
            let reply = |_| assert!(std::thread::current().name() != Some("commit"), "for the test");
            drop(server.gate.submit(confirm, Box::new(reply)));
        }
    }
    let red = server.get("/readyz");
    assert_error(&red, 503, "not_ready");
    assert!(red.text().contains("`commit` panicked"), "{red:?}");
    assert_error(&server.put("/v1/facts/Account/42", &account("active", 1)), 503, "ledger_failed");
}

#[test]
fn a_log_that_cannot_be_read_says_so() {
    let server = furnished();
    server.disk.fail_reads.store(true, Ordering::SeqCst);
    for path in
        ["/v1/ledger/entries/1", "/v1/ledger/entries", "/log/tile/entries/000.p/1", "/v1/facts/Account/42/history"]
    {
        assert_error(&server.get(path), 500, "log_unreadable");
    }
    server.disk.fail_reads.store(false, Ordering::SeqCst);
    assert_eq!(server.get("/v1/ledger/entries/1").status, 200);
}

#[test]
fn a_clock_step_is_not_ready_until_it_is_confirmed() {
    let server = furnished();
    server.clock.step(60_000);
    // Time is read with the next request to the sequencer, and by `observe`.
    observe(&server);
    assert_error(&server.get("/readyz"), 503, "not_ready");
    let confirmed = server.send("POST", "/v1/clock/confirm", &["Countersign-Agent: ops-1"], b"").json();
    let entry = confirmed["entry"].as_u64().unwrap();
    assert_eq!(server.get("/readyz").status, 200);
    let entry = server.get(&format!("/v1/ledger/entries/{entry}")).json();
    assert_eq!((&entry["leaf"]["kind"], &entry["leaf"]["by"]), (&json!("clock"), &json!("ops-1")));
    assert_eq!(entry["payload"]["confirmed"], true);
}

#[test]
fn signed_operators_halt_resume_and_confirm_a_clock_that_stepped() {
    for ahead_ms in [900_000, -900_000] {
        let server = signed::identified();
        let wall_s = || signed::now_s().strict_add_signed(ahead_ms / 1000);
        let post = |by, path: &str, body: &Value| {
            let (authority, body) = (server.addr.to_string(), body.to_string());
            let request = signed::signable("POST", path, &authority, &body);
            let headers = sign(&signed::key(by), &request, signed::ORIGIN, wall_s(), &signed::nonce()).unwrap();
            signed::send_with(&server, "POST", path, &[signed::JSON], &headers, &body)
        };
        server.clock.step(ahead_ms);
        let act = post(signed::AGENT, "/v1/observe", &json!({"facts": []}));
        assert_error(&act, 503, "not_ready");
        assert!(
            act.text().contains("the wall clock jumped") && act.text().contains("countersign clock confirm"),
            "{act:?}"
        );
        assert_error(&server.get("/readyz"), 503, "not_ready");
        let stop = json!({"scope": "all", "reason": "the clock stepped"});
        assert_eq!(post(signed::ADMIN, "/v1/halts", &stop).status, 200);
        assert_eq!(post(signed::ADMIN, "/v1/halts/resume", &stop).status, 200);
        let confirmed = post(signed::ADMIN, "/v1/clock/confirm", &json!({}));
        assert_eq!(confirmed.status, 200, "{confirmed:?}");
        let ready = server.get("/readyz");
        match ahead_ms > 0 {
            true => assert_eq!(ready.status, 200, "{ready:?}"),
            // What is signed now could have been signed before; only what stops passes until then.
            false => {
                assert!(ready.header("retry-after").is_some() && ready.text().contains("was set back to a time"))
            }
        }
        assert_eq!(post(signed::ADMIN, "/v1/halts", &stop).status, 200);
    }
}

#[test]
fn a_clock_that_is_put_right_makes_the_gate_ready_by_itself() {
    let server = furnished();
    server.clock.step(60_000);
    observe(&server);
    assert_error(&server.get("/readyz"), 503, "not_ready");
    server.clock.step(0);
    assert_eq!(server.get("/readyz").status, 200);
    let confirmed = server.send("POST", "/v1/clock/confirm", &["Countersign-Agent: ops-1"], b"");
    assert_error(&confirmed, 409, "clock_steady");
}

#[test]
fn a_panic_ends_one_request_only() {
    let server = Server::start();
    for _ in 0..3 {
        assert_error(&server.get("/panic"), 500, "internal_error");
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_body_that_stops_or_breaks_is_refused() {
    let server = furnished();
    let head =
        "POST /v1/actions HTTP/1.1\r\nHost: localhost\r\nCountersign-Agent: a\r\nContent-Type: application/json\r\n";
    let halfway = exchange(server.addr, format!("{head}Content-Length: 100\r\nConnection: close\r\n\r\n{{").as_bytes());
    assert_error(&halfway, 408, "body_timeout");
    let broken = exchange(server.addr, format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n").as_bytes());
    assert_error(&broken, 400, "bad_request");
}

#[test]
fn a_gate_without_an_admin_listens_on_loopback_only() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start();
    for addr in ["0.0.0.0:0", "[::]:0", "10.1.2.3:0"] {
        let error = runtime.block_on(listen(&server.gate, addr.parse().unwrap())).unwrap_err().to_string();
        assert!(error.contains("this gate has no admin"), "{error}");
    }
    runtime.block_on(listen(&server.gate, "127.0.0.1:0".parse().unwrap())).unwrap();
    let identified = signed::identified();
    runtime.block_on(listen(&identified.gate, "0.0.0.0:0".parse().unwrap())).unwrap();
}

/// Whether the port answers others, over and over, while as many requests as it has threads, and more, wait for the disk.
fn answers_meanwhile(server: &Server) -> bool {
    let (tell, told) = mpsc::channel();
    let addr = server.addr;
    std::thread::spawn(move || {
        for _ in 0..20 {
            let reply = send(addr, "GET", "/healthz", &[], b"");
            if tell.send(reply.status).is_err() {
                return;
            }
        }
    });
    (0..20).all(|_| told.recv_timeout(Duration::from_secs(10)) == Ok(200))
}

#[test]
fn a_slow_disk_holds_up_those_whose_clocks_are_ahead_and_no_one_else() {
    let server = signed::identified();
    server.disk.small_syncs.hold();
    let ahead = || {
        let (authority, body) = (server.addr.to_string(), json!({"facts": ["Account::\"42\""]}).to_string());
        let request = signed::signable("POST", "/v1/observe", &authority, &body);
        let headers =
            sign(&signed::key(signed::AGENT), &request, signed::ORIGIN, signed::now_s() + 3, &signed::nonce()).unwrap();
        signed::send_with(&server, "POST", "/v1/observe", &[signed::JSON], &headers, &body).status
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..6).map(|_| scope.spawn(ahead)).collect();
        server.disk.small_syncs.until_reached();
        let answered = answers_meanwhile(&server);
        server.disk.release();
        assert!(answered, "the port stopped while a signature from a clock ahead was noted");
        assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == 200));
    });
}

#[test]
fn an_agent_without_a_right_holds_up_no_one_else_while_its_old_keys_are_read() {
    let server = Server::start_with(Options { table_keys: 2, ..Options::new("test.example/log") });
    furnish(&server);
    // The first of them in a file only, the last still in memory.
    let bodies: Vec<String> = (0..14).map(|at| refund(&format!("k{at}"), 1, &[])).collect();
    for body in &bodies {
        assert_eq!(server.post("/v1/actions", body).status, 200);
    }
    let idle = json!({"value": {"roles": [], "standing": "active", "org": "acme", "trust": 700}});
    assert_eq!(server.put("/v1/facts/Agent/refund-1", &idle).status, 200);
    let until = Instant::now() + Duration::from_secs(30);
    while server.gate.keys_since() < 10 {
        assert!(Instant::now() < until, "the keys were never written to a file");
        std::thread::yield_now();
    }
    server.disk.reads.hold();
    std::thread::scope(|scope| {
        let server = &server;
        let waiting: Vec<_> =
            bodies.iter().take(6).map(|body| scope.spawn(move || server.post("/v1/actions", body).status)).collect();
        server.disk.reads.until_reached();
        let answered = answers_meanwhile(server);
        server.disk.release();
        assert!(answered, "the port stopped while keys of an agent without a right were looked up");
        // It was decided before the right was lost: the key tells what came of it.
        let told: Vec<u16> = waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect();
        assert!(told.iter().all(|status| *status == 200), "{told:?}");
    });
}
