//! What stands behind a measurement: a gate that runs, a bank, an agent, and a gateway; all of them processes of this binary, which is
//! `countersign` itself when it is called so.

use super::COUNTERSIGN;
use super::bank::Over;
use super::client::Client;
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const AGENT: &str = "bench-1";
const PACT: &str = include_str!("bank.toml");

/// A folder with everything in it.
pub struct World {
    folder: PathBuf,
    over: Over,
    gate: Running,
    // Dropped after the gate, whose worker uses it, and after the gateway.
    gateway: Option<Running>,
    bank: Option<Running>,
}

/// How the bank's tools are guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// By a pact that says what a transfer rests on.
    ByPact,
    /// By what was read, without a pact.
    AsRead,
    /// By what was read, under a pact that says that a transfer changes its own account and nothing else.
    Declared,
}

/// A process that listens; ended when dropped.
struct Running {
    child: Child,
    url: String,
}

impl World {
    /// Makes it.
    pub fn start(folder: &Path, over: Over, guarded: Guarded) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = std::path::absolute(folder)?;
        let exe = std::env::current_exe().context("this program cannot be found")?;
        let bank = match over {
            Over::Stdio => None,
            Over::Http => Some(Running::start(&mut bench(&folder, &["--mcp-bank", "http"])?)?),
        };
        let place = match &bank {
            Some(bank) => toml::Table::from_iter([("url".to_owned(), bank.url.clone().into())]),
            None => {
                let words = [exe.to_str().context("the path of this program is not UTF-8")?, "--mcp-bank", "stdio"];
                toml::Table::from_iter([("command".to_owned(), words.map(toml::Value::from).to_vec().into())])
            }
        };
        std::fs::write(folder.join("countersign.toml"), format!("[mcp.upstream.bank]\n{place}"))?;
        std::fs::write(folder.join("bank.toml"), PACT)?;
        run(&folder, &["init", "--open"])?;
        let gate = Running::start(&mut countersign(&folder, &["serve", "--listen", "127.0.0.1:0"])?)?;
        let agent = r#"{"roles":[],"standing":"active","org":"bench","trust":500}"#;
        run(&folder, &["fact", "put", "Agent", AGENT, agent, "--server", &gate.url])?;
        let approve = ["mcp", "approve", "--guard", "as-read", "--server", &gate.url];
        match guarded {
            Guarded::ByPact => {
                run(&folder, &["mcp", "approve", "--server", &gate.url])?;
                run(&folder, &["pact", "publish", "bank.toml", "--server", &gate.url])?;
            }
            Guarded::AsRead => run(&folder, &approve)?,
            Guarded::Declared => {
                run(&folder, &approve)?;
                let call = "call = { mcp = \"bank\", tool = \"transfer\" }";
                let declared = PACT.replace(call, &format!("{call}\nguard = \"as-read\"\nchanges = []"));
                std::fs::write(folder.join("bank.toml"), declared)?;
                run(&folder, &["pact", "publish", "bank.toml", "--server", &gate.url])?;
            }
        }
        let words = ["mcp", "serve", "--agent", AGENT, "--server", &gate.url, "--listen", "127.0.0.1:0"];
        let gateway = match over {
            Over::Stdio => None,
            Over::Http => Some(Running::start(&mut countersign(&folder, &words)?)?),
        };
        Ok(Self { folder, over, gate, gateway, bank })
    }

    /// A session with the bank itself.
    pub fn direct(&self) -> Result<Client> {
        match &self.bank {
            Some(bank) => Client::connect(&bank.url),
            None => Client::start(bench(&self.folder, &["--mcp-bank", "stdio"])?),
        }
    }

    /// A session with the bank through the gateway.
    pub fn through(&self) -> Result<Client> {
        match (&self.gateway, self.over) {
            (Some(gateway), Over::Http) => Client::connect(&gateway.url),
            _ => Client::start(countersign(
                &self.folder,
                &["mcp", "serve", "--agent", AGENT, "--server", &self.gate.url],
            )?),
        }
    }
}

/// A command of this binary in a folder, with nothing of the caller's settings.
fn bench(folder: &Path, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.args(words).current_dir(folder).env_clear();
    Ok(command)
}

/// The same as `countersign`.
fn countersign(folder: &Path, words: &[&str]) -> Result<Command> {
    let mut command = bench(folder, words)?;
    command.arg0(COUNTERSIGN);
    Ok(command)
}

fn run(folder: &Path, words: &[&str]) -> Result<()> {
    let output = countersign(folder, words)?.output()?;
    if output.status.success() {
        return Ok(());
    }
    bail!("`countersign {}` failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))
}

impl Running {
    /// Starts it, and waits until it says where it listens.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("a process without stderr")?;
        // From here on it is ended whatever happens.
        let mut running = Self { child, url: String::new() };
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if let Some(url) = line.trim().strip_prefix("Listening on ") {
                url.clone_into(&mut running.url);
                // What it says later must not fill the pipe.
                std::thread::spawn(move || lines.map_while(Result::ok).count());
                return Ok(running);
            }
            said.push_str(&line);
        }
        bail!("a process of the bench has ended: {said}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Gone already is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
