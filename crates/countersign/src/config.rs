//! Settings from a file, the environment and flags, in rising precedence, parsed once into checked types.
//!
//! The file is `countersign.toml` in the current folder, or what `--config` or `COUNTERSIGN_CONFIG` names. Unknown keys are
//! refused: a mistyped limit that is silently ignored is a limit that is not there.

pub mod adapters;
mod connections;
pub mod table;
mod tls;

pub use connections::{ConnectionSettings, OPERATOR_SOCKET, OperatorSocket};
pub use tls::{TlsSettings, check_key};

use crate::hinted::{OrHinted, bail_hinted, hinted};
use crate::http::rate::RateSettings;
use crate::mcp::settings::McpSettings;
use crate::tls::Files;
use anyhow::{Context as _, Result};
use countersign_engine::gate::Options;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use table::{Table, number, string, suggestion};

/// The file that is read when none is named.
pub const FILE: &str = "countersign.toml";
/// Where a gate listens unless told otherwise. Loopback, unless the settings say otherwise.
pub const LISTEN: &str = "127.0.0.1:8420";
/// The data folder unless told otherwise.
pub const DATA: &str = "countersign-data";

/// The longest queue that is accepted: each place in it costs memory before anything was decided.
const QUEUE_LEN_MAX: i64 = 1 << 20;
/// The highest rate that is accepted: more than any machine answers.
const PER_SECOND_MAX: i64 = 1_000_000;
/// The largest batch that is accepted; a batch is one write and one sync.
const BATCH_MAX: i64 = 1 << 14;

/// The shortest segment that is accepted: one full batch is within it.
const SEGMENT_BYTES_MIN: i64 = 1 << 20;
/// The longest segment that is accepted.
const SEGMENT_BYTES_MAX: i64 = 1 << 30;

const KEYS: [&str; 21] = [
    "adapters",
    "agent",
    "batch_max",
    "ca",
    "certificate",
    "certificate_key",
    "connections",
    "crl",
    "data",
    "key",
    "keys_per_agent",
    "listen",
    "mcp",
    "operator_socket",
    "origin",
    "queue_len",
    "rate_limit",
    "segment_bytes",
    "server",
    "snapshot_every",
    "tls",
];

/// What the file says; each is `None` where it says nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Config {
    /// The data folder; relative paths start at the file's own folder.
    pub data: Option<PathBuf>,
    /// Where `serve` listens.
    pub listen: Option<SocketAddr>,
    /// The gate that commands talk to.
    pub server: Option<String>,
    /// The agent that commands act as, in an open gate.
    pub agent: Option<String>,
    /// The key file that commands sign with; relative paths start at the file's own folder.
    pub key: Option<PathBuf>,
    /// What stands behind the MCP gateway.
    pub mcp: McpSettings,
    /// The origin of a new log, and of the gate that commands sign for.
    pub origin: Option<String>,
    /// How many requests may wait.
    pub queue_len: Option<usize>,
    /// Most requests in one batch.
    pub batch_max: Option<usize>,
    /// Entries between snapshots.
    pub snapshot_every: Option<u64>,
    /// Length of a segment of the ledger.
    pub segment_bytes: Option<u64>,
    /// With which certificate to listen, and whose clients may show.
    pub tls: TlsSettings,
    /// Which gates commands and gateways trust, and which certificate they show; relative paths start at the file's own folder.
    pub trust: Files,
    /// How many may call, and for how long.
    pub connections: ConnectionSettings,
    /// Where operators connect; relative paths start at the file's own folder.
    pub operator_socket: Option<OperatorSocket>,
    /// How often callers may ask.
    pub rate_limit: RateSettings,
    /// Idempotency keys kept for one agent.
    pub keys_per_agent: Option<u32>,
    /// What carries external calls out, by name.
    pub adapters: BTreeMap<String, adapters::AdapterSettings>,
}

