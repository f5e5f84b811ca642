//! The same schedule through the gate: agents observe, think and act, and the gate answers.

use super::rows::Rows;
use super::scenarios::Scenario;
use super::schedule::{Deed, Hands, Step, World};
use crate::data::DataFolder;
use crate::examples::PactFile;
use anyhow::{Context, Result, anyhow, bail};
use countersign_core::call::EffectId;
use countersign_core::decision::{Decision, Verdict};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::clock::{Clock as _, SystemClock};
use countersign_engine::gate::Gate;
use countersign_engine::request::{Answer, Entered, Request};
use std::sync::{Arc, Mutex, PoisonError};

/// The demo's clock starts this long ago, so that all its scenarios lie in the past when the folder is opened again: a
/// ledger ahead of the wall clock would be reported as a step.
const STARTS_AGO_MS: u64 = 600_000;

/// Between two scenarios, so that their entries can be told apart by time.
const PAUSE_MS: u64 = 1_000;

/// Segments of the demo's log: it has some dozens of entries, so the usual 64 MiB would only cost time and disk.
const SEGMENT_BYTES: u64 = 1 << 20;

/// A gate with a clock whose hands the demo moves.
pub struct GatedWorld {
    gate: Gate,
    hands: Arc<Hands>,
}

/// One scenario on the gate.
pub struct GatedScenario<'a> {
    world: &'a GatedWorld,
    pact: &'static str,
    started_ms: u64,
    /// The call that cools.
    cooling: Mutex<Option<EffectId>>,
}

/// What came of a step.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing that anyone else can see.
    Quiet,
    /// Shown, and sealed in a token.
    Observed,
    /// A fact was fed, in this entry.
    Fed(u64),
    /// An action was decided, in this entry.
    Decided(u64, Box<Decision>),
    /// A change was announced, in this entry.
    Claimed(u64),
    /// A call that had cooled was decided again, in this entry.
    Dispatched(u64, Box<Decision>),
}

/// What an agent carries: its tokens.
#[derive(Debug, Default)]
pub struct Mind {
    tokens: Vec<String>,
}

impl GatedWorld {
    /// Opens the gate on a new data folder.
    pub fn open(data: &DataFolder) -> Result<Self> {
        let hands = Arc::new(Hands::at(SystemClock::default().wall_ms().saturating_sub(STARTS_AGO_MS)));
        let mut environment = data.environment()?;
        environment.clock = Arc::clone(&hands) as _;
        let mut options = data.options();
        options.segment_bytes = SEGMENT_BYTES;
        let (gate, _) = Gate::open(environment, options)?;
        Ok(Self { gate, hands })
    }

    /// Closes the log cleanly.
    pub fn close(self) -> Result<()> {
        self.gate.close().map_err(|cause| anyhow!("the demo's log could not be closed: {cause}"))
    }

    /// Sets a scenario up: its pact, its agents, its facts.
    pub fn prepare(&self, scenario: &Scenario) -> Result<GatedScenario<'_>> {
        self.hands.move_to(self.hands.wall_ms().saturating_add(PAUSE_MS));
        self.publish(&scenario.pact)?;
        for (agent, role) in scenario.agents {
            let value = format!(r#"{{"roles":["{role}"],"standing":"active","org":"demo","trust":700}}"#);
            self.feed("operator", &FactId::of_agent(&AgentId::new(*agent)?), &value)?;
        }
        for (fact, value) in scenario.facts {
            self.feed("operator", &fact.parse()?, value)?;
        }
        // What the agents read was there a while before they read it.
        let started_ms = self.hands.wall_ms().saturating_add(PAUSE_MS);
        Ok(GatedScenario { world: self, pact: scenario.pact.name, started_ms, cooling: Mutex::new(None) })
    }

