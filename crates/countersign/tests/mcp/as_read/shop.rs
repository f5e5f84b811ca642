//! A shop as an MCP server that keeps its stock in a file, so that anyone can change it behind everybody's back, and a book of every
//! call that it saw.

mod server;

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A gate with a guarded shop, in a folder of its own.
pub struct Shop {
    /// Its process, if it listens; ended when dropped.
    _listening: Option<Http>,
    sandbox: Sandbox,
    /// What was said when its tools were approved.
    pub approval: String,
}

/// The test that is the server.
const SERVER: &str = "mcp::as_read::shop::server::serving";

impl Shop {
    /// With ten of everything, and every tool guarded.
    pub fn new() -> Self {
        let mut shop = Self::proposing("", "");
        shop.approval = shop.approve(&["--guard", "as-read"]);
        std::fs::write(shop.sandbox.path().join("book"), "").unwrap();
        shop
    }

    /// With ten of everything, and nothing approved: only what the settings say of all servers, and of this one.
    pub fn proposing(all: &str, this: &str) -> Self {
        let shop = Self { _listening: None, sandbox: Sandbox::new(), approval: String::new() };
        shop.write(&BTreeMap::from([("tea".to_owned(), 10), ("rice".to_owned(), 10), ("salt".to_owned(), 10)]));
        shop.mood("");
        shop.settings(all, this);
        std::fs::write(shop.sandbox.path().join("book"), "").unwrap();
        shop
    }

    /// Writes the settings anew.
    pub fn settings(&self, all: &str, this: &str) {
        let command = self.command();
        let settings = format!("[mcp]\n{all}\n[mcp.upstream.shop]\ncommand = ['sh', '-c', '''{command}''']\n{this}\n");
        std::fs::write(self.sandbox.path().join("countersign.toml"), settings).unwrap();
    }

    /// With ten of everything, and every tool guarded, as a server that listens.
    pub fn over_http() -> Self {
        let mut shop = Self::proposing("", "");
        let mut server = Command::new(std::env::current_exe().unwrap());
        server.args(["--exact", SERVER, "--ignored", "--nocapture", "--test-threads=1"]);
        server.env("SHOP", shop.sandbox.path()).env("SHOP_LISTENS", "1");
        let server = Http::start(server);
        let settings = format!("[mcp.upstream.shop]\nurl = \"{}\"\n", server.url());
        std::fs::write(shop.sandbox.path().join("countersign.toml"), settings).unwrap();
        shop._listening = Some(server);
        shop.approval = shop.approve(&["--guard", "as-read"]);
        std::fs::write(shop.sandbox.path().join("book"), "").unwrap();
        shop
    }

    /// With ten of everything, known by two names, and every tool guarded. Tools are called `shop__sell` and `other__sell`.
    pub fn of_two_names() -> Self {
        let mut shop = Self::proposing("", "");
        let command = shop.command();
        shop.settings("", &format!("\n[mcp.upstream.other]\ncommand = ['sh', '-c', '''{command}''']"));
        shop.approval = shop.approve(&["--guard", "as-read"]);
        std::fs::write(shop.sandbox.path().join("book"), "").unwrap();
        shop
    }

    /// Publishes a pact.
    pub fn publish(&self, pact: &str) {
        std::fs::write(self.sandbox.path().join("pact.toml"), pact).unwrap();
        self.run_ok(&["pact", "publish", "pact.toml", "--data", "data"]);
    }

    /// Lets the gateway pass on what no pact maps.
    pub fn lets_unmapped_pass(&self) {
        self.settings("unmapped = \"pass\"", "");
    }

    /// What starts it, for a shell.
    fn command(&self) -> String {
        format!(
            "SHOP={} exec {} --exact {SERVER} --ignored --nocapture --test-threads=1 3>&1 1>/dev/null",
            self.sandbox.path().display(),
            std::env::current_exe().unwrap().display()
        )
    }

    /// What starts it, in one text.
    pub fn server(&self) -> String {
        format!("sh -c '{}'", self.command())
    }

    /// A client of a trial: server, gate and gateway in one process.
    pub fn trial(&self, more: &[&str]) -> Stdio {
        let server = self.server();
        let words = [&["mcp", "try", &server, "--name", "shop", "--data", "trial"], more].concat();
        let mut client = Stdio::start(self.sandbox.command(&words));
        client.initialize();
        client
    }

