//! Fences: what must not change because a call in flight relies on it, and what must not be relied on because its change is
//! announced.
//!
//! A *steady* fence comes with the dispatch of a call and goes with its settlement. A *claim* announces a write: it names its
//! holder, ends by ledger time, and its entry is its fencing token. Both stand on fact ids, whether there is such a fact or
//! not, and both are folded from the ledger (I3). No one waits here, and nothing is held while waiting (docs/adr/0011).

mod refusal;
#[cfg(test)]
mod tests;

pub use refusal::ClaimRefusal;

use crate::call::EffectId;
use crate::disclose::Subject;
use crate::fact::Fact;
use crate::halt::Scope;
use crate::identity::{ACTIVE, Auth, holds_key};
use crate::ids::{AgentId, FactId, PactName, numbered};
use crate::limits::{CLAIM_FACTS_MAX, CLAIMS_MAX, CLAIMS_PER_AGENT_MAX, REASON_BYTES_MAX};
use crate::pact::ClaimRule;
use crate::session::GATEWAY_PACT;
use crate::state::{ReadState, State};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a claim: `clm_` and its entry, which is also its fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u64);

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clm_{}", self.0)
    }
}

crate::ids::serde_as_text!(ClaimId);

impl FromStr for ClaimId {
    type Err = ClaimRefusal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        numbered("clm_", text).map(Self).ok_or_else(|| ClaimRefusal::NotFound(text.chars().take(80).collect()))
    }
}

/// An announced write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who announced it.
    pub by: AgentId,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// Until when it stands; at this very time it no longer does.
    pub expires_at_ms: u64,
    /// The latest that it can be extended to.
    pub until_ms: u64,
    /// A higher one takes a fact from a lower.
    pub priority: i64,
    /// Why, in the holder's words.
    pub reason: Arc<str>,
    /// The facts that it still holds.
    pub facts: Vec<FactId>,
}

impl Claim {
    /// Whether it stands at this time.
    pub fn stands(&self, now_ms: u64) -> bool {
        now_ms < self.expires_at_ms
    }
}

/// A fact that a call in flight relies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    pub fact: FactId,
    /// The version that was relied on; 0 where there is none.
    pub version: u64,
    /// Whether the call's settlement writes it.
    pub sets: bool,
}

/// A call in flight that keeps an action from using a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTheWay {
    /// The call, by the entry of its intent.
    pub effect: u64,
    pub why: Why,
}

/// Why a call in flight keeps an action from using a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The call relies on the fact, and the action would change it.
    ReliedOn,
    /// A feed is held until the call has ended: what the fact says is known to be out of date.
    FeedHeld,
    /// The call will change the fact, and the action's own call would rely on it.
    WillChange,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReliedOn => "relies on it",
            Self::FeedHeld => "a feed of it is held until it does",
            Self::WillChange => "will change it",
        })
    }
}

/// The fences that stand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fences {
    /// For each fact, the effects in flight that rely on it, and whether they write it.
    steady: BTreeMap<FactId, BTreeMap<u64, bool>>,
    /// For each fact, how many feeds are held until its fence ends.
    held: BTreeMap<FactId, u64>,
    claims: BTreeMap<u64, Claim>,
    /// For each claimed fact, the claim that holds it.
    claimed: BTreeMap<FactId, u64>,
}

/// What a claim is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Until when it stands.
    pub expires_at_ms: u64,
    /// The latest that it can be extended to.
    pub until_ms: u64,
    pub priority: i64,
}

impl Fences {
    /// Whether nothing is fenced, which is how it mostly is.
    pub fn is_empty(&self) -> bool {
        self.steady.is_empty() && self.claims.is_empty()
    }

    /// Takes the fences of a call.
    pub fn take(&mut self, effect: u64, fenced: &[Fenced]) {
        for Fenced { fact, sets, .. } in fenced {
            self.steady.entry(fact.clone()).or_default().insert(effect, *sets);
        }
    }

