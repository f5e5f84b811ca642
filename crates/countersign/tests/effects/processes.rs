//! The processes: a gate that is killed, and payment services.

use countersign_testing::payments::book::{self, Payout};
use countersign_testing::payments::{Options, serve};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
/// The variable with the options of a payment service.
const SERVICE: &str = "COUNTERSIGN_TEST_PAYMENTS";

/// Reads lines until one says where the process listens; the rest is read and forgotten, so that no pipe fills up.
fn listening(output: impl std::io::Read + Send + 'static) -> String {
    let mut lines = BufReader::new(output).lines();
    let mut said = String::new();
    let url = loop {
        let Some(Ok(line)) = lines.next() else { panic!("it ended before it listened: {said}") };
        if let Some((_, url)) = line.split_once("Listening on ") {
            break url.to_owned();
        }
        said += &line;
    };
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    url
}

/// A running gate; killed when dropped.
pub struct Gate {
    child: Child,
    pub url: String,
}

impl Gate {
    pub fn start(data: &Path, settings: &Path) -> Self {
        let mut child = Command::new(BINARY)
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
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let url = listening(child.stderr.take().unwrap());
        Self { child, url }
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
    pub fn start(book: &Path, seed: u64, is_idempotent: bool) -> Self {
        let mut options = format!("--book\n{}\n--seed\n{seed}\n--late-ms\n350", book.display());
        if is_idempotent {
            options.push_str("\n--idempotent");
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_payment_service", "--nocapture", "--test-threads=1"])
            .env(SERVICE, options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let url = listening(child.stdout.take().unwrap());
        Self { child, url, book: book.to_owned() }
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
pub fn settings(folder: &Path, services: &[(&str, &Service)]) -> PathBuf {
    let adapter = |(name, service): &(&str, &Service)| {
        format!(
            "[adapters.{name}]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\nconcurrency = 32\n\
             breaker = {{ failures = 1000000 }}\nheaders = {{ Authorization = {{ env = \"PAYMENTS_TOKEN\" }} }}\n",
            service.url
        )
    };
    let path = folder.join("countersign.toml");
    std::fs::write(&path, services.iter().map(adapter).collect::<String>()).unwrap();
    path
}

/// Runs a command on the data folder.
pub fn countersign(args: &[&str], data: &Path) {
    let output = Command::new(BINARY).args(args).arg("--data").arg(data).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