    /// Approves tools.
    pub fn approve(&self, words: &[&str]) -> String {
        let words = [&["mcp", "approve", "--yes", "--data", "data"], words].concat();
        let output = self.sandbox.run(&words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    /// A gate that runs.
    pub fn serve(&self) -> Http {
        self.serve_at("data", "127.0.0.1:0")
    }

    /// A gate that runs on this folder, at this address.
    pub fn serve_at(&self, data: &str, address: &str) -> Http {
        Http::start(self.sandbox.command(&["serve", "--data", data, "--listen", address]))
    }

    /// A person approves what waits.
    pub fn approves(&self, review: &str, gate: &Http) {
        let approve = ["review", "approve", review, "--as", "jo", "--yes", "--server", gate.url()];
        assert_eq!(self.sandbox.run(&approve).status.code(), Some(6), "approved, and its call not over yet");
    }

    /// What a gate shows.
    pub fn get(&self, gate: &Http, path: &str) -> String {
        ureq::get(format!("{}{path}", gate.url())).call().unwrap().body_mut().read_to_string().unwrap()
    }

    /// What a gate answers to the agent, without a gateway.
    pub fn post(&self, gate: &Http, path: &str, body: &Value) -> Value {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let http: ureq::Agent = config.timeout_global(Some(crate::mcp::client::PATIENCE)).build().into();
        let request = http.post(format!("{}{path}", gate.url())).header("countersign-agent", "coder-1");
        let mut answer = request.header("content-type", "application/json").send(body.to_string()).unwrap();
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
    }

    /// A client through a gateway of its own, of a gate that runs.
    pub fn client_of(&self, gate: &Http) -> Stdio {
        let words = ["mcp", "serve", "--server", gate.url(), "--agent", "coder-1"];
        let mut client = Stdio::start(self.sandbox.command(&words));
        client.initialize();
        client
    }

    /// Runs a command; its exit code, and what it said to people.
    pub fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.sandbox.run(words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The folder that everything is in.
    pub fn folder(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a command that must succeed.
    pub fn run_ok(&self, words: &[&str]) -> String {
        self.sandbox.run_ok(words)
    }

    /// A client through a gateway of its own, over standard input and output.
    pub fn client(&self) -> Stdio {
        let words = ["mcp", "serve", "--data", "data", "--agent", "coder-1"];
        let mut client = Stdio::start(self.sandbox.command(&words));
        client.initialize();
        client
    }

    /// A gateway that listens.
    pub fn listen(&self) -> Http {
        let words = ["mcp", "serve", "--data", "data", "--agent", "coder-1", "--listen", "127.0.0.1:0"];
        Http::start(self.sandbox.command(&words))
    }

    /// A gateway that listens, of a gate that runs.
    pub fn listen_of(&self, gate: &Http) -> Http {
        self.listen_as("coder-1", gate)
    }

    /// The same for another agent.
    pub fn listen_as(&self, agent: &str, gate: &Http) -> Http {
        let words = ["mcp", "serve", "--server", gate.url(), "--agent", agent, "--listen", "127.0.0.1:0"];
        Http::start(self.sandbox.command(&words))
    }

    /// A client with a session of its own.
    pub fn http<'a>(&self, gateway: &'a Http) -> Client<'a> {
        Client::begin(gateway)
    }

    /// A client that makes single requests.
    pub fn single<'a>(&self, gateway: &'a Http) -> Client<'a> {
        Client { gateway, session: None, next: 0 }
    }

    fn path(&self) -> PathBuf {
        self.sandbox.path().join("stock.json")
    }

    fn write(&self, stock: &BTreeMap<String, i64>) {
        replace(&self.path(), &serde_json::to_string(stock).unwrap());
    }

    /// Changes the stock behind everybody's back.
    pub fn set(&self, item: &str, count: i64) {
        let mut stock = stock(&self.path());
        stock.insert(item.to_owned(), count);
        self.write(&stock);
    }

    /// How much there is.
    pub fn stock(&self, item: &str) -> i64 {
        stock(&self.path())[item]
    }

    /// What the server is to do wrong.
    pub fn mood(&self, mood: &str) {
        std::fs::write(self.sandbox.path().join("mood"), mood).unwrap();
    }

    /// The arguments of every call of a tool, as the server was sent them.
    pub fn sent(&self) -> String {
        std::fs::read_to_string(self.sandbox.path().join("sent")).unwrap()
    }

    /// Every call of a tool that the server saw.
    pub fn book(&self) -> Vec<String> {
        let book = std::fs::read_to_string(self.sandbox.path().join("book")).unwrap();
        book.lines().map(str::to_owned).collect()
    }

    /// How many calls of a tool it saw.
    pub fn count(&self, tool: &str) -> usize {
        self.book().iter().filter(|seen| *seen == tool).count()
    }
}

fn stock(path: &Path) -> BTreeMap<String, i64> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

/// A client over HTTP.
pub struct Client<'a> {
    gateway: &'a Http,
    /// Its `Mcp-Session-Id`.
    pub session: Option<String>,
    next: u64,
}

impl<'a> Client<'a> {
    fn begin(gateway: &'a Http) -> Self {
        let session = gateway.post(None, &crate::mcp::http::hello()).session;
        assert!(session.is_some());
        Self { gateway, session, next: 1 }
    }

    /// The same client at another gateway, which knows it by its id if at all.
    pub fn of(gateway: &'a Http, session: Option<String>) -> Self {
        Self { gateway, session, next: 1000 }
    }

    /// Calls a tool; its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.call_with(tool, arguments, &json!({}))
    }

    /// Calls a tool and leaves before its answer: gives back when the gateway has seen that it left.
    pub fn ask_and_leave(&mut self, tool: &str, arguments: &Value, meta: &Value, before_leaving: impl FnOnce()) {
        self.next += 1;
        let params = self.params(tool, arguments, meta);
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params}).to_string();
        let address = self.gateway.url().strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(crate::mcp::client::PATIENCE)).unwrap();
        let header = match &self.session {
            Some(session) => format!("mcp-session-id: {session}"),
            None => "mcp-protocol-version: 2026-07-28".to_owned(),
        };
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{header}\r\ncontent-type: application/json\r\naccept: \
             application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        before_leaving();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }

    /// Makes a request that is no call of a tool; its result.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        let answer = self.gateway.post(self.session.as_deref(), &message).body;
        answer.get("result").cloned().unwrap_or(answer)
    }

    /// The same with something in `_meta`.
    pub fn call_with(&mut self, tool: &str, arguments: &Value, meta: &Value) -> Value {
        self.next += 1;
        let params = self.params(tool, arguments, meta);
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params});
        let answer = self.gateway.post(self.session.as_deref(), &message).body;
        answer.get("result").cloned().unwrap_or(answer)
    }

    fn params(&self, tool: &str, arguments: &Value, meta: &Value) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        if self.session.is_none() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "t", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        params
    }
}
