//! Verdicts that are used for something else than what they were given for: another link, or a later time.

use super::{gateway, nothing, server, world};
use crate::attacks::world::{PATIENCE, World, wait_until};
use crate::mcp::client::Stdio;
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

#[test]
fn a_server_that_was_started_again_gets_a_call_that_was_let_pass_to_another() {
    let world = world();
    let mut client = gateway(&world);
    client.tools();
    let before = children(client.pid());
    assert_eq!(before.len(), 1);
    // The gate decides nothing until the server is another one, with the same tools.
    signal("-STOP", world.pid());
    let call = client.ask("tools/call", &json!({"name": "look", "arguments": {}}));
    let read = client.ask("resources/read", &json!({"uri": "x://1"}));
    client.request("ping", &json!({}));
    signal("-KILL", before[0]);
    let until = Instant::now() + PATIENCE;
    while client.request("ping", &json!({})).get("result").is_none() || children(client.pid()) == before {
        assert!(Instant::now() < until, "the server is not started again");
        std::thread::sleep(Duration::from_millis(20));
    }
    world.write("listening", "");
    client.ask("tools/list", &json!({}));
    wait_until("the new server lists its tools", || {
        std::fs::read_to_string(world.path().join("lines")).is_ok_and(|lines| lines.contains("tools/list"))
    });
    client.request("ping", &json!({}));
    signal("-CONT", world.pid());
    let (mut told, mut refused) = (None, None);
    while told.is_none() || refused.is_none() {
        let message = client.message();
        if message["id"] == call {
            told = Some(message);
        } else if message["id"] == read {
            refused = Some(message);
        }
    }
    let (told, refused) = (told.unwrap(), refused.unwrap());
    assert_eq!(told["result"]["_meta"]["countersign"]["error"]["code"], "call_outrun", "{told}");
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    client.end();
    assert_eq!(server::executed(world.path()), nothing(), "neither server got them");
}

/// A server over HTTP that takes a new connection for every message, and none while it is paused.
pub(super) struct Slow {
    pub(super) address: SocketAddr,
    pub(super) paused: Arc<AtomicBool>,
    pub(super) called: Arc<Mutex<Vec<String>>>,
}

impl Slow {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let slow = Self { address, paused: Arc::default(), called: Arc::default() };
        let (paused, called) = (Arc::clone(&slow.paused), Arc::clone(&slow.called));
        std::thread::spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) if !paused.load(Ordering::SeqCst) => {
                        let called = Arc::clone(&called);
                        std::thread::spawn(move || serve(stream, &called));
                    }
                    _ => std::thread::sleep(Duration::from_millis(2)),
                }
                while paused.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        slow
    }

    /// Takes no more connections, and lets so many wait that the system takes none either.
    pub(super) fn pause(&self) -> Vec<TcpStream> {
        self.paused.store(true, Ordering::SeqCst);
        // What was being accepted right now is over after this.
        std::thread::sleep(Duration::from_millis(50));
        let connect = || TcpStream::connect_timeout(&self.address, Duration::from_millis(500)).ok();
        let waiting: Vec<TcpStream> = std::iter::from_fn(connect).take(100_000).collect();
        assert!(waiting.len() < 100_000, "there is always room for one more");
        waiting
    }
}

/// Answers one request, and closes the connection.
fn serve(stream: TcpStream, called: &Mutex<Vec<String>>) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(&stream);
    let (mut line, mut len) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; len];
    if reader.read_exact(&mut body).is_err() || len == 0 {
        let _ = (&stream).write_all(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    }
    let message: Json = serde_json::from_slice(&body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            let server = json!({"name": "slow", "version": "1"});
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server})
        }
        "tools/list" => {
            let (schema, hints) = (json!({"type": "object"}), json!({"readOnlyHint": true}));
            json!({"tools": [{"name": "look", "inputSchema": schema, "annotations": hints}]})
        }
        "tools/call" => {
            called.lock().unwrap().push(message["params"]["arguments"]["which"].as_str().unwrap().to_owned());
            json!({"content": [{"type": "text", "text": "done"}]})
        }
        _ => json!({}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let (status, answer) = if message["id"].is_null() { ("202 Yes", String::new()) } else { ("200 OK", answer) };
    let _ = write!(
        &stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
}

#[test]
fn a_call_reaches_a_server_over_http_long_after_its_verdict() {
    let slow = Slow::start();
    let mut world = World::new();
    world.write("countersign.toml", &format!("[mcp.upstream.box]\nurl = 'http://{}/mcp'\n", slow.address));
    world.serve();
    world.run_ok(&["mcp", "approve"]);
    world.run_ok(&["agent", "new", "coder-1", "--org", "acme", "--held-by-gateway"]);
    let mut client = Stdio::start(world.command(&["mcp", "serve", "--agent", "coder-1"]));
    client.initialize();
    let call = |client: &mut Stdio, which: &str| client.call("look", &json!({"which": which}));
    assert_eq!(call(&mut client, "first")["content"][0]["text"], "done");
    let waiting = slow.pause();
    let refused = call(&mut client, "late");
    assert_eq!(refused["error"]["code"], -32004, "it was not sent: {refused}");
    drop(waiting);
    slow.paused.store(false, Ordering::SeqCst);
    // Whatever still waited to be connected has arrived when a later one has.
    let until = Instant::now() + PATIENCE;
    while call(&mut client, "last")["content"][0]["text"] != "done" {
        assert!(Instant::now() < until, "it serves again");
        std::thread::sleep(Duration::from_millis(100));
    }
    client.end();
    let called = slow.called.lock().unwrap().clone();
    assert_eq!((&called[0], called.contains(&"late".to_owned())), (&"first".to_owned(), false), "{called:?}");
}
