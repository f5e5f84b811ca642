//! An identified gate in a folder of its own, the command line there, and callers who sign with their own keys.

use countersign_signature::{Headers, Signable, sign};
use countersign_testing::pacts::whole;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use serde_json::Value as Json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
/// The origin of every gate here, unless a test names another.
pub const ORIGIN: &str = "attacks.example/gate";
/// How long anything may take. The machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a gate's data in `data` and the admin's key in `admin.key`.
pub struct World {
    dir: TempDir,
    gate: Option<Gate>,
}

/// A running gate; killed when dropped.
pub struct Gate {
    child: Child,
    /// Where it listens, `http://127.0.0.1:PORT`.
    pub url: String,
}

impl World {
    /// An identified gate that is not running yet.
    pub fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap(), gate: None };
        world.run_ok(&["init", "--data", "data", "--origin", ORIGIN]);
        world
    }

    /// The same, running with these settings (the text of a `countersign.toml`; empty for the defaults).
    pub fn serving(settings: &str) -> Self {
        let mut world = Self::new();
        world.write("countersign.toml", settings);
        world.serve();
        world
    }

    /// Starts the gate on the settings in `countersign.toml`.
    pub fn serve(&mut self) {
        self.serve_by(Command::new(BINARY));
    }

    /// Starts the gate by a command that runs the binary: with a lower limit, under a tracer.
    pub fn serve_by(&mut self, command: Command) {
        self.serve_at("127.0.0.1:0", command);
    }

    /// Kills the gate and starts it again at the same address, for clients that stay.
    pub fn kill_and_serve(&mut self) {
        let url = self.url().to_owned();
        self.kill();
        self.serve_again(&url);
    }

    /// Starts the gate at an address where it was before.
    pub fn serve_again(&mut self, url: &str) {
        self.serve_at(url.strip_prefix("http://").unwrap(), Command::new(BINARY));
    }

    fn serve_at(&mut self, listen: &str, mut command: Command) {
        let settings = self.path().join("countersign.toml");
        if !settings.exists() {
            self.write("countersign.toml", "");
        }
        command.args(["serve", "--listen", listen, "--data", "data", "--config", "countersign.toml"]);
        command.current_dir(self.path()).env("RUST_LOG", "error");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let url = loop {
            let Some(Ok(line)) = lines.next() else { panic!("the gate ended before it listened: {said}") };
            if let Some((_, url)) = line.split_once("Listening on ") {
                break url.split_whitespace().next().unwrap().to_owned();
            }
            said = said + &line + "\n";
        };
        // Whatever else it says must not fill the pipe.
        let mut log = std::fs::File::create(self.path().join("gate.err")).unwrap();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(writeln!(log, "{line}"))));
        self.gate = Some(Gate { child, url });
    }

    /// SIGKILL: no goodbye of any kind.
    pub fn kill(&mut self) {
        drop(self.gate.take());
    }

    /// The gate's process id.
    pub fn pid(&self) -> u32 {
        self.gate.as_ref().expect("the gate runs").child.id()
    }

    /// Where the gate listens.
    pub fn url(&self) -> &str {
        &self.gate.as_ref().expect("the gate runs").url
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A command in the folder, not run yet. It talks to the running gate as the admin, unless its words say otherwise.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(words).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var("PATH").unwrap_or_default());
        if let Some(gate) = &self.gate {
            command.env("COUNTERSIGN_SERVER", &gate.url).env("COUNTERSIGN_KEY", "admin.key");
        }
        command
    }

    /// Runs a command.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed; what it printed.
    pub fn run_ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Publishes a pact.
    pub fn publish(&self, pact: &str) {
        self.write("pact.toml", &whole(pact));
        self.run_ok(&["pact", "publish", "pact.toml"]);
    }

    /// Registers an agent with one role, and its caller.
    pub fn agent(&self, name: &str, role: &str) -> Caller {
        self.run_ok(&["agent", "new", name, "--org", "acme", "--role", role]);
        self.caller(name)
    }

    /// Whoever holds the key in `NAME.key`.
    pub fn caller(&self, name: &str) -> Caller {
        let pem = std::fs::read_to_string(self.path().join(format!("{name}.key"))).unwrap();
        Caller::new(SigningKey::from_pkcs8_pem(&pem).unwrap(), self.url())
    }

    /// What a path that takes no signature answers, as text.
    pub fn text(&self, path: &str) -> String {
        let mut response = ureq::get(format!("{}{path}", self.url())).call().unwrap();
        response.body_mut().read_to_string().unwrap()
    }

    /// All entries of the ledger, as an auditor sees them.
    pub fn entries(&self) -> Vec<Json> {
        let text = self.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "1000"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub json: Json,
}

impl Answer {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Somebody with a key, and a connection that is kept.
pub struct Caller {
    pub key: SigningKey,
    host: String,
    http: ureq::Agent,
}

impl Caller {
    /// Signs with this key and calls this address.
    pub fn new(key: SigningKey, url: &str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        let http = config.http_status_as_error(false).build().into();
        Self { key, host: url.strip_prefix("http://").unwrap().to_owned(), http }
    }

    /// The same caller over another connection.
    pub fn again(&self) -> Self {
        Self::new(self.key.clone(), &format!("http://{}", self.host))
    }

    /// Signs a request, and does not send it.
    pub fn sign(&self, method: &str, target: &str, body: &str) -> Headers {
        self.sign_if(method, target, None, body)
    }

    /// The same for one that is sent with this `If-Match`.
    pub fn sign_if(&self, method: &str, target: &str, if_match: Option<&str>, body: &str) -> Headers {
        static NONCES: AtomicU64 = AtomicU64::new(0);
        let nonce = format!("attacks-{}-{:020}", std::process::id(), NONCES.fetch_add(1, Ordering::SeqCst));
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let request = Signable { method, authority: &self.host, path, query, if_match, actions: None, body };
        sign(&self.key, &request, ORIGIN, now_s, &nonce).unwrap()
    }

    /// Signs and sends.
    pub fn ask(&self, method: &str, target: &str, body: &str) -> Answer {
        self.send(method, target, body, &self.sign(method, target, body), &[])
    }

    /// Sends what was signed, with more headers: whatever a proxy or an attacker on the way adds.
    pub fn send(&self, method: &str, target: &str, body: &str, signed: &Headers, more: &[(&str, &str)]) -> Answer {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{}{target}", self.host));
        request = request.header("signature-input", &signed.input).header("signature", &signed.signature);
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let response = match &signed.content_digest {
            Some(digest) => {
                let request = request.header("content-digest", digest).header("content-type", "application/json");
                self.http.run(request.body(body.to_owned()).unwrap())
            }
            None => self.http.run(request.body(()).unwrap()),
        };
        let mut response = response.unwrap();
        let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let json = response.body_mut().with_config().limit(64 << 20).read_json().unwrap_or(Json::Null);
        Answer { status: response.status().as_u16(), headers, json }
    }
}

/// Waits until something is so; fails the test if it never is.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
