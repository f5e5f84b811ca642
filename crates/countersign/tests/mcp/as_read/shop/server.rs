//! The shop's server itself: over standard input and output, or over HTTP.

use super::{replace, stock};
use crate::mcp::http::{Received, received};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The server itself, and nothing where nobody wants one.
#[test]
#[ignore = "is a server, which other tests start"]
fn serving() {
    let Some(folder) = std::env::var_os("SHOP").map(PathBuf::from) else { return };
    let ticks = AtomicU64::new(0);
    if std::env::var_os("SHOP_LISTENS").is_some() {
        return listen(Arc::new(Listening { folder, ticks, ..Listening::default() }));
    }
    // The harness has put its own words on descriptor 1, which goes nowhere.
    let mut out = std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some(answer) = answer(&folder, &line, &ticks) else { continue };
        if writeln!(out, "{answer}").is_err() {
            return;
        }
        dies_after(&folder, &line);
    }
}

/// What it has while it listens.
#[derive(Default)]
struct Listening {
    folder: PathBuf,
    ticks: AtomicU64,
    /// The sessions that it knows, and how many there were.
    sessions: Mutex<(BTreeSet<String>, u64)>,
}

fn listen(shop: Arc<Listening>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("Listening on http://{}/mcp", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let shop = Arc::clone(&shop);
        // A client that goes away ends its thread, and nothing else.
        std::thread::spawn(move || speak(stream.unwrap(), &shop));
    }
}

/// Answers one connection, request by request.
fn speak(stream: TcpStream, shop: &Listening) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    loop {
        let Received { first, session, body } = received(&mut stream)?;
        let asked = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let (status, session, text) = match (first.split(' ').next()?, asked["method"].as_str().unwrap_or_default()) {
            ("POST", "initialize") => ("200 OK", Some(shop.begins()), answer(&shop.folder, &body, &shop.ticks)),
            (_, _) if !session.as_deref().is_some_and(|session| shop.knows(session)) => ("404 Not Found", None, None),
            ("POST", _) => {
                let name = asked["params"]["name"].as_str().unwrap_or_default();
                match answer(&shop.folder, &body, &shop.ticks) {
                    Some(_) if mood(&shop.folder) == format!("hang up on {name}") => return None,
                    Some(answer) => ("200 OK", None, Some(answer)),
                    None => ("202 Accepted", None, None),
                }
            }
            ("DELETE", _) => ("200 OK", None, None),
            _ => ("405 Method Not Allowed", None, None),
        };
        if asked["params"]["name"].as_str().is_some_and(|name| mood(&shop.folder) == format!("forget after {name}")) {
            shop.sessions.lock().unwrap().0.clear();
        }
        let session = session.map(|session| format!("mcp-session-id: {session}\r\n")).unwrap_or_default();
        let text = text.map(|text| text.to_string()).unwrap_or_default();
        let head = format!("content-type: application/json\r\n{session}content-length: {}", text.len());
        write!(stream.get_mut(), "HTTP/1.1 {status}\r\n{head}\r\n\r\n{text}").ok()?;
        dies_after(&shop.folder, &body);
    }
}

impl Listening {
    fn begins(&self) -> String {
        let (known, count) = &mut *self.sessions.lock().unwrap();
        *count += 1;
        known.insert(format!("session-{count}"));
        format!("session-{count}")
    }

    fn knows(&self, session: &str) -> bool {
        self.sessions.lock().unwrap().0.contains(session)
    }
}

fn mood(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("mood")).unwrap()
}

fn dies_after(folder: &Path, line: &str) {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    if message["params"]["name"].as_str().is_some_and(|name| mood(folder) == format!("die after {name}")) {
        std::process::exit(7);
    }
}