    /// Frees the fences of a call.
    pub fn free(&mut self, effect: u64, fenced: &[Fenced]) {
        for Fenced { fact, .. } in fenced {
            if let Some(effects) = self.steady.get_mut(fact) {
                effects.remove(&effect);
                if effects.is_empty() {
                    self.steady.remove(fact);
                }
            }
        }
    }

    /// The call in flight that keeps an action from using a fact: from writing it; from relying on it while a feed waits, which
    /// has said already that it is otherwise; and, if the action is a call itself, from relying on what the first will write.
    pub fn steady_against(&self, fact: &FactId, sets: bool, is_call: bool) -> Option<InTheWay> {
        let effects = self.steady.get(fact)?;
        let (effect, why) = if sets {
            (effects.keys().next(), Why::ReliedOn)
        } else if self.is_held(fact) {
            (effects.keys().next(), Why::FeedHeld)
        } else {
            let setter = effects.iter().find(|(_, others)| is_call && **others);
            (setter.map(|(effect, _)| effect), Why::WillChange)
        };
        effect.map(|effect| InTheWay { effect: *effect, why })
    }

    /// The calls in flight that rely on a fact.
    pub fn steady_on(&self, fact: &FactId) -> impl Iterator<Item = EffectId> {
        self.steady.get(fact).into_iter().flat_map(|effects| effects.keys().copied().map(EffectId))
    }

    /// A feed waits for the fence on a fact.
    pub fn hold(&mut self, fact: &FactId) {
        let held = self.held.entry(fact.clone()).or_default();
        *held = held.saturating_add(1);
    }

    /// A feed no longer waits.
    pub fn release(&mut self, fact: &FactId) {
        if let Some(held) = self.held.get_mut(fact) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(fact);
            }
        }
    }

    /// Whether a feed of a fact waits.
    pub fn is_held(&self, fact: &FactId) -> bool {
        self.held.contains_key(fact)
    }

    /// Whether a call in flight relies on a fact.
    pub fn is_steady(&self, fact: &FactId) -> bool {
        self.steady.contains_key(fact)
    }

    /// The claim that holds a fact at this time.
    pub fn claim_on(&self, fact: &FactId, now_ms: u64) -> Option<(ClaimId, &Claim)> {
        let entry = self.claimed.get(fact)?;
        let claim = self.claims.get(entry).filter(|claim| claim.stands(now_ms))?;
        Some((ClaimId(*entry), claim))
    }

    /// A claim, if it stands at this time.
    pub fn claim(&self, id: ClaimId, now_ms: u64) -> Option<&Claim> {
        self.claims.get(&id.0).filter(|claim| claim.stands(now_ms))
    }

    /// All claims that are kept; those that have ended stay until room is made.
    pub fn claims(&self) -> impl Iterator<Item = (ClaimId, &Claim)> {
        self.claims.iter().map(|(entry, claim)| (ClaimId(*entry), claim))
    }

    /// Enters a claim. Its facts are taken from their previous holder; what has ended makes room.
    pub fn announce(&mut self, entry: u64, claim: Claim) {
        self.sweep(claim.at_ms);
        for fact in &claim.facts {
            if let Some(before) = self.claimed.insert(fact.clone(), entry).filter(|before| *before != entry) {
                self.lose(before, fact);
            }
        }
        self.claims.insert(entry, claim);
    }

    /// Extends a claim.
    pub fn extend(&mut self, id: ClaimId, expires_at_ms: u64) {
        if let Some(claim) = self.claims.get_mut(&id.0) {
            claim.expires_at_ms = expires_at_ms;
        }
    }

    /// Ends a claim.
    pub fn withdraw(&mut self, id: ClaimId) {
        let Some(claim) = self.claims.remove(&id.0) else { return };
        // Only its own facts are looked up: a walk over all that is claimed, for each of many claims that end at once, would
        // stop every agent and every halt meanwhile.
        for fact in &claim.facts {
            if self.claimed.get(fact) == Some(&id.0) {
                self.claimed.remove(fact);
            }
        }
    }

    fn lose(&mut self, entry: u64, fact: &FactId) {
        let Some(claim) = self.claims.get_mut(&entry) else { return };
        claim.facts.retain(|held| held != fact);
        if claim.facts.is_empty() {
            self.claims.remove(&entry);
        }
    }

    fn sweep(&mut self, now_ms: u64) {
        let ended: Vec<u64> =
            self.claims.iter().filter(|(_, claim)| !claim.stands(now_ms)).map(|(entry, _)| *entry).collect();
        for entry in ended {
            self.withdraw(ClaimId(entry));
        }
    }
}

