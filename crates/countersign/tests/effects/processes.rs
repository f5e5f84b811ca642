//! The processes: a gate that is killed, and payment services.

use countersign_testing::payments::book::{self, Payout};
use countersign_testing::payments::{Options, serve};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
/// The variable with the options of a payment service.
const SERVICE: &str = "COUNTERSIGN_TEST_PAYMENTS";

/// What a process said before it listened, or ended.
pub struct Heard {
    pub url: Option<String>,
    said: String,
}

impl Heard {
    /// How many entries a gate found when it opened its ledger.
    pub fn found(&self) -> Option<u64> {
        let (_, found) = self.said.split_once("Opened a ledger of ")?;
        found.split(' ').next()?.replace(',', "").parse().ok()
    }
}

/// Reads lines until one says where the process listens; the rest is read and forgotten, so that no pipe fills up.
pub fn heard(output: impl std::io::Read + Send + 'static) -> Heard {
    let mut lines = BufReader::new(output).lines();
    let mut said = String::new();
    let url = loop {
        let Some(Ok(line)) = lines.next() else { return Heard { url: None, said } };
        if let Some((_, url)) = line.split_once("Listening on ") {
            break url.to_owned();
        }
        said = said + &line + "\n";
    };
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Heard { url: Some(url), said }
}

/// A gate that is started by a command: the binary itself, or something that runs it.
pub fn serving(mut command: Command, data: &Path, settings: &Path) -> Command {
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .arg("--config")
        .arg(settings)
        // Nobody listens there: a gate that used it would get nothing through.
        .env("http_proxy", "http://127.0.0.1:9")
        .env("PAYMENTS_TOKEN", "Bearer a-token-for-tests")
        .env("RUST_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// A running gate; killed when dropped.
pub struct Gate {
    child: Child,
    pub url: String,
    /// How many entries it found.
    pub found: u64,
}

impl Gate {
    pub fn start(data: &Path, settings: &Path) -> Self {
        let mut child = serving(Command::new(BINARY), data, settings).spawn().unwrap();
        let heard = heard(child.stderr.take().unwrap());
        let found = heard.found().unwrap_or_default();
        let url = heard.url.unwrap_or_else(|| panic!("the gate ended before it listened: {}", heard.said));
        Self { child, url, found }
    }

    /// SIGKILL: no goodbye of any kind.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running payment service; killed when dropped.
pub struct Service {
    child: Child,
    url: String,
    book: PathBuf,
}

impl Service {
    pub fn start(book: &Path, seed: u64, late: Duration, is_idempotent: bool) -> Self {
        let late = late.as_millis();
        let mut options = format!("--book\n{}\n--seed\n{seed}\n--late-ms\n{late}", book.display());
        if is_idempotent {
            options.push_str("\n--idempotent");
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "effects::the_payment_service", "--nocapture", "--test-threads=1"])
            .env(SERVICE, options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let url = heard(child.stdout.take().unwrap()).url.expect("a service listens");
        Self { child, url, book: book.to_owned() }
    }

    /// What it has paid so far.
    pub fn read(&self) -> Vec<Payout> {
        book::read(&self.book).unwrap()
    }

    /// The port that it listens on.
    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap()
    }

    /// What it has paid. It ends first: nothing is paid after this.
    pub fn book(mut self) -> Vec<Payout> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        book::read(&self.book).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes a payment service where the variable says so, and does not come back then.
pub fn serve_if_asked() {
    let Ok(options) = std::env::var(SERVICE) else { return };
    let words: Vec<String> = options.lines().map(str::to_owned).collect();
    serve(Options::parse(&words).unwrap()).unwrap();
}

/// Settings with an adapter for each service. The breaker is wide open: half of what these services do is fail.
pub fn settings(
    folder: &Path,
    services: &[(&str, &Service)],
    concurrency: usize,
    snapshot_every: Option<u64>,
) -> PathBuf {
    let snapshots = snapshot_every.map(|every| format!("snapshot_every = {every}\n")).unwrap_or_default();
    let adapter = |(name, service): &(&str, &Service)| {
        format!(
            "[adapters.{name}]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\nconcurrency = {concurrency}\n\
             breaker = {{ failures = 1000000 }}\nheaders = {{ Authorization = {{ env = \"PAYMENTS_TOKEN\" }} }}\n",
            service.url
        )
    };
    let path = folder.join("countersign.toml");
    std::fs::write(&path, snapshots + &services.iter().map(adapter).collect::<String>()).unwrap();
    path
}

/// Runs a command on the data folder.
pub fn countersign(args: &[&str], data: &Path) {
    let output = Command::new(BINARY).args(args).arg("--data").arg(data).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