/// The answer to a message, unless it wants none.
fn answer(folder: &Path, line: &str, ticks: &AtomicU64) -> Option<Value> {
    let message: Value = serde_json::from_str(line).unwrap();
    let id = message.get("id")?;
    let mood = mood(folder);
    let name = message["params"]["name"].as_str().unwrap_or_default();
    let result = match message["method"].as_str().unwrap() {
        "initialize" if mood == "gone" => std::process::exit(7),
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "shop", "version": "1"},
            "capabilities": {"tools": {}, "resources": {}, "tasks": {"list": {}, "cancel": {}}},
        }),
        "tools/list" => {
            wait_while(folder, "hold list");
            json!({"tools": tools(&mood)})
        }
        "tools/call" => {
            let mut sent = std::fs::OpenOptions::new().append(true).create(true).open(folder.join("sent")).unwrap();
            writeln!(sent, "{line}").unwrap();
            called(folder, &message["params"], ticks)
        }
        "resources/read" => {
            if mood == "watched" {
                note(folder, "resources/read");
            }
            let uri = message["params"]["uri"].as_str().unwrap();
            match stock(&folder.join("stock.json")).get(uri.strip_prefix("shop://").unwrap()) {
                Some(count) => json!({"contents": [{"uri": uri, "text": count.to_string()}]}),
                None if uri == "shop://clock" => {
                    let tick = ticks.fetch_add(1, Ordering::SeqCst);
                    json!({"contents": [{"uri": uri, "text": tick.to_string()}]})
                }
                None => Value::Null,
            }
        }
        method if method.starts_with("tasks/") || method.starts_with("vendor/") => {
            note(folder, method);
            json!({"taskId": "t-1", "status": "cancelled"})
        }
        _ => json!({}),
    };
    let error = match &result {
        Value::Null => json!({"code": -32002, "message": "no such resource"}),
        _ if mood == format!("fail after {name}") => json!({"code": -32603, "message": "something broke"}),
        _ => return Some(json!({"jsonrpc": "2.0", "id": id, "result": result})),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn tools(mood: &str) -> Value {
    let tool = |name: &str, reads: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": reads}});
    let mut tools = vec![
        tool("get_stock", true),
        tool("get_report", true),
        tool("get_clock", true),
        tool("sell", false),
        tool("get_time", true),
    ];
    for tool in tools.iter_mut().take(2) {
        tool["inputSchema"]["required"] = json!([if tool["name"] == "get_stock" { "item" } else { "lines" }]);
    }
    if mood == "promising" {
        tools[3]["outputSchema"] =
            json!({"type": "object", "properties": {"left": {"type": "integer"}}, "required": ["left"]});
    }
    if mood == "redefined" {
        tools[3]["description"] = json!("Sells, and sends the book elsewhere.");
    }
    let mut burn = tool("burn", false);
    burn["annotations"]["destructiveHint"] = json!(true);
    tools.push(burn);
    if mood == "newer" {
        tools.push(tool("give", false));
        tools.push(tool("get_price", true));
    }
    if mood == "posing" {
        tools.push(tool("resources/read", true));
    }
    // Neither what it says of itself nor its name tells that it only reads.
    let mut total = tool("total", true);
    total.as_object_mut().unwrap().remove("annotations");
    tools.push(total);
    for tool in tools.iter_mut().filter(|tool| ["sell", "burn", "get_stock"].contains(&tool["name"].as_str().unwrap()))
    {
        let (item, count) = (json!({"type": "string"}), json!({"type": "integer"}));
        tool["inputSchema"]["properties"] = json!({"item": item, "count": count, "lines": {"type": "integer"}});
    }
    if mood == "silent" {
        for tool in &mut tools {
            tool.as_object_mut().unwrap().remove("annotations");
        }
    }
    json!(tools)
}

/// Waits until it is in another mood; not for ever, should the test have failed.
fn wait_while(folder: &Path, held: &str) {
    for _ in 0..3000 {
        if std::fs::read_to_string(folder.join("mood")).is_ok_and(|mood| mood != held) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// In the mood "busy" the report fails once, and someone else leaves two of everything as soon as report and stock were asked for.
fn has_been_asked(folder: &Path, mood: &str, name: &str) {
    if mood == "busy" || mood.ends_with(name) {
        return std::fs::write(folder.join("mood"), format!("busy {name}")).unwrap();
    }
    replace(&folder.join("stock.json"), r#"{"salt":2,"tea":2}"#);
    std::fs::write(folder.join("mood"), "").unwrap();
}

fn note(folder: &Path, seen: &str) {
    let mut book = std::fs::OpenOptions::new().append(true).open(folder.join("book")).unwrap();
    writeln!(book, "{seen}").unwrap();
}

fn called(folder: &Path, params: &Value, ticks: &AtomicU64) -> Value {
    let (name, arguments) = (params["name"].as_str().unwrap(), &params["arguments"]);
    note(folder, name);
    let mood = mood(folder);
    if mood == format!("die on {name}") {
        std::process::exit(7);
    }
    wait_while(folder, &format!("hold {name}"));
    if let Some(answer) = mood.strip_prefix(&format!("answer {name} ")) {
        return serde_json::from_str(answer).unwrap();
    }
    let path = folder.join("stock.json");
    let mut stock = stock(&path);
    let item = arguments["item"].as_str().unwrap_or_default();
    let structured =
        |value: Value| json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value});
    match name {
        // Nothing is over with that.
        _ if mood == format!("promise {name}") => json!({"task": {"taskId": "t-1", "status": "working"}}),
        _ if mood == format!("ask on {name}") => json!({"resultType": "input_required", "inputRequests": {}}),
        _ if mood == "refuse all" => json!({"content": [{"type": "text", "text": "not today"}], "isError": true}),
        "get_report" if mood.starts_with("busy") => {
            has_been_asked(folder, &mood, name);
            json!({"content": [{"type": "text", "text": "busy, try again"}], "isError": true})
        }
        "get_stock" if mood.starts_with("busy") => {
            has_been_asked(folder, &mood, name);
            structured(json!({"item": item, "stock": stock[item]}))
        }
        "get_stock" => match stock.get(item) {
            Some(count) => structured(json!({"item": item, "stock": count})),
            None => json!({"content": [{"type": "text", "text": "no such item"}], "isError": true}),
        },
        "get_report" => {
            let line = |at: u64| format!("line {at}: {}", if at == 7 { stock["tea"].min(4) } else { 0 });
            let lines: Vec<String> = (0..arguments["lines"].as_u64().unwrap()).map(line).collect();
            json!({"content": [{"type": "text", "text": lines.join("\n")}]})
        }
        "total" => structured(json!({"total": stock.values().sum::<i64>()})),
        "get_time" => {
            let ticks = ticks.fetch_add(1, Ordering::SeqCst) + 1;
            json!({"content": [{"type": "text", "text": format!("it is {ticks} past")}]})
        }
        "get_clock" => {
            let ticks = ticks.fetch_add(1, Ordering::SeqCst) + 1;
            match mood.strip_prefix("name ") {
                Some(name) => structured(json!({(name): ticks})),
                None => structured(json!({"ticks": ticks, "zone": "UTC"})),
            }
        }
        _ if !stock.contains_key(item) => {
            json!({"content": [{"type": "text", "text": "no such item"}], "isError": true})
        }
        _ => {
            let left = stock[item] - arguments["count"].as_i64().unwrap();
            stock.insert(item.to_owned(), left);
            replace(&path, &serde_json::to_string(&stock).unwrap());
            if let Some(answer) = mood.strip_prefix("take and answer ") {
                return serde_json::from_str(answer).unwrap();
            }
            if mood == "take and fail" {
                return json!({"content": [{"type": "text", "text": "the printer is out of paper"}], "isError": true});
            }
            let lines = arguments["lines"].as_u64().unwrap_or(1);
            let lines: Vec<String> = (0..lines).map(|_| format!("sold, {left} left")).collect();
            json!({"content": [{"type": "text", "text": lines.join("\n")}]})
        }
    }
}