/// Whether an agent may ask for anything now: known, active, and with the key that signed.
pub fn check_standing(state: &State, by: &AgentId, auth: &Auth, now_ms: u64) -> Result<(), ClaimRefusal> {
    let refused = |why: String| Err(ClaimRefusal::Agent(why));
    if *auth == Auth::None && state.is_identified() {
        return refused(format!("the request is not signed, and this gate takes nothing unsigned from {by}"));
    }
    let own = FactId::of_agent(by);
    let Some((fact, value)) = state.facts.get(&own).and_then(|fact| Some((fact, fact.value.as_ref()?))) else {
        return refused(format!("agent {by} is not registered"));
    };
    match value.get("standing") {
        Some(Value::String(standing)) if standing == ACTIVE => {}
        _ => return refused(format!("agent {by} is not active")),
    }
    if auth.key().is_some_and(|key| !holds_key(fact, key, now_ms)) {
        return refused(format!("the key that signed is not a key of agent {by} any more"));
    }
    Ok(())
}

/// Whether an agent may announce anything now: it may ask for something, and is not halted.
pub fn check_holder(state: &State, by: &AgentId, auth: &Auth, now_ms: u64) -> Result<(), ClaimRefusal> {
    check_standing(state, by, auth, now_ms)?;
    let own = FactId::of_agent(by);
    let org = match state.facts.get(&own).and_then(|fact| fact.value.as_ref()?.get("org")) {
        Some(Value::String(org)) => Some(Scope::Org(org.clone())),
        _ => None,
    };
    let scopes = [Scope::All, Scope::Agent(by.clone())].into_iter().chain(org);
    match scopes.filter_map(|scope| Some((state.halts.get(&scope)?.entry, scope))).next() {
        Some((entry, scope)) => Err(ClaimRefusal::Agent(format!("`{scope}` is halted since entry {entry}"))),
        None => Ok(()),
    }
}

/// Whether an agent may be told what tools read now. That is done under the gateway's own pact, so halting that one stops it too.
pub fn check_reader(state: &State, by: &AgentId, auth: &Auth, now_ms: u64) -> Result<(), ClaimRefusal> {
    check_holder(state, by, auth, now_ms)?;
    let scope = PactName::new(GATEWAY_PACT).ok().map(Scope::Pact);
    match scope.and_then(|scope| Some((state.halts.get(&scope)?.entry, scope))) {
        Some((entry, scope)) => Err(ClaimRefusal::Agent(format!("`{scope}` is halted since entry {entry}"))),
        None => Ok(()),
    }
}

