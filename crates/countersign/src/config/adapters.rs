//! `[adapters.NAME]`: the places outside that pacts may call, as checked types.
//!
//! A pact names an adapter and what to send. Where that goes, with which secrets and within which limits, is the operator's
//! business, and stands here: no agent and no pact can widen it.

mod postgres;

pub use postgres::PostgresSettings;

use super::table::Table;
use crate::adapters::address::Cidr;
use crate::adapters::http::base::Base;
use crate::adapters::secret::Source;
use crate::hinted::bail_hinted;
use anyhow::{Context as _, Result};
use countersign_core::ids::check_identifier;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;

/// How many calls of one adapter are under way at a time at the most: each has a thread of its own.
const CONCURRENCY_MAX: i64 = 1024;
/// The most that is read of one answer.
const BYTES_MAX: i64 = 16 << 20;
/// No one waits longer than this to be connected, and no breaker stays open longer without looking.
const SPAN_MAX: Duration = Duration::from_secs(3600);

/// The settings of one adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdapterSettings {
    /// An HTTP service.
    Http(HttpSettings),
    /// A program on this machine.
    Command(CommandSettings),
    /// A database with facts of the user's own.
    Postgres(PostgresSettings),
}

/// Where and how an HTTP service is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// Everything is sent below this.
    pub base: Base,
    /// Addresses that are not public and may be called anyway.
    pub allow_private: Vec<Cidr>,
    /// Headers that every request has.
    pub headers: Vec<(String, Source)>,
    /// The most that is read of an answer.
    pub response_bytes_max: usize,
    /// How long finding the address, connecting and the TLS handshake may take together.
    pub connect_timeout: Duration,
    /// How many calls may be under way.
    pub concurrency: usize,
    /// When it is left alone for a while.
    pub breaker: BreakerSettings,
    /// A file with the certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
}

/// When an adapter is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// After so many failures in a row.
    pub failures: u32,
    /// For so long.
    pub open_for: Duration,
}

/// Which program is run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// Its absolute path.
    pub program: PathBuf,
    /// Arguments before those of the pact.
    pub args: Vec<String>,
    /// Its environment, besides PATH and the idempotency key.
    pub env: Vec<(String, Source)>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// The most that is kept of what it writes.
    pub output_bytes_max: usize,
    /// How many may run at a time.
    pub concurrency: usize,
    /// Exits that mean: it did not happen, and will not.
    pub refused_exits: Vec<i64>,
    /// Exits of a probe that mean: there is no trace of it.
    pub absent_exits: Vec<i64>,
}

/// Reads the table `adapters`; relative paths start at `base`.
pub fn parse(value: &Value, base: &Path) -> Result<BTreeMap<String, AdapterSettings>> {
    let all = Table::new("adapters", value)?;
    let mut adapters = BTreeMap::new();
    for (name, value) in all.members() {
        if check_identifier(name).is_err() {
            bail_hinted!("`{name}` cannot name an adapter"; "use letters, digits and `_`, and begin with a letter");
        }
        adapters.insert(name.to_owned(), one(&Table::new(format!("adapters.{name}"), value)?, base)?);
    }
    Ok(adapters)
}

fn one(table: &Table<'_>, base: &Path) -> Result<AdapterSettings> {
    let kind = table.required("kind", table.string("kind")?, "\"http\"")?;
    match kind.as_str() {
        "http" => Ok(AdapterSettings::Http(http(table, base)?)),
        "command" => Ok(AdapterSettings::Command(command(table, base)?)),
        "postgres" => Ok(AdapterSettings::Postgres(postgres::parse(table, base)?)),
        other => {
            bail_hinted!("`{}` has a kind that is not known: `{other}`", table.at(); "the kinds are \"http\", \"command\" and \"postgres\"")
        }
    }
}

fn http(table: &Table<'_>, relative_to: &Path) -> Result<HttpSettings> {
    table.only(&[
        "kind",
        "base",
        "allow_private",
        "headers",
        "response_max",
        "connect_timeout",
        "concurrency",
        "breaker",
        "ca",
    ])?;
    let base = table.required("base", table.string("base")?, "\"https://payments.example/v1\"")?;
    let base: Base = base.parse().with_context(|| format!("`{}.base`", table.at()))?;
    let allow_private = table.strings("allow_private")?;
    let allow_private = allow_private.iter().map(|text| text.parse::<Cidr>()).collect::<Result<Vec<_>, _>>();
    let allow_private = allow_private.with_context(|| format!("`{}.allow_private`", table.at()))?;
    if !base.is_tls && allow_private.is_empty() {
        bail_hinted!("`{}.base` is not encrypted", table.at(); "write https://, or list the addresses inside that may be called in clear, \
             such as allow_private = [\"127.0.0.0/8\"]");
    }
    let breaker = match table.table("breaker")? {
        None => BreakerSettings::default(),
        Some(breaker) => {
            breaker.only(&["failures", "open_for"])?;
            let usual = BreakerSettings::default();
            BreakerSettings {
                failures: breaker.number("failures", 1, 1_000_000)?.unwrap_or(usual.failures),
                open_for: breaker.duration("open_for", SPAN_MAX)?.unwrap_or(usual.open_for),
            }
        }
    };
    let headers = match table.table("headers")? {
        None => Vec::new(),
        Some(headers) => {
            headers.members().map(|member| header(&headers, member, relative_to)).collect::<Result<_>>()?
        }
    };
    Ok(HttpSettings {
        base,
        allow_private,
        headers,
        response_bytes_max: table.number("response_max", 0, BYTES_MAX)?.unwrap_or(64 << 10),
        connect_timeout: table.duration("connect_timeout", SPAN_MAX)?.unwrap_or(Duration::from_secs(5)),
        concurrency: table.number("concurrency", 1, CONCURRENCY_MAX)?.unwrap_or(16),
        breaker,
        ca: table.string("ca")?.map(|path| relative_to.join(path)),
    })
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30) }
    }
}