impl Config {
    /// Reads the named file, or the usual one if it is there.
    pub fn load(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path,
            None if Path::new(FILE).exists() => Path::new(FILE),
            None => return Ok(Self::default()),
        };
        let text = std::fs::read_to_string(path).or_hinted(
            || hinted!("cannot read {}", path.display(); "name a file that is there with --config, or leave it out"),
        )?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(""))).with_context(|| path.display().to_string())
    }

    /// Reads the text of a file; `base` is where relative paths start.
    pub fn parse(text: &str, base: &Path) -> Result<Self> {
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or("").lines().count().max(1));
            anyhow::Error::from(
                hinted!("line {line}: {}", error.message(); "the file is TOML, one `key = value` per line"),
            )
        })?;
        let mut config = Self::default();
        for (key, value) in &table {
            match key.as_str() {
                "adapters" => config.adapters = adapters::parse(value, base)?,
                "agent" => config.agent = Some(string(key, value)?),
                "batch_max" => config.batch_max = Some(number(key, value, 1, BATCH_MAX)?),
                "ca" => config.trust.ca = Some(base.join(string(key, value)?)),
                "certificate" => config.trust.certificate = Some(base.join(string(key, value)?)),
                "certificate_key" => config.trust.key = Some(base.join(string(key, value)?)),
                "crl" => config.trust.crl = Some(base.join(string(key, value)?)),
                "connections" => config.connections = ConnectionSettings::parse(value)?,
                "data" => config.data = Some(base.join(string(key, value)?)),
                "key" => config.key = Some(base.join(string(key, value)?)),
                "keys_per_agent" => config.keys_per_agent = Some(number(key, value, 1, i64::from(u32::MAX))?),
                "listen" => config.listen = Some(listen(&string(key, value)?)?),
                "mcp" => config.mcp = McpSettings::parse(value, base)?,
                "operator_socket" => config.operator_socket = Some(OperatorSocket::parse(value, base)?),
                "origin" => config.origin = Some(string(key, value)?),
                "queue_len" => config.queue_len = Some(number(key, value, 1, QUEUE_LEN_MAX)?),
                "segment_bytes" => {
                    config.segment_bytes = Some(number(key, value, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)?);
                }
                "rate_limit" => config.rate_limit = rate_limit(value)?,
                "server" => config.server = Some(string(key, value)?),
                "snapshot_every" => config.snapshot_every = Some(number(key, value, 0, i64::MAX)?),
                "tls" => config.tls = TlsSettings::parse(value, base)?,
                unknown => bail_hinted!("key `{unknown}` is not known"; "{}", suggestion(unknown, &KEYS)),
            }
        }
        check_key(&config.trust, "certificate")?;
        Ok(config)
    }

    /// The data folder: the flag or the environment, else the file, else the usual one.
    pub fn data(&self, flag: Option<&Path>) -> PathBuf {
        flag.map(Path::to_path_buf).or_else(|| self.data.clone()).unwrap_or_else(|| DATA.into())
    }

    /// Where commands look for the gate of these settings over HTTP: where it listens. One that takes any free port is not found so.
    pub fn usual_server(&self) -> String {
        let address = match self.listen.filter(|listen| listen.port() != 0) {
            Some(listen) if listen.ip().is_unspecified() && listen.is_ipv6() => {
                format!("[{}]:{}", Ipv6Addr::LOCALHOST, listen.port())
            }
            Some(listen) if listen.ip().is_unspecified() => format!("{}:{}", Ipv4Addr::LOCALHOST, listen.port()),
            Some(listen) => listen.to_string(),
            None => LISTEN.to_owned(),
        };
        // The same settings say whether a gate here speaks TLS.
        let scheme = if self.tls.is_on() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// A gate's options, with what the file says about them.
    pub fn tune(&self, mut options: Options) -> Options {
        options.queue_len = self.queue_len.unwrap_or(options.queue_len);
        options.batch_max = self.batch_max.unwrap_or(options.batch_max);
        options.keys_per_agent = self.keys_per_agent.unwrap_or(options.keys_per_agent);
        options.snapshot_every = self.snapshot_every.unwrap_or(options.snapshot_every);
        options.segment_bytes = self.segment_bytes.unwrap_or(options.segment_bytes);
        options
    }
}

/// How often callers may ask.
fn rate_limit(value: &toml::Value) -> Result<RateSettings> {
    let table = Table::new("rate_limit", value)?;
    table.only(&["per_key", "per_peer"])?;
    let usual = RateSettings::default();
    Ok(RateSettings {
        per_key: table.number("per_key", 1, PER_SECOND_MAX)?.unwrap_or(usual.per_key),
        per_peer: table.number("per_peer", 1, PER_SECOND_MAX)?.unwrap_or(usual.per_peer),
    })
}

