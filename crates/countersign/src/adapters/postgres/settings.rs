//! What a connection to the database needs: the settings, with the secret read and the certificates loaded. A URL can hold a
//! password, so it is never shown, not even in an error.

use super::tls::Tls;
use crate::adapters::secret::Environment;
use crate::config::adapters::PostgresSettings;
use crate::hinted::{OrHinted, hinted};
use anyhow::Result;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Connections unless told otherwise. Each is a process of the server, and most hold a row lock only for moments.
pub const POOL: usize = 8;
/// How long one statement may take, and how long it may wait for a lock, unless told otherwise.
pub const STATEMENT_TIMEOUT_MS: u64 = 5_000;
/// How long one statement may wait for a lock, unless told otherwise.
pub const LOCK_TIMEOUT_MS: u64 = 2_000;
/// The schema of the receipts unless told otherwise.
pub const SCHEMA: &str = "countersign";

/// Settings that a connection can be made with.
#[derive(Clone)]
pub struct Settings {
    /// Where and as whom to connect.
    pub config: Config,
    /// With TLS, whom to trust.
    pub tls: Option<Tls>,
    /// Most connections at a time.
    pub pool: usize,
    /// How long one statement may take.
    pub statement_timeout_ms: u64,
    /// How long a statement may wait for a lock.
    pub lock_timeout_ms: u64,
    /// The schema of the receipts; a plain lower-case name.
    pub schema: String,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("pool", &self.pool).field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Settings {
    /// Settings with everything but the connection as usual.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            tls: None,
            pool: POOL,
            statement_timeout_ms: STATEMENT_TIMEOUT_MS,
            lock_timeout_ms: LOCK_TIMEOUT_MS,
            schema: SCHEMA.to_owned(),
        }
    }

    /// Reads the URL from where it is kept, and the certificates.
    pub fn open(name: &str, given: &PostgresSettings, environment: Environment<'_>) -> Result<Self> {
        let url = given.url.read(&format!("adapters.{name}.url"), environment)?;
        // The text that was refused is not quoted: it can hold a password.
        let mut config = Config::from_str(url.reveal()).map_err(|_| {
            hinted!(
                "`adapters.{name}.url` is not the URL of a PostgreSQL database";
                "write `postgres://user@host/database`"
            )
        })?;
        // Without a word about it, only what stays on this machine goes in clear.
        let asked = config.get_ssl_mode() == SslMode::Require || !config.get_hosts().iter().all(is_local);
        let tls = if given.tls.unwrap_or(asked) { Some(trusted(name, given)?) } else { None };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            config,
            tls,
            pool: given.pool,
            statement_timeout_ms: ms(given.statement_timeout),
            lock_timeout_ms: ms(given.lock_timeout),
            schema: given.schema.clone(),
        })
    }
}

fn trusted(name: &str, given: &PostgresSettings) -> Result<Tls> {
    let ca = given.ca.as_deref().or_hinted(|| {
        hinted!(
            "with TLS, `adapters.{name}.ca` must name the file of the authorities to trust";
            "systems keep the public ones in a file such as /etc/ssl/certs/ca-certificates.crt; `tls = \"off\"` sends \
             everything in clear"
        )
    })?;
    Tls::trusting(ca).map_err(|error| {
        anyhow::Error::from(
            hinted!("`adapters.{name}.ca`: {error}"; "it must be a PEM file with the certificates of authorities"),
        )
    })
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
    }
}
