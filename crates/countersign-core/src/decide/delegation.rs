//! The members of a delegation at this instant: who they are now, and whether what they passed on covers the action.
//!
//! Standing and keys are read from the members' own facts, like everything else that an action rests on, so a revocation
//! or a rotation holds from the next commit on.

use super::{Deciding, Resolved, Snapshot};
use crate::delegation::{Chain, Scope, narrows};
use crate::fact::Fact;
use crate::identity::holds_key;
use crate::ids::{AgentId, FactId};
use crate::reason::{HopRef, OutOfScope, Reason, Since};
use crate::value::Value;
use std::sync::Arc;

impl<'a> Deciding<'a> {
    /// Looks up everyone the action rests on.
    pub(super) fn resolve_members(&mut self) {
        let snapshot = self.snapshot;
        let live = |agent: &AgentId| snapshot.fact(&FactId::of_agent(agent)).filter(|fact| fact.value.is_some());
        self.actor = live(&self.action.agent);
        let Some(chain) = &self.action.chain else {
            self.principal = self.actor;
            return;
        };
        self.principal = live(chain.root());
        self.members = members(chain, snapshot);
    }

    /// The fact whose `trust` counts: of a chain, the least trusted member's (a member without trust has least).
    pub(super) fn least_trusted(&self) -> Option<&'a Arc<Fact>> {
        let trust = |fact: &&Arc<Fact>| match fact.value.as_ref().and_then(|value| value.get("trust")) {
            Some(Value::Long(trust)) => Some(*trust),
            _ => None,
        };
        let members = self.members.iter().filter_map(Resolved::live);
        members.min_by_key(trust).or(self.principal)
    }

    /// The fact that an attribute of the principal is read from: its own, and for `trust` the least trusted member's.
    pub(super) fn principal_of(&self, attribute: &str) -> Option<&'a Arc<Fact>> {
        if attribute == "trust" { self.least_trusted() } else { self.principal }
    }

    /// What the agents of the decision's reads are: every member of the chain, and the one who acts.
    pub(super) fn agents_read(&self) -> impl Iterator<Item = Resolved<'a>> {
        let actor = self.actor.map(|fact| Resolved { id: fact.id.clone(), record: Some(fact) });
        let actor = actor.filter(|actor| !self.members.iter().any(|member| member.id == actor.id));
        let members = self.members.iter().map(|member| Resolved { id: member.id.clone(), record: member.record });
        members.chain(actor)
    }

    /// Checks the chain at this instant, in order of precedence; facts are checked when they are resolved.
    pub(super) fn check_chain(&self) -> Result<(), Reason> {
        let Some(chain) = &self.action.chain else {
            // Admission reduces every token or refuses the request; a record may say anything.
            return match self.action.is_delegated {
                false => Ok(()),
                true => Err(out_of_scope(OutOfScope::NotReduced)),
            };
        };
        check_shape(chain)?;
        check_expiry(chain, self.now_ms)?;
        check_members(chain, &self.members, self.now_ms)?;
        self.check_scope(chain)
    }

    fn check_scope(&self, chain: &Chain) -> Result<(), Reason> {
        check_bearer(chain, &self.action.agent)?;
        if !self.action.is_delegated {
            return Err(out_of_scope(OutOfScope::NotCarried));
        }
        for (number, from, hop) in chain.numbered() {
            if let Some(refuses) = hop.refuses(&self.action.pact, &self.kind.name, self.params) {
                return Err(out_of_scope(OutOfScope::Hop { hop: hop_ref(number, from, hop), refuses }));
            }
        }
        Ok(())
    }

    /// Checks that a fact that is the resource, or is written, is within every hop.
    pub(super) fn check_fact_scope(&self, read: usize, fact: &FactId) -> Result<(), Reason> {
        if read != 0 && !self.kind.writes.iter().any(|rule| rule.read == read) {
            return Ok(());
        }
        self.check_written_scope(fact)
    }

    /// Checks that a fact is within every hop.
    pub(super) fn check_written_scope(&self, fact: &FactId) -> Result<(), Reason> {
        let Some(chain) = &self.action.chain else { return Ok(()) };
        for (number, from, hop) in chain.numbered() {
            if let Some(refuses) = hop.refuses_fact(fact) {
                return Err(out_of_scope(OutOfScope::Hop { hop: hop_ref(number, from, hop), refuses }));
            }
        }
        Ok(())
    }
}

