//! The work that the gate is measured with: one action type with three preconditions, on many accounts or on one.

use anyhow::{Context as _, Result, bail};
use countersign::measured::DataFolder;
use countersign_core::action::Action;
use countersign_core::identity::{Auth, KeyName, first_operator};
use countersign_core::ids::{AgentId, FactId, FactType};
use countersign_core::pact::load::load;
use countersign_core::value::{Attributes, Value};
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Request};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Three preconditions, one of them on the commit's time, and one value to set.
pub const PACT: &str = include_str!("workload.toml");

/// Requests kept on their way: one batch being made durable, one being encoded, one being decided.
const IN_FLIGHT: u64 = 3 * super::floor::BATCH as u64;

/// A gate set up for measuring.
pub struct Bench {
    pub gate: Arc<Gate>,
    /// Its data folder.
    pub data: DataFolder,
    accounts: u64,
    next: u64,
}

/// How opening again went.
#[derive(Debug, Clone, Copy)]
pub struct Reopened {
    /// How long it took.
    pub took: Duration,
    /// Entries replayed after the snapshot.
    pub replayed: u64,
}

/// The options a measured gate runs with: batches as large as the floor's.
pub fn options(data: &DataFolder) -> Options {
    Options { batch_max: super::floor::BATCH, queue_len: 4 * super::floor::BATCH, ..data.options() }
}

/// The agent that acts.
pub fn agent() -> Result<AgentId> {
    Ok(AgentId::new("bench-1")?)
}

fn operator() -> Result<AgentId> {
    Ok(AgentId::new("operator")?)
}

fn account(number: u64) -> Result<FactId> {
    Ok(FactId::new(FactType::new("Account")?, format!("{number:07}"))?)
}

fn account_value() -> Attributes {
    Attributes::from_fields(vec![
        ("status".into(), Value::String("active".into())),
        ("balance".into(), Value::Long(1 << 50)),
        ("closes_at".into(), Value::Long(1 << 52)),
        ("owner".into(), Value::String("someone in particular".into())),
    ])
}

/// The body of the `number`th action, on an account.
pub fn body(number: u64, account: u64) -> String {
    format!(
        r#"{{"pact":"bench","action":"spend","idempotency_key":"{number:032x}","params":{{"account":"{account:07}","amount":1}}}}"#
    )
}

impl Bench {
    /// Makes a gate with so many accounts.
    pub fn new(dir: &Path, accounts: u64) -> Result<Self> {
        let data = DataFolder::create(dir, "bench.example/log")?;
        let (gate, _) = data.open(options(&data))?;
        let pact = load(PACT).map_err(|problems| anyhow::anyhow!("the bench's pact does not load: {problems:?}"))?.pact;
        gate.call(Request::Publish { by: operator()?, auth: Auth::None, pact: Arc::new(pact) })?;
        let roles = Value::Set(Arc::new([Value::String("spender".into())].into_iter().collect()));
        let standing = Attributes::from_fields(vec![
            ("roles".into(), roles),
            ("standing".into(), Value::String("active".into())),
            ("org".into(), Value::String("bench".into())),
            ("trust".into(), Value::Long(1000)),
        ]);
        feed(&gate, FactId::of_agent(&agent()?), standing)?;
        let mut bench = Self { gate: Arc::new(gate), data, accounts, next: 0 };
        bench.drive(accounts, |bench, number, reply| {
            let request = Request::Feed {
                by: operator()?,
                auth: Auth::None,
                fact: account(number)?,
                value: Some(account_value()),
                if_match: None,
            };
            Ok(bench.gate.submit(request, reply)?)
        })?;
        Ok(bench)
    }

    /// Makes the gate an identified one, whose agent has this key. From then on it takes signed requests only.
    pub fn identify(&self, key: &KeyName) -> Result<()> {
        self.identify_all(&[(agent()?, key.clone())])
    }

