//! Fifty sessions at once, over HTTP through one gateway and over standard input and output through fifty, for a while, with
//! clients that leave in the middle: afterwards there are no more processes, descriptors or memory than before.

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::processes::{children, is_gone, open_files, resident_kib, threads, wait_until};
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SESSIONS: u64 = 50;
const SHORT: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(600);
const WARM: Duration = Duration::from_secs(2);

/// How much more memory a gateway may hold after many sessions than after the first fifty. What its allocator keeps for its threads
/// goes up and down by about as much; what were kept of every session would be more after ten minutes, and not go down.
const GROWTH_KIB_MAX: u64 = 64 * 1024;

/// How many more descriptors one wave may leave than the wave before. Connections that the gateway keeps for its next call to the gate, and
/// those that this test keeps to the gateway, come and go with the load. Whatever a broken session left would be there five times a wave.
const GROWTH_FILES_MAX: usize = 4;

/// After how many waves that each left more than the one before it is a leak.
const GROWING_MAX: usize = 5;

/// A gate that runs, and a bank whose tools are approved; sessions that nobody uses end after a moment.
fn gate() -> (Sandbox, Http) {
    let sandbox = Sandbox::approved();
    std::fs::write(sandbox.path().join("countersign.toml"), "[mcp]\nsession_idle = \"8s\"\n").unwrap();
    let gate = Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
    (sandbox, gate)
}

/// What a gateway holds.
#[derive(Debug)]
struct Held {
    children: usize,
    files: usize,
    threads: usize,
    resident_kib: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        Self {
            children: children(pid).len(),
            files: open_files(pid),
            threads: threads(pid),
            resident_kib: resident_kib(pid),
        }
    }
}

fn calls() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_account", "arguments": {"id": "1"}}})
}

/// One client's whole session, until the time is over; ids are the same in all of them. How many calls it made.
fn session(server: &Http, number: u64, until: Instant) -> u64 {
    let session = server.post(None, &crate::mcp::http::hello()).session.expect("has a session");
    server.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut made = 0;
    while made == 0 || Instant::now() < until {
        let said = format!("session {number}");
        let echo = json!({"jsonrpc": "2.0", "id": 2, "method": "x/echo", "params": {"said": said}});
        let answer = server.post(Some(&session), &echo);
        assert!(answer.body["result"]["line"].as_str().unwrap_or_default().contains(&said), "{}", answer.body);
        let called = server.post(Some(&session), &calls());
        assert_eq!(called.body["result"]["structuredContent"]["status"], "active", "{}", called.body);
        made += 1;
    }
    assert_eq!(server.delete(&session), 204);
    made
}

/// A client that is gone in the middle of something, and never says so.
fn broken_session(server: &Http, number: u64) {
    let address = server.url().trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = |session: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{session}content-length: {length}\r\n\r\n"
        )
    };
    if number.is_multiple_of(2) {
        // Half a request.
        let body = crate::mcp::http::hello().to_string();
        let half = body.split_at(body.len() / 2).0;
        stream.write_all(format!("{}{half}", head("", body.len())).as_bytes()).unwrap();
        return;
    }
    // A call that is never answered, whose client is gone.
    let session = server.post(None, &crate::mcp::http::hello()).session.expect("has a session");
    server.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let slow = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "slow", "arguments": {"ms": 120_000}}});
    let body = slow.to_string();
    stream
        .write_all(format!("{}{body}", head(&format!("mcp-session-id: {session}\r\n"), body.len())).as_bytes())
        .unwrap();
    // And a stream of events that breaks off.
    let mut events = TcpStream::connect(address).unwrap();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
    );
    events.write_all(get.as_bytes()).unwrap();
    assert_eq!(events.read(&mut [0; 12]).unwrap(), 12, "the stream has begun");
}

