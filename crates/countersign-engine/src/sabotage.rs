//! A gate that does without one control, for the test that `countersign conform` notices each (`cargo xtask test --only conform`).
//!
//! The control is given up where it is: at the door, in the sequencer that decides, the clock that it reads, the window of nonces, the
//! tokens, the log. Which one is data that comes with the gate's options; the core does not know of it, and is given other facts, rules or
//! fences to decide on.

#[cfg(not(debug_assertions))]
compile_error!("a gate that can be sabotaged is for tests: the feature `sabotage` is not for release builds");

mod unsynced;

pub(crate) use unsynced::unsynced;

use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::decide::{Approval, Snapshot, Void, approve, bind, decide, dispatch};
use countersign_core::decision::{BudgetKey, Decision, Verdict};
use countersign_core::effect::Effect;
use countersign_core::fact::Fact;
use countersign_core::fence::Fences;
use countersign_core::halt::Halts;
use countersign_core::ids::{AgentId, Digest, FactId, PactName};
use countersign_core::labels::Labels;
use countersign_core::pact::Pact;
use countersign_core::pact::diagnostic::Diagnostic;
use countersign_core::pact::load::{Loaded, load};
use countersign_core::reason::Reason;
use countersign_core::review::{Parked, Reviews};
use countersign_core::session::{Held, Reread};
use countersign_core::state::State;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The variable that names the control.
pub const VARIABLE: &str = "COUNTERSIGN_SABOTAGE";

/// How long an action waits that writes what the one before it wrote, where hot facts are slow.
const HOT_WAIT: Duration = Duration::from_millis(30);

