//! `decide`: one action, on the facts as they are now, by the pact as it is now.
//!
//! Pure and total: the same action on the same snapshot at the same time gives the same `Decision`, byte for byte (I3);
//! whatever cannot be read or evaluated is a rejection with a reason (I4). The stages run in the order of
//! [`Code`](crate::code::Code), and the first that blocks is the answer; within the preconditions all are evaluated, so that
//! an agent can correct its plan at once.

mod approve;
mod bind;
mod call;
mod delegation;
mod effects;
mod explain;
mod fences;
mod group;
mod halted;
mod judge;
mod preconditions;
mod reading_values;
mod readings;
mod reads;
mod standing;
mod turns;

pub use approve::{Approval, Void, approve, show};
pub use bind::{bind, bind_by_schema};
pub use call::{external_read, percent_encoded, target};
pub use delegation::stranger;
pub use group::{GroupBlocked, Grouping, decide_group, not_groupable};
pub use judge::{ReadyToSend, external_fact, judge};
pub(crate) use readings::{readings_in, rested_on};
pub use standing::{rights, rules_out, stop_on};
pub use turns::{ReadRest, Touch, beside, meets, touched_by_reading, touches};

use crate::action::Action;
use crate::call::EffectId;
use crate::decision::{BudgetKey, Decision, InFlight, PactRef, ReadVersion, Verdict, Write};
use crate::effect::Effect;
use crate::expression::{Base, Expression, Input, Inputs, Mention, Source};
use crate::fact::{Fact, Version};
use crate::fence::Fences;
use crate::halt::Halts;
use crate::ids::{AgentId, FactId, PactName};
use crate::limits::REVIEW_EXPIRES_MS;
use crate::pact::{ActionType, Mode, OnFail, Pact};
use crate::reason::{Drift, Reason, RuleFailure, Unusable};
use crate::review::Reviews;
use crate::session::Reread;
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;

/// What `decide` may look at: the current facts, pacts, budgets and halts, and nothing else.
pub trait Snapshot {
    /// The current version of a fact; deleted ones included.
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>>;
    /// The current version of a pact.
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>>;
    /// The version that a new fact begins above.
    fn version_floor(&self) -> u64;
    /// The log's name, which no other log has.
    fn origin(&self) -> &str;
    /// The number of the next entry: what is decided now, and its effect, get it.
    fn next_entry(&self) -> u64;
    /// What a budget's window already holds.
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64;
    /// Whether operators are known, so that nothing unsigned is accepted.
    fn is_identified(&self) -> bool;
    /// What is halted.
    fn halts(&self) -> &Halts;
    /// What waits for a person.
    fn reviews(&self) -> &Reviews;
    /// The fences that stand.
    fn fences(&self) -> &Fences;
    /// Whether no more effects of an agent can be under way.
    fn effects_at_capacity(&self, agent: &AgentId) -> bool;
}

