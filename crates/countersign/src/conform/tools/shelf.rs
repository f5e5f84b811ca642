//! A shelf with things on it as an MCP server, which gives out whatever it is asked for and writes it into its book; a gate that guards
//! it as read, without a pact; and agents behind gateways. All of them are processes.

use crate::client::{Call, Client};
use crate::conform::own::{self, Process};
use anyhow::{Context as _, Result};
use countersign_api::Ready;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use tempfile::TempDir;

/// The agent's name.
const AGENT: &str = "conform-1";
/// How many there are of everything that is not said otherwise.
const FULL: i64 = 10;
const STOCK: &str = "stock.json";
const BOOK: &str = "book.jsonl";

/// What was taken, as the server wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub item: String,
    pub left: i64,
}

/// A guarded shelf.
pub struct Shelf {
    gate: Process,
    url: String,
    folder: TempDir,
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
        let words = [&*program.to_string_lossy(), "conform", "--shelf", &at.to_string_lossy()].map(toml::Value::from);
        let server = toml::Table::from_iter([("command".to_owned(), toml::Value::from(words.to_vec()))]);
        std::fs::write(at.join("countersign.toml"), format!("[mcp.upstream.shelf]\n{server}"))?;
        own::run(at, &["init", "--data", "data", "--open"])?;
        let agent = r#"{"roles":[],"standing":"active","org":"conform","trust":500}"#;
        own::run(at, &["fact", "put", "Agent", AGENT, agent, "--data", "data"])?;
        own::run(at, &["mcp", "approve", "--yes", "--guard", "as-read", "--data", "data"])?;
        let (gate, url) = own::serve(at)?;
        Ok(Self { gate, url, folder })
    }

    /// A new session.
    pub fn agent(&self) -> Result<Agent> {
        let words = ["mcp", "serve", "--server", &self.url, "--agent", AGENT];
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
        let before = Client::remote(&self.url)?.call::<Ready>(Call::get("/readyz"))?.position;
        drop(self.gate);
        let (code, said) = own::output(self.folder.path(), &["audit", "--data", "data", "--json"])?;
        Ok((serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))?, code, before))
    }
}

impl Agent {
    fn send(&mut self, message: &Json) -> Result<()> {
        writeln!(self.input, "{message}").and_then(|()| self.input.flush()).context("the gateway has ended")
    }

    fn request(&mut self, method: &str, params: &Json) -> Result<Json> {
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

/// Is the server, until its input is closed.
pub fn serve(folder: &Path) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Json>(&line?) else { continue };
        let Some(id) = message.get("id") else { continue };
        let result = match message.get("method").and_then(Json::as_str) {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "shelf", "version": "1"},
                "capabilities": {"tools": {}},
            }),
            Some("tools/list") => json!({"tools": tools()}),
            Some("tools/call") => called(folder, message.get("params").unwrap_or(&Json::Null))?,
            _ => json!({}),
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

fn tools() -> Json {
    let tool = |name: &str, reads: bool, needs: &[&str]| {
        let item = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {"item": item}, "required": needs});
        json!({"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": reads}})
    };
    json!([tool("get_count", true, &["item"]), tool("take", false, &["item", "count"])])
}

fn called(folder: &Path, params: &Json) -> Result<Json> {
    let item = params.pointer("/arguments/item").and_then(Json::as_str).unwrap_or_default().to_owned();
    let mut stock = read(folder)?;
    let count = stock.get(&item).copied().unwrap_or(FULL);
    if params.get("name").and_then(Json::as_str) != Some("take") {
        let said = json!({"item": item, "count": count});
        return Ok(json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said}));
    }
    let taken = params.pointer("/arguments/count").and_then(Json::as_i64).unwrap_or(0);
    let left = count.saturating_sub(taken);
    let mut book = OpenOptions::new().append(true).create(true).open(folder.join(BOOK))?;
    writeln!(book, "{}", serde_json::to_string(&Taken { item: item.clone(), left })?)?;
    stock.insert(item, left);
    write(folder, &stock)?;
    Ok(json!({"content": [{"type": "text", "text": format!("{left} left")}]}))
}
