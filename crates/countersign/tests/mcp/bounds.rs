//! What a client or a server can make the gateway and the gate keep: requests that nobody answers, programs, threads. Each test asks the
//! server's own book, or the processes that there are.

use crate::mcp::client::PATIENCE;
use crate::mcp::hostile::server;
use crate::mcp::http::{Http, hello};
use crate::mcp::processes::{children, wait_until};
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How many requests of one client may wait for answers.
const PENDING_MAX: usize = 1024;
/// How many are sent before the server's book is looked at: fewer than wait for a server that is slow to read.
const AT_A_TIME: usize = 64;
/// How many programs of one server may live.
const LIVING_MAX: usize = 16;
/// How many workers a gate has for one server.
const WORKERS: usize = 4;

/// How many pings a server has been asked that answers none.
fn pings(folder: &TempDir) -> usize {
    server::executed(folder.path()).iter().filter(|done| *done == "ping").count()
}

#[test]
fn a_client_that_waits_for_too_many_answers_cannot_ask_for_more() {
    let (sandbox, folder) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let upstream = format!("box={}", server::command("mute", folder.path()));
    let mut client = sandbox.client(&[], &["--upstream", &upstream]);
    client.initialize();
    let mut ids = Vec::new();
    while ids.len() < PENDING_MAX {
        ids.extend((0..AT_A_TIME).map(|_| client.ask("ping", &json!({}))));
        wait_until("the server was asked", || pings(&folder) == ids.len());
    }
    let refused = client.request("ping", &json!({}));
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    assert_eq!(pings(&folder), PENDING_MAX);
    // What is not waited for any more makes room for one, and for no more than one.
    let params = json!({"requestId": ids[0]});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string());
    client.ask("ping", &json!({}));
    wait_until("there is room for one", || pings(&folder) == PENDING_MAX + 1);
    let refused = client.request("ping", &json!({}));
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    assert_eq!(pings(&folder), PENDING_MAX + 1);
    client.end();
}

/// Sends a ping in a session, over a connection of its own.
fn ping(gateway: &Http, session: &str, id: usize) -> TcpStream {
    let address = gateway.url().trim_start_matches("http://").trim_end_matches("/mcp");
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-session-id: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

#[test]
fn clients_that_leave_before_their_answers_take_no_more_than_one_session_may_and_end_with_it() {
    let (sandbox, folder) = (Sandbox::new(), tempfile::tempdir().unwrap());
    std::fs::write(sandbox.path().join("countersign.toml"), "[mcp]\nsession_idle = \"15s\"\n").unwrap();
    let upstream = format!("box={}", server::command("mute", folder.path()));
    let words =
        ["mcp", "serve", "--data", "data", "--agent", "coder-1", "--listen", "127.0.0.1:0", "--upstream", &upstream];
    let gateway = Http::start(sandbox.command(&words));
    let session = gateway.post(None, &hello()).session.expect("has a session");
    gateway.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for asked in (0..PENDING_MAX).step_by(AT_A_TIME) {
        let left: Vec<TcpStream> = (asked..asked + AT_A_TIME).map(|id| ping(&gateway, &session, id)).collect();
        wait_until("the server was asked", || pings(&folder) == asked + AT_A_TIME);
        drop(left);
    }
    let refused = gateway.post(Some(&session), &json!({"jsonrpc": "2.0", "id": "one more", "method": "ping"}));
    assert_eq!(refused.body["error"]["code"], -32004, "{}", refused.body);
    assert_eq!(pings(&folder), PENDING_MAX);
    // Nobody ends the session: it is not used any more, and nothing that waits in it counts as use.
    assert_eq!(children(gateway.pid()).len(), 1);
    wait_until("its server ends", || children(gateway.pid()).is_empty());
    assert_eq!(gateway.post(Some(&session), &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status, 404);
    gateway.end();
}

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String" }
source = { mcp = "box", tool = "get_account", arguments = { id = "{id}" } }

[facts.Till]
attributes = { open = "Bool" }

[observe.Account]
who = 'true'
attributes = "*"

[action.pay]
resource = 'Till::"1"'
allow = 'principal.standing == "active"'
call = { mcp = "box", tool = "pay" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["to"]
properties.to = { type = "string", maxLength = 64 }

[[action.pay.require]]
id = "open"
that = 'resource.open'
"#;

/// A server that is a small program. Each one that is started writes down how many of them live then.
const PROGRAM: &str = r#"#!/bin/sh
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
echo $$ >> "$0.started"
living=0
for pid in $(cat "$0.started"); do kill -0 "$pid" 2>/dev/null && living=$((living + 1)); done
echo $living >> "$0.living"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *'"initialize"'*)
            if [ -e "$0.asking" ]; then
                # Asks more than anybody would answer, and reads nothing any more.
                awk 'BEGIN { for (n = 0; n < 4000; n++) print "{\"jsonrpc\":\"2.0\",\"id\":\"q" n "\",\"method\":\"roots/list\"}" }'
                say '{"protocolVersion":"2025-11-25","capabilities":{}}'
                echo asked >> "$0.asked"
                sleep 600
            fi
            say '{"protocolVersion":"2025-11-25","capabilities":{}}' ;;
        *'"tools/list"'*)
            say '{"tools":[{"name":"get_account","inputSchema":{"type":"object"}},{"name":"pay","inputSchema":{"type":"object"}}]}' ;;
        *'"get_account"'*)
            # Closes its output, and takes its time to end.
            exec 1>&-
            sleep 600 ;;
        *'"pay"'*)
            printf '%s\n' "$line" >> "$0.paid"
            say '{"content":[]}' ;;
    esac
