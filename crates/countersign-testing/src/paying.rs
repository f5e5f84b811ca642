//! A gate whose pact reads and changes rows of a PostgreSQL: intents, dispatches and settlements in its ledger, the rest there.

use anyhow::{Context as _, Result, bail};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::value::{Attributes, Value};
use countersign_engine::gate::Gate;
use countersign_engine::outbox::{Adapter, Adapters, Outbox};
use countersign_engine::request::{Answer, Request};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pact.
pub const PACT: &str = include_str!("paying.toml");

/// Most effects that are under way at a time.
const IN_FLIGHT: usize = 64;

/// How long effects may take to end before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gate with an outbox.
pub struct Bank {
    pub gate: Arc<Gate>,
    outbox: Option<Outbox>,
}

impl Bank {
    /// Gives a new gate the pact and an agent that may pay.
    pub fn create(gate: Gate, adapter: impl Adapter + 'static) -> Result<Self> {
        let bank = Self::open(gate, adapter)?;
        let pact = load(PACT).map_err(|problems| anyhow::anyhow!("the bank's pact does not load: {problems:?}"))?.pact;
        let by = AgentId::new("operator")?;
        bank.gate.call(Request::Publish { by: by.clone(), auth: Auth::None, pact: Arc::new(pact) })?;
        let roles = Value::Set(Arc::new([Value::String("payer".into())].into_iter().collect()));
        let standing = Attributes::from_fields(vec![
            ("org".into(), Value::String("bench".into())),
            ("roles".into(), roles),
            ("standing".into(), Value::String("active".into())),
            ("trust".into(), Value::Long(1000)),
        ]);
        let fact = FactId::of_agent(&agent()?);
        bank.gate
            .call(Request::Feed { by, auth: Auth::None, fact, value: Some(standing), if_match: None })
            .context("feeding the agent")?;
        Ok(bank)
    }

    /// Takes up what was under way in a gate that was furnished before.
    pub fn open(gate: Gate, adapter: impl Adapter + 'static) -> Result<Self> {
        let gate = Arc::new(gate);
        let adapters: Adapters = [("bank".into(), Arc::new(adapter) as _)].into_iter().collect();
        let outbox = Outbox::start(Arc::clone(&gate), adapters)?;
        Ok(Self { gate, outbox: Some(outbox) })
    }

    /// Hands in one payment, and answers with its entry.
    pub fn pay(&self, number: u64, account: &str) -> Result<u64> {
        match self.gate.call(self.payment(number, account)?)? {
            Answer::Entered(entered) => Ok(entered.entry.index),
            Answer::Many(_) => bail!("one payment was answered as several"),
            Answer::Repeated(entry) => bail!("an idempotency key came twice, first in entry {entry}"),
        }
    }

    fn payment(&self, number: u64, account: &str) -> Result<Request> {
        let body = format!(
            r#"{{"pact":"bank","action":"pay","idempotency_key":"{number:032x}","params":{{"account":"{account}","amount":1}}}}"#
        );
        Ok(Request::Act(Box::new(self.gate.admit(agent()?, Auth::None, body.into())?)))
    }

    /// How many effects are under way.
    pub fn in_flight(&self) -> usize {
        self.gate.view().effects_open().count()
    }

    /// Waits until no effect is under way.
    pub fn drain(&self) -> Result<()> {
        let begun = Instant::now();
        while self.in_flight() > 0 {
            if begun.elapsed() > PATIENCE {
                bail!("{} effects did not end", self.in_flight());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Pays for a while, with so many under way, and says how many a second were settled.
    pub fn round(&self, time: Duration, mut next: impl FnMut() -> u64, account: impl Fn(u64) -> String) -> Result<f64> {
        let begun = Instant::now();
        let mut count = 0_u32;
        while begun.elapsed() < time {
            for _ in self.in_flight()..IN_FLIGHT {
                let number = next();
                self.gate.submit(self.payment(number, &account(number))?, Box::new(|_| {}))?;
                count += 1;
            }
            // A few of the many end in a millisecond, so the workers never run out.
            std::thread::sleep(Duration::from_millis(1));
        }
        self.drain()?;
        Ok(f64::from(count) / begun.elapsed().as_secs_f64())
    }

    /// Stops the outbox and closes the gate.
    pub fn close(mut self) -> Result<()> {
        if let Some(outbox) = self.outbox.take() {
            outbox.stop();
        }
        let gate = Arc::try_unwrap(self.gate).map_err(|_| anyhow::anyhow!("the gate is still in use"))?;
        gate.close().map_err(|error| anyhow::anyhow!(error))
    }
}

fn agent() -> Result<AgentId> {
    Ok(AgentId::new("payer-1")?)
}
