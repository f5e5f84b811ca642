//! More bytes than the gateway should hold: from servers whose answers are not read, and from clients.

use super::{Listening, server, world};
use crate::attacks::world::wait_until;
use serde_json::json;
use std::io::Write as _;
use std::net::TcpStream;

/// What the gateway may hold here.
const BUFFERED_MAX: usize = 32 << 20;
/// What each server says, and how often.
const NOTICE_BYTES: usize = 12 << 20;
const NOTICES: usize = 16;
const SESSIONS: usize = 4;

/// The resident memory of a process, in bytes.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn begin(gateway: &Listening) -> String {
    let session = gateway.begin(&[]).1.expect("has a session");
    let in_it = [("mcp-session-id", session.as_str())];
    gateway.post(&in_it, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    gateway.call(&in_it, "look", &json!({}));
    session
}

/// Has a server say a lot, on the stream of a call that is never read.
fn call_and_leave(gateway: &Listening, session: &str) -> TcpStream {
    let host = gateway.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let params = json!({"name": "huge", "arguments": {"bytes": NOTICE_BYTES, "notices": NOTICES}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-session-id: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// How many processes a process has started that run.
fn children(of: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[test]
fn many_large_messages_that_are_not_read_fill_the_memory() {
    let world = world();
    let settings = std::fs::read_to_string(world.path().join("countersign.toml")).unwrap();
    world.write("countersign.toml", &format!("[mcp]\nbuffered_max = {BUFFERED_MAX}\n{settings}"));
    let gateway = Listening::start(world.command(&["mcp", "serve", "--agent", "coder-1", "--listen", "127.0.0.1:0"]));
    let pid = gateway.child.id();
    let honest = begin(&gateway);
    let sessions: Vec<String> = (0..SESSIONS).map(|_| begin(&gateway)).collect();
    let before = resident(pid);
    let left: Vec<TcpStream> = sessions.iter().map(|session| call_and_leave(&gateway, session)).collect();
    let mut most = 0;
    // Each server has said everything, to the gateway or to a link that was ended because there is no room; or has ended with it.
    wait_until("everything was said or refused", || {
        most = most.max(resident(pid));
        let said = server::executed(world.path()).iter().filter(|done| *done == "said it all").count();
        said == SESSIONS || children(pid) == 1
    });
    let (most, all) = (most.saturating_sub(before) >> 20, (SESSIONS * NOTICES * NOTICE_BYTES) >> 20);
    eprintln!("{most} MiB of {all} MiB");
    // A message is there several times while it is parsed and written, and an allocator keeps some for later.
    assert!(most < 8 * (BUFFERED_MAX >> 20), "{most} MiB of {all} MiB");
    // Who says little is served all the time, and who says more when there is room again.
    let in_it = [("mcp-session-id", honest.as_str())];
    assert_eq!(gateway.call(&in_it, "look", &json!({}))["result"]["content"][0]["text"], "done");
    drop(left);
    let large = || gateway.call(&in_it, "huge", &json!({"bytes": 8_000_000}))["result"]["content"][0]["text"].clone();
    wait_until("there is room again", || large().as_str().is_some_and(|text| text.len() == 8_000_000));
}
