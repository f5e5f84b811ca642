//! Fences, asked before anything is weighed: what is about to change is not relied on, and what a call in flight relies on
//! is not changed (I5). They hold in shadow mode too.

use super::Deciding;
use crate::call::EffectId;
use crate::fence::{Fenced, InTheWay};
use crate::pact::catalogue::{AGENT, APPROVED};
use crate::pact::{Mode, SourceRead};
use crate::reason::{ClaimLoss, Reason};

impl Deciding<'_> {
    /// Anyone who may not do this at all is told so, and neither learns of a fence nor waits at one.
    pub(super) fn check_fences(&self) -> Result<(), Reason> {
        let fenced = self.fence_in_the_way();
        if fenced.is_err() && self.kind.mode == Mode::Enforce {
            self.check_allowed(&self.inputs())?;
        }
        fenced
    }

    fn fence_in_the_way(&self) -> Result<(), Reason> {
        self.check_own_claim()?;
        let fences = self.snapshot.fences();
        if fences.is_empty() {
            return Ok(());
        }
        let changed = || self.changed.iter().map(|changed| &changed.id);
        for fact in self.fenceable().map(|(_, read)| &read.id).chain(changed()) {
            if let Some((id, claim)) = fences.claim_on(fact, self.now_ms)
                && claim.by != self.action.agent
            {
                // Who announced it and why is for those to see whom the pacts let: `GET /v1/claims` shows it to them.
                let (fact, announced_at, until) = (fact.clone(), claim.at_ms, claim.until_ms);
                return Err(Reason::FactClaimed { fact, claim: id, announced_at, until });
            }
        }
        let is_call = self.kind.call.is_some();
        let relied_on = self.fenceable().map(|(at, read)| (&read.id, self.sets(at)));
        for (fact, sets) in relied_on.chain(changed().map(|fact| (fact, true))) {
            if let Some(InTheWay { effect, why }) = fences.steady_against(fact, sets, is_call) {
                return Err(Reason::FactFenced { fact: fact.clone(), effect: EffectId(effect), why });
            }
        }
        Ok(())
    }

    /// An action that names a claim acts only while the claim is its agent's and holds everything that the action changes.
    fn check_own_claim(&self) -> Result<(), Reason> {
        let Some(id) = self.action.claim else { return Ok(()) };
        let lost = |why: ClaimLoss| Err(Reason::ClaimLost { claim: id, why });
        let Some(claim) = self.snapshot.fences().claim(id, self.now_ms) else {
            return lost(ClaimLoss::Ended);
        };
        if claim.by != self.action.agent {
            return lost(ClaimLoss::OfAnother { agent: self.action.agent.clone() });
        }
        let written = self.fenceable().filter(|(at, _)| self.sets(*at));
        match written.map(|(_, read)| &read.id).find(|id| !claim.facts.contains(id)) {
            Some(fact) => lost(ClaimLoss::DoesNotCover { fact: fact.clone() }),
            None => Ok(()),
        }
    }

    /// The facts that a call of this action relies on until it is settled.
    pub(super) fn fenced(&self) -> Vec<Fenced> {
        let mut fenced: Vec<Fenced> = Vec::new();
        let source_of = |at: usize| self.kind.reads.get(at).and_then(|read| read.outside.as_ref());
        let relied_on = self.fenceable().map(|(at, read)| (read, self.sets(at), source_of(at)));
        let declared = self.kind.changes.iter().flat_map(|changes| &changes.facts);
        let changed = self.changed.iter().zip(declared).map(|(changed, rule)| (changed, true, rule.outside.as_ref()));
        for (read, sets, source) in relied_on.chain(changed) {
            // A transaction of the user's own database locks its rows better than a fence could.
            if source.is_some_and(|source| matches!(source.read, SourceRead::Query(_))) {
                continue;
            }
            match fenced.iter_mut().find(|earlier| earlier.fact == read.id) {
                Some(earlier) => earlier.sets |= sets,
                None => fenced.push(Fenced { fact: read.id.clone(), version: read.version(), sets }),
            }
        }
        fenced
    }

    /// What fences can stand on: everything but agents, who must stay revocable, and what an admin has approved of tools. An approval
    /// must not be kept waiting by a call in doubt, nor its withdrawal; no action writes one, so there is nothing else to keep out.
    fn fenceable(&self) -> impl Iterator<Item = (usize, &super::Resolved<'_>)> {
        let reads = self.reads.iter().enumerate();
        let stays_free = |ty: &str| ty == AGENT || APPROVED.contains(&ty);
        reads.filter(move |(at, _)| self.kind.reads.get(*at).is_some_and(|read| !stays_free(read.ty.as_str())))
    }

    /// Whether the action changes what it reads there. What a call does to an external fact no one says, so its resource
    /// counts as changed.
    fn sets(&self, read: usize) -> bool {
        let is_written = self.kind.writes.iter().any(|rule| rule.read == read);
        is_written || (read == 0 && self.is_external(read))
    }
}
