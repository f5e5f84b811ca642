//! The adapter against a server that answers as each test says.

use super::super::settings::{Address, Program};
use super::*;
use crate::mcp::message::raw;
use axum::body::to_bytes;
use axum::response::IntoResponse as _;
use countersign_core::call::{Call, EffectId, OnError, Probe};
use countersign_core::halt::Scope;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::reason::{Reason, Since};
use countersign_core::value::{Attributes, FieldType, ValueType};
use countersign_engine::outbox::Judge;
use std::sync::mpsc;

mod leaving;

/// What a tool does with its arguments: `Ok` is a result, `Err` an error of JSON-RPC, `None` no answer at all.
type Script = fn(&str, &Value) -> Option<Result<Value, (i64, &'static str)>>;

fn bank(tool: &str, arguments: &Value) -> Option<Result<Value, (i64, &'static str)>> {
    Some(match tool {
        "get_account" if arguments["id"] == "42" => {
            Ok(json!({"content": [], "structuredContent": {"status": "active", "balance": 900}}))
        }
        "get_account" if arguments["id"] == "odd" => Ok(json!({"content": [], "structuredContent": {"balance": 9.5}})),
        "get_account" if arguments["id"] == "text" => {
            Ok(json!({"content": [{"type": "text", "text": "{\"status\":\"active\"}"}]}))
        }
        "get_account" if arguments["id"] == "gone" => Ok(json!({"content": [], "structuredContent": null})),
        "get_account" if arguments["id"] == "silent" => Ok(json!({"content": []})),
        "get_account" if arguments["id"] == "elsewhere" => Ok(json!({"content": [], "structuredContent": {"rows": 1}})),
        "get_account" if arguments["id"] == "huge" => {
            Ok(json!({"content": [], "structuredContent": {"status": "x".repeat(17_000)}}))
        }
        "get_account" if arguments["id"] == "leaks" => {
            Ok(json!({"content": [], "structuredContent": {"status": format!("token {SECRET}")}}))
        }
        "get_account" => Ok(json!({"isError": true, "content": [{"type": "text", "text": "the\nbank is closed"}]})),
        "transfer" => Ok(json!({"content": [{"type": "text", "text": "moved"}]})),
        "find_transfer" => Ok(json!({"content": [], "structuredContent": {"result": arguments["key"] == "paid"}})),
        "half_way" => {
            Ok(json!({"isError": true, "content": [{"type": "text", "text": "timed out at the central bank"}]}))
        }
        "leaks" => Ok(json!({"content": [{"type": "text", "text": format!("called with {SECRET}")}]})),
        "complains" => {
            let text = format!("{}{SECRET}", "x".repeat(1_000));
            Ok(json!({"isError": true, "content": [{"type": "text", "text": text}]}))
        }
        "talks" => return Some(Err((-32602, Box::leak("\u{1b}".repeat(100_000).into_boxed_str())))),
        "promises" => Ok(json!({"task": {"taskId": "1", "status": "working"}})),
        "asks_more" => Ok(json!({"content": [], "resultType": "input_required"})),
        "vague" => Ok(json!({"content": [], "isError": "true"})),
        "lists" => Ok(json!([])),
        "no_such" => Err((-32602, "unknown tool")),
        "broken" => Err((-32603, "internal error")),
        _ => return None,
    })
}

/// A secret that the server was started with.
const SECRET: &str = "tok-0123456789abcdef";

fn definition(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// Everything is approved as it is, and as only reading, but for one that has changed and one that was never read.
fn approved(fact: &FactId) -> Option<Attributes> {
    let name = fact.id().strip_prefix("bank/")?;
    let definition = match name {
        "other" => return None,
        "changed" => "0".repeat(64),
        _ => Tool::parse(&raw(&definition(name))).expect("is a tool").definition,
    };
    let definition = ("definition".into(), FactValue::String(definition.into()));
    Some(Attributes::from_fields(vec![definition, ("read_only".into(), FactValue::Bool(true))]))
}

fn adapter(place: Place, threads: Arc<Threads>) -> McpAdapter {
    let adapter = McpAdapter::new("bank", place, threads);
    adapter.known().add(&crate::adapters::secret::Source::Env("TOKEN".to_owned()), &SECRET.into());
    adapter.connect(Arc::new(approved));
    adapter
}

/// Starts the server; what it was asked is told.
fn server(runtime: &Handle, script: Script) -> (Place, mpsc::Receiver<Value>) {
    let (told, asked) = mpsc::channel();
    let answer = move |request: axum::extract::Request| {
        let told = told.clone();
        async move {
            let body = to_bytes(request.into_body(), 1 << 20).await.expect("has a body");
            let message: Value = serde_json::from_slice(&body).expect("is JSON");
            let id = &message["id"];
            let answer = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {}}})
                }
                Some("tools/list") => {
                    let names = [
                        "get_account",
                        "transfer",
                        "find_transfer",
                        "half_way",
                        "leaks",
                        "complains",
                        "talks",
                        "promises",
                        "asks_more",
                        "vague",
                        "lists",
                        "no_such",
                        "broken",
                        "hangs",
                        "changed",
                        "other",
                    ];
                    let tools: Vec<Value> = names.iter().map(|name| definition(name)).collect();
                    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
                }
                Some("tools/call") => {
                    let params = &message["params"];
                    told.send(params.clone()).expect("the test listens");
                    match script(params["name"].as_str().expect("has a name"), &params["arguments"]) {
                        Some(Ok(result)) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                        Some(Err((code, message))) => {
                            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
                        }
                        None => std::future::pending().await,
                    }
                }
                _ => return axum::http::StatusCode::ACCEPTED.into_response(),
            };
            axum::Json(answer).into_response()
        }
    };
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let url = format!("http://{}/mcp", listener.local_addr().expect("has one"));
    let router = axum::Router::new().route("/mcp", axum::routing::post(answer));
    runtime.spawn(async move { axum::serve(listener, router).await });
    (Place::Url(Address { url, ..Address::default() }), asked)
}

