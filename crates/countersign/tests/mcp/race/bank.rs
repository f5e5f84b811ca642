//! The bank: an MCP server over HTTP, a process of its own, that does what it is told without looking, and keeps a book of it.

use crate::mcp::http::{Http, Received, received};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What every account has at first.
const BALANCE: i64 = 400;

/// Starts it.
pub fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "mcp::race::bank::serving", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("RACE_BANK", "1");
    command
}

/// The server itself, and nothing where nobody wants one.
#[test]
#[ignore = "is a server, which other tests start"]
fn serving() {
    if std::env::var_os("RACE_BANK").is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("Listening on http://{}/mcp", listener.local_addr().unwrap());
    let bank = Arc::new(Mutex::new(Bank::default()));
    for stream in listener.incoming() {
        let bank = Arc::clone(&bank);
        // A client that goes away ends its thread, and nothing else.
        std::thread::spawn(move || speak(stream.unwrap(), &bank));
    }
}

#[derive(Default)]
struct Bank {
    accounts: HashMap<String, Account>,
    transfers: Vec<Value>,
}

struct Account {
    status: String,
    balance: i64,
    /// When it was read last, and what was seen.
    read: (Instant, String, i64),
}

impl Default for Account {
    fn default() -> Self {
        let status = "active".to_owned();
        Self { read: (Instant::now(), status.clone(), BALANCE), status, balance: BALANCE }
    }
}

impl Bank {
    fn called(&mut self, name: &str, arguments: &Value) -> Value {
        let account = self.accounts.entry(arguments["account"].as_str().unwrap().to_owned()).or_default();
        match name {
            "get_account" => {
                account.read = (Instant::now(), account.status.clone(), account.balance);
            }
            "transfer" => {
                let (at, status, balance) = &account.read;
                let amount = arguments["amount"].as_i64().unwrap();
                self.transfers.push(json!({
                    "amount": amount, "status": account.status, "balance": account.balance,
                    "read_status": status, "read_balance": balance, "window_us": at.elapsed().as_micros() as u64,
                }));
                account.balance -= amount;
                // Whoever has paid nearly all of it gets it back: there are always accounts that are nearly empty.
                if account.balance <= 0 {
                    account.balance += BALANCE;
                }
            }
            "set_status" => arguments["status"].as_str().unwrap().clone_into(&mut account.status),
            other => panic!("no tool {other}"),
        }
        json!({"status": account.status, "balance": account.balance})
    }
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    let tool = |name: &str, more: Value, reads: bool| {
        let mut properties = json!({"account": text});
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": name, "inputSchema": {"type": "object", "properties": properties, "required": ["account"]},
               "annotations": {"readOnlyHint": reads}})
    };
    json!([
        tool("get_account", json!({}), true),
        tool("transfer", json!({"amount": {"type": "integer"}}), false),
        tool("set_status", json!({"status": text}), false),
    ])
}

fn answer(bank: &Mutex<Bank>, message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let params = &message["params"];
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "bank", "version": "1"}, "capabilities": {"tools": {}},
        }),
        "tools/list" => json!({"tools": tools()}),
        "tools/call" => {
            let said = bank.lock().unwrap().called(params["name"].as_str()?, &params["arguments"]);
            json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said})
        }
        // Not for agents.
        "book" => json!({"transfers": bank.lock().unwrap().transfers}),
        _ => return Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Answers one connection, request by request.
fn speak(stream: TcpStream, bank: &Mutex<Bank>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    loop {
        let Received { first, body, .. } = received(&mut stream)?;
        let (status, text) = match (first.split(' ').next()?, serde_json::from_str::<Value>(&body).ok()) {
            ("POST", Some(asked)) => match answer(bank, &asked) {
                Some(answer) => ("200 OK", answer.to_string()),
                None => ("202 Accepted", String::new()),
            },
            ("DELETE", _) => ("200 OK", String::new()),
            _ => ("405 Method Not Allowed", String::new()),
        };
        let kind = "content-type: application/json\r\nmcp-session-id: one";
        let answer = format!("HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        stream.get_mut().write_all(answer.as_bytes()).ok()?;
    }
}

/// Somebody who speaks to the bank past the gateway.
pub struct Direct {
    stream: BufReader<TcpStream>,
}

impl Direct {
    pub fn connect(bank: &Http) -> Self {
        let address = bank.url().trim_start_matches("http://").trim_end_matches("/mcp");
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let request = format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let body = received(&mut self.stream).expect("the bank answers").body;
        serde_json::from_str::<Value>(&body).unwrap()["result"].take()
    }

    pub fn set_status(&mut self, account: &str, status: &str) {
        let done = self
            .request("tools/call", &json!({"name": "set_status", "arguments": {"account": account, "status": status}}));
        assert_eq!(done["structuredContent"]["status"], status);
    }
}

/// What the bank has done.
pub struct Book {
    pub transfers: Vec<Transfer>,
}

/// One transfer, with what was true when it was carried out, and what the reading before it had shown.
#[derive(Debug)]
pub struct Transfer {
    pub amount: i64,
    pub status: String,
    pub balance: i64,
    pub read_status: String,
    pub read_balance: i64,
    pub window_us: u64,
}

impl Book {
    pub fn read(bank: &Http) -> Self {
        let book = Direct::connect(bank).request("book", &json!({}));
        let number = |value: &Value| value.as_i64().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let transfer = |row: &Value| Transfer {
            amount: number(&row["amount"]),
            status: text(&row["status"]),
            balance: number(&row["balance"]),
            read_status: text(&row["read_status"]),
            read_balance: number(&row["read_balance"]),
            window_us: row["window_us"].as_u64().unwrap(),
        };
        Self { transfers: book["transfers"].as_array().unwrap().iter().map(transfer).collect() }
    }

    /// Transfers whose preconditions did not hold when they were carried out.
    pub fn wrong(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.iter().filter(|transfer| transfer.status != "active" || transfer.balance < transfer.amount)
    }
}