    /// All facts, as rows.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for fact in self.gate.view().whole_state().facts.iter() {
            if let Some(serde_json::Value::Object(value)) = fact.value.as_ref().map(Attributes::to_json) {
                rows.insert(fact.id.to_string(), value);
            }
        }
        rows
    }

    fn publish(&self, file: &PactFile) -> Result<()> {
        if self.gate.view().pact(&PactName::new(file.name)?).is_some() {
            return Ok(());
        }
        let loaded =
            load(file.source).map_err(|problems| anyhow!("pact `{}` does not load: {problems:?}", file.name))?;
        let by = AgentId::new("operator")?;
        self.enter(Request::Publish { by, auth: Auth::None, pact: Arc::new(loaded.pact) })?;
        Ok(())
    }

    fn feed(&self, by: &str, fact: &FactId, value: &str) -> Result<u64> {
        let value = serde_json::from_str(value).with_context(|| format!("the value of {fact} is not a JSON object"))?;
        let value = Some(Attributes::from_untyped_json(&value)?);
        let by = AgentId::new(by)?;
        let entered = self.enter(Request::Feed { by, auth: Auth::None, fact: fact.clone(), value, if_match: None })?;
        Ok(entered.entry.index)
    }

    fn enter(&self, request: Request) -> Result<Entered> {
        match self.gate.call(request)? {
            Answer::Entered(entered) => Ok(entered),
            Answer::Many(_) => bail!("one request was answered as several"),
            Answer::Repeated(entry) => {
                bail!("the gate knows this request from entry {entry}; the demo never repeats one")
            }
        }
    }
}

impl World for GatedScenario<'_> {
    type Mind = Mind;
    type Outcome = Outcome;

    fn perform(&self, step: &Step, mind: &mut Mind) -> Result<Outcome> {
        self.world.hands.move_to(self.started_ms.saturating_add(step.at_ms));
        match &step.deed {
            Deed::Think => Ok(Outcome::Quiet),
            Deed::Read { facts, .. } => {
                let facts = facts.iter().map(|fact| fact.parse()).collect::<Result<Vec<FactId>, _>>()?;
                mind.tokens.push(self.world.gate.observe(AgentId::new(step.agent)?, facts)?.token);
                Ok(Outcome::Observed)
            }
            Deed::Act { action, params, .. } => self.act(step, action, params, mind),
            Deed::Claim { facts, for_ms, reason } => {
                let facts = facts.iter().map(|fact| fact.parse()).collect::<Result<Vec<FactId>, _>>()?;
                let (by, for_ms, reason) = (AgentId::new(step.agent)?, *for_ms, (*reason).into());
                let entered = self.world.enter(Request::Claim { by, auth: Auth::None, facts, for_ms, reason })?;
                Ok(Outcome::Claimed(entered.entry.index))
            }
            Deed::Cooled => self.dispatch(),
            Deed::Feed { fact, value } => Ok(Outcome::Fed(self.world.feed(step.agent, &fact.parse()?, value)?)),
        }
    }
}

impl GatedScenario<'_> {
    fn act(&self, step: &Step, action: &str, params: &str, mind: &Mind) -> Result<Outcome> {
        let params: serde_json::Value = serde_json::from_str(params)?;
        let body = serde_json::json!({
            "pact": self.pact,
            "action": action,
            "idempotency_key": format!("demo-{}-{:0>26}", self.started_ms, step.at_ms),
            "params": params,
            "observations": mind.tokens,
        });
        let gate = &self.world.gate;
        let admitted = gate.admit(AgentId::new(step.agent)?, Auth::None, body.to_string().into())?;
        let entry = self.world.enter(Request::Act(Box::new(admitted)))?.entry;
        match &entry.event {
            Event::Action(decided) => {
                if let Verdict::InFlight(_) = decided.decision.verdict {
                    *self.cooling.lock().unwrap_or_else(PoisonError::into_inner) = Some(EffectId(entry.index));
                }
                Ok(Outcome::Decided(entry.index, Box::new(decided.decision.clone())))
            }
            other => bail!("the gate answered an action with {other:?}"),
        }
    }

    /// What the gate's own outbox does when a call has cooled.
    fn dispatch(&self) -> Result<Outcome> {
        let cooling = *self.cooling.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = cooling.context("nothing cools, so nothing can be dispatched")?;
        let entry = self.world.enter(Request::Dispatch { effect })?.entry;
        match &entry.event {
            Event::Dispatch(dispatch) => Ok(Outcome::Dispatched(entry.index, Box::new(dispatch.decision.clone()))),
            other => bail!("the gate answered a dispatch with {other:?}"),
        }
    }
}