macro_rules! controls {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A control that a gate can be told to do without.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Control { $($(#[$doc])* $variant,)* }

        impl Control {
            /// The control of a name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

controls! {
    /// No precondition is evaluated.
    Preconditions = "preconditions",
    /// All preconditions of an action type are evaluated but its last.
    LastPrecondition = "last-precondition",
    /// Versions are not compared where a pact says `unchanged`.
    Unchanged = "unchanged",
    /// The age of an observation is not looked at.
    Staleness = "staleness",
    /// Facts are taken as they were observed.
    CurrentFacts = "current-facts",
    /// Actions of one batch are decided on the state before it.
    OneStep = "one-step",
    /// Announced changes are not looked at.
    Claims = "claims",
    /// A call that has cooled is not decided again.
    Dispatch = "dispatch",
    /// An approval is decided on the facts as they were shown.
    Approvals = "approvals",
    /// Of several failed preconditions only the first is told.
    EveryReason = "every-reason",
    /// Entries do not keep the gap of a failed precondition.
    Gap = "gap",
    /// An observation counts for any agent that carries it, and what a reviewer was shown for any other.
    Observations = "observations",
    /// What takes an operator's role is done for every caller.
    Roles = "roles",
    /// Nonces are not remembered.
    Nonces = "nonces",
    /// Ledger time is the wall clock's.
    Clock = "clock",
    /// An action waits for a while after another that wrote the same fact.
    NoLocks = "no-locks",
    /// A pact loads although an action type has no preconditions.
    Documentation = "documentation",
    /// What was read again right before a call is taken for what was read before.
    Readings = "readings",
    /// `verify` finds every log whole.
    Verification = "verification",
    /// Whoever sends a request is taken for the holder of the key that it names, whatever its signature is.
    Signatures = "signatures",
    /// A batch is acknowledged once it is in memory, and reaches the disk when the gate ends.
    Durability = "durability",
    /// An observation, or what a reviewer was shown, counts also if it is no longer as it was sealed.
    Seal = "seal",
    /// An action type that the pact does not have is carried out as one that it has, without the preconditions of that one.
    UnknownType = "unknown-type",
    /// A key that was used before is taken for a new one.
    Idempotency = "idempotency",
    /// What a failed precondition stops is told and recorded as rejected, and written all the same.
    Verdict = "verdict",
}

/// What a sequencer that does without a control keeps.
#[derive(Default)]
pub(crate) struct Sabotaged {
    control: Option<Control>,
    /// The state before the batch.
    before: Option<State>,
    /// Pacts with rules taken out, by the hash of the whole.
    doctored: HashMap<Digest, Arc<Pact>>,
    /// What was written last.
    hot: Option<FactId>,
}

impl Sabotaged {
    pub(crate) fn new(control: Option<Control>) -> Self {
        Self { control, ..Self::default() }
    }

    /// Whether it does without this control.
    pub(crate) fn is(&self, control: Control) -> bool {
        self.control == Some(control)
    }

    /// A batch begins.
    pub(crate) fn begin(&mut self, state: &State) {
        self.before = (self.control == Some(Control::OneStep)).then(|| state.clone());
    }

    /// Decides an action without the control.
    pub(crate) fn decide(&mut self, action: &Action, state: &State, now_ms: u64) -> Decision {
        let control = self.control.filter(|control| !matches!(control, Control::Dispatch | Control::Verdict));
        let mut decision = decide(action, &self.without(action, state, control), now_ms);
        let is_stopped = matches!(decision.verdict, Verdict::Rejected(Reason::PreconditionFailed { .. }));
        if is_stopped && self.control == Some(Control::Verdict) {
            let unchecked = decide(action, &self.without(action, state, Some(Control::Preconditions)), now_ms);
            decision.writes = unchecked.writes;
        }
        self.retell(&mut decision);
        let wrote = decision.writes.first().map(|write| write.fact.clone());
        if self.control == Some(Control::NoLocks) && wrote.is_some() && wrote == self.hot {
            std::thread::sleep(HOT_WAIT);
        }
        self.hot = wrote;
        decision
    }

    /// Decides a call that has cooled without the control.
    pub(crate) fn dispatch(&mut self, effect: &Effect, rereads: &[Reread], state: &State, now_ms: u64) -> Decision {
        let control = match self.control {
            Some(Control::Dispatch) => Some(Control::Preconditions),
            Some(Control::Verdict) => None,
            control => control,
        };
        let as_before: Vec<Reread> = match control {
            Some(Control::Readings) => rereads.iter().map(|reread| as_before(effect, reread, state)).collect(),
            _ => rereads.to_vec(),
        };
        dispatch(effect, &as_before, &self.without(&effect.action, state, control), now_ms)
    }

    /// Decides a parked action under an approval without the control.
    pub(crate) fn approve(
        &self,
        approval: &Approval<'_>,
        parked: &Parked,
        state: &State,
        now_ms: u64,
    ) -> Result<Decision, Box<Void>> {
        if self.control != Some(Control::Approvals) {
            return approve(approval, parked, state, now_ms);
        }
        let facts = as_observed(&approval.shown.facts, state);
        approve(approval, parked, &Without { state, facts, rules: None, fences: None }, now_ms)
    }

    fn retell(&self, decision: &mut Decision) {
        let Verdict::Rejected(Reason::PreconditionFailed { failed }) = &mut decision.verdict else { return };
        match self.control {
            Some(Control::EveryReason) => failed.truncate(1),
            Some(Control::Gap) => failed.iter_mut().for_each(|failed| failed.gap_ms = None),
            _ => {}
        }
    }

    fn without<'a>(&'a mut self, action: &Action, state: &'a State, control: Option<Control>) -> Without<'a> {
        let rules = match (control, state.pacts.get(&action.pact)) {
            (Some(Control::UnknownType), Some(pact)) => with_type(pact, action),
            (Some(control), Some(pact)) => {
                Some(Arc::clone(self.doctored.entry(pact.hash).or_insert_with(|| doctored(pact, control))))
            }
            _ => None,
        };
        let facts = match control {
            Some(Control::CurrentFacts) => as_observed(&action.observed, state),
            _ => Vec::new(),
        };
        let fences = (control == Some(Control::Claims)).then(Fences::default);
        Without { state: self.before.as_ref().unwrap_or(state), facts, rules, fences }
    }
}

/// A reading that was made again as it was before.
fn as_before(effect: &Effect, reread: &Reread, state: &State) -> Reread {
    let noted = effect.rests_on.iter().find(|(fact, _)| *fact == reread.fact).map(|(_, version)| *version);
    let held = state.facts.get(&reread.fact).and_then(|fact| Held::of(fact)).zip(noted);
    let Some((held, version)) = held else { return reread.clone() };
    let digest = if held.version == version { Some(held.digest) } else { held.before };
    Reread { digest, projection: held.reading.projection, ..reread.clone() }
}

/// The facts as they were seen.
fn as_observed(observed: &[Observed], state: &State) -> Vec<Arc<Fact>> {
    let seen = observed.iter().filter_map(|observed| {
        let now = state.facts.get(&observed.fact).filter(|now| observed.version != now.current())?;
        let mut fact = Fact::clone(now);
        fact.value = observed.value.clone();
        Some(Arc::new(fact))
    });
    seen.collect()
}

/// A pact without the rules that the control is about.
fn doctored(pact: &Arc<Pact>, control: Control) -> Arc<Pact> {
    let Ok(Loaded { pact: mut doctored, .. }) = load_without(&pact.source, control) else { return Arc::clone(pact) };
    for kind in doctored.actions.values_mut() {
        match control {
            Control::Preconditions => kind.require.clear(),
            Control::LastPrecondition => drop(kind.require.pop()),
            Control::Unchanged => kind.reads.iter_mut().for_each(|read| read.unchanged = false),
            Control::Staleness => kind.require.iter_mut().for_each(|require| require.stale_after_ms = None),
            _ => {}
        }
    }
    Arc::new(doctored)
}

/// A pact with the action type that an action names, if it has none: the first of its own that takes these parameters.
fn with_type(pact: &Arc<Pact>, action: &Action) -> Option<Arc<Pact>> {
    if pact.actions.contains_key(&action.action) {
        return None;
    }
    let Loaded { pact: mut doctored, .. } = load(&pact.source).ok()?;
    let request = ActionRequest::parse(&action.body).ok()?;
    let like = doctored.actions.values().find(|kind| bind(kind, &request.params).is_ok())?.name.clone();
    let mut kind = doctored.actions.remove(&like)?;
    kind.name = action.action.clone();
    kind.require.clear();
    doctored.actions.insert(kind.name.clone(), kind);
    Some(Arc::new(doctored))
}

/// Loads a pact, with or without the rule that every action type has preconditions.
pub fn load_without(source: &str, control: Control) -> Result<Loaded, Vec<Diagnostic>> {
    const ADDED: &str = "sabotaged";
    let loaded = load(source);
    if control != Control::Documentation || loaded.is_ok() {
        return loaded;
    }
    let kinds = source.lines().filter_map(|line| line.strip_prefix("[action.")?.strip_suffix(']'));
    let bare = kinds.filter(|kind| !kind.contains('.') && !source.contains(&format!("[[action.{kind}.require]]")));
    let rule = |kind: &str| format!("\n[[action.{kind}.require]]\nid = \"{ADDED}\"\nthat = 'principal.trust >= 0'\n");
    let mut loaded = load(&format!("{source}{}", bare.map(rule).collect::<String>()))?;
    for kind in loaded.pact.actions.values_mut() {
        kind.require.retain(|require| require.id != ADDED);
    }
    (loaded.pact.source, loaded.pact.hash) = (source.into(), Digest::of(source.as_bytes()));
    Ok(loaded)
}

/// A state to decide on that is not quite the state.
struct Without<'a> {
    state: &'a State,
    facts: Vec<Arc<Fact>>,
    rules: Option<Arc<Pact>>,
    fences: Option<Fences>,
}

impl Snapshot for Without<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.facts.iter().find(|fact| fact.id == *id).or_else(|| self.state.fact(id))
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.rules.as_ref().filter(|rules| rules.name == *name).or_else(|| self.state.pact(name))
    }
    fn version_floor(&self) -> u64 {
        self.state.version_floor()
    }
    fn origin(&self) -> &str {
        self.state.origin()
    }
    fn next_entry(&self) -> u64 {
        self.state.next_entry()
    }
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64 {
        self.state.budget_used(budget, window)
    }
    fn is_identified(&self) -> bool {
        Snapshot::is_identified(self.state)
    }
    fn halts(&self) -> &Halts {
        self.state.halts()
    }
    fn reviews(&self) -> &Reviews {
        self.state.reviews()
    }
    fn fences(&self) -> &Fences {
        self.fences.as_ref().unwrap_or_else(|| self.state.fences())
    }
    fn effects_at_capacity(&self, agent: &AgentId) -> bool {
        self.state.effects_at_capacity(agent)
    }
    fn labels(&self) -> &Labels {
        self.state.labels()
    }
}
