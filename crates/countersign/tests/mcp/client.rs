//! A client that speaks raw JSON-RPC.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio as Pipe};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take. The machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway that was started, over its standard input and output.
pub struct Stdio {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    next: u64,
}

impl Stdio {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).unwrap();
            String::from_utf8_lossy(&said).into_owned()
        });
        Self { input: child.stdin.take(), child, lines, errors: Some(errors), next: 100 }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line as it stands.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends something that is no whole line.
    pub fn send_part(&mut self, part: &str) {
        write!(self.input.as_mut().unwrap(), "{part}").unwrap();
    }

    /// The next line, as it stands.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("says something in time")
    }

    /// The next message.
    pub fn message(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Sends a request; its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string());
        self.next
    }

    /// The answer to a request, past whatever else is said.
    pub fn answer(&mut self, id: u64) -> Value {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
        panic!("no answer to {id}");
    }

    /// Asks and waits.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool; its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        answer.get("result").cloned().unwrap_or(answer)
    }

    /// The handshake.
    pub fn initialize(&mut self) -> Value {
        let info = json!({"name": "t", "version": "1"});
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}, "clientInfo": info});
        let answer = self.request("initialize", &client);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer["result"].clone()
    }

    /// The names of the tools that are shown.
    pub fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().expect("is a list").clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks, and gives the very next message.
    pub fn message_after(&mut self, ask: impl FnOnce(&mut Self) -> u64) -> Value {
        ask(self);
        self.message()
    }

    /// Kills it, so that it says and does nothing more.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended. Its input stays open.
    pub fn wait(mut self) {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes its input.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Leaves it alone, as a client that is killed does: everything to it is closed, and nobody tells it to end.
    pub fn abandon(mut self) {
        drop(self.input.take());
        let lines = std::mem::replace(&mut self.lines, channel().1);
        drop(lines);
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "does not end when its client is gone");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes its input, and waits until it has ended; how, and what it said to people.
    pub fn end(mut self) -> (i32, String) {
        drop(self.input.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code().unwrap_or(-1), self.errors.take().unwrap().join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("does not end when its input is closed");
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // Ended already where a test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
