//! What events hold, whatever their kind: decisions, writes, charges, keys, and what their leaves tell.
//!
//! Every kind is named in every answer, so that the compiler asks for a new one: what it forgot here would be folded as if it were not
//! there.

use super::{Event, Kind, LeafIdentity, LeafVerdict};
use crate::action::{Action, KeyDigest};
use crate::call::{EffectId, Outcome};
use crate::decision::{Charge, Decision, Verdict, Write};
use crate::ids::ActionId;

impl Event {
    /// The decision that it holds.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Action(decided) => Some(&decided.decision),
            Self::Approval(approved) => Some(&approved.decision),
            Self::Dispatch(dispatch) => Some(&dispatch.decision),
            Self::Group(group) => Some(&group.decision),
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Settle(_)
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Rotation { .. }
            | Self::Done(_)
            | Self::Erased(_) => None,
        }
    }

    /// The effect that it dispatches or settles.
    pub fn effect(&self) -> Option<EffectId> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch.effect),
            Self::Settle(settle) => Some(settle.effect),
            Self::Erased(leaf) => leaf.moves(),
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Action(_)
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Approval(_)
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Group(_)
            | Self::Rotation { .. }
            | Self::Done(_) => None,
        }
    }

    /// The idempotency keys of the actions that it decides, each with the action's id: what an erasure leaves of both.
    pub fn keys(&self) -> impl Iterator<Item = (KeyDigest, ActionId)> {
        let one = match self {
            Self::Action(decided) => Some((decided.action.key, decided.action.id)),
            Self::Done(done) => Some((done.key, done.action)),
            Self::Erased(leaf) => leaf.key.zip(leaf.action),
            // A group has one of each of its actions, which follow.
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Approval(_)
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Dispatch(_)
            | Self::Settle(_)
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Group(_)
            | Self::Rotation { .. } => None,
        };
        let group: &[Action] = if let Self::Group(group) = self { &group.actions } else { &[] };
        let (keys, ids) =
            if let Self::Erased(leaf) = self { (leaf.keys.as_deref(), leaf.actions.as_deref()) } else { (None, None) };
        let erased = keys.into_iter().flatten().copied().zip(ids.into_iter().flatten().copied());
        one.into_iter().chain(group.iter().map(|action| (action.key, action.id))).chain(erased)
    }

    /// The entry of the batch that its action came in.
    pub fn batch(&self) -> Option<u64> {
        match self {
            Self::Action(decided) => decided.action.batch,
            Self::Erased(leaf) => leaf.batch,
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Approval(_)
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Dispatch(_)
            | Self::Settle(_)
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Group(_)
            | Self::Rotation { .. }
            | Self::Done(_) => None,
        }
    }

    /// What kind of entry it makes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Genesis { .. } => Kind::Genesis,
            Self::Pact(_) => Kind::Pact,
            Self::Feed { .. } => Kind::Feed,
            Self::Held { .. } => Kind::Held,
            Self::Confirm { .. } => Kind::Confirm,
            // Entries in shadow mode are of another kind: I1 does not speak of them.
            Self::Action(decided) if decided.decision.shadowed.is_some() => Kind::Shadow,
            Self::Action(_) => Kind::Action,
            Self::Erasure { .. } => Kind::Erasure,
            Self::Clock { .. } => Kind::Clock,
            Self::Approval(_) => Kind::Approval,
            Self::Refusal { .. } => Kind::Refusal,
            Self::Expiry { .. } => Kind::Expiry,
            Self::Halt { .. } => Kind::Halt,
            Self::Resume { .. } => Kind::Resume,
            Self::Dispatch(_) => Kind::Dispatch,
            Self::Settle(_) => Kind::Settle,
            Self::Session { .. } => Kind::Session,
            Self::Reading { .. } => Kind::Reading,
            Self::Observation(_) => Kind::Observation,
            Self::Claim { .. } => Kind::Claim,
            Self::Extension { .. } => Kind::Extension,
            Self::Withdrawal { .. } => Kind::Withdrawal,
            Self::Denials(_) => Kind::Denials,
            Self::Batch { .. } => Kind::Batch,
            Self::Group(_) => Kind::Group,
            Self::Rotation { .. } => Kind::Rotation,
            Self::Done(done) => done.kind,
            Self::Erased(leaf) => leaf.kind,
        }
    }

    /// Whose identity it is about: what it writes, holds or confirms is an agent or an operator, or the log begins with one.
    pub fn identity(&self) -> Option<LeafIdentity> {
        match self {
            Self::Feed { write, .. } => LeafIdentity::of_type(write.fact.ty()),
            Self::Held { fact, .. } | Self::Confirm { fact, .. } => LeafIdentity::of_type(fact.ty()),
            Self::Genesis { is_identified, .. } => is_identified.then_some(LeafIdentity::Operator),
            Self::Erased(leaf) => leaf.identity,
            Self::Pact(_)
            | Self::Action(_)
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Approval(_)
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Dispatch(_)
            | Self::Settle(_)
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Group(_)
            | Self::Rotation { .. }
            | Self::Done(_) => None,
        }
    }

    /// The verdict or outcome that its leaf tells.
    pub fn verdict(&self) -> Option<LeafVerdict> {
        match self {
            Self::Settle(settle) => Some(match settle.outcome {
                Outcome::Settled => LeafVerdict::Settled,
                Outcome::Failed => LeafVerdict::Failed,
                Outcome::InDoubt => LeafVerdict::InDoubt,
            }),
            Self::Done(done) => Some(done.verdict),
            Self::Erased(leaf) => leaf.verdict,
            Self::Action(_) | Self::Approval(_) | Self::Dispatch(_) | Self::Group(_) => {
                self.decision().map(|decision| match &decision.verdict {
                    Verdict::Committed => LeafVerdict::Committed,
                    Verdict::Rejected(_) => LeafVerdict::Rejected,
                    Verdict::Review { .. } => LeafVerdict::Review,
                    Verdict::InFlight(_) => LeafVerdict::InFlight,
                })
            }
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Rotation { .. } => None,
        }
    }

    /// The facts it writes.
    pub fn writes(&self) -> &[Write] {
        match self {
            Self::Feed { write, .. } => std::slice::from_ref(write),
            Self::Settle(settle) => &settle.writes,
            Self::Session { writes } | Self::Reading { writes, .. } => writes,
            Self::Done(done) => &done.writes,
            Self::Action(_) | Self::Approval(_) | Self::Dispatch(_) | Self::Group(_) => {
                self.decision().map_or(&[], |decision| &decision.writes)
            }
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Rotation { .. }
            | Self::Erased(_) => &[],
        }
    }

    /// The budgets it charges, or gives back to.
    pub fn charges(&self) -> &[Charge] {
        match self {
            Self::Settle(settle) => &settle.charges,
            Self::Done(done) => &done.charges,
            Self::Action(_) | Self::Approval(_) | Self::Dispatch(_) | Self::Group(_) => {
                self.decision().map_or(&[], |decision| &decision.charges)
            }
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Feed { .. }
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Session { .. }
            | Self::Reading { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Rotation { .. }
            | Self::Erased(_) => &[],
        }
    }

    /// The facts it writes, to give new ones their tags.
    pub fn writes_mut(&mut self) -> &mut [Write] {
        match self {
            Self::Feed { write, .. } => std::slice::from_mut(write),
            Self::Settle(settle) => &mut settle.writes,
            Self::Session { writes } | Self::Reading { writes, .. } => writes,
            Self::Action(decided) => &mut decided.decision.writes,
            Self::Approval(approved) => &mut approved.decision.writes,
            Self::Dispatch(dispatch) => &mut dispatch.decision.writes,
            Self::Group(group) => &mut group.decision.writes,
            Self::Done(done) => &mut done.writes,
            Self::Genesis { .. }
            | Self::Pact(_)
            | Self::Held { .. }
            | Self::Confirm { .. }
            | Self::Erasure { .. }
            | Self::Clock { .. }
            | Self::Refusal { .. }
            | Self::Expiry { .. }
            | Self::Halt { .. }
            | Self::Resume { .. }
            | Self::Claim { .. }
            | Self::Extension { .. }
            | Self::Withdrawal { .. }
            | Self::Observation(_)
            | Self::Denials(_)
            | Self::Batch { .. }
            | Self::Rotation { .. }
            | Self::Erased(_) => &mut [],
        }
    }
}