/// Fifty sessions at once until the time is over, some of them broken; the calls made and the most that was held meanwhile.
fn wave(server: &Http, until: Instant, some_break: bool) -> (u64, Held) {
    let made = AtomicU64::new(0);
    let mut most = Held::by(server.pid());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let made = &made;
                scope.spawn(move || {
                    if some_break && number.is_multiple_of(3) {
                        broken_session(server, number);
                    }
                    made.fetch_add(session(server, number, until), Ordering::Relaxed);
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            let now = Held::by(server.pid());
            most.children = most.children.max(now.children);
            most.files = most.files.max(now.files);
            most.threads = most.threads.max(now.threads);
            most.resident_kib = most.resident_kib.max(now.resident_kib);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    (made.into_inner(), most)
}

/// Whether each wave has left more than the one before.
fn grows(held: &[Held]) -> bool {
    held.is_sorted_by(|earlier, later| later.resident_kib > earlier.resident_kib + GROWTH_KIB_MAX)
        || held.is_sorted_by(|earlier, later| later.files > earlier.files + GROWTH_FILES_MAX)
}

fn over_http(time: Duration) {
    let (sandbox, gate) = gate();
    let upstream = format!("bank={}", crate::mcp::server::command("usual"));
    let words = [
        &["mcp", "serve", "--agent", "coder-1", "--server", gate.url(), "--listen", "127.0.0.1:0"] as &[&str],
        &["--upstream", &upstream, "--allow-method", "x/echo"],
    ]
    .concat();
    let server = Http::start(sandbox.command(&words));
    let pid = server.pid();
    let settled = || wait_until("every server ends", || children(pid).is_empty());
    // Fifty sessions at work first, so that what is opened once is open, and what an allocator keeps is kept.
    wave(&server, Instant::now() + WARM, false);
    settled();
    let before = Held::by(pid);
    println!("before: {before:?}");
    let (until, mut waves, mut made) = (Instant::now() + time, 0, 0);
    while waves < 1 || Instant::now() < until {
        // Each wave is some seconds of new sessions, so that many begin and end.
        let (calls, most) = wave(&server, Instant::now() + time.min(Duration::from_secs(5)), true);
        assert!(most.children >= SESSIONS as usize, "all sessions were there at once: {most:?}");
        settled();
        waves += 1;
        made += calls;
        if waves % 5 == 1 {
            println!("wave {waves}: {calls} calls, at most {most:?}, then {:?}", Held::by(pid));
        }
    }
    let mut held = vec![before, Held::by(pid)];
    println!("after {waves} waves and {made} calls: {held:?}");
    // On a busy machine one wave can have more at work at once than those before: the allocator keeps the room for them, and pools
    // their connections. What leaks does so again with the next wave.
    while grows(&held) {
        assert!(held.len() <= GROWING_MAX, "more is held after every wave: {held:?}");
        wave(&server, Instant::now() + time.min(Duration::from_secs(5)), true);
        settled();
        held.push(Held::by(pid));
    }
    server.end();
    gate.end();
}

fn over_stdio(time: Duration) {
    let (sandbox, gate) = gate();
    let upstream = format!("bank={}", crate::mcp::server::command("usual"));
    let words = ["mcp", "serve", "--agent", "coder-1", "--server", gate.url(), "--upstream", &upstream];
    let once = |until: Instant| {
        std::thread::scope(|scope| {
            for number in 0..SESSIONS {
                let command = sandbox.command(&words);
                scope.spawn(move || stdio_session(Stdio::start(command), number, until));
            }
        });
    };
    once(Instant::now());
    wait_until("the gate's connections are closed", || open_files(gate.pid()) < 200);
    let before = open_files(gate.pid());
    let (until, mut waves) = (Instant::now() + time, 0);
    while waves < 1 || Instant::now() < until {
        once(Instant::now() + time.min(Duration::from_secs(5)));
        waves += 1;
    }
    wait_until("the gate's descriptors are closed", || open_files(gate.pid()) <= before + 2);
    println!(
        "{waves} waves of {SESSIONS} sessions; the gate has {} descriptors, {before} before",
        open_files(gate.pid())
    );
    gate.end();
}

/// One gateway with its client, from its start to its end. What it has started is gone with it, however it ended.
fn stdio_session(mut client: Stdio, number: u64, until: Instant) {
    client.initialize();
    loop {
        let account = client.call("get_account", &json!({"id": number.to_string()}));
        assert_eq!(account["structuredContent"]["status"], "active", "{account}");
        if Instant::now() >= until {
            break;
        }
    }
    let (pid, servers) = (client.pid(), children(client.pid()));
    assert_eq!(servers.len(), 1, "one server for each session");
    match number % 5 {
        // Half a message, and a call that nobody will wait for.
        0 => {
            client.ask("tools/call", &json!({"name": "slow", "arguments": {"ms": 300}}));
            client.send_part(r#"{"jsonrpc":"2.0","id":7,"met"#);
            assert_eq!(client.end().0, 0);
        }
        // Its client was killed: nobody reads or writes any more.
        1 => client.abandon(),
        // It was killed itself: its server finds its input closed.
        2 => drop(client),
        _ => assert_eq!(client.end().0, 0),
    }
    wait_until("the gateway ends", || is_gone(pid));
    wait_until("its server ends", || servers.iter().all(|server| is_gone(*server)));
}

#[test]
fn fifty_sessions_over_http_leave_nothing_behind() {
    over_http(SHORT);
}

#[test]
fn fifty_sessions_over_standard_input_and_output_leave_nothing_behind() {
    over_stdio(SHORT);
}

#[test]
#[ignore = "long: run with `cargo xtask test --long`"]
fn fifty_sessions_over_http_leave_nothing_behind_for_ten_minutes() {
    over_http(LONG);
}

#[test]
#[ignore = "long: run with `cargo xtask test --long`"]
fn fifty_sessions_over_standard_input_and_output_leave_nothing_behind_for_ten_minutes() {
    over_stdio(LONG);
}