/// Every member of a chain as its fact is now, root first.
fn members<'a>(chain: &Chain, snapshot: &'a dyn Snapshot) -> Vec<Resolved<'a>> {
    let resolve = |agent: &AgentId| {
        let id = FactId::of_agent(agent);
        Resolved { record: snapshot.fact(&id), id }
    };
    chain.agents().map(resolve).collect()
}

/// The first member of a chain that is not registered under the key that it is named by. Asked at the door, with one answer for an
/// agent that there is not and for another key: a delegation that anyone can make up must not tell who is registered, nor how they
/// stand.
pub fn stranger<'a>(chain: &'a Chain, snapshot: &dyn Snapshot, now_ms: u64) -> Option<&'a AgentId> {
    let holds =
        |agent: &AgentId, key| snapshot.fact(&FactId::of_agent(agent)).is_some_and(|fact| holds_key(fact, key, now_ms));
    chain.members().find(|(agent, key)| !holds(agent, key)).map(|(agent, _)| agent)
}

/// Whether the right was handed to the one who acts.
pub(super) fn check_bearer(chain: &Chain, agent: &AgentId) -> Result<(), Reason> {
    if chain.actor() == agent {
        return Ok(());
    }
    Err(out_of_scope(OutOfScope::OfAnother { names: chain.actor().clone(), acts: agent.clone() }))
}

/// Whether a chain still holds: no hop has expired, and every member is active under the key that it was named by.
pub(super) fn check_standing(chain: &Chain, snapshot: &dyn Snapshot, now_ms: u64) -> Result<(), Reason> {
    check_expiry(chain, now_ms)?;
    check_members(chain, &members(chain, snapshot), now_ms)
}

fn check_expiry(chain: &Chain, now_ms: u64) -> Result<(), Reason> {
    for (number, from, hop) in chain.numbered() {
        if let Some(expired_at) = hop.expires_at_ms.filter(|at_ms| *at_ms <= now_ms) {
            let hop = hop_ref(number, from, hop);
            return Err(Reason::DelegationExpired { hop, expired_at, at: now_ms });
        }
    }
    Ok(())
}

fn check_members(chain: &Chain, members: &[Resolved<'_>], now_ms: u64) -> Result<(), Reason> {
    for (agent, member) in chain.agents().zip(members) {
        let Some(fact) = member.live() else {
            let since = member.record.map(|fact| Since::from(&fact.written));
            let (agent, standing) = (agent.clone(), None);
            return Err(Reason::DelegationMemberNotActive { agent, is_registered: false, standing, since });
        };
        let standing = fact.value.as_ref().and_then(|value| value.get("standing"));
        if !matches!(standing, Some(Value::String(standing)) if standing == "active") {
            let since = Some(Since::from(fact.changed("standing")));
            let (agent, standing) = (agent.clone(), standing.cloned());
            return Err(Reason::DelegationMemberNotActive { agent, is_registered: true, standing, since });
        }
    }
    for ((agent, key), member) in chain.members().zip(members) {
        if let Some(fact) = member.live().filter(|fact| !holds_key(fact, key, now_ms)) {
            let since = Box::new(Since::from(fact.changed("key")));
            let (agent, key) = (agent.clone(), key.clone());
            return Err(Reason::DelegationKeyNotCurrent { agent, key, since });
        }
    }
    Ok(())
}

/// What can be said of a chain without looking at anything else: no hop claims more than it was given, nor is it passed on
/// more often than any hop allows.
fn check_shape(chain: &Chain) -> Result<(), Reason> {
    let hops = chain.hops();
    for ((number, from, child), parent) in chain.numbered().skip(1).zip(hops) {
        if let Err(claims) = narrows(parent, child) {
            let (hop, claims) = (hop_ref(number, from, child), Box::new(claims));
            return Err(Reason::DelegationWidened { hop, claims });
        }
    }
    for (number, from, hop) in chain.numbered() {
        let after = hops.len().saturating_sub(number);
        if u32::try_from(after).is_ok_and(|after| after > hop.depth) {
            let (depth, after) = (hop.depth, after as u64);
            return Err(Reason::DelegationTooDeep { hop: hop_ref(number, from, hop), depth, after });
        }
    }
    Ok(())
}

fn out_of_scope(why: OutOfScope) -> Reason {
    Reason::DelegationOutOfScope { why: Box::new(why) }
}

fn hop_ref(number: usize, from: &AgentId, hop: &Scope) -> HopRef {
    HopRef { number: number as u64, from: from.clone(), to: hop.to.clone() }
}
