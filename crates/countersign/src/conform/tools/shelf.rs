//! A shelf with things on it as an MCP server, which gives out whatever it is asked for and writes it into its book; a gate that guards
//! it as read, without a pact; and agents behind gateways. All of them are processes. The server has one more tool, which no one has
//! approved.

use crate::client::{Call, Client};
use crate::conform::own::{self, Process};
use anyhow::{Context as _, Result};
use countersign_api::{EntryResponse, FactResponse, Ready};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// The agents' names.
pub const AGENTS: [&str; 2] = ["conform-1", "conform-2"];
/// What is taken of these waits until another is taken beside it, or for so long.
pub const MEETING: &str = "meeting-";
const MEETS_WITHIN: Duration = Duration::from_secs(10);
/// How many there are of everything that is not said otherwise.
const FULL: i64 = 10;
const STOCK: &str = "stock.json";
const BOOK: &str = "book.jsonl";

/// What was taken, as the server wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub item: String,
    pub left: i64,
    /// How many were being taken at that moment, this one included.
    pub at_once: usize,
}

/// A guarded shelf.
pub struct Shelf {
    gate: Process,
    url: String,
    folder: TempDir,
    /// What starts the server, in one text.
    server: String,
}

/// An agent in a session of its own.
pub struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Shelf {
    /// Starts the gate; the server is started by it.
    pub fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder can be made")?;
        let at = folder.path();
        let program = std::env::current_exe().context("the system does not say which program this is")?;
        let words = [&*program.to_string_lossy(), "conform", "--shelf", &at.to_string_lossy()].map(str::to_owned);
        let command = words.each_ref().map(|word| format!("'{word}'")).join(" ");
        let words = words.map(toml::Value::from);
        let server = toml::Table::from_iter([("command".to_owned(), toml::Value::from(words.to_vec()))]);
        std::fs::write(at.join("countersign.toml"), format!("[mcp.upstream.shelf]\n{server}"))?;
        own::run(at, &["init", "--data", "data", "--open"])?;
        let agent = r#"{"roles":[],"standing":"active","org":"conform","trust":500}"#;
        for name in AGENTS {
            own::run(at, &["fact", "put", "Agent", name, agent, "--data", "data"])?;
        }
        let approve = ["mcp", "approve", "--yes", "--guard", "as-read", "--data", "data"];
        own::run(at, &[&approve[..], &["shelf/get_count", "shelf/take"]].concat())?;
        let (gate, url) = own::serve(at)?;
        Ok(Self { gate, url, folder, server: command })
    }

    /// A new session.
    pub fn agent(&self) -> Result<Agent> {
        self.agent_with(AGENTS[0], &[])
    }

    /// A new session of an agent that gives its own gateway more to do.
    pub fn agent_with(&self, name: &str, more: &[&str]) -> Result<Agent> {
        let words = [&["mcp", "serve", "--server", &self.url, "--agent", name], more].concat();
        let mut command = own::command(self.folder.path(), &words)?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let input = child.stdin.take().context("a process without input")?;
        let output = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut agent = Agent { child, input, output, next: 0 };
        let info = json!({"name": "conform", "version": "1"});
        agent
            .request("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}))?;
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(agent)
    }

    /// The gate, as its callers see it.
    pub fn gate(&self) -> Result<Client> {
        Client::remote(&self.url)
    }

    /// A pact that is drafted from the server's tools.
    pub fn draft(&self) -> Result<String> {
        let (code, draft) =
            own::output(self.folder.path(), &["pact", "init", "--mcp", &self.server, "--name", "shelf"])?;
        anyhow::ensure!(code == Some(0), "no pact can be drafted");
        Ok(draft)
    }

    /// Publishes a pact, if it may be.
    pub fn publish(&self, pact: &str) -> Result<()> {
        let file = self.folder.path().join("pact.toml");
        std::fs::write(&file, pact)?;
        own::run(self.folder.path(), &["pact", "publish", "pact.toml", "--server", &self.url])
    }

    /// The definition that was approved of a tool; of one that was not, none that it has.
    pub fn definition(&self, tool: &str) -> Result<String> {
        let fact: Result<FactResponse> = self.gate()?.call(Call::get(format!("/v1/facts/McpTool/shelf%2F{tool}")));
        let definition = fact.ok().and_then(|fact| fact.value.get("definition")?.as_str().map(str::to_owned));
        Ok(definition.unwrap_or_else(|| "0".repeat(64)))
    }

    /// One entry: what is public of it, and what lies beside it.
    pub fn entry(&self, index: u64) -> Result<Json> {
        let entry: EntryResponse = self.gate()?.call(Call::get(format!("/v1/ledger/entries/{index}")))?;
        let payload = entry.payload.context("the entry has no payload")?;
        Ok(json!({"leaf": entry.leaf, "payload": serde_json::from_str::<Json>(payload.get())?}))
    }

    /// Changes how many there are, past the gate.
    pub fn set(&self, item: &str, count: i64) -> Result<()> {
        let mut stock = read(self.folder.path())?;
        stock.insert(item.to_owned(), count);
        write(self.folder.path(), &stock)
    }

    /// Everything that the server gave out.
    pub fn taken(&self) -> Result<Vec<Taken>> {
        match std::fs::read_to_string(self.folder.path().join(BOOK)) {
            Ok(book) => Ok(book.lines().map(serde_json::from_str).collect::<Result<_, _>>()?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills the gate, and has everything decided once more. Gives what the audit says, its exit code, and how many entries there were
    /// before.
    pub fn audit(self) -> Result<(Json, Option<i32>, u64)> {
        let before = self.gate()?.call::<Ready>(Call::get("/readyz"))?.position;
        drop(self.gate);
        let (code, said) = own::output(self.folder.path(), &["audit", "--data", "data", "--json"])?;
        Ok((serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))?, code, before))
    }
}

impl Agent {
    fn send(&mut self, message: &Json) -> Result<()> {
        writeln!(self.input, "{message}").and_then(|()| self.input.flush()).context("the gateway has ended")
    }

    /// Asks; the result, or the whole answer where it is an error.
    pub fn request(&mut self, method: &str, params: &Json) -> Result<Json> {
        self.next += 1;
        let id = json!(self.next);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            anyhow::ensure!(self.output.read_line(&mut line)? > 0, "the gateway has ended");
            let message: Json = serde_json::from_str(&line)?;
            if message.get("id") == Some(&id) && message.get("method").is_none() {
                return Ok(message.get("result").cloned().unwrap_or(message));
            }
        }
    }

    /// Calls a tool; its result.
    pub fn call(&mut self, tool: &str, arguments: &Json) -> Result<Json> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Stock = BTreeMap<String, i64>;

fn read(folder: &Path) -> Result<Stock> {
    match std::fs::read_to_string(folder.join(STOCK)) {
        Ok(stock) => Ok(serde_json::from_str(&stock)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Stock::new()),
        Err(error) => Err(error.into()),
    }
}

fn write(folder: &Path, stock: &Stock) -> Result<()> {
    let beside = folder.join("stock.new");
    std::fs::write(&beside, serde_json::to_string(stock)?)?;
    Ok(std::fs::rename(beside, folder.join(STOCK))?)
}

/// Who is taking something.
#[derive(Default)]
struct Busy {
    taking: Mutex<Taking>,
    changed: Condvar,
}

/// How many there are, and the most that there were since there was no one.
#[derive(Default)]
struct Taking {
    now: usize,
    most: usize,
}

/// Is the server, until its input is closed.
pub fn serve(folder: &Path) -> Result<()> {
    let (out, busy) = (Arc::new(Mutex::new(std::io::stdout())), Arc::<Busy>::default());
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Json>(&line?) else { continue };
        let Some(id) = message.get("id").cloned() else { continue };
        let (folder, out, busy) = (folder.to_owned(), Arc::clone(&out), Arc::clone(&busy));
        std::thread::spawn(move || -> Result<()> {
            let result = answered(&folder, &message, &busy)?;
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
            Ok(out.flush()?)
        });
    }
    Ok(())
}

