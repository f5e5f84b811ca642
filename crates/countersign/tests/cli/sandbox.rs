//! A folder of its own for each test, and runs of the command line in it.

use crate::cli::redact::redact;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::TempDir;

/// The pact that the README explains.
pub const BILLING: &str = include_str!("../../../../examples/billing.toml");

/// A folder of its own.
pub struct Sandbox {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// How a run ended.
pub struct Run {
    line: String,
    dir: String,
    /// Its exit code.
    pub code: i32,
    /// Data.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl Sandbox {
    /// An empty folder.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: Vec::new() }
    }

    /// A folder with a gate's data folder in it, a published pact, two agents and an account.
    pub fn with_gate() -> Self {
        let sandbox = Self::new();
        sandbox.write("billing.toml", BILLING);
        for line in [
            "init --data data --open",
            "pact publish billing.toml --data data",
            r#"fact put Agent refund-1 {"roles":["refunder"],"standing":"active","org":"acme","trust":700} --data data"#,
            r#"fact put Account 42 {"status":"active","balance":900000,"owner":"ada"} --data data"#,
        ] {
            sandbox.run(line).must(0);
        }
        sandbox
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Sets a variable for the runs that follow.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The log's only segment.
    pub fn segment(&self) -> PathBuf {
        self.path().join("data/log/00000000000000000000.seg")
    }

    fn command(&self, line: &str) -> Command {
        self.prepared(Command::new(env!("CARGO_BIN_EXE_countersign")), line)
    }

    fn prepared(&self, mut command: Command, line: &str) -> Command {
        command.args(line.split(' ')).current_dir(self.path());
        // What the machine happens to have set must not show.
        command.env_clear().env("COLUMNS", "100").stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a command line, whose words are parted by single spaces, and goes on.
    pub fn start(&self, line: &str) -> Child {
        // Whoever runs the tests in the background has interrupts ignored, and that is inherited.
        let mut command = Command::new("/usr/bin/env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_countersign")]);
        self.prepared(command, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command line, whose words are parted by single spaces.
    pub fn run(&self, line: &str) -> Run {
        let output = self.command(line).output().unwrap();
        Run {
            line: line.to_owned(),
            dir: self.path().to_str().unwrap().to_owned(),
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts a server on the data folder and waits until it listens.
    pub fn serve(&self) -> Server {
        self.serve_on("127.0.0.1:0")
    }

    /// Starts a server that listens on an address of its own.
    pub fn serve_on(&self, listen: &str) -> Server {
        self.serve_with(&format!("serve --data data --listen {listen}"))
    }

    /// Starts a server by its command line.
    pub fn serve_with(&self, line: &str) -> Server {
        let mut command = self.command(line);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut line) = (String::new(), String::new());
        let url = loop {
            line.clear();
            if stderr.read_line(&mut line).unwrap() == 0 {
                panic!("the server ended with {:?}: {said}", child.wait());
            }
            said.push_str(&line);
            if let Some(url) = line.trim().strip_prefix("Listening on ") {
                break url.to_owned();
            }
        };
        Server { child, stderr, said, url, dir: self.path().to_str().unwrap().to_owned() }
    }
}

impl Run {
    /// Checks how it ended.
    pub fn must(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.shown());
        self
    }

    /// The run as it is compared.
    pub fn shown(&self) -> String {
        let part = |name: &str, text: &str| {
            if text.is_empty() { String::new() } else { format!("--- {name}\n{}\n", text.trim_end()) }
        };
        let text = format!(
            "$ countersign {}\nexit {}\n{}{}",
            self.line,
            self.code,
            part("stdout", &self.stdout),
            part("stderr", &self.stderr)
        );
        redact(&text, &self.dir)
    }

    /// Its data as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.shown()))
    }
}

/// A server that runs.
pub struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
    dir: String,
    /// Where it listens.
    pub url: String,
}

impl Server {
    /// Tells it to end; gives what it said, without its structured log.
    pub fn end(self) -> (i32, String) {
        let dir = self.dir.clone();
        let (code, said) = self.end_with_log();
        // Lines of the log begin with their time.
        let lines: Vec<_> = said.lines().filter(|line| line.get(10..11) != Some("T")).collect();
        (code, redact(&lines.join("\n"), &dir))
    }

    /// The same with its log, as it stands.
    pub fn end_with_log(mut self) -> (i32, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        (code, std::mem::take(&mut self.said) + &rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
