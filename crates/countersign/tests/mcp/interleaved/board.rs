//! A board with a number in each place, as an MCP server that does several things at once and takes its time with each; and a gate in
//! front of it.

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use countersign_testing::checker::serial::Places;
use countersign_testing::disk::SplitMix;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The places.
pub const PLACES: [&str; 4] = ["a", "b", "c", "d"];
/// How long the server takes at most before it does something, and after.
const SLOW_US: u64 = 1200;

/// A gate that runs, with a board behind it.
pub struct Board {
    gate: Option<Http>,
    sandbox: Sandbox,
    /// Held while a gateway is killed and another one takes over.
    killing: Mutex<()>,
}

impl Board {
    /// One whose tools are guarded as read.
    pub fn guarded() -> Self {
        Self::new(&["--guard", "as-read"], "")
    }

    /// One whose tools pass as they are called.
    pub fn unguarded() -> Self {
        Self::new(&[], "[mcp]\nunmapped = \"pass\"\n\n")
    }

    fn new(how: &[&str], settings: &str) -> Self {
        let sandbox = Sandbox::new();
        let held: Places = PLACES.iter().map(|place| ((*place).to_owned(), "0".to_owned())).collect();
        std::fs::write(sandbox.path().join("board.json"), serde_json::to_string(&held).unwrap()).unwrap();
        std::fs::write(sandbox.path().join("book"), "").unwrap();
        let command = format!(
            "BOARD={} exec {} --exact mcp::interleaved::board::serving --ignored --nocapture --test-threads=1 3>&1 1>/dev/null",
            sandbox.path().display(),
            std::env::current_exe().unwrap().display()
        );
        let settings = format!("{settings}[mcp.upstream.board]\ncommand = ['sh', '-c', '''{command}''']\n");
        std::fs::write(sandbox.path().join("countersign.toml"), settings).unwrap();
        sandbox.run_ok(&[&["mcp", "approve", "--yes", "--data", "data"], how].concat());
        let gate = Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
        let board = Self { gate: Some(gate), sandbox, killing: Mutex::default() };
        // What approving it tried does not count.
        board.take_book();
        board
    }

    /// A client through a gateway of its own.
    pub fn client(&self) -> Stdio {
        let url = self.gate.as_ref().map(Http::url).unwrap();
        let mut client = Stdio::start(self.sandbox.command(&["mcp", "serve", "--server", url, "--agent", "coder-1"]));
        client.initialize();
        client
    }

    /// For as long as this is held, no other gateway is killed.
    pub fn killing(&self) -> MutexGuard<'_, ()> {
        self.killing.lock().unwrap()
    }

    /// What the places hold, whoever asks.
    pub fn places(&self) -> Places {
        let path = self.sandbox.path().join("board.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// The values that the server wrote since it was last asked, in order.
    pub fn take_book(&self) -> Vec<String> {
        let path = self.sandbox.path().join("book");
        let book = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, "").unwrap();
        book.lines().map(str::to_owned).collect()
    }

    /// Ends the gate, and has everything decided once more.
    pub fn audit(mut self) -> String {
        self.gate.take().unwrap().end();
        self.sandbox.run_ok(&["audit", "--data", "data"])
    }
}

/// The server itself, and nothing where nobody wants one.
#[test]
#[ignore = "is a server, which other tests start"]
fn serving() {
    let Some(folder) = std::env::var_os("BOARD").map(PathBuf::from) else { return };
    // The harness has put its own words on descriptor 1, which goes nowhere.
    let out = Arc::new(Mutex::new(OpenOptions::new().write(true).open("/dev/fd/3").unwrap()));
    let mut rng = SplitMix::new(u64::from(std::process::id()));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id").cloned() else { continue };
        let (out, folder) = (Arc::clone(&out), folder.clone());
        let delays = [rng.below(SLOW_US), rng.below(SLOW_US)].map(Duration::from_micros);
        // Several at once: what comes first is not done first.
        std::thread::spawn(move || {
            let result = match message["method"].as_str().unwrap() {
                "initialize" => json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "board", "version": "1"},
                    "capabilities": {"tools": {}},
                }),
                "tools/list" => json!({"tools": tools()}),
                "tools/call" => {
                    std::thread::sleep(delays[0]);
                    let result = called(&folder, &message["params"]);
                    std::thread::sleep(delays[1]);
                    result
                }
                _ => json!({}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            // Nobody may listen any more.
            let _ = writeln!(out.lock().unwrap(), "{answer}");
        });
    }
}

fn tools() -> Value {
    let tool = |name: &str, reads: bool, needs: &[&str]| {
        let schema = json!({"type": "object", "required": needs});
        json!({"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": reads}})
    };
    json!([tool("look", true, &["place"]), tool("put", false, &["place", "value"])])
}

/// Each call is one step, whichever process makes it.
fn called(folder: &Path, params: &Value) -> Value {
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let path = folder.join("board.json");
    let mut held: Places = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let place = params["arguments"]["place"].as_str().unwrap().to_owned();
    if params["name"] == "put" {
        let value = params["arguments"]["value"].as_str().unwrap().to_owned();
        let mut book = OpenOptions::new().append(true).open(folder.join("book")).unwrap();
        writeln!(book, "{value}").unwrap();
        held.insert(place.clone(), value);
        std::fs::write(folder.join("board.new"), serde_json::to_string(&held).unwrap()).unwrap();
        std::fs::rename(folder.join("board.new"), &path).unwrap();
        return json!({"content": [{"type": "text", "text": "done"}]});
    }
    let said = json!({"place": place, "value": held[&place]});
    json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said})
}
