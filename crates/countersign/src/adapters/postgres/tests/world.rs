//! A bank in a private server, a pact's call on it, and a judge that asks what the pact would.

use crate::adapters::postgres::Postgres;
use crate::adapters::postgres::settings::Settings;
use crate::adapters::postgres::setup::{self, Wanted};
use countersign_core::call::{Call, EffectId, ExternalHow, ExternalRead, Send, Statement};
use countersign_core::halt::Scope;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::FactSchema;
use countersign_core::reason::{Reason, Since};
use countersign_core::value::{FieldType, Value, ValueType};
use countersign_engine::outbox::{Adapter as _, Attempt, FactAsRead, Job, Judge};
use countersign_testing::postgres::Server;
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::{Config, NoTls, Row};

pub const QUERY: &str = "select status, balance from accounts where id = $1";

const TABLES: &str = "
    create table accounts (id text primary key, status text not null, balance bigint not null);
    create table payouts (id text primary key, account text not null, amount bigint not null);
    create table seen (payout text, status text, balance bigint);
    create function see() returns trigger language plpgsql as $$
        begin insert into seen select new.id, status, balance from accounts where id = new.account; return new; end $$;
    create trigger see after insert on payouts for each row execute function see();
    insert into accounts select 'a' || n, 'active', 1000 from generate_series(1, 20) n;";

/// A server with the bank in it.
pub struct World {
    pub server: Server,
    _folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path()).unwrap();
        let world = Self { server, _folder: folder };
        world.sql(TABLES);
        setup::run(&world.settings(), None, &Wanted::default()).unwrap();
        world
    }

    pub fn settings(&self) -> Settings {
        self.settings_by(self.server.sockets())
    }

    /// Settings for a listener in a folder of sockets.
    pub fn settings_by(&self, sockets: &Path) -> Settings {
        let mut config = Config::new();
        config.host_path(sockets).user("countersign").dbname("postgres").application_name("adapter");
        Settings { lock_timeout_ms: 20_000, statement_timeout_ms: 20_000, ..Settings::new(config) }
    }

    pub fn adapter(&self) -> Postgres {
        Postgres::new(self.settings(), "bank.example/log")
    }

    /// Another client's statements.
    pub fn sql(&self, sql: &str) {
        self.try_sql(sql).unwrap();
    }

    pub fn try_sql(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        Other::connect(&self.server.config())?.sql(sql)
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        let other = Other::connect(&self.server.config()).unwrap();
        other.runtime.block_on(other.client.query(sql, &[])).unwrap()
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.rows(sql)[0].get(0)
    }

    /// Waits until some other client waits for a lock.
    pub fn until_somebody_waits(&self) {
        let sql = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname is not null";
        self.until(sql);
    }

    /// Waits until a count is above zero.
    pub fn until(&self, sql: &str) {
        let begun = Instant::now();
        while self.count(sql) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "never: {sql}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the database says of one payout: how often it was made, and how many receipts that count it has.
    pub fn book(&self, key: &str) -> (i64, i64) {
        let paid = self.count(&format!("select count(*) from payouts where id = '{key}'"));
        let receipts =
            self.count(&format!("select count(*) from countersign.receipts where key = '{key}' and not void"));
        (paid, receipts)
    }
}

/// Another client of the database, which knows nothing of the gate.
pub struct Other {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Other {
    pub fn connect(config: &Config) -> Result<Self, tokio_postgres::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // As most clients are: without the isolation that would make them see conflicts by themselves.
        let mut config = config.clone();
        config.options("-c default_transaction_isolation=read\\ committed");
        let (client, connection) = runtime.block_on(config.connect(NoTls))?;
        runtime.spawn(connection);
        Ok(Self { runtime, client })
    }

    pub fn sql(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(sql))
    }
}

pub fn fact(id: &str) -> FactId {
    format!("Account::\"{id}\"").parse().unwrap()
}

pub fn outside(id: &str, query: &str) -> ExternalRead {
    ExternalRead { fact: fact(id), adapter: "bank".into(), how: ExternalHow::Query(query.into()) }
}