/// Whether an agent may announce a change of these facts now, and for how long.
pub fn grant_claim(
    state: &State,
    by: &AgentId,
    facts: &[FactId],
    for_ms: u64,
    reason: &str,
    now_ms: u64,
) -> Result<Granted, ClaimRefusal> {
    let repeats = |(at, fact): (usize, &FactId)| facts.iter().skip(at + 1).any(|other| other == fact);
    if facts.is_empty() || facts.len() > CLAIM_FACTS_MAX || facts.iter().enumerate().any(repeats) {
        return Err(ClaimRefusal::Facts);
    }
    if !(1..=REASON_BYTES_MAX).contains(&reason.len()) {
        return Err(ClaimRefusal::Reason(reason.len()));
    }
    let standing = || state.fences.claims.values().filter(|claim| claim.stands(now_ms));
    let is_own = |claim: &&Claim| claim.by == *by;
    if standing().count() >= CLAIMS_MAX || standing().filter(is_own).count() >= CLAIMS_PER_AGENT_MAX {
        return Err(ClaimRefusal::TooMany);
    }
    let rules =
        facts.iter().map(|fact| rule(state, by, fact).map(|rule| (fact, rule))).collect::<Result<Vec<_>, _>>()?;
    // Facts of one claim stand and fall together, by the strictest of their rules.
    let priority = rules.iter().map(|(_, rule)| rule.priority).min().unwrap_or(0);
    let max_ms = rules.iter().map(|(_, rule)| rule.max_ms).min().unwrap_or(0);
    for fact in facts {
        if let Some((ClaimId(entry), held)) = state.fences.claim_on(fact, now_ms)
            && held.by != *by
            && held.priority >= priority
        {
            let (holder, at_ms, until_ms) = (held.by.clone(), held.at_ms, held.expires_at_ms);
            return Err(ClaimRefusal::Held { fact: fact.clone(), holder, at_ms, entry, until_ms });
        }
    }
    if let Some(fact) = facts.first().filter(|_| for_ms > max_ms) {
        return Err(ClaimRefusal::TooLong { by: by.clone(), fact: fact.clone(), max_ms, for_ms });
    }
    // Announcing again what one holds already is no way past the longest time: the clock of the first goes on.
    let own = |fact: &FactId| state.fences.claim_on(fact, now_ms).filter(|(_, held)| held.by == *by);
    let carried = facts.iter().filter_map(own).map(|(_, held)| held.until_ms).min();
    let until_ms = carried.unwrap_or(u64::MAX).min(now_ms.saturating_add(max_ms));
    Ok(Granted { expires_at_ms: now_ms.saturating_add(for_ms).min(until_ms), until_ms, priority })
}

/// Until when a claim would stand if its holder extended it now.
pub fn extend_claim(state: &State, by: &AgentId, id: ClaimId, for_ms: u64, now_ms: u64) -> Result<u64, ClaimRefusal> {
    let claim = own_claim(state, by, id, now_ms)?;
    Ok(now_ms.saturating_add(for_ms).min(claim.until_ms))
}

/// A claim that stands and is this agent's.
pub fn own_claim<'a>(state: &'a State, by: &AgentId, id: ClaimId, now_ms: u64) -> Result<&'a Claim, ClaimRefusal> {
    let own = state.fences.claim(id, now_ms).filter(|claim| claim.by == *by);
    // One answer: whether others hold a claim of this number is not for the one who asks.
    own.ok_or_else(|| ClaimRefusal::NotFound(id.to_string()))
}

/// Whether some rule lets an agent announce a change of a fact.
pub fn may_claim(state: &dyn ReadState, by: &AgentId, fact: &FactId) -> bool {
    rule(state, by, fact).is_ok()
}

/// The rule that lets an agent announce a change of a fact: of those that do, the one with the highest priority.
fn rule<'a>(state: &'a dyn ReadState, by: &AgentId, fact: &FactId) -> Result<&'a ClaimRule, ClaimRefusal> {
    let own = FactId::of_agent(by);
    let value = |id: &FactId| state.current(id).and_then(|fact: &Arc<Fact>| fact.value.as_ref());
    let subject = Subject::new(&own, value(&own), fact, value(fact));
    let rules = state.pacts().values().filter_map(|pact| pact.claims.get(fact.ty())).flatten();
    let granted = rules.filter(|rule| subject.as_ref().is_some_and(|subject| subject.holds(&rule.who)));
    let best = granted.max_by_key(|rule| (rule.priority, rule.max_ms));
    best.ok_or_else(|| ClaimRefusal::NotAllowed { by: by.clone(), fact: fact.clone() })
}