/// Headers that the adapter sets itself: two of one name would leave open which one counts.
const OWN_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "if-match",
    "transfer-encoding",
    "user-agent",
];

fn header(headers: &Table<'_>, (name, value): (&str, &Value), relative_to: &Path) -> Result<(String, Source)> {
    let lower = name.to_ascii_lowercase();
    if OWN_HEADERS.contains(&lower.as_str()) {
        bail_hinted!("`{}.{name}` is set by the gate itself", headers.at(); "leave it out");
    }
    if ureq::http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        bail_hinted!("`{}.{name}` is not the name of a header", headers.at(); "write it as in `Authorization`");
    }
    Ok((name.to_owned(), source(headers, (name, value), relative_to)?))
}

/// A value, or where it is kept.
fn source(table: &Table<'_>, (name, value): (&str, &Value), relative_to: &Path) -> Result<Source> {
    if let Some(text) = value.as_str() {
        return Ok(Source::Literal(text.into()));
    }
    let at = format!("{}.{name}", table.at());
    let place = Table::new(at.as_str(), value)?;
    place.only(&["env", "file"])?;
    match (place.string("env")?, place.string("file")?) {
        (Some(variable), None) => Ok(Source::Env(variable)),
        (None, Some(file)) => Ok(Source::File(relative_to.join(file))),
        _ => bail_hinted!("`{at}` must say where it is kept"; "write {{ env = \"NAME\" }} or {{ file = \"path\" }}"),
    }
}

fn command(table: &Table<'_>, relative_to: &Path) -> Result<CommandSettings> {
    table.only(&[
        "kind",
        "program",
        "args",
        "env",
        "cwd",
        "output_max",
        "concurrency",
        "refused_exits",
        "absent_exits",
    ])?;
    let absolute = |key: &str, path: String| -> Result<PathBuf> {
        let path = PathBuf::from(path);
        if path.is_absolute() {
            return Ok(path);
        }
        bail_hinted!("`{}.{key}` must be an absolute path", table.at(); "nothing is looked for in PATH or beside the gate")
    };
    let program = table.required("program", table.string("program")?, "\"/usr/local/bin/pay\"")?;
    let env = match table.table("env")? {
        None => Vec::new(),
        Some(env) => variables(&env, relative_to)?,
    };
    let cwd = table.string("cwd")?.unwrap_or_else(|| "/".to_owned());
    Ok(CommandSettings {
        program: absolute("program", program)?,
        args: table.strings("args")?,
        env,
        cwd: absolute("cwd", cwd)?,
        output_bytes_max: table.number("output_max", 0, BYTES_MAX)?.unwrap_or(16 << 10),
        concurrency: table.number("concurrency", 1, CONCURRENCY_MAX)?.unwrap_or(4),
        refused_exits: exits(table, "refused_exits")?,
        absent_exits: exits(table, "absent_exits")?,
    })
}

fn exits(table: &Table<'_>, key: &str) -> Result<Vec<i64>> {
    let exits = table.numbers(key, 1, 255)?;
    if exits.contains(&i64::from(crate::adapters::command::TEMPORARY)) {
        bail_hinted!("`{}.{key}` cannot have 75", table.at(); "75 always means: not now, and nothing was done");
    }
    Ok(exits)
}

/// The variables of a program's environment: values, or where they are kept.
pub fn variables(env: &Table<'_>, relative_to: &Path) -> Result<Vec<(String, Source)>> {
    env.members().map(|member| variable(env, member, relative_to)).collect()
}

