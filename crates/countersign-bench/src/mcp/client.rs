//! A client that calls one tool after the other, over standard input and output or over one connection of HTTP.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A session.
pub struct Client {
    line: Line,
    next: u64,
}

enum Line {
    Process { child: Child, input: Option<ChildStdin>, output: BufReader<ChildStdout> },
    Connection { stream: BufReader<TcpStream>, address: String, session: String },
}

impl Client {
    /// Starts a server, or a gateway, and begins a session with it.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("a process without output")?;
        Self::begin(Line::Process { child, input, output: BufReader::new(output) })
    }

    /// Begins a session with one that listens.
    pub fn connect(url: &str) -> Result<Self> {
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.with_context(|| format!("{url} is not where a server listens"))?.to_owned();
        let stream = TcpStream::connect(&address)?;
        stream.set_nodelay(true)?;
        Self::begin(Line::Connection { stream: BufReader::new(stream), address, session: String::new() })
    }

    fn begin(line: Line) -> Result<Self> {
        let mut client = Self { line, next: 0 };
        let info = json!({"name": "bench", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        client.request("initialize", &hello)?;
        client.line.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        client.line.taken()?;
        client.request("tools/list", &json!({}))?;
        Ok(client)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<String> {
        self.send(method, params)?;
        self.line.answer()
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<()> {
        self.next += 1;
        self.line.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string())
    }

    /// Calls a tool, which must do what it is asked for.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<()> {
        self.calls(tool, std::slice::from_ref(arguments))
    }

    /// Calls a tool several times, without waiting for one before the next.
    pub fn calls(&mut self, tool: &str, arguments: &[Value]) -> Result<()> {
        for arguments in arguments {
            self.send("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        }
        for _ in arguments {
            let answer = self.line.answer()?;
            if !answer.contains("\"structuredContent\":{\"status\":\"active\"") {
                bail!("{tool} was not carried out: {answer}");
            }
        }
        Ok(())
    }
}

impl Line {
    fn send(&mut self, message: &str) -> Result<()> {
        match self {
            Self::Process { input, .. } => {
                let input = input.as_mut().context("the input is closed")?;
                Ok(input.write_all(format!("{message}\n").as_bytes())?)
            }
            Self::Connection { stream, address, session } => {
                let head = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
                let request = format!(
                    "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{head}{session}content-length: {}\r\n\r\n{message}",
                    message.len()
                );
                Ok(stream.get_mut().write_all(request.as_bytes())?)
            }
        }
    }

    /// Reads the answer to a request.
    fn answer(&mut self) -> Result<String> {
        match self {
            Self::Process { output, .. } => {
                let mut line = String::new();
                if output.read_line(&mut line)? == 0 {
                    bail!("the server has ended");
                }
                Ok(line)
            }
            Self::Connection { stream, session, .. } => read_answer(stream, session),
        }
    }

    /// Reads that a notification was taken, where that is said.
    fn taken(&mut self) -> Result<()> {
        match self {
            Self::Process { .. } => Ok(()),
            Self::Connection { stream, session, .. } => read_answer(stream, session).map(|_| ()),
        }
    }
}

/// Reads one answer with a `content-length`, and remembers the session that it names.
fn read_answer(stream: &mut BufReader<TcpStream>, session: &mut String) -> Result<String> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            bail!("the server closed the connection");
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().context("an answer without a length")?,
            "mcp-session-id" => *session = format!("mcp-session-id: {}\r\n", value.trim()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(String::from_utf8(body)?)
}

impl Drop for Client {
    fn drop(&mut self) {
        match &mut self.line {
            Line::Process { child, input, .. } => {
                drop(input.take());
                // It ends by itself when its input is closed; nobody is left to tell if that cannot be waited for.
                let _ = child.wait();
            }
            Line::Connection { stream, address, session } => {
                let end = format!("DELETE /mcp HTTP/1.1\r\nhost: {address}\r\n{session}content-length: 0\r\n\r\n");
                let _ = stream.get_mut().write_all(end.as_bytes());
                let _ = read_answer(stream, &mut String::new());
            }
        }
    }
}