/// Which of its decisions an action is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage<'a> {
    /// It was asked for; where it has waited for a person since, with the readings that were noted then.
    Intent(Option<&'a [(FactId, u64)]>),
    /// It has cooled as this effect, and its call would leave; with the readings that its intent noted.
    Dispatch(EffectId, &'a [(FactId, u64)]),
    /// The external facts were read, and its call is about to be made under this key.
    Judgement(&'a str),
}

/// Decides one action.
pub fn decide(action: &Action, snapshot: &dyn Snapshot, now_ms: u64) -> Decision {
    decide_at(Stage::Intent(None), None, action, snapshot, now_ms).0
}

/// Decides an effect again that has cooled.
/// The readings that it rests on were read again right before, which says what they read then.
pub fn dispatch(effect: &Effect, rereads: &[Reread], snapshot: &dyn Snapshot, now_ms: u64) -> Decision {
    let approved = effect.approval.as_deref();
    let approval =
        approved.map(|approved| Approval { by: &approved.by, shown: &approved.shown, until_ms: approved.until_ms });
    let (decision, drift) =
        decide_at(Stage::Dispatch(effect.id, &effect.rests_on), approval.as_ref(), &effect.action, snapshot, now_ms);
    // A waiver is for the conditions that were shown: one of the same name in another pact is another condition.
    let is_rejected = matches!(decision.verdict, Verdict::Rejected(_));
    let drift = drift.or_else(|| approve::void_since(approval.as_ref()?, snapshot).filter(|_| !is_rejected));
    match drift {
        None => readings::compare(effect, rereads, decision, snapshot),
        Some(drift) => decision.rejected(Reason::ApprovalOutdated { drift: Box::new(drift) }),
    }
}

/// Decides one action at one stage, under what a reviewer waives, if anyone does; and says in what way what was shown is no
/// longer so.
fn decide_at(
    stage: Stage<'_>,
    approval: Option<&Approval<'_>>,
    action: &Action,
    snapshot: &dyn Snapshot,
    now_ms: u64,
) -> (Decision, Option<Drift>) {
    let Some(pact) = snapshot.pact(&action.pact) else {
        let reason = Reason::UnknownPact { pact: action.pact.clone() };
        return (Decision::refused(None, reason), None);
    };
    let pact_ref = PactRef { name: pact.name.clone(), version: pact.version, hash: pact.hash };
    if let Some(halted) = halted::halted(action, snapshot, &pact_ref) {
        return (halted, None);
    }
    let kind = match standing::described(action, pact) {
        Ok(kind) => kind,
        Err(unknown) => return (Decision::refused(Some(pact_ref), unknown), None),
    };
    let binding = action.binding(&pact.hash, kind);
    let params = match &*binding {
        Ok(params) => params,
        Err(problems) => {
            let reason = Reason::InvalidParams { problems: problems.clone() };
            return (Decision::refused(Some(pact_ref), reason), None);
        }
    };
    Deciding::new(stage, approval, (action, kind, params), snapshot, now_ms).run(pact_ref)
}

/// A fact that the action reads, resolved.
struct Resolved<'a> {
    id: FactId,
    /// The current version, deleted or not.
    record: Option<&'a Arc<Fact>>,
}

impl<'a> Resolved<'a> {
    /// The fact, unless it is missing or deleted.
    fn live(&self) -> Option<&'a Arc<Fact>> {
        self.record.filter(|fact| fact.value.is_some())
    }

    fn version(&self) -> u64 {
        self.record.map_or(0, |fact| fact.version())
    }

    /// What an observation of it is compared with.
    fn current(&self) -> Version {
        self.record.map_or(Version::NONE, |fact| fact.current())
    }
}

/// One decision on its way.
struct Deciding<'a> {
    stage: Stage<'a>,
    /// What a reviewer was shown and waives.
    approval: Option<&'a Approval<'a>>,
    action: &'a Action,
    snapshot: &'a dyn Snapshot,
    now_ms: u64,
    kind: &'a ActionType,
    params: &'a Attributes,
    /// The root delegator; without delegation, the one who acts.
    principal: Option<&'a Arc<Fact>>,
    /// The one who acts.
    actor: Option<&'a Arc<Fact>>,
    /// The members of the delegation, root first; empty without one.
    members: Vec<Resolved<'a>>,
    reads: Vec<Resolved<'a>>,
    /// What conditions see of readings, by name.
    readings: Vec<(SmolStr, Result<Attributes, Unusable>)>,
    /// The facts that the call changes, as its pact says.
    changed: Vec<Resolved<'a>>,
    /// Whether `allow` was found to hold, on what no fact that is read can change.
    is_allowed: bool,
}

