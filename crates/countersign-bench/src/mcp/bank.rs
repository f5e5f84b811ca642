//! A bank as an MCP server, over standard input and output or over HTTP, for the bench alone. It does as little as a server can:
//! what is measured is the way to it.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// What every account has at first.
const BALANCE: i64 = 1_000_000_000;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How the bank is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Over {
    /// Standard input and output.
    Stdio,
    /// Streamable HTTP, on a free port, which is told on stderr.
    Http,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        })
    }
}

#[derive(Default)]
struct Bank {
    balances: Mutex<HashMap<String, i64>>,
}

/// Serves until the input is closed, or until the process is told to end.
pub fn serve(over: Over) -> Result<()> {
    let bank = Bank::default();
    match over {
        Over::Stdio => {
            let mut output = std::io::stdout().lock();
            for line in std::io::stdin().lock().lines() {
                if let Some(answer) = serde_json::from_str(&line?).ok().and_then(|message| bank.answer(&message)) {
                    output.write_all(format!("{answer}\n").as_bytes())?;
                    output.flush()?;
                }
            }
            Ok(())
        }
        Over::Http => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
                eprintln!("Listening on http://{}/mcp", listener.local_addr()?);
                let ended = || async { StatusCode::NO_CONTENT };
                let router = Router::new().route("/mcp", post(posted).delete(ended)).with_state(Arc::new(bank));
                countersign::measured::serve_router(router, listener, std::future::pending()).await
            })
        }
    }
}

async fn posted(State(bank): State<Arc<Bank>>, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(answer) = bank.answer(&message) else { return StatusCode::ACCEPTED.into_response() };
    let mut response = ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response();
    if message.get("method").is_some_and(|method| method == "initialize") {
        response.headers_mut().insert(SESSION, axum::http::HeaderValue::from_static("bench"));
    }
    response
}

impl Bank {
    /// The answer to a message that wants one.
    fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let method = message.get("method").and_then(Value::as_str)?;
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "bank", "version": "1"}, "capabilities": {"tools": {}},
            }),
            "tools/list" => json!({"tools": tools()}),
            "tools/call" => self.called(message.get("params")?),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn called(&self, params: &Value) -> Value {
        let text = |name: &str| params.pointer(name).and_then(Value::as_str).unwrap_or_default();
        let amount = match text("/name") {
            "transfer" => params.pointer("/arguments/amount").and_then(Value::as_i64).unwrap_or(0),
            _ => 0,
        };
        let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        let balance = balances.entry(text("/arguments/account").to_owned()).or_insert(BALANCE);
        *balance -= amount;
        let said = json!({"status": "active", "balance": *balance});
        json!({"content": [{"type": "text", "text": said.to_string()}], "structuredContent": said})
    }
}

fn tools() -> Value {
    let account = json!({"type": "string"});
    json!([
        // As cheap as reading an account, and in no pact.
        {"name": "look_up", "description": "Look an account up.", "annotations": {"readOnlyHint": true},
         "inputSchema": {"type": "object", "properties": {"account": account}, "required": ["account"]}},
        {"name": "get_account", "description": "Read an account.", "annotations": {"readOnlyHint": true},
         "inputSchema": {"type": "object", "properties": {"account": account}, "required": ["account"]}},
        {"name": "transfer", "description": "Move money out of an account.",
         "inputSchema": {"type": "object", "required": ["account", "amount"],
                         "properties": {"account": account, "amount": {"type": "integer"}}}},
    ])
}