    /// The same with several agents: one alone may not ask as often as a gate can decide.
    pub fn identify_all(&self, agents: &[(AgentId, KeyName)]) -> Result<()> {
        let text = |text: &str| Value::String(text.into());
        let set = |role: &str| Value::Set(Arc::new([text(role)].into_iter().collect()));
        for (agent, key) in agents {
            let standing = Attributes::from_fields(vec![
                ("key".into(), text(key.as_str())),
                ("org".into(), text("bench")),
                ("roles".into(), set("spender")),
                ("standing".into(), text("active")),
                ("trust".into(), Value::Long(1000)),
            ]);
            feed(&self.gate, FactId::of_agent(agent), standing)?;
        }
        // Nobody holds this key: the admin has to be there, not to do anything.
        let (fact, value) = first_operator(&KeyName::of([1; 32]));
        feed(&self.gate, fact, value)
    }

    /// Closes the gate and opens it again; says how long opening took.
    pub fn reopen(self) -> Result<(Self, Reopened)> {
        let Self { gate, data, accounts, next } = self;
        let gate = Arc::try_unwrap(gate).map_err(|_| anyhow::anyhow!("the gate is still in use"))?;
        gate.close().map_err(|error| anyhow::anyhow!(error))?;
        let started = Instant::now();
        let (gate, report) = data.open(options(&data))?;
        let reopened = Reopened { took: started.elapsed(), replayed: report.replayed };
        Ok((Self { gate: Arc::new(gate), data, accounts, next }, reopened))
    }

    /// Numbers that no action has had yet, so many of them.
    pub fn take_numbers(&mut self, count: u64) -> u64 {
        let first = self.next;
        self.next += count;
        first
    }

    /// The account of an action, spread over all of them.
    fn account_of(&self, number: u64) -> u64 {
        number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) % self.accounts
    }

    /// Admits the next action.
    pub fn admit(&mut self, hot: bool) -> Result<Action> {
        let number = self.next;
        self.next += 1;
        let account = if hot { 0 } else { self.account_of(number) };
        Ok(self.gate.admit(agent()?, Auth::None, body(number, account).into())?)
    }

    /// Does `count` actions, admission included, and says how long that took.
    pub fn spend(&mut self, count: u64, hot: bool) -> Result<Duration> {
        self.drive(count, |bench, _, reply| {
            let action = bench.admit(hot)?;
            Ok(bench.gate.submit(Request::Act(Box::new(action)), reply)?)
        })
    }

    /// Does one action and waits for it.
    pub fn spend_one(&mut self) -> Result<()> {
        let action = self.admit(false)?;
        match self.gate.call(Request::Act(Box::new(action)))? {
            Answer::Entered(_) => Ok(()),
            Answer::Many(_) => bail!("one action was answered as several"),
            Answer::Repeated(entry) => bail!("an idempotency key came twice, first in entry {entry}"),
        }
    }

    /// Hands in `count` requests with so many on their way as a few hundred callers would have.
    fn drive(
        &mut self,
        count: u64,
        mut submit: impl FnMut(&mut Self, u64, countersign_engine::request::Reply) -> Result<()>,
    ) -> Result<Duration> {
        let done =
            Arc::new(Done { count: AtomicU64::new(0), failed: AtomicU64::new(0), driver: std::thread::current() });
        let started = Instant::now();
        for number in 0..count {
            while number - done.count.load(Ordering::Acquire) >= IN_FLIGHT {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            let done = Arc::clone(&done);
            submit(self, number, Box::new(move |answer| done.answered(answer.is_ok())))?;
        }
        while done.count.load(Ordering::Acquire) < count {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let took = started.elapsed();
        match done.failed.load(Ordering::Relaxed) {
            0 => Ok(took),
            failed => bail!("{failed} of {count} requests were refused"),
        }
    }
}

struct Done {
    count: AtomicU64,
    failed: AtomicU64,
    driver: Thread,
}

impl Done {
    fn answered(&self, ok: bool) {
        if !ok {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.count.fetch_add(1, Ordering::Release);
        // A caller is woken by its own answer; one wake for a hundred of them keeps the driver off the cores.
        if before.is_multiple_of(128) {
            self.driver.unpark();
        }
    }
}

fn feed(gate: &Gate, fact: FactId, value: Attributes) -> Result<()> {
    let request = Request::Feed { by: operator()?, auth: Auth::None, fact, value: Some(value), if_match: None };
    gate.call(request).context("feeding a fact")?;
    Ok(())
}
