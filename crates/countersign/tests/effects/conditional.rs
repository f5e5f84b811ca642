//! Facts that live in somebody else's service, read and written over HTTP through a real gate: what somebody else changes between
//! the reading and the call is noticed by the service, by its ETag, and nothing is applied.

use crate::effects::processes::{self, Gate};
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

const PACT: &str = r#"
pact = "remote"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }
source = { http = "bank", path = "/accounts/{id}" }

[observe.Account]
who = 'true'
attributes = "*"

[action.debit]
resource = 'Account::"{account}"'
allow = 'true'
call.http = "bank"
call.method = "PUT"
call.path = "/accounts/{account}"
call.body = { status = "resource.status", balance = "resource.balance - context.amount" }

[action.debit.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.debit.require]]
id = "covered"
that = 'resource.balance >= context.amount'
"#;

/// A bank with one account. It knows nothing of gates: GET gives the account under its ETag, PUT compares, then writes.
#[derive(Default)]
struct Bank {
    balance: i64,
    version: u64,
    /// Whether it gives ETags.
    has_etags: bool,
    /// What somebody else takes right after the next reading.
    taken_next: Option<i64>,
    /// Requests to write, and what was answered.
    puts: Vec<(String, u16)>,
}

impl Bank {
    fn serve(bank: Arc<Mutex<Self>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Whoever hangs up is none of the bank's business.
                let _ = bank.lock().unwrap().answer(stream.unwrap());
            }
        });
        url
    }

    fn answer(&mut self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            head += &line.to_lowercase();
            line.clear();
        }
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let etag = format!("\"v{}\"", self.version);
        let (status, body) = if head.starts_with("get /accounts/42 ") {
            (200, json!({"status": "active", "balance": self.balance, "owner": "Ada"}).to_string())
        } else if head.starts_with("put /accounts/42 ") {
            let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
            reader.read_exact(&mut body)?;
            let condition = header("if-match").map(str::to_owned);
            let status = if condition.as_ref().is_none_or(|condition| *condition == etag) { 200 } else { 412 };
            if status == 200 {
                self.write(serde_json::from_slice::<Json>(&body)?["balance"].as_i64().unwrap());
            }
            self.puts.push((condition.unwrap_or_default(), status));
            (status, "{}".to_owned())
        } else {
            (404, "{}".to_owned())
        };
        let named = if self.has_etags && status == 200 { format!("ETag: {etag}\r\n") } else { String::new() };
        let answer = format!(
            "HTTP/1.1 {status} X\r\n{named}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        reader.get_mut().write_all(answer.as_bytes())?;
        if let Some(taken) = self.taken_next.take_if(|_| head.starts_with("get ")) {
            self.write(self.balance - taken);
        }
        Ok(())
    }

    fn write(&mut self, balance: i64) {
        (self.balance, self.version) = (balance, self.version + 1);
    }
}

struct World {
    folder: tempfile::TempDir,
    bank: Arc<Mutex<Bank>>,
    gate: Gate,
    agent: ureq::Agent,
}

impl World {
    fn new(has_etags: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bank = Arc::new(Mutex::new(Bank { balance: 900, has_etags, ..Bank::default() }));
        let url = Bank::serve(Arc::clone(&bank));
        let settings = folder.path().join("countersign.toml");
        let adapter =
            format!("[adapters.bank]\nkind = \"http\"\nbase = \"{url}\"\nallow_private = [\"127.0.0.0/8\"]\n");
        std::fs::write(&settings, adapter).unwrap();
        let data = folder.path().join("data");
        processes::countersign(&["init", "--open", "--origin", "remote.example/log"], &data);
        let gate = Gate::start(&data, &settings);
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let published = agent.post(format!("{}/v1/pacts", gate.url)).header("countersign-agent", "operator");
        let mut published = published.header("content-type", "application/toml").send(PACT).unwrap();
        assert!(published.status().is_success(), "{}", published.body_mut().read_to_string().unwrap());
        let world = Self { folder, bank, gate, agent };
        let payer = json!({"value": {"roles": ["payer"], "standing": "active", "org": "acme", "trust": 500}});
        let fed = world.agent.put(format!("{}/v1/facts/Agent/payer-1", world.gate.url));
        assert!(fed.header("countersign-agent", "operator").send_json(payer).unwrap().status().is_success());
        world
    }

