//! A gateway that listens, and a client of it.

use crate::mcp::client::PATIENCE;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A gateway over HTTP.
pub struct Http {
    child: Child,
    url: String,
    agent: ureq::Agent,
}

/// An answer. Where it is a stream, its body is the list of its messages.
pub struct Answer {
    pub status: u16,
    pub session: Option<String>,
    pub body: Value,
}

impl Http {
    /// Starts it, and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let url = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended with {:?}: {said}", child.wait());
            match line.trim().strip_prefix("Listening on ") {
                Some(url) => break url.to_owned(),
                None => said.push_str(&line),
            }
        };
        // What it says later must not fill the pipe.
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).count());
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).proxy(None);
        Self { child, url, agent: config.build().into() }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a message, in a session or without.
    pub fn post(&self, session: Option<&str>, message: &Value) -> Answer {
        let mut request = self.agent.post(&self.url).header("accept", "application/json, text/event-stream");
        request = request.header("content-type", "application/json");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let revision = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        if let Some(revision) = revision.as_str() {
            request = request.header("mcp-protocol-version", revision);
        }
        let mut answer = request.send(message.to_string()).unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (session, kind) = (header("mcp-session-id"), header("content-type").unwrap_or_default());
        let text = answer.body_mut().read_to_string().unwrap();
        let body = if kind.starts_with("text/event-stream") {
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok()).collect()
        } else {
            serde_json::from_str(&text).unwrap_or_default()
        };
        Answer { status: answer.status().as_u16(), session, body }
    }

    /// Ends a session.
    pub fn delete(&self, session: &str) -> u16 {
        self.agent.delete(&self.url).header("mcp-session-id", session).call().unwrap().status().as_u16()
    }

    /// What a request under a foreign name gets.
    pub fn refused_host(&self) -> u16 {
        let request = self.agent.post(&self.url).header("host", "evil.example");
        request.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).unwrap().status().as_u16()
    }

    /// Tells it to end, and waits until it has.
    pub fn end(mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status:?}");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("does not end when it is told to");
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client's handshake.
pub fn hello() -> Value {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// One message of HTTP as a server gets it.
pub struct Received {
    /// Its first line.
    pub first: String,
    pub session: Option<String>,
    pub body: String,
}

/// The next one; `None` where there is none.
pub fn received(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let (mut first, mut length, mut session) = (String::new(), 0, None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
            Some((name, value)) if name == "content-length" => length = value.parse().ok()?,
            Some((name, value)) if name == "mcp-session-id" => session = Some(value.to_owned()),
            _ if first.is_empty() => line.clone_into(&mut first),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received { first, session, body: String::from_utf8(body).ok()? })
}
