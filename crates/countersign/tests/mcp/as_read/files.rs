//! A server of files, which answers as servers of files do: the text, and the same text once more as structured content. Files of any
//! size are changed by a line, and what such a call changed itself refuses nothing later.

use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

/// A gate with a guarded server of files, in a folder of its own. There are files `a` and `b`.
pub struct Files(Sandbox);

impl Files {
    /// With two short files, and every tool guarded.
    pub fn new() -> Self {
        let files = Self(Sandbox::new());
        let command = format!(
            "FILES={} exec {} --exact mcp::as_read::files::serving --ignored --nocapture --test-threads=1 3>&1 1>/dev/null",
            files.0.path().display(),
            std::env::current_exe().unwrap().display()
        );
        let settings = format!("[mcp.upstream.files]\ncommand = ['sh', '-c', '''{command}''']\n");
        std::fs::write(files.0.path().join("countersign.toml"), settings).unwrap();
        files.write("a", &lines(3));
        files.write("b", &lines(3));
        files.approve(&["--guard", "as-read"]);
        std::fs::write(files.0.path().join("book"), "").unwrap();
        files
    }

    /// Approves tools.
    pub fn approve(&self, words: &[&str]) {
        self.0.run_ok(&[&["mcp", "approve", "--yes", "--data", "data"], words].concat());
    }

    /// A client through a gateway of its own.
    pub fn client(&self) -> Stdio {
        let mut client = Stdio::start(self.0.command(&["mcp", "serve", "--data", "data", "--agent", "coder-1"]));
        client.initialize();
        client
    }

    /// Runs a command that must succeed.
    pub fn run_ok(&self, words: &[&str]) -> String {
        self.0.run_ok(words)
    }

    /// Writes a file behind everybody's back.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(format!("file {name}")), text).unwrap();
    }

    /// What is in a file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(format!("file {name}"))).unwrap()
    }

    /// How many calls of a tool the server saw.
    pub fn count(&self, tool: &str) -> usize {
        let book = std::fs::read_to_string(self.0.path().join("book")).unwrap();
        book.lines().filter(|seen| *seen == tool).count()
    }
}

/// So many lines, of about 32 bytes each.
fn lines(count: usize) -> String {
    (0..count).map(|at| format!("line {at} of a file, with words\n")).collect()
}

/// The server itself, and nothing where nobody wants one.
#[test]
#[ignore = "is a server, which other tests start"]
fn serving() {
    let Some(folder) = std::env::var_os("FILES").map(PathBuf::from) else { return };
    // The harness has put its own words on descriptor 1, which goes nowhere.
    let mut out = OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
    let mut accessed = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "files", "version": "1"},
                "capabilities": {"tools": {}},
            }),
            "tools/list" => json!({"tools": tools()}),
            "tools/call" => called(&folder, &message["params"], &mut accessed),
            _ => json!({}),
        };
        if writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result})).is_err() {
            return;
        }
    }
}

fn tools() -> Value {
    let tool = |name: &str, reads: bool| {
        let schema = json!({"type": "object", "required": ["path"]});
        json!({"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": reads, "destructiveHint": !reads}})
    };
    json!([tool("read_file", true), tool("stat_file", true), tool("edit_file", false)])
}