    fn ask(&self, path: &str, body: &Json) -> Json {
        let sent = self.agent.post(format!("{}{path}", self.gate.url)).header("countersign-agent", "payer-1");
        let mut answer = sent.send_json(body).unwrap();
        let json = answer.body_mut().read_json().unwrap();
        assert!(answer.status().is_success(), "{json}");
        json
    }

    /// Takes from the account, and waits for what comes of it.
    fn debit(&self, number: usize, amount: i64) -> Json {
        let params = json!({"account": "42", "amount": amount});
        let key = format!("debit-{number:016}-{number:016}");
        let body = json!({"pact": "remote", "action": "debit", "idempotency_key": key, "params": params});
        self.ask("/v1/actions?wait_ms=20000", &body)
    }

    fn bank(&self) -> std::sync::MutexGuard<'_, Bank> {
        self.bank.lock().unwrap()
    }

    /// Ends the gate; everything it decided comes out the same again.
    fn end(self) {
        self.gate.kill();
        processes::countersign(&["audit"], &self.folder.path().join("data"));
    }
}

/// What speaks for an outcome.
fn summary(verdict: &Json) -> &str {
    verdict["evidence"]["summary"].as_str().unwrap_or_else(|| panic!("no evidence: {verdict}"))
}

#[test]
fn what_nobody_changed_is_done_under_the_etag_that_was_read() {
    let world = World::new(true);
    let done = world.debit(1, 100);
    assert_eq!((&done["verdict"], &done["atomicity"]), (&json!("settled"), &json!("conditional")), "{done}");
    let done = world.debit(2, 100);
    assert_eq!(done["verdict"], "settled", "{done}");
    assert_eq!(world.bank().puts, [("\"v0\"".to_owned(), 200), ("\"v1\"".to_owned(), 200)]);
    assert_eq!(world.bank().balance, 700);
    world.end();
}

#[test]
fn what_somebody_else_changed_after_the_reading_is_refused_by_the_service_and_nothing_is_applied() {
    let world = World::new(true);
    world.bank().taken_next = Some(850);
    let failed = world.debit(1, 100);
    assert_eq!((&failed["verdict"], &failed["atomicity"]), (&json!("failed"), &json!("conditional")), "{failed}");
    assert_eq!(summary(&failed), "the service answered 412: what was read there has changed since");
    assert_eq!(world.bank().puts, [("\"v0\"".to_owned(), 412)], "asked once, under what was read, and never again");
    assert_eq!(world.bank().balance, 50, "only the other one took something");
    // Tried anew it is decided on what is there now, before anything is sent.
    let blocked = world.debit(2, 100);
    assert_eq!((&blocked["verdict"], &blocked["code"]), (&json!("failed"), &json!("precondition_failed")), "{blocked}");
    assert_eq!(blocked["failed"][0]["precondition"], "covered", "{blocked}");
    assert_eq!(world.bank().puts.len(), 1);
    world.end();
}

#[test]
fn a_service_without_etags_is_not_called() {
    let world = World::new(false);
    let failed = world.debit(1, 100);
    assert_eq!(failed["verdict"], "failed", "{failed}");
    let said = summary(&failed);
    assert!(said.starts_with("nothing was sent: Account::\"42\" came without a strong ETag"), "{said}");
    assert_eq!(world.bank().puts, []);
    assert_eq!(world.bank().balance, 900);
    world.end();
}

#[test]
fn observation_and_manifest_say_conditional() {
    let world = World::new(true);
    let observed = world.ask("/v1/observe", &json!({"facts": ["Account::\"42\""]}));
    assert_eq!(observed["facts"][0]["atomicity"], "conditional", "{observed}");
    assert_eq!(observed["facts"][0]["value"], json!({"status": "active", "balance": 900}), "{observed}");
    let manifest = manifest(world.folder.path());
    assert!(manifest.contains("| `Account` |") && manifest.contains("- atomicity: conditional"), "{manifest}");
    world.end();
}

fn manifest(folder: &Path) -> String {
    let path = folder.join("remote.toml");
    std::fs::write(&path, PACT).unwrap();
    let mut command = std::process::Command::new(processes::BINARY);
    let output = command.args(["pact", "check", "--manifest"]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
