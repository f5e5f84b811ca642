//! Facts in the user's own PostgreSQL, beside a client written by hand that issues the same statements.
//!
//! Both lock the row, check it, change it and leave a row of evidence, one transaction each, equally durable, with the same driver,
//! the same number of clients and the same server. They take turns in short rounds, so that what disturbs one disturbs all.
//! The adapter is measured alone, and below a gate that enters intent, dispatch and settlement into its ledger.

use anyhow::{Context as _, Result, bail};
use countersign::measured::DataFolder;
use countersign::measured::postgres::{Postgres, Settings, Wanted, set_up};
use countersign_core::call::{Call, EffectId, ExternalHow, ExternalRead, Send, Statement};
use countersign_core::ids::FactId;
use countersign_core::pact::FactSchema;
use countersign_core::reason::Reason;
use countersign_core::value::{FieldType, Value, ValueType};
use countersign_engine::outbox::{Adapter as _, Attempt, FactAsRead, Job, Judge};
use countersign_testing::paying::Bank;
use countersign_testing::postgres::Server;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config, NoTls};

/// Accounts in the table: enough that clients seldom wait for each other.
const ACCOUNTS: u64 = 10_000;
/// Clients on either side.
const CLIENTS: usize = 16;
/// Rounds on either side. One differs from the next by a quarter on a shared host, so a few would tell little.
const ROUNDS: usize = 9;
/// How long a round takes in a measurement: long beside the last calls of a round, which end with fewer and fewer at their side.
pub const ROUND: Duration = Duration::from_secs(2);

const QUERY: &str = "select status, balance from accounts where id = $1";
const UPDATE: &str = "update accounts set balance = balance - $2 where id = $1";

/// What either side managed in each round.
#[derive(Debug, Default)]
pub struct Rates {
    /// The hand-written client.
    pub direct_per_s: Vec<f64>,
    /// The adapter alone.
    pub adapter_per_s: Vec<f64>,
    /// The whole gate.
    pub fact_per_s: Vec<f64>,
}

/// Starts a private server with its data under `dir` and measures, in rounds of this length.
pub fn outside(dir: &Path, time: Duration) -> Result<Rates> {
    let server = Server::start(dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tables = format!(
        "create table accounts (id text primary key, status text not null, balance bigint not null);
         create table audit (key text primary key, number bigserial, account text not null, seen jsonb not null);
         insert into accounts select n::text, 'active', 1000000000 from generate_series(0, {}) n",
        ACCOUNTS - 1
    );
    runtime.block_on(async {
        connect(&server.config()).await?.batch_execute(&tables).await.context("the tables cannot be made")
    })?;
    let settings = Settings { pool: CLIENTS, ..Settings::new(server.config()) };
    set_up(&settings, None, &Wanted::default())?;
    let adapter = Postgres::new(settings.clone(), "bench");
    let data = DataFolder::create(&dir.join("bank"), "bench.example/bank")?;
    let (gate, _) = data.open(data.options())?;
    let bank = Bank::create(gate, Postgres::new(settings, "bench.example/bank"))?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Direct::connect(&server.config())?);
    }
    let made = AtomicU64::new(0);
    // A round of each that is not counted fills caches, and opens the adapter's connections.
    let mut rates = Rates::default();
    for round in 0..=ROUNDS {
        let direct = round_of(time, &mut clients, |client| client.pay(made.fetch_add(1, Ordering::Relaxed)))?;
        let fact = round_of(time, &mut [(); CLIENTS], |()| pay(&adapter, made.fetch_add(1, Ordering::Relaxed)))?;
        let gate = bank.round(time, || made.fetch_add(1, Ordering::Relaxed), account)?;
        if round > 0 {
            rates.fact_per_s.push(gate);
            rates.direct_per_s.push(direct);
            rates.adapter_per_s.push(fact);
        }
    }
    drop(adapter);
    bank.close()?;
    runtime.block_on(checked(&server.config(), made.into_inner()))?;
    Ok(rates)
}

/// Every payment left one row of evidence and changed one account, on either side.
async fn checked(config: &Config, made: u64) -> Result<()> {
    let sql = "select (select count(*) from audit) + (select count(*) from countersign.receipts where not void),
                      (select sum(1000000000 - balance)::bigint from accounts)";
    let row = connect(config).await?.query_one(sql, &[]).await?;
    let (evidence, paid): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if [evidence, paid].iter().any(|count| u64::try_from(*count) != Ok(made)) {
        bail!("{made} payments left {evidence} rows of evidence and changed balances by {paid}");
    }
    Ok(())
}

