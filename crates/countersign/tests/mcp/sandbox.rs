//! A folder with an open gate and an agent in it, and runs of the binary there.

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::server;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder of its own.
pub struct Sandbox(TempDir);

impl Sandbox {
    /// An empty folder.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Self(folder)
    }

    /// A gate, an agent, and nothing approved.
    pub fn new() -> Self {
        let sandbox = Self::bare();
        sandbox.run_ok(&["init", "--data", "data", "--open"]);
        let agent = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
        sandbox.run_ok(&["fact", "put", "Agent", "coder-1", agent, "--data", "data"]);
        sandbox
    }

    /// The same with a bank whose tools are approved as they are in their usual mood.
    pub fn approved() -> Self {
        let sandbox = Self::new();
        sandbox.approve(&[("bank", "usual")]);
        sandbox
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Approves all tools of banks in these moods.
    pub fn approve(&self, banks: &[(&str, &str)]) {
        let upstreams = upstreams(banks);
        let words = ["mcp", "approve", "--yes", "--data", "data"].into_iter();
        self.run_ok(&words.chain(upstreams.iter().map(String::as_str)).collect::<Vec<_>>());
    }

    /// A command that is not run yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(words).current_dir(self.path()).env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
        // Sessions are noted there: those of one test are none of another's.
        command.env("TMPDIR", self.path().join("tmp"));
        command
    }

    /// Runs a command.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed; what it printed.
    pub fn run_ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A client over standard input and output, through the gateway, to banks in these moods.
    pub fn client(&self, banks: &[(&str, &str)], more: &[&str]) -> Stdio {
        let mut words = vec![
            "mcp".to_owned(),
            "serve".to_owned(),
            "--data".to_owned(),
            "data".to_owned(),
            "--agent".to_owned(),
            "coder-1".to_owned(),
        ];
        words.extend(upstreams(banks));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        Stdio::start(self.command(&words.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// A gateway that listens, in front of banks in these moods.
    pub fn listen(&self, banks: &[(&str, &str)]) -> Http {
        let mut words: Vec<String> =
            ["mcp", "serve", "--data", "data", "--agent", "coder-1", "--listen", "127.0.0.1:0"]
                .map(str::to_owned)
                .into();
        words.extend(upstreams(banks));
        Http::start(self.command(&words.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// The gateway's actions in the ledger.
    pub fn calls(&self) -> Vec<serde_json::Value> {
        let text = self.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "500", "--data", "data"]);
        let entries = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        entries
            .filter(|entry| entry["leaf"]["kind"] == "action" && entry["leaf"]["pact"]["name"] == "mcp-calls")
            .collect()
    }
}

fn upstreams(banks: &[(&str, &str)]) -> Vec<String> {
    banks
        .iter()
        .flat_map(|(name, mood)| ["--upstream".to_owned(), format!("{name}={}", server::command(mood))])
        .collect()
}