impl<'a> Deciding<'a> {
    fn new(
        stage: Stage<'a>,
        approval: Option<&'a Approval<'a>>,
        (action, kind, params): (&'a Action, &'a ActionType, &'a Attributes),
        snapshot: &'a dyn Snapshot,
        now_ms: u64,
    ) -> Self {
        Self {
            stage,
            approval,
            action,
            snapshot,
            now_ms,
            kind,
            params,
            principal: None,
            actor: None,
            members: Vec::new(),
            reads: Vec::with_capacity(kind.reads.len()),
            readings: Vec::new(),
            changed: Vec::new(),
            is_allowed: false,
        }
    }

    fn run(mut self, pact: PactRef) -> (Decision, Option<Drift>) {
        if let Err(blocked) = self.resolve() {
            return (self.decision(pact, Verdict::Rejected(blocked)), None);
        }
        self.readings = self.reading_values();
        let drift = self.approval.and_then(|approval| self.drift(approval));
        (self.weigh(pact), drift)
    }

    fn weigh(&self, pact: PactRef) -> Decision {
        let inputs = self.inputs();
        let standing = self.standing(&inputs);
        let (standing, shadowed) = match (standing, self.kind.mode) {
            (Err(stopped), Mode::Shadow) => match self.check_always(&inputs) {
                Ok(()) => (Ok(()), Some(Box::new(stopped.blocked))),
                Err(reason) => (Err(Stopped::rejected(reason)), None),
            },
            (standing, _) => (standing, None),
        };
        let effects = standing.and_then(|()| self.verdict(&inputs).map_err(Stopped::rejected));
        match effects {
            Ok((verdict, writes)) => {
                let is_due = !matches!(&verdict, Verdict::InFlight(it) if matches!(**it, InFlight::Cooling { .. }));
                let mut decision = self.decision(pact, verdict);
                decision.writes = writes;
                decision.charges = if is_due { self.charges() } else { Vec::new() };
                decision.waived_by = self.waived(&inputs).map(Box::new);
                decision.shadowed = shadowed;
                decision
            }
            Err(Stopped { review: true, .. })
                if self.approval.is_none() && self.snapshot.reviews().is_full_for(&self.action.agent, self.now_ms) =>
            {
                self.decision(pact, Verdict::Rejected(Reason::TooManyReviews))
            }
            Err(Stopped { blocked, review: true }) => {
                let expires_at_ms = self.now_ms.saturating_add(REVIEW_EXPIRES_MS);
                self.decision(pact, Verdict::Review { blocked, expires_at_ms })
            }
            Err(Stopped { blocked, review: false }) => {
                let mut decision = self.decision(pact, Verdict::Rejected(blocked));
                decision.shadowed = shadowed;
                decision
            }
        }
    }

    /// What follows when everything holds, and what is written with it.
    fn verdict(&self, inputs: &Inputs<'_>) -> Result<(Verdict, Vec<Write>), Reason> {
        let writes = self.effects(inputs)?;
        match &self.kind.call {
            None => Ok((Verdict::Committed, writes)),
            Some(rule) => Ok((Verdict::InFlight(Box::new(self.in_flight(rule, writes, inputs)?)), Vec::new())),
        }
    }

    /// Whether its call is still to be asked for.
    fn is_intent(&self) -> bool {
        matches!(self.stage, Stage::Intent(_))
    }

    /// Whether the external facts were read.
    fn is_judgement(&self) -> bool {
        matches!(self.stage, Stage::Judgement(_))
    }

    /// Whether what an expression reads is known at this stage: external facts are read last.
    fn is_known(&self, expression: &Expression) -> bool {
        self.is_judgement() || !expression.facts().any(|read| self.is_external(read))
    }

    fn is_known_input(&self, mention: &Mention) -> bool {
        self.is_judgement() || !mention.read().is_some_and(|read| self.is_external(read))
    }

    fn is_external(&self, read: usize) -> bool {
        self.kind.reads.get(read).is_some_and(|read| read.outside.is_some())
    }

    /// Everything that shadow mode records without blocking, in order of precedence.
    fn standing(&self, inputs: &Inputs<'_>) -> Result<(), Stopped> {
        self.check_allowed(inputs).map_err(Stopped::rejected)?;
        self.check_observations().map_err(Stopped::rejected)?;
        self.check_session().map_err(Stopped::rejected)?;
        self.check_preconditions(inputs)?;
        self.check_budgets().map_err(Stopped::rejected)
    }

    /// Asked before any fact is looked up: anyone who may not do this, whatever is not known yet, learns nothing of the facts.
    fn check_right(&mut self, is_known: &dyn Fn(&Mention) -> bool) -> Result<(), Reason> {
        if self.kind.mode == Mode::Shadow {
            return Ok(());
        }
        let rule = &self.kind.allow;
        if rule.mentions().any(|(_, mention)| !is_known(mention)) {
            return match rule.could_hold(&self.inputs(), is_known) {
                true => Ok(()),
                false => Err(self.not_allowed(RuleFailure::Impossible)),
            };
        }
        match rule.holds(&self.inputs()) {
            Ok(true) => self.is_allowed = true,
            Ok(false) => return Err(self.not_allowed(RuleFailure::False)),
            Err(error) => return Err(self.not_allowed(RuleFailure::Error(error))),
        }
        Ok(())
    }

    fn not_allowed(&self, why: RuleFailure) -> Reason {
        let (agent, action) = (self.action.principal().clone(), self.kind.name.clone());
        Reason::NotAllowed { agent, action, rule: self.kind.allow.text().as_ref().into(), why }
    }

    fn check_allowed(&self, inputs: &Inputs<'_>) -> Result<(), Reason> {
        let rule = &self.kind.allow;
        if self.is_allowed {
            return self.check_trust();
        }
        match rule.holds(inputs) {
            // External facts are read last, and only where some value of theirs could allow this.
            _ if !self.is_known(rule) && rule.could_hold(inputs, &|mention| self.is_known_input(mention)) => {}
            Ok(true) => {}
            Ok(false) => return Err(self.not_allowed(RuleFailure::False)),
            Err(error) => return Err(self.not_allowed(RuleFailure::Error(error))),
        }
        self.check_trust()
    }

    fn check_trust(&self) -> Result<(), Reason> {
        let least_trusted = self.least_trusted();
        let trust = least_trusted.and_then(|agent| agent.value.as_ref()).and_then(|value| value.get("trust"));
        match (self.kind.min_trust, trust) {
            (None, _) => Ok(()),
            (Some(least), Some(Value::Long(trust))) if *trust >= least => Ok(()),
            (Some(least), has) => {
                let named = least_trusted.and_then(|fact| AgentId::new(fact.id.id()).ok());
                let agent = named.unwrap_or_else(|| self.action.principal().clone());
                let (action, has) = (self.kind.name.clone(), has.cloned());
                Err(Reason::TrustTooLow { agent, action, least, has, withheld: false })
            }
        }
    }

    fn decision(&self, pact: PactRef, verdict: Verdict) -> Decision {
        let read = |resolved: &Resolved<'_>| ReadVersion {
            fact: resolved.id.clone(),
            version: resolved.version(),
            tag: resolved.record.map(|fact| fact.tag),
        };
        let agents = self.agents_read().map(|agent| read(&agent));
        Decision {
            verdict,
            pact: Some(pact),
            reads: agents.chain(self.reads.iter().map(read)).chain(self.session_reads()).collect(),
            writes: Vec::new(),
            charges: Vec::new(),
            gap_ms: self.gap_ms(0..self.reads.len()),
            shadowed: None,
            waived_by: None,
        }
    }