/// The attributes of an account.
pub fn schema() -> FactSchema {
    let types = [("status", ValueType::String), ("balance", ValueType::Long)];
    types.into_iter().map(|(name, ty)| (name.into(), FieldType { ty, required: true })).collect()
}

/// A call that reads these accounts.
pub fn call(accounts: &[&str]) -> Call {
    Call {
        adapter: "bank".into(),
        send: None,
        timeout_ms: 30_000,
        retries: 0,
        deadline_ms: u64::MAX,
        probe: None,
        undo: None,
        outside: accounts.iter().map(|id| outside(id, QUERY)).collect(),
    }
}

pub fn blocked(message: &str) -> Reason {
    Reason::Halted { scope: Scope::All, since: Since { entry: 1, at: 1, by: AgentId::gate() }, why: message.into() }
}

pub fn statement(sql: &str, params: Vec<Value>) -> Statement {
    countersign_core::pact::sql::check_statement(sql).unwrap();
    Statement { sql: sql.into(), params }
}

/// Lets pay where every account read is active and the first has enough.
pub struct Bank<'a> {
    pub key: &'a str,
    pub amount: i64,
    pub statements: Option<Vec<Statement>>,
    /// What happens between reading and acting.
    pub meanwhile: &'a (dyn Fn(&[FactAsRead]) + Sync),
    pub halted: bool,
    /// What a receipt said was read, and when.
    pub recalled: RefCell<Option<(Vec<FactAsRead>, u64)>>,
}

/// Does something on a thread of its own, as everyone else does who uses the database meanwhile: the judge's thread drives the
/// transaction.
pub fn aside(work: impl FnOnce() + std::marker::Send) {
    std::thread::scope(|scope| drop(scope.spawn(work)));
}

/// When everything is judged.
pub const JUDGED_AT_MS: u64 = 1_794_700_000_123;

impl<'a> Bank<'a> {
    pub fn paying(key: &'a str, amount: i64) -> Self {
        Self { key, amount, statements: None, meanwhile: &|_| {}, halted: false, recalled: RefCell::default() }
    }

    pub fn attempt(&self, adapter: &Postgres, call: &Call, attempt: u32) -> Attempt {
        adapter.attempt(&self.job(call, attempt))
    }

    pub fn job<'j>(&'j self, call: &'j Call, attempt: u32) -> Job<'j> {
        Job { effect: EffectId(7), call, key: self.key, attempt, judge: self }
    }
}

impl Judge for Bank<'_> {
    fn stopped(&self) -> Option<Reason> {
        self.halted.then(|| blocked("halted"))
    }

    fn schema(&self, _: &FactId) -> FactSchema {
        schema()
    }

    fn judged_at_ms(&self) -> Option<u64> {
        Some(JUDGED_AT_MS)
    }

    fn recall(&self, read: &[FactAsRead], at_ms: u64) {
        *self.recalled.borrow_mut() = Some((read.to_vec(), at_ms));
    }

    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        aside(|| (self.meanwhile)(read));
        for outside in read {
            let value = outside.value.as_ref().ok_or_else(|| blocked("no such account"))?;
            if value.get("status") != Some(&Value::String("active".into())) {
                return Err(blocked("not active"));
            }
        }
        let Some(Value::Long(balance)) = read[0].value.as_ref().and_then(|value| value.get("balance")) else {
            return Err(blocked("no balance"));
        };
        if *balance < self.amount {
            return Err(blocked("not enough"));
        }
        let account = || Value::String(read[0].fact.id().into());
        let statements = self.statements.clone().unwrap_or_else(|| {
            vec![
                statement(
                    "update accounts set balance = balance - $2 where id = $1",
                    vec![account(), Value::Long(self.amount)],
                ),
                statement(
                    "insert into payouts (id, account, amount) values ($1, $2, $3)",
                    vec![Value::String(self.key.into()), account(), Value::Long(self.amount)],
                ),
            ]
        });
        Ok(Send::Sql { statements })
    }
}
