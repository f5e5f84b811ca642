//! The MCP gateway in front of a server that lies, in an identified gate. What the server executed stands in its own book.

mod floods;
mod leaving;
mod messages;
mod servers;
mod told;
mod verdicts;

use crate::attacks::world::{PATIENCE, World, wait_until};
use crate::mcp::client::Stdio;
use crate::mcp::hostile::server;
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio as Pipe};

/// Maps the tool that writes. What is for `boss` waits for a person.
const PACT: &str = r#"
pact = "box"
version = 1

[facts.McpTool]
attributes = { definition = "String", read_only = "Bool", text = "String?" }

[action.write]
resource = 'McpTool::"box/write"'
allow = 'principal.standing == "active"'
call = { mcp = "box", tool = "write" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["to"]
properties.to = { type = "string", maxLength = 64 }

[[action.write.require]]
id = "not-for-the-boss"
that = 'context.to != "boss"'
on_fail = "review"
"#;

/// An identified gate with the server behind it, approved as it behaves at first, and an agent whose key the gateway holds.
fn world() -> World {
    let mut world = World::new();
    let shell = server::shell("plain", world.path());
    world.write("countersign.toml", &format!("[mcp.upstream.box]\ncommand = ['sh', '-c', '''{shell}''']\n"));
    world.serve();
    world.run_ok(&["mcp", "approve"]);
    world.run_ok(&["agent", "new", "coder-1", "--org", "acme", "--held-by-gateway"]);
    world
}

fn gateway(world: &World) -> Stdio {
    let mut client = Stdio::start(world.command(&["mcp", "serve", "--agent", "coder-1"]));
    client.initialize();
    client
}

fn nothing() -> Vec<String> {
    Vec::new()
}

/// How many entries the gateway's own pact has, of which how many committed.
fn uses(world: &World) -> (usize, usize) {
    let entries = world.entries();
    let own = entries.iter().filter(|entry| entry["leaf"]["pact"]["name"] == "mcp-calls");
    let own: Vec<&Json> = own.filter(|entry| entry["leaf"]["kind"] == "action").collect();
    (own.len(), own.iter().filter(|entry| entry["leaf"]["verdict"] == "committed").count())
}

#[test]
fn a_tool_that_was_never_approved_runs_as_read_only_while_everything_is_halted() {
    let world = world();
    let mut client = gateway(&world);
    assert_eq!(client.call("look", &json!({}))["content"][0]["text"], "done");
    client.end();
    world.write("grown", "");
    let mut client = gateway(&world);
    world.run_ok(&["agent", "quarantine", "coder-1"]);
    world.run_ok(&["halt", "add", "--all", "--reason", "it lies"]);
    // The first calls let the gateway know that no pact maps the tool, which used to be when it was sent at once.
    for _ in 0..4 {
        for tool in ["wipe_disk", "look"] {
            let refused = client.call(tool, &json!({}));
            assert_eq!(refused["isError"], true, "{refused}");
        }
    }
    client.end();
    assert_eq!(server::executed(world.path()), ["look"], "and that was before the halt");
    assert_eq!(uses(&world).1, 1, "one committed, and it ran");
}

#[test]
fn resources_prompts_and_unknown_methods_are_used_past_a_halt_and_past_the_ledger() {
    let world = world();
    let methods = ["resources/read", "resources/subscribe", "prompts/get", "completion/complete", "tasks/result"];
    let mut client = gateway(&world);
    for method in methods {
        let answer = client.request(method, &json!({"uri": "x://1", "name": "greet"}));
        assert!(answer.get("result").is_some(), "{method}: {answer}");
    }
    assert_eq!(server::executed(world.path()), methods);
    assert_eq!(uses(&world), (methods.len(), methods.len()), "each of them has an entry");
    world.run_ok(&["halt", "add", "--all", "--reason", "stop"]);
    for method in methods {
        let refused = client.request(method, &json!({"uri": "x://1", "name": "greet"}));
        assert_eq!(refused["error"]["data"]["countersign"]["code"], "halted", "{method}: {refused}");
    }
    let unknown = client.request("vendor/wipe", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    client.send(r#"{"jsonrpc":"2.0","method":"vendor/wipe"}"#);
    client.request("ping", &json!({}));
    client.end();
    assert_eq!(server::executed(world.path()), methods, "nothing more was executed");
}

/// Acts at the gate itself, past every gateway; the verdict when it is over.
fn write(world: &World, key: &str, to: &str) -> Json {
    let body = json!({"pact": "box", "action": "write", "idempotency_key": key, "params": {"to": to}});
    world.caller("coder-1").ask("POST", "/v1/actions?wait_ms=30000", &body.to_string()).json
}

#[test]
fn a_tool_that_changed_after_its_approval_is_called_through_the_gates_own_worker() {
    let world = world();
    world.publish(PACT);
    world.write("flipped", "");
    let refused = write(&world, "a-first-key-of-twenty-two-chars", "jo");
    assert_eq!(refused["verdict"], "failed", "{refused}");
    let why = refused["evidence"]["summary"].as_str().unwrap();
    assert!(why.contains("box/write") && why.contains("has changed since it was approved"), "{why}");
    assert_eq!(server::executed(world.path()), nothing());
    // Read and approved, it runs; and when it changes again while it runs, and says so, it does not run again.
    world.run_ok(&["mcp", "approve", "--yes"]);
    std::fs::remove_file(world.path().join("flipped")).unwrap();
    world.run_ok(&["mcp", "approve", "--yes"]);
    let done = write(&world, "a-second-key-of-twenty-two-chars", "flip");
    assert_eq!(done["verdict"], "settled", "{done}");
    let refused = write(&world, "a-third-key-of-twenty-two-chars", "jo");
    assert_eq!(refused["verdict"], "failed", "{refused}");
    assert_eq!(server::executed(world.path()), ["write"]);
}

/// A gateway that listens; killed when dropped.
struct Listening {
    child: Child,
    url: String,
    http: ureq::Agent,
}

impl Listening {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Pipe::null()).stdout(Pipe::null()).stderr(Pipe::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("says where it listens").unwrap();
            if let Some(url) = line.trim().strip_prefix("Listening on ") {
                break url.to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        Self { child, url, http: config.build().into() }
    }

    /// Sends a message with these headers; its status, its session and its answer.
    fn post(&self, headers: &[(&str, &str)], message: &Json) -> (u16, Option<String>, Json) {
        let mut request = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send(message.to_string()).unwrap();
        let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let body = answer.body_mut().read_json().unwrap_or(Json::Null);
        (answer.status().as_u16(), session, body)
    }

    /// Begins a session, as a page with these headers would.
    fn begin(&self, headers: &[(&str, &str)]) -> (u16, Option<String>) {
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let (status, session, _) = self.post(headers, &hello);
        (status, session)
    }

    fn call(&self, headers: &[(&str, &str)], tool: &str, arguments: &Json) -> Json {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        self.post(headers, &call).2
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_page_of_another_port_of_this_machine_calls_tools() {
    let world = world();
    let server = Listening::start(world.command(&["mcp", "serve", "--agent", "coder-1", "--listen", "127.0.0.1:0"]));
    for origin in ["http://localhost:3000", "http://127.0.0.1:1", "http://[::1]:8080", "null"] {
        let page = [("origin", origin)];
        let (status, session) = server.begin(&page);
        if let Some(session) = session {
            let page = [("origin", origin), ("mcp-session-id", session.as_str())];
            server.post(&page, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            server.call(&page, "look", &json!({}));
        }
        assert_eq!((status, server::executed(world.path())), (403, nothing()), "{origin}");
    }
    // Its own origin, and a program that is no page, are served.
    let own = server.url.trim_end_matches("/mcp").to_owned();
    assert_eq!(server.begin(&[("origin", &own)]).0, 200);
    assert_eq!(server.begin(&[]).0, 200);
}

#[test]
fn a_continuation_of_one_session_is_guessed_and_used_in_another() {
    let world = world();
    world.publish(PACT);
    let server = Listening::start(world.command(&["mcp", "serve", "--agent", "coder-1", "--listen", "127.0.0.1:0"]));
    let begin = || {
        let session = server.begin(&[]).1.expect("has a session");
        let in_it = [("mcp-session-id", session.as_str())];
        server.post(&in_it, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    };
    let (owner, thief) = (begin(), begin());
    let said = |session: &str, tool: &str, arguments: Json| {
        let answer = server.call(&[("mcp-session-id", session)], tool, &arguments);
        answer["result"]["_meta"]["countersign"].clone()
    };
    let parked = said(&owner, "write", json!({"to": "boss"}));
    assert_eq!(parked["verdict"], "review", "{parked}");
    let word = parked["continuation"].as_str().unwrap().to_owned();
    let guess = format!("box:{}", parked["entry"]);
    for stolen in [word.as_str(), guess.as_str(), &format!("{guess}:{}", "0".repeat(32))] {
        let told = said(&thief, "countersign_continue", json!({"continuation": stolen}));
        assert_eq!(told["error"]["code"], "outcome_unknown", "{stolen}: {told}");
        assert!(told.get("entry").is_none() && told.get("review").is_none(), "{told}");
    }
    let told = said(&owner, "countersign_continue", json!({"continuation": word}));
    assert_eq!(told["verdict"], "review", "{told}");
}

#[test]
fn a_gateway_is_started_without_the_agents_key_or_with_anothers() {
    let world = world();
    world.run_ok(&["agent", "new", "mallory", "--org", "acme"]);
    let start = |words: &[&str], has_env: bool| {
        let mut command =
            world.command(&[&["mcp", "serve", "--agent", "coder-1", "--keys", "nowhere"], words].concat());
        if !has_env {
            command.env_remove("COUNTERSIGN_KEY");
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (words, has_env, why) in [
        (&[] as &[&str], false, "there is no key of the agent"),
        (&[], true, "it is the key of the operator `admin`"),
        (&["--key", "mallory.key"], false, "it is the key of the agent `mallory`"),
    ] {
        let (code, said) = start(words, has_env);
        assert!(code == Some(2) && said.contains(why) && said.contains("hint: "), "{code:?}: {said}");
    }
    // Nobody's key: one that the gate has never seen.
    let other = World::serving("");
    other.run_ok(&["agent", "new", "coder-1", "--org", "acme"]);
    std::fs::copy(other.path().join("coder-1.key"), world.path().join("strange.key")).unwrap();
    let (code, said) = start(&["--key", "strange.key"], false);
    assert!(code == Some(2) && said.contains("strange.key") && said.contains("hint: "), "{code:?}: {said}");
    wait_until("nothing runs", || server::executed(world.path()).is_empty());
}