    /// Time since the oldest observation among the given reads.
    fn gap_ms(&self, reads: impl Iterator<Item = usize>) -> Option<u64> {
        let observed = reads.filter_map(|read| self.reads.get(read)).filter_map(|r| self.action.observation_of(&r.id));
        observed.map(|observed| self.now_ms.saturating_sub(observed.at_ms)).max()
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs::new(self, &self.kind.inputs)
    }
}

impl Source for Deciding<'_> {
    fn input(&self, mention: &Mention) -> Option<Input<'_>> {
        let value_of = |base: Base, attribute: &str| match base {
            Base::Principal => self.principal_of(attribute).and_then(|fact| fact.value.as_ref()),
            Base::Actor => self.actor.and_then(|fact| fact.value.as_ref()),
            Base::Read(read) => self.reads.get(read).and_then(|r| r.live()).and_then(|fact| fact.value.as_ref()),
        };
        let agent = |agent| Some(Input::Fact(Cow::Owned(FactId::of_agent(agent))));
        match mention {
            Mention::Param(name) => self.params.get(name).map(Input::Value),
            Mention::Now => Some(Input::Long(i64::try_from(self.now_ms).unwrap_or(i64::MAX))),
            Mention::Entity(Base::Principal) => agent(self.action.principal()),
            Mention::Entity(Base::Actor) => agent(&self.action.agent),
            // The main fact is named even where it is about to be created; a read is there only if it exists.
            Mention::Entity(Base::Read(read)) => {
                let resolved = self.reads.get(*read).filter(|r| *read == 0 || r.live().is_some());
                resolved.map(|resolved| Input::Fact(Cow::Borrowed(&resolved.id)))
            }
            Mention::Attribute(base, attribute) => value_of(*base, attribute)?.get(attribute).map(Input::Value),
            Mention::ObservedFact(read) => self.observed_value(*read).map(|_| Input::Present),
            Mention::Observed(read, attribute) => self.observed_value(*read)?.get(attribute).map(Input::Value),
            Mention::Reading(name, attribute) => {
                let (_, value) = self.readings.iter().find(|(known, _)| known == name)?;
                value.as_ref().ok()?.get(attribute).map(Input::Value)
            }
        }
    }
}

/// A blocked action, and whether a person may still let it pass.
struct Stopped {
    blocked: Reason,
    review: bool,
}

impl Stopped {
    fn rejected(blocked: Reason) -> Self {
        Self { blocked, review: false }
    }

    fn by(blocked: Reason, on_fail: OnFail) -> Self {
        Self { blocked, review: on_fail == OnFail::Review }
    }
}

impl Decision {
    /// The same on what it read, but rejected: nothing is written or charged.
    fn rejected(self, blocked: Reason) -> Self {
        let verdict = Verdict::Rejected(blocked);
        Self { verdict, writes: Vec::new(), charges: Vec::new(), waived_by: None, shadowed: None, ..self }
    }

    /// A rejection before anything was read.
    fn refused(pact: Option<PactRef>, blocked: Reason) -> Self {
        Self {
            verdict: Verdict::Rejected(blocked),
            pact,
            reads: Vec::new(),
            writes: Vec::new(),
            charges: Vec::new(),
            gap_ms: None,
            shadowed: None,
            waived_by: None,
        }
    }
}