/// An address to listen on. `localhost` is 127.0.0.1, without asking a name server that might say otherwise.
pub fn listen(text: &str) -> Result<SocketAddr> {
    let here = text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    here.as_deref().unwrap_or(text).parse().map_err(|_| {
        anyhow::Error::from(
            hinted!("`{text}` is not an address to listen on"; "write an IP address and a port, such as {LISTEN}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        crate::terminal::Report::of_error(&Config::parse(text, Path::new("")).expect_err("must be refused")).to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = "adapters = {}\nagent = \"a\"\nbatch_max = 2\ndata = \"d\"\nkey = \"k\"\nlisten = \"127.0.0.1:1\"\n\
                    operator_socket = \"s\"\norigin = \"o\"\nqueue_len = 3\nsegment_bytes = 1048576\nserver = \"http://127.0.0.1:1\"\n\
                    snapshot_every = 0\nconnections = {}\nkeys_per_agent = 9\nrate_limit = { per_key = 7 }\nca = \"ca\"\n\
                    certificate = \"c\"\ncertificate_key = \"ck\"\ncrl = \"r\"\ntls = {}\n[mcp]\n";
        let config = Config::parse(text, Path::new("/etc")).expect("is right");
        assert_eq!(config.data.as_deref(), Some(Path::new("/etc/d")));
        assert_eq!((config.batch_max, config.queue_len, config.snapshot_every), (Some(2), Some(3), Some(0)));
        assert_eq!(config.listen.map(|listen| listen.port()), Some(1));
        assert_eq!(config.operator_socket, Some(OperatorSocket::At("/etc/s".into())));
        assert_eq!(config.segment_bytes, Some(1 << 20));
        let file = |name: &str| Some(Path::new("/etc").join(name));
        let trust = Files { certificate: file("c"), key: file("ck"), ca: file("ca"), crl: file("r") };
        assert_eq!(config.trust, trust);
        assert_eq!((config.rate_limit.per_key, config.rate_limit.per_peer), (7, RateSettings::default().per_peer));
        assert_eq!(text.lines().count(), KEYS.len());
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_is_refused_with_a_hint() {
        assert!(refused("queue_lenght = 1").ends_with("hint: did you mean `queue_len`?"));
        assert!(refused("zebra = 1").contains("the keys are `adapters`"));
        assert!(refused("queue_len = \"1\"").contains("whole number from 1"));
        assert!(refused("queue_len = 0").contains("whole number from 1"));
        assert!(refused("data = 3").contains("must be a non-empty string"));
        assert!(refused("listen = \"localhost\"").contains("127.0.0.1:8420"));
        assert!(refused("a = 1\nb = = 2").starts_with("line 2: "));
    }

    #[test]
    fn limits_of_connections_are_read_and_kept_within_what_the_system_has() {
        let text = "operator_socket = \"off\"\n[connections]\nmax = 100\nper_peer = 7\n\
                    header_timeout = \"2s\"\nbody_timeout = \"3s\"\nidle_timeout = \"5s\"";
        let config = Config::parse(text, Path::new("/etc")).expect("is right");
        assert_eq!(config.operator_socket, Some(OperatorSocket::Off));
        let limits = config.connections.limits(60);
        assert_eq!((limits.connections, limits.per_peer), (60, 7));
        assert_eq!((limits.header.as_secs(), limits.body.as_secs(), limits.idle.as_secs()), (2, 3, 5));
        let usual = ConnectionSettings::default().limits(600);
        assert_eq!((usual.connections, usual.per_peer), (600, 300));
        assert!(refused("[connections]\nper_pear = 1").contains("did you mean `per_peer`?"));
        assert!(refused("[connections]\nmax = 0").contains("whole number from 1"));
    }

    #[test]
    fn localhost_is_this_machine() {
        assert_eq!(listen("localhost:8420").expect("is right").to_string(), "127.0.0.1:8420");
        assert_eq!(listen("[::1]:1").expect("is right").port(), 1);
        for wrong in ["localhost", "localhost:", "localhost:99999", "localhost.example:1", "gate.example:1"] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_look_where_the_gate_of_the_same_settings_listens() {
        let server = |text: &str| Config::parse(text, Path::new("")).expect("is right").usual_server();
        assert_eq!(server(""), "http://127.0.0.1:8420");
        assert_eq!(server("listen = \"127.0.0.1:18434\""), "http://127.0.0.1:18434");
        assert_eq!(server("listen = \"0.0.0.0:7\""), "http://127.0.0.1:7");
        assert_eq!(server("listen = \"[::]:7\""), "http://[::1]:7");
        assert_eq!(server("listen = \"localhost:0\""), "http://127.0.0.1:8420", "no one knows which port it took");
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_usual() {
        let config = Config { data: Some("file".into()), ..Config::default() };
        assert_eq!(config.data(Some(Path::new("flag"))), Path::new("flag"));
        assert_eq!(config.data(None), Path::new("file"));
        assert_eq!(Config::default().data(None), Path::new(DATA));
    }
}
