//! Clients that call the function as fast as they can for a while, and what came of it.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Statement};

use super::{PostgresError, connect};
use crate::floor::Lcg;
use countersign_testing::postgres::Server;

/// The share of each run that is not counted: plans and caches are still being filled.
const WARM_UP: f64 = 0.1;

/// How long a client waits before it tries again: a random time under this for the first conflict of an action, and twice as
/// much for each further one, up to so many doublings. Without it the losers of each race retry at once and keep the winner
/// from the processor, which makes the server look two to three times slower than it is.
const BACK_OFF_US: u64 = 500;
const BACK_OFF_DOUBLINGS: u32 = 7;

/// The fact that the hot workload fights for.
const HOT_FACT: u64 = 0;

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Facts at random.
    Plain,
    /// Facts at random, and a ledger whose every entry holds the hash of those before it.
    Chained,
    /// One fact.
    Hot,
}

impl Kind {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain ledger",
            Self::Chained => "hash-chained ledger",
            Self::Hot => "one hot fact",
        }
    }

    fn call(self) -> &'static str {
        match self {
            Self::Plain | Self::Hot => "SELECT act($1, $2, $3, $4)",
            Self::Chained => "SELECT act_chained($1, $2, $3, $4)",
        }
    }
}

/// What is the same for all clients of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Bytes of one ledger record.
    pub record_len: usize,
    /// Facts in the table.
    pub facts: u64,
    /// How long the run takes.
    pub seconds: f64,
    /// The number of the run; it keeps the idempotency keys of different runs apart.
    pub number: u32,
}

/// What one run managed.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// How many clients there were.
    pub clients: usize,
    /// Committed actions a second.
    pub per_s: f64,
    /// Committed actions that were counted.
    pub committed: u64,
    /// Attempts that the server gave up, each of which was tried again.
    pub aborted: u64,
}

impl Run {
    /// The share of all attempts that were given up.
    pub fn abort_share(&self) -> f64 {
        let attempts = self.committed + self.aborted;
        if attempts == 0 { 0.0 } else { self.aborted as f64 / attempts as f64 }
    }
}

/// One client's part.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    committed: u64,
    aborted: u64,
}

/// Runs so many clients side by side. They connect and prepare first; the time starts when all are ready.
pub async fn run(server: &Server, kind: Kind, clients: usize, plan: &Plan) -> Result<Run, PostgresError> {
    let mut ready = Vec::with_capacity(clients);
    for _ in 0..clients {
        let client = connect(server).await?;
        let statement = client.prepare(kind.call()).await?;
        ready.push((client, statement));
    }
    let counted_from = Instant::now() + Duration::from_secs_f64(plan.seconds * WARM_UP);
    let end = counted_from + Duration::from_secs_f64(plan.seconds * (1.0 - WARM_UP));
    let mut tasks = tokio::task::JoinSet::new();
    for (number, (client, statement)) in (0_u32..).zip(ready) {
        let actions = Actions::new(kind, plan, number);
        tasks.spawn(act_until(client, statement, actions, counted_from, end));
    }
    let mut total = Counts::default();
    while let Some(ended) = tasks.join_next().await {
        let counts = ended.map_err(|error| PostgresError::Workload(error.to_string()))??;
        total.committed += counts.committed;
        total.aborted += counts.aborted;
    }
    let per_s = total.committed as f64 / (end - counted_from).as_secs_f64();
    Ok(Run { clients, per_s, committed: total.committed, aborted: total.aborted })
}

async fn act_until(
    client: Client,
    statement: Statement,
    mut actions: Actions,
    counted_from: Instant,
    end: Instant,
) -> Result<Counts, PostgresError> {
    let mut counts = Counts::default();
    while Instant::now() < end {
        let action = actions.next();
        let mut conflicts = 0_u32;
        loop {
            let attempt = client
                .query_one(&statement, &[&action.fact, &action.amount, &action.key.as_slice(), &actions.record])
                .await;
            let now = Instant::now();
            let counted = now >= counted_from && now < end;
            match attempt {
                Ok(row) => {
                    let verdict: &str = row.get(0);
                    if verdict != "committed" {
                        return Err(PostgresError::Workload(format!("an action on {} was {verdict}", action.fact)));
                    }
                    counts.committed += u64::from(counted);
                    break;
                }
                Err(error) if asks_for_a_retry(&error) => {
                    counts.aborted += u64::from(counted);
                    if now >= end {
                        break;
                    }
                    tokio::time::sleep(actions.back_off(conflicts)).await;
                    conflicts += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(counts)
}

/// Serialisation failures and deadlocks are how the server says that the same transaction may succeed if tried again.
pub fn asks_for_a_retry(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::T_R_SERIALIZATION_FAILURE) || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// One call's arguments.
struct Action {
    fact: String,
    amount: i64,
    key: [u8; 16],
}

/// A client's own sequence of actions.
struct Actions {
    random: Lcg,
    facts: Option<u64>,
    run: u32,
    client: u32,
    made: u32,
    record: Vec<u8>,
}

impl Actions {
    fn new(kind: Kind, plan: &Plan, client: u32) -> Self {
        let mut random = Lcg::new((u64::from(plan.number) << 32) + u64::from(client) + 1);
        let record = random.bytes(plan.record_len);
        let facts = (kind != Kind::Hot).then_some(plan.facts.max(1));
        Self { random, facts, run: plan.number, client, made: 0, record }
    }

    /// The key begins with bits that look random, as real keys are, and ends with numbers that make it unique.
    fn next(&mut self) -> Action {
        self.made += 1;
        let fact = self.facts.map_or(HOT_FACT, |facts| self.random.below(facts));
        let random = (self.random.next() << 32) | self.random.next();
        let unique = (u64::from(self.run << 16 | self.client) << 32) | u64::from(self.made);
        let key = ((u128::from(random) << 64) | u128::from(unique)).to_be_bytes();
        Action { fact: format!("Account::\"{fact}\""), amount: 1 + self.random.below(100) as i64, key }
    }

    fn back_off(&mut self, conflicts: u32) -> Duration {
        let most = BACK_OFF_US << conflicts.min(BACK_OFF_DOUBLINGS);
        Duration::from_micros(self.random.below(most))
    }
}
