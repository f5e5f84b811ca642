//! `[adapters.NAME]` of kind `postgres`: a database with facts of the user's own.

use super::source;
use crate::adapters::postgres::settings::{LOCK_TIMEOUT_MS, POOL, SCHEMA, STATEMENT_TIMEOUT_MS};
use crate::adapters::secret::Source;
use crate::config::table::Table;
use crate::hinted::bail_hinted;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most connections: servers usually allow a hundred in all.
const POOL_MAX: i64 = 256;
/// No statement is waited for longer than this.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Where a database is, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Where, and as whom; often with a password.
    pub url: Source,
    /// Whether TLS is used; `None` for only where it leaves this machine.
    pub tls: Option<bool>,
    /// The authorities to trust.
    pub ca: Option<PathBuf>,
    /// Most connections at a time.
    pub pool: usize,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// How long a statement may wait for a lock.
    pub lock_timeout: Duration,
    /// The schema of the receipts; a plain lower-case name.
    pub schema: String,
}

/// Reads the table of one adapter; relative paths start at `base`.
pub fn parse(table: &Table<'_>, base: &Path) -> Result<PostgresSettings> {
    table.only(&["kind", "url", "tls", "ca", "pool", "statement_timeout", "lock_timeout", "schema"])?;
    let url = table.required("url", table.get("url"), "{ env = \"BANK_URL\" }")?;
    let tls = match table.string("tls")?.as_deref() {
        None => None,
        Some("on") => Some(true),
        Some("off") => Some(false),
        Some(_) => {
            bail_hinted!("`{}.tls` must be \"on\" or \"off\"", table.at(); "without it, only this machine is spoken to in clear")
        }
    };
    let time =
        |key, usual| Ok::<_, anyhow::Error>(table.duration(key, TIMEOUT_MAX)?.unwrap_or(Duration::from_millis(usual)));
    let schema = table.string("schema")?.unwrap_or_else(|| SCHEMA.to_owned());
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if schema.len() > 63 || !schema.chars().all(plain) || !schema.starts_with(|c: char| c.is_ascii_lowercase()) {
        bail_hinted!("`{}.schema` must be lower-case letters, digits and _", table.at(); "write `schema = \"{SCHEMA}\"`");
    }
    Ok(PostgresSettings {
        url: source(table, ("url", url), base)?,
        tls,
        ca: table.string("ca")?.map(|path| base.join(path)),
        pool: table.number("pool", 1, POOL_MAX)?.unwrap_or(POOL),
        // Zero would mean no limit to the server.
        statement_timeout: time("statement_timeout", STATEMENT_TIMEOUT_MS)?.max(Duration::from_millis(1)),
        lock_timeout: time("lock_timeout", LOCK_TIMEOUT_MS)?.max(Duration::from_millis(1)),
        schema,
    })
}