fn variable(env: &Table<'_>, (name, value): (&str, &Value), relative_to: &Path) -> Result<(String, Source)> {
    if name == crate::adapters::command::KEY || name.is_empty() || name.contains(['=', '\0']) {
        bail_hinted!("`{}.{name}` cannot be set", env.at(); "the gate sets the idempotency key itself");
    }
    Ok((name.to_owned(), source(env, (name, value), relative_to)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn adapters(text: &str) -> BTreeMap<String, AdapterSettings> {
        Config::parse(text, Path::new("/etc/gate")).expect("is right").adapters
    }

    fn refused(text: &str) -> String {
        crate::terminal::Report::of_error(&Config::parse(text, Path::new("")).expect_err("must be refused")).to_string()
    }

    #[test]
    fn every_key_of_an_http_adapter_is_read() {
        let text = r#"
            [adapters.payments]
            kind = "http"
            base = "https://payments.example/v1"
            allow_private = ["127.0.0.0/8", "fd00::/8"]
            headers = { Authorization = { env = "PAYMENTS_TOKEN" }, X-Key = { file = "key" }, X-Version = "2" }
            response_max = 1000
            connect_timeout = "250ms"
            concurrency = 3
            breaker = { failures = 2, open_for = "10s" }
            ca = "ca.pem"
        "#;
        let AdapterSettings::Http(http) = &adapters(text)["payments"] else { panic!("is http") };
        assert!(http.base.is_tls);
        assert_eq!(http.allow_private.len(), 2);
        assert_eq!(http.headers[0].1, Source::Env("PAYMENTS_TOKEN".into()));
        assert_eq!(http.headers[1].1, Source::File("/etc/gate/key".into()));
        assert_eq!((http.response_bytes_max, http.concurrency), (1000, 3));
        assert_eq!(http.connect_timeout, Duration::from_millis(250));
        assert_eq!(http.breaker, BreakerSettings { failures: 2, open_for: Duration::from_secs(10) });
        assert_eq!(http.ca.as_deref(), Some(Path::new("/etc/gate/ca.pem")));
    }

    #[test]
    fn every_key_of_a_command_adapter_is_read() {
        let text = r#"
            [adapters.mail]
            kind = "command"
            program = "/usr/bin/mail"
            args = ["--", "x"]
            env = { TOKEN = { env = "MAIL_TOKEN" } }
            cwd = "/tmp"
            output_max = 10
            concurrency = 1
            refused_exits = [2, 65]
            absent_exits = [1]
        "#;
        let AdapterSettings::Command(command) = &adapters(text)["mail"] else { panic!("is a command") };
        assert_eq!(command.program, Path::new("/usr/bin/mail"));
        assert_eq!(command.args, ["--", "x"]);
        assert_eq!(command.env, [("TOKEN".to_owned(), Source::Env("MAIL_TOKEN".into()))]);
        assert_eq!(command.cwd, Path::new("/tmp"));
        assert_eq!((command.output_bytes_max, command.concurrency), (10, 1));
        assert_eq!((command.refused_exits.as_slice(), command.absent_exits.as_slice()), (&[2, 65][..], &[1][..]));
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_is_refused_with_a_hint() {
        let http = "[adapters.p]\nkind = \"http\"\nbase = \"https://p.example\"\n";
        for (text, part) in [
            ("adapters = 1", "must be a table"),
            ("[adapters.p]\nbase = \"x\"", "needs `kind`"),
            ("[adapters.p]\nkind = \"ftp\"", "the kinds are"),
            ("[adapters.\"a b\"]\nkind = \"http\"", "cannot name an adapter"),
            ("[adapters.p]\nkind = \"http\"", "needs `base`"),
            ("[adapters.p]\nkind = \"http\"\nbase = \"http://p.example\"", "is not encrypted"),
            ("[adapters.p]\nkind = \"http\"\nbase = \"https://u:secret@p.example\"", "a user or password"),
            (&format!("{http}concurency = 1"), "did you mean `concurrency`?"),
            (&format!("{http}allow_private = [\"10.0.0.0/33\"]"), "10.0.0.0/33"),
            (&format!("{http}connect_timeout = 5"), "a number and a unit"),
            (&format!("{http}headers = {{ Host = \"x\" }}"), "set by the gate itself"),
            (&format!("{http}headers = {{ A = {{ env = \"A\", file = \"b\" }} }}"), "where it is kept"),
            (&format!("{http}breaker = {{ failures = 0 }}"), "whole number from 1"),
            ("[adapters.c]\nkind = \"command\"\nprogram = \"pay\"", "absolute path"),
            ("[adapters.c]\nkind = \"command\"\nprogram = \"/pay\"\nrefused_exits = [75]", "75 always means"),
            ("[adapters.c]\nkind = \"command\"\nprogram = \"/pay\"\nshell = true", "the keys are"),
        ] {
            let said = refused(text);
            assert!(said.contains(part) && said.contains("\nhint: "), "{text}: {said}");
        }
    }

    #[test]
    fn a_secret_in_the_settings_is_not_printed() {
        let text = "[adapters.p]\nkind = \"http\"\nbase = \"https://p.example\"\nheaders = { A = \"hunter2-hunter2\" }";
        let printed = format!("{:?}", adapters(text));
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