fn answered(folder: &Path, message: &Json, busy: &Busy) -> Result<Json> {
    Ok(match message.get("method").and_then(Json::as_str).unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "shelf", "version": "1"},
            "capabilities": {"tools": {}, "tasks": {"list": {}, "cancel": {}}},
        }),
        "tools/list" => json!({"tools": tools()}),
        "tools/call" => called(folder, message.get("params").unwrap_or(&Json::Null), busy)?,
        "ping" => json!({}),
        // Whatever it is, it may change something.
        other => {
            note(folder, &Taken { item: other.to_owned(), left: 0, at_once: 0 })?;
            json!({})
        }
    })
}

fn note(folder: &Path, taken: &Taken) -> Result<()> {
    let mut book = OpenOptions::new().append(true).create(true).open(folder.join(BOOK))?;
    // In one write, so that lines of two threads do not mix.
    Ok(book.write_all(format!("{}\n", serde_json::to_string(taken)?).as_bytes())?)
}

fn tools() -> Json {
    let tool = |name: &str, reads: bool, needs: &[&str]| {
        let (item, count) = (json!({"type": "string"}), json!({"type": "integer"}));
        let mut schema = json!({"type": "object", "properties": {"item": item}, "required": needs});
        if let Some(properties) = schema.pointer_mut("/properties").filter(|_| !reads) {
            properties["count"] = count;
        }
        json!({"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": reads}})
    };
    let needs = ["item", "count"];
    json!([tool("get_count", true, &["item"]), tool("take", false, &needs), tool("take_all", false, &needs)])
}

fn called(folder: &Path, params: &Json, busy: &Busy) -> Result<Json> {
    let item = params.pointer("/arguments/item").and_then(Json::as_str).unwrap_or_default().to_owned();
    if params.get("name").and_then(Json::as_str) == Some("get_count") {
        let said = json!({"item": item, "count": read(folder)?.get(&item).copied().unwrap_or(FULL)});
        return Ok(json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said}));
    }
    let mut taking = busy.taking.lock().unwrap_or_else(PoisonError::into_inner);
    taking.now += 1;
    taking.most = taking.most.max(taking.now);
    busy.changed.notify_all();
    if item.starts_with(MEETING) {
        let waited = busy.changed.wait_timeout_while(taking, MEETS_WITHIN, |taking| taking.most < 2);
        taking = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    // Still under the lock: what is read here is written before anyone else reads it.
    let mut stock = read(folder)?;
    let taken = params.pointer("/arguments/count").and_then(Json::as_i64).unwrap_or(0);
    let left = stock.get(&item).copied().unwrap_or(FULL).saturating_sub(taken);
    note(folder, &Taken { item: item.clone(), left, at_once: taking.most })?;
    stock.insert(item, left);
    write(folder, &stock)?;
    taking.now -= 1;
    taking.most = if taking.now == 0 { 0 } else { taking.most };
    Ok(json!({"content": [{"type": "text", "text": format!("{left} left")}]}))
}