fn called(folder: &Path, params: &Value, accessed: &mut u64) -> Value {
    let (tool, arguments) = (params["name"].as_str().unwrap(), &params["arguments"]);
    let mut book = OpenOptions::new().append(true).create(true).open(folder.join("book")).unwrap();
    writeln!(book, "{tool}").unwrap();
    let path = folder.join(format!("file {}", arguments["path"].as_str().unwrap()));
    let content = std::fs::read_to_string(&path).unwrap();
    let said =
        |text: String| json!({"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}});
    match tool {
        "read_file" => {
            *accessed += 1;
            said(content)
        }
        "stat_file" => {
            let stat = json!({"accessed": *accessed, "size": content.len()});
            json!({"content": [{"type": "text", "text": stat.to_string()}], "structuredContent": stat})
        }
        _ => {
            let (old, new) = (arguments["old"].as_str().unwrap(), arguments["new"].as_str().unwrap());
            std::fs::write(&path, content.replace(old, new)).unwrap();
            said("edited".to_owned())
        }
    }
}

/// Changes a line, and puts it in other words.
fn edit(client: &mut Stdio, path: &str, line: usize) -> Value {
    let (old, new) = (format!("line {line} of a"), format!("line {line} of one"));
    client.call("edit_file", &json!({"path": path, "old": old, "new": new}))
}

#[test]
fn an_own_change_of_a_line_refuses_nothing_later_however_long_the_file_is() {
    for kib in [2, 8, 64, 200] {
        let files = Files::new();
        files.write("a", &lines(kib * 1024 / 32));
        let mut client = files.client();
        client.call("read_file", &json!({"path": "a"}));
        for line in 1..4 {
            let edited = edit(&mut client, "a", line);
            assert!(!is_error(&edited), "{kib} KiB, line {line}: {}", text(&edited));
            let told = format!("- line {line} of a file, with words");
            let told = text(&edited).lines().filter(|line| line.trim_start() == told).count();
            assert_eq!(told, 1, "told, and once: {}", text(&edited));
        }
        let other = edit(&mut client, "b", 1);
        assert!(!is_error(&other), "{kib} KiB: {}", text(&other));
        assert_eq!(files.count("edit_file"), 4, "{kib} KiB");
        // What someone else changed refuses, and the server sees nothing of it.
        files.write("a", &files.read("a").replace("line 5 of a", "line 5 of theirs"));
        let refused = edit(&mut client, "a", 6);
        assert_eq!(meta(&refused)["code"], "reading_changed", "{kib} KiB: {}", text(&refused));
        assert_eq!(files.count("edit_file"), 4, "{kib} KiB: the server never saw it");
        client.call("read_file", &json!({"path": "a"}));
        assert!(!is_error(&edit(&mut client, "a", 6)));
        client.end();
        let report = files.run_ok(&["audit", "--data", "data"]);
        assert!(report.contains("0 differing, 0 unverifiable"), "{kib} KiB: {report}");
    }
}

#[test]
fn an_own_change_that_is_too_large_to_tell_has_to_be_read() {
    for kib in [8, 64] {
        let files = Files::new();
        files.write("a", &lines(kib * 1024 / 32));
        let mut client = files.client();
        client.call("read_file", &json!({"path": "a"}));
        let all = client.call("edit_file", &json!({"path": "a", "old": "line", "new": "row"}));
        assert!(!is_error(&all), "{}", text(&all));
        for _ in 0..2 {
            let refused = client.call("edit_file", &json!({"path": "b", "old": "line 1", "new": "row 1"}));
            assert_eq!(meta(&refused)["code"], "reading_changed", "{kib} KiB: {}", text(&refused));
            assert_eq!(meta(&refused)["retry"]["calls"][0]["tool"], "read_file", "{}", text(&refused));
        }
        assert_eq!(files.count("edit_file"), 1, "{kib} KiB: the server never saw it");
        client.call("read_file", &json!({"path": "a"}));
        assert!(!is_error(&client.call("edit_file", &json!({"path": "b", "old": "line 1", "new": "row 1"}))));
    }
}

#[test]
fn before_what_cannot_be_undone_the_change_is_shown_and_must_be_read_all_the_same() {
    let files = Files::new();
    let mut client = files.client();
    client.call("read_file", &json!({"path": "a"}));
    files.write("a", &files.read("a").replace("line 1 of a", "line 1 of theirs"));
    for _ in 0..2 {
        let refused = edit(&mut client, "b", 2);
        assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        let said = text(&refused);
        let has = |line: &str| said.lines().filter(|it| it.trim_start() == line).count();
        assert_eq!(has("- line 1 of a file, with words"), 1, "{said}");
        assert_eq!(has("+ line 1 of theirs file, with words"), 1, "{said}");
        assert_eq!(meta(&refused)["retry"]["calls"][0]["tool"], "read_file", "{refused}");
        assert!(said.len() <= 2048, "{said}");
        assert_eq!(files.count("edit_file"), 0, "the server never saw it");
    }
    client.call("read_file", &json!({"path": "a"}));
    assert!(!is_error(&edit(&mut client, "b", 2)));
    client.end();
    assert!(files.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}