/// All clients side by side for one round: what they managed a second.
fn round_of<C: std::marker::Send>(
    time: Duration,
    clients: &mut [C],
    work: impl Fn(&mut C) -> Result<()> + std::marker::Send + Sync,
) -> Result<f64> {
    let begun = Instant::now();
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let work = &work;
                scope.spawn(move || -> Result<u32> {
                    let mut count = 0;
                    while begun.elapsed() < time {
                        work(client)?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a client panicked")));
        ended.collect::<Result<Vec<u32>>>()
    })?;
    Ok(f64::from(counts.iter().sum::<u32>()) / begun.elapsed().as_secs_f64())
}

/// Spread over the accounts without a pattern that one side could profit from.
fn account(number: u64) -> String {
    (number.wrapping_mul(7919) % ACCOUNTS).to_string()
}

async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await.context("no connection to the private server")?;
    // The client sees every error of its connection at its next statement.
    tokio::spawn(connection);
    Ok(client)
}

/// The client written by hand: it knows its statements, prepares them once, and asks one after the other.
struct Direct {
    runtime: tokio::runtime::Runtime,
    client: Client,
    statements: [tokio_postgres::Statement; 3],
}

impl Direct {
    fn connect(config: &Config) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, statements) = runtime.block_on(async {
            let client = connect(config).await?;
            let statements = [
                client.prepare(&format!("{QUERY} for update")).await?,
                client.prepare(UPDATE).await?,
                client
                    .prepare("insert into audit (key, account, seen) values ($1, $2, $3::text::jsonb) returning number")
                    .await?,
            ];
            anyhow::Ok((client, statements))
        })?;
        Ok(Self { runtime, client, statements })
    }

    fn pay(&mut self, number: u64) -> Result<()> {
        let (client, [lock, update, audit]) = (&self.client, &self.statements);
        let (account, key) = (account(number), format!("direct-{number:032}"));
        self.runtime.block_on(async {
            client.batch_execute("begin isolation level read committed").await?;
            let row = client.query_one(lock, &[&account]).await?;
            let (status, balance): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            if status != "active" || balance < 1 {
                client.batch_execute("rollback").await?;
                bail!("account {account} cannot pay");
            }
            if client.execute(update, &[&account, &1_i64]).await? != 1 {
                bail!("account {account} is not there");
            }
            let seen = serde_json::json!({ "status": status, "balance": balance }).to_string();
            client.query_one(audit, &[&key, &account, &seen]).await?;
            Ok(client.batch_execute("commit").await?)
        })
    }
}

/// The same through the adapter.
fn pay(adapter: &Postgres, number: u64) -> Result<()> {
    let account = account(number);
    let fact: FactId = format!("Account::\"{account}\"").parse().context("is a fact")?;
    let call = Call {
        adapter: "bank".into(),
        send: None,
        timeout_ms: 30_000,
        retries: 0,
        deadline_ms: u64::MAX,
        probe: None,
        undo: None,
        outside: vec![ExternalRead { fact, adapter: "bank".into(), how: ExternalHow::Query(QUERY.into()) }],
    };
    let key = format!("adapter-{number:032}");
    let job = Job { effect: EffectId(number), call: &call, key: &key, attempt: 1, judge: &Payable };
    match adapter.attempt(&job) {
        Attempt::Done(_) => Ok(()),
        other => bail!("account {account} was not paid from: {other:?}"),
    }
}

/// The same check as the hand-written client's.
struct Payable;

impl Judge for Payable {
    fn stopped(&self) -> Option<Reason> {
        None
    }

    fn schema(&self, _: &FactId) -> FactSchema {
        let types = [("status", ValueType::String), ("balance", ValueType::Long)];
        types.into_iter().map(|(name, ty)| (name.into(), FieldType { ty, required: true })).collect()
    }

    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        let value = read.first().and_then(|outside| Some((outside.fact.id(), outside.value.as_ref()?)));
        match value {
            Some((account, value))
                if value.get("status") == Some(&Value::String("active".into()))
                    && value.get("balance") >= Some(&Value::Long(1)) =>
            {
                let params = vec![Value::String(account.into()), Value::Long(1)];
                Ok(Send::Sql { statements: vec![Statement { sql: UPDATE.into(), params }] })
            }
            // The account cannot pay, which is a fault of the bench.
            _ => Err(Reason::PreconditionFailed { failed: Vec::new() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures mean nothing here; that every payment of every side is there once does, and `outside` asks for that itself.
    #[test]
    fn every_payment_of_the_comparison_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let rates = outside(folder.path(), Duration::from_millis(150)).unwrap();
        for side in [&rates.direct_per_s, &rates.adapter_per_s, &rates.fact_per_s] {
            assert!(side.len() == ROUNDS && side.iter().all(|rate| *rate > 0.0), "{rates:?}");
        }
        println!("{rates:?}");
    }
}
