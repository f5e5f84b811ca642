//! One connection to the database, driven by the thread that uses it.
//!
//! Each session has a runtime of its own that runs on the caller's thread: no other thread stands between a statement and its
//! answer. While no one uses a session nothing moves in it; if its server went away meanwhile, the next statement says so.

use super::failure::Failure;
use super::settings::Settings;
use countersign_core::call::{Found, FoundCode};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement};

/// Most prepared statements that a session keeps; a gate with more forgets all of them and begins again.
const PREPARED_MAX: usize = 512;

/// How long a transaction may wait for us between two statements. We answer in microseconds; a gate that hangs must not keep
/// rows locked.
const IDLE_MS_MAX: u64 = 10_000;

/// What is said when the time is up.
pub fn too_late() -> Found {
    FoundCode::NoAnswer.because(FoundCode::NoTime.alone())
}

/// What moves a connection. It ends without waiting, since an adapter may be dropped where no one may wait.
struct Driver(Option<Runtime>);

impl Driver {
    fn new() -> std::io::Result<Self> {
        Ok(Self(Some(Builder::new_current_thread().enable_all().build()?)))
    }

    fn within<T>(&self, deadline: Instant, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let runtime =
            self.0.as_ref().ok_or_else(|| Failure::Lost(Found::not_sent(FoundCode::ConnectionEnded.alone())))?;
        // Pinned here, since a transaction's future is large and would be copied at every hand that it goes through.
        let work = pin!(work);
        runtime.block_on(async {
            let ended = tokio::time::timeout_at(deadline.into(), work).await;
            ended.unwrap_or_else(|_| Err(Failure::Lost(too_late())))
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection.
pub struct Session {
    driver: Driver,
    link: Link,
    /// Whether it has been used before: then a broken connection, or a statement that no longer fits, is no surprise.
    pub used: bool,
}

/// What statements are sent through, with those that are prepared.
pub struct Link {
    /// Sends statements.
    pub client: Client,
    prepared: HashMap<String, Statement>,
}

impl Link {
    /// Prepares a statement, once a session.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        if self.prepared.len() >= PREPARED_MAX {
            self.prepared.clear();
        }
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Session {
    /// Connects, and sets what holds for the session.
    pub fn open(settings: &Settings, deadline: Instant) -> Result<Self, Failure> {
        let driver =
            Driver::new().map_err(|error| Failure::Lost(FoundCode::Unreachable.about("PostgreSQL").and_said(error)))?;
        let client = driver.within(deadline, async {
            let client = match &settings.tls {
                Some(tls) => {
                    let (client, connection) = settings.config.connect(tls.clone()).await?;
                    // The client sees every error of its connection at its next statement.
                    tokio::spawn(connection);
                    client
                }
                None => {
                    let (client, connection) = settings.config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    client
                }
            };
            // Strings must mean what the check of the pact took them to mean, and what is committed must be on disk, whatever the
            // server's own settings.
            let set = format!(
                "set standard_conforming_strings = on; set statement_timeout = {}; set lock_timeout = {}; \
                 set idle_in_transaction_session_timeout = {IDLE_MS_MAX}; \
                 select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'",
                settings.statement_timeout_ms, settings.lock_timeout_ms
            );
            client.batch_execute(&set).await?;
            Ok(client)
        });
        let client = client.map_err(|failure| match failure {
            // Nothing was asked for yet, so whatever it is may pass: a server that starts, a password that is being changed.
            Failure::Refused(said) => Failure::Busy(said),
            other => other,
        })?;
        Ok(Self { driver, link: Link { client, prepared: HashMap::new() }, used: false })
    }

    /// Runs statements to their answers. Everything between two of them is done in one go with them: entering and leaving what
    /// moves the connection costs more than the thinking in between.
    pub fn run<T>(
        &mut self,
        deadline: Instant,
        work: impl AsyncFnOnce(&mut Link) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.driver.within(deadline, work(&mut self.link))
    }
}
