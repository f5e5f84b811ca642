//! The comparison with a serialisable database: the same check, update, idempotency key and ledger insert on PostgreSQL.
//!
//! One action is one transaction and one round trip: a prepared call of a plpgsql function under SERIALIZABLE, retried when
//! the server asks for it. The server is private (see [`countersign_testing::postgres`]) and durable; every setting is part of the result, so
//! that a reader can judge whether the comparison is fair. Each figure is the best of several numbers of clients.

mod workload;

use std::path::{Path, PathBuf};

use tokio_postgres::{Client, NoTls};

use countersign_testing::postgres::{SETTINGS, Server, ServerError};
pub use workload::Run;
use workload::{Kind, Plan};

const SCHEMA: &str = include_str!("postgres/schema.sql");
const FACTS: &str = include_str!("postgres/facts.sql");

/// How the comparison is run.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Bytes of one ledger record, the same as the gate's.
    pub record_len: usize,
    /// Facts in the table.
    pub facts: u64,
    /// How long each kind of workload runs with each number of clients.
    pub seconds: f64,
    /// The numbers of clients to try.
    pub clients: Vec<usize>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { record_len: 400, facts: 100_000, seconds: 2.2, clients: vec![1, 16, 64] }
    }
}

/// What PostgreSQL managed.
#[derive(Debug, Clone)]
pub struct PostgresResult {
    /// The server's own words about its version.
    pub version: String,
    /// Where its data was. This is under the folder of the bench, and so on the disk that is measured, unless the account
    /// that the server runs under could not get there.
    pub data: PathBuf,
    /// The settings in force, as the server reports them.
    pub settings: Vec<(String, String)>,
    /// Actions on facts chosen at random: `postgres_per_s`.
    pub plain: Best,
    /// The same with a hash-chained ledger head: `postgres_chained_per_s`.
    pub chained: Best,
    /// All on one fact: `postgres_hot_per_s`.
    pub hot: Best,
}

/// The runs of one workload, and which was best.
#[derive(Debug, Clone)]
pub struct Best {
    /// The fastest run.
    pub best: Run,
    /// Every run, in the order of [`PostgresOptions::clients`].
    pub runs: Vec<Run>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// There is no server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server refused a statement, or the connection broke.
    #[error("PostgreSQL refused the workload: {source}\nhint: --no-postgres leaves this comparison out")]
    Client {
        /// The driver's error, which names the server's own code.
        #[from]
        source: tokio_postgres::Error,
    },
    /// The workload did something else than it was made for, so its figures would mean nothing.
    #[error("the workload on PostgreSQL went wrong: {0}\nhint: this is a fault of the bench; please report it")]
    Workload(String),
}

/// Starts a private server with its data under `dir`, measures, and stops it. `progress` hears what is being done.
pub fn postgres(
    dir: &Path,
    options: &PostgresOptions,
    progress: &dyn Fn(&str),
) -> Result<PostgresResult, PostgresError> {
    progress("PostgreSQL: starting a private server");
    let server = Server::start(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| ServerError::io("threads for the clients cannot be started", source))?;
    let result = runtime.block_on(measure(&server, options, progress));
    // Connections end before the server does, so that its shutdown does not have to break them off.
    drop(runtime);
    drop(server);
    result
}

async fn measure(
    server: &Server,
    options: &PostgresOptions,
    progress: &dyn Fn(&str),
) -> Result<PostgresResult, PostgresError> {
    let admin = connect(server).await?;
    progress("PostgreSQL: loading the facts");
    load(&admin, options.facts).await?;
    let version = admin.query_one("SHOW server_version", &[]).await?.get(0);
    let settings = settings(&admin).await?;
    let mut plan = Plan { record_len: options.record_len, facts: options.facts, seconds: options.seconds, number: 0 };
    let mut measured = Vec::new();
    for kind in [Kind::Plain, Kind::Chained, Kind::Hot] {
        let mut runs = Vec::new();
        for clients in &options.clients {
            progress(&format!("PostgreSQL: {} with {clients} clients", kind.name()));
            plan.number += 1;
            runs.push(workload::run(server, kind, *clients, &plan).await?);
        }
        let best = runs.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s)).cloned();
        let best = best.ok_or_else(|| PostgresError::Workload("no number of clients was given".to_owned()))?;
        measured.push(Best { best, runs });
    }
    let [plain, chained, hot] = <[Best; 3]>::try_from(measured)
        .map_err(|_| PostgresError::Workload("not every kind was measured".to_owned()))?;
    Ok(PostgresResult { version, data: server.data().to_path_buf(), settings, plain, chained, hot })
}

/// A connection, with the task that drives it.
async fn connect(server: &Server) -> Result<Client, PostgresError> {
    let (client, connection) = server.config().connect(NoTls).await?;
    // The client sees every error of its connection at its next statement, so the task's own result says nothing new.
    tokio::spawn(connection);
    Ok(client)
}

/// Makes the tables and fills them, then writes everything back, so that no measurement pays for the loading.
async fn load(admin: &Client, facts: u64) -> Result<(), PostgresError> {
    let count = i64::try_from(facts).map_err(|_| PostgresError::Workload(format!("{facts} facts are too many")))?;
    admin.batch_execute(SCHEMA).await?;
    admin.execute(FACTS, &[&count]).await?;
    admin.batch_execute("VACUUM ANALYZE facts").await?;
    admin.batch_execute("CHECKPOINT").await?;
    Ok(())
}

/// The settings that we chose, and how the log is synced, read back from the server.
async fn settings(admin: &Client) -> Result<Vec<(String, String)>, PostgresError> {
    let mut found = Vec::new();
    for name in SETTINGS.iter().map(|(name, _)| *name).chain(["wal_sync_method", "autovacuum", "commit_delay"]) {
        let value = admin.query_one(&format!("SHOW {name}"), &[]).await?.get(0);
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