done
"#;

/// A gate with that server, approved, in front of which agents act and observe without a gateway.
struct Bank {
    sandbox: Sandbox,
    gate: Http,
    program: PathBuf,
}

impl Bank {
    fn new(agents: usize) -> Self {
        let sandbox = Sandbox::new();
        let program = sandbox.path().join("bank");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let settings = format!("[mcp.upstream.box]\ncommand = ['{}']\n", program.display());
        std::fs::write(sandbox.path().join("countersign.toml"), settings).unwrap();
        std::fs::write(sandbox.path().join("bank.toml"), PACT).unwrap();
        sandbox.run_ok(&["mcp", "approve", "--reads", "get_account", "--data", "data"]);
        sandbox.run_ok(&["pact", "publish", "bank.toml", "--data", "data"]);
        sandbox.run_ok(&["fact", "put", "Till", "1", r#"{"open":true}"#, "--data", "data"]);
        for number in 0..agents {
            let agent = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
            sandbox.run_ok(&["fact", "put", "Agent", &format!("agent-{number}"), agent, "--data", "data"]);
        }
        for book in ["started", "living"] {
            std::fs::remove_file(program.with_extension(book)).unwrap();
        }
        let gate = Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
        Self { sandbox, gate, program }
    }

    fn ask(&self, agent: &str, path: &str, body: &Value) -> Value {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let http: ureq::Agent = config.timeout_global(Some(PATIENCE)).build().into();
        let request = http.post(format!("{}{path}", self.gate.url())).header("countersign-agent", agent);
        let mut answer = request.header("content-type", "application/json").send(body.to_string()).unwrap();
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
    }

    fn pay(&self, to: &str, wait_ms: u32) -> Value {
        let key = format!("a-key-of-twenty-two-chars-{to}");
        let body = json!({"pact": "bank", "action": "pay", "idempotency_key": key, "params": {"to": to}});
        self.ask("coder-1", &format!("/v1/actions?wait_ms={wait_ms}"), &body)
    }

    fn book(&self, name: &str) -> Vec<String> {
        lines(&self.program.with_extension(name))
    }
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn a_server_that_fails_and_ends_slowly_is_not_started_once_for_each_question() {
    let bank = Bank::new(5);
    std::thread::scope(|scope| {
        for number in 0..40 {
            let bank = &bank;
            scope.spawn(move || {
                let facts = json!({"facts": [format!("Account::\"{number}\"")]});
                let refused = bank.ask(&format!("agent-{}", number % 5), "/v1/observe", &facts);
                assert!(refused["error"]["code"].is_string(), "{refused}");
            });
        }
    });
    let living: Vec<usize> = bank.book("living").iter().map(|living| living.parse().unwrap()).collect();
    assert!(!living.is_empty() && living.iter().all(|living| *living <= LIVING_MAX), "{living:?}");
    assert!(children(bank.gate.pid()).len() <= LIVING_MAX);
    wait_until("all of them end", || children(bank.gate.pid()).is_empty());
    bank.gate.end();
    drop(bank.sandbox);
}

#[test]
fn a_server_that_asks_and_never_reads_keeps_no_worker_of_the_gate() {
    let bank = Bank::new(0);
    let asking = bank.program.with_extension("asking");
    std::fs::write(&asking, "").unwrap();
    for number in 0..WORKERS {
        let verdict = bank.pay(&format!("early-{number}"), 0);
        assert_eq!(verdict["verdict"], "in_flight", "{verdict}");
    }
    wait_until("each worker has met it", || bank.book("asked").len() >= WORKERS);
    std::fs::remove_file(asking).unwrap();
    let verdict = bank.pay("late", 50_000);
    assert_eq!(verdict["verdict"], "settled", "{verdict}");
    assert_eq!(bank.book("paid").iter().filter(|line| line.contains("\"late\"")).count(), 1);
    bank.gate.end();
}