/// Lets pass accounts that are active, and sends what it is told to.
struct Judging {
    send: Send,
    halted: bool,
}

fn blocked(message: &str) -> Reason {
    Reason::Halted { scope: Scope::All, since: Since { entry: 1, at: 1, by: AgentId::gate() }, why: message.into() }
}

impl Judge for Judging {
    fn stopped(&self) -> Option<Reason> {
        self.halted.then(|| blocked("everything is halted"))
    }
    fn schema(&self, _: &FactId) -> FactSchema {
        let field = |ty| FieldType { ty, required: false };
        [("status".into(), field(ValueType::String)), ("balance".into(), field(ValueType::Long))].into()
    }
    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        let active = read.iter().all(|fact| fact.value.as_ref().is_some_and(|value| value.get("status").is_some()));
        if active { Ok(self.send.clone()) } else { Err(blocked("the account is not there")) }
    }
}

struct World {
    adapter: McpAdapter,
    asked: mpsc::Receiver<Value>,
}

impl World {
    fn new() -> Self {
        let threads = Threads::new(1 << 30).expect("there are threads");
        let (place, asked) = server(&threads.handle, bank);
        Self { adapter: adapter(place, threads), asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().map(|params| params["name"].as_str().expect("has a name").to_owned()).collect()
    }
}

fn tool(name: &str) -> Send {
    Send::Tool { tool: name.into(), arguments: json!({"amount": 5}), on_error: OnError::InDoubt }
}

fn call(name: &str, account: Option<(&str, &str)>) -> Call {
    let read = |(id, at): (&str, &str)| ExternalRead {
        fact: format!("Account::\"{id}\"").parse().expect("is a fact"),
        adapter: "bank".into(),
        how: ExternalHow::Tool { tool: "get_account".into(), arguments: json!({"id": id}), at: at.into(), key: None },
    };
    Call {
        adapter: "bank".into(),
        send: account.is_none().then(|| tool(name)),
        timeout_ms: 400,
        retries: 0,
        deadline_ms: u64::MAX,
        probe: None,
        undo: None,
        outside: account.map(read).into_iter().collect(),
    }
}

fn attempt(world: &World, call: &Call, name: &str, halted: bool) -> Attempt {
    let judge = Judging { send: tool(name), halted };
    world.adapter.attempt(&Job { effect: EffectId(1), call, key: "cs-1", attempt: 1, judge: &judge })
}

#[test]
fn a_result_is_done_and_the_call_carries_its_key() {
    let world = World::new();
    let Attempt::Done(evidence) = attempt(&world, &call("transfer", None), "transfer", false) else {
        panic!("is done")
    };
    assert!(evidence.result.expect("is kept").contains("moved"));
    let params = world.asked.recv().expect("was asked");
    assert_eq!(params["_meta"]["countersign"]["idempotency_key"], "cs-1");
    assert_eq!(params["arguments"], json!({"amount": 5}));
}

#[test]
fn only_what_is_clear_counts_as_refused() {
    let world = World::new();
    for name in ["half_way", "broken", "no_such", "hangs", "promises", "asks_more", "vague", "lists"] {
        let attempt = attempt(&world, &call(name, None), name, false);
        assert!(matches!(attempt, Attempt::Unknown(_)), "{name}: {attempt:?}");
    }
    let send = Some(Send::Tool { tool: "no_such".into(), arguments: json!({}), on_error: OnError::Failed });
    let refused = attempt(&world, &Call { send, ..call("no_such", None) }, "no_such", false);
    assert!(matches!(&refused, Attempt::Refused(evidence) if evidence.status == Some(-32602)), "{refused:?}");
    // That it is over does not say that it did nothing.
    for name in ["half_way", "no_such"] {
        let send = Some(Send::Tool { tool: name.into(), arguments: json!({}), on_error: OnError::Over });
        let over = attempt(&world, &Call { send, ..call(name, None) }, name, false);
        let Attempt::Refused(evidence) = &over else { panic!("{over:?}") };
        assert!(evidence.words().contains("whether it did anything is not known"), "{}", evidence.words());
    }
}

#[test]
fn facts_are_read_before_the_action_is_decided_and_nothing_is_sent_where_they_cannot_be() {
    let world = World::new();
    let with = |id: &'static str, at: &'static str| call("transfer", Some((id, at)));
    let done = attempt(&world, &with("42", "/structuredContent"), "transfer", false);
    assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    assert_eq!(world.asked(), ["get_account", "transfer"]);
    let text = attempt(&world, &with("text", "/content/0/text"), "transfer", false);
    assert!(matches!(text, Attempt::Done(_)), "{text:?}");
    assert_eq!(world.asked(), ["get_account", "transfer"]);
    let gone = attempt(&world, &with("gone", "/structuredContent"), "transfer", false);
    assert!(
        matches!(&gone, Attempt::Blocked(blocked) if blocked.message().ends_with("the account is not there")),
        "{gone:?}"
    );
    for (id, why) in [
        ("odd", "balance"),
        ("closed", "bank is closed"),
        // An answer that is silent about an account does not say that there is none.
        ("silent", "has no /structuredContent"),
        ("huge", "a fact has at most"),
        ("leaks", "holds a secret"),
    ] {
        let attempt = attempt(&world, &with(id, "/structuredContent"), "transfer", false);
        // The server has answered; it is not asked until it says something else, to act by itself then.
        assert!(matches!(&attempt, Attempt::Refused(evidence) if evidence.words().contains(why)), "{attempt:?}");
    }
    let elsewhere = attempt(&world, &with("elsewhere", "/structuredContent/account"), "transfer", false);
    assert!(matches!(&elsewhere, Attempt::Refused(said) if said.words().contains("must give null")), "{elsewhere:?}");
    assert_eq!(world.asked(), ["get_account"; 7], "nothing was sent after any of them");
}

#[test]
fn a_server_puts_its_secret_or_any_amount_of_text_into_what_is_kept() {
    let world = World::new();
    let Attempt::Done(leaks) = attempt(&world, &call("leaks", None), "leaks", false) else { panic!("is done") };
    assert!(leaks.result.expect("is kept").contains("called with [secret]"));
    let mut complaining = call("complains", None);
    complaining.send = Some(Send::Tool { tool: "complains".into(), arguments: json!({}), on_error: OnError::Failed });
    let Attempt::Refused(said) = attempt(&world, &complaining, "complains", false) else { panic!("is refused") };
    // The secret begins before the cut and ends after it.
    assert!(!said.words().contains("tok-"), "{}", said.words());
    let Attempt::Unknown(talks) = attempt(&world, &call("talks", None), "talks", false) else { panic!("is unknown") };
    assert!(
        talks.found.said.as_ref().is_some_and(|said| said.len() <= 1024) && !talks.words().contains('\u{1b}'),
        "{}",
        talks.words()
    );
    let read = call("transfer", Some(("leaks", "/structuredContent"))).outside.remove(0);
    let schema = Judging { send: tool("transfer"), halted: false }.schema(&read.fact);
    let refused = world.adapter.observe(&read, &schema).expect_err("is refused").to_string();
    assert!(refused.contains("holds a secret") && !refused.contains(SECRET), "{refused}");
}

#[test]
fn a_halt_stops_the_call_at_the_last_moment() {
    let world = World::new();
    let halted = attempt(&world, &call("transfer", Some(("42", "/structuredContent"))), "transfer", true);
    assert!(matches!(&halted, Attempt::NotSent(evidence) if evidence.words().contains("halted")), "{halted:?}");
    assert_eq!(world.asked(), ["get_account"]);
}

#[test]
fn a_server_that_is_not_there_was_sent_nothing() {
    let threads = Threads::new(1 << 30).expect("there are threads");
    for place in [
        Place::Url(Address { url: "http://127.0.0.1:1/mcp".to_owned(), ..Address::default() }),
        Place::Command(Program { words: vec!["/no/such/program".to_owned()], env: Vec::new() }),
    ] {
        let adapter = adapter(place, Arc::clone(&threads));
        let world = World { adapter, asked: mpsc::channel().1 };
        let attempt = attempt(&world, &call("transfer", None), "transfer", false);
        assert!(matches!(attempt, Attempt::NotSent(_)), "{attempt:?}");
    }
}

#[test]
fn a_probe_finds_a_call_finds_nothing_or_does_not_know() {
    let world = World::new();
    let probe = |name: &str, key: &str| {
        let send = Send::Tool { tool: name.into(), arguments: json!({"key": key}), on_error: OnError::InDoubt };
        let call = Call { probe: Some(Probe { send, absent_after_ms: 1, at: None }), ..call("transfer", None) };
        let judge = Judging { send: tool("transfer"), halted: false };
        world.adapter.probe(&Job { effect: EffectId(1), call: &call, key: "cs-1", attempt: 1, judge: &judge })
    };
    assert!(matches!(probe("find_transfer", "paid"), Probed::There(_)));
    assert!(matches!(probe("find_transfer", "lost"), Probed::Absent(_)));
    for name in ["half_way", "promises", "asks_more", "vague", "lists"] {
        assert!(matches!(probe(name, "paid"), Probed::Unknown(_)), "{name}");
    }
    assert!(matches!(probe("hangs", "paid"), Probed::Unknown(_)));
}

#[test]
fn a_tool_that_is_not_the_approved_one_is_not_called_nor_read_by() {
    let world = World::new();
    for (name, why) in [("changed", "has changed since"), ("other", "is not approved"), ("missing", "there is no tool")]
    {
        let Attempt::Refused(evidence) = attempt(&world, &call(name, None), name, false) else { panic!("is refused") };
        assert!(evidence.words().contains(why), "{}", evidence.words());
        let mut read = call("transfer", Some(("42", "/structuredContent")));
        for outside in &mut read.outside {
            outside.how = ExternalHow::Tool { tool: name.into(), arguments: json!({}), at: "".into(), key: None };
        }
        let Attempt::Refused(evidence) = attempt(&world, &read, "transfer", false) else { panic!("is refused") };
        assert!(evidence.words().contains(why), "{}", evidence.words());
    }
    assert_eq!(world.asked(), Vec::<String>::new(), "nothing was sent");
    // Without a gate to ask nothing is approved.
    let (place, asked) = server(&world.adapter.threads.handle, bank);
    let alone = World { adapter: McpAdapter::new("bank", place, Arc::clone(&world.adapter.threads)), asked };
    let Attempt::Refused(_) = attempt(&alone, &call("transfer", None), "transfer", false) else { panic!("is refused") };
    assert_eq!(alone.asked(), Vec::<String>::new());
}
