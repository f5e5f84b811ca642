//! Delegation: an agent acts with a part of another agent's right, passed on from one to the next.
//!
//! Here is the chain as `decide` sees it: who handed to whom, under which keys, and how much. It was reduced from a signed
//! token at admission, where signatures are verified; the chain is recorded with the entry, so that a replay needs no token
//! library (I3). Nothing in a chain is believed about the present: whether its members are active and still hold the keys
//! that they were named by is looked up in the facts at the action's own place in the order (I1, I8).

mod record;
mod scope;

pub(crate) use record::StoredChain;
pub use scope::{Limit, Scope, narrows};

use crate::identity::KeyName;
use crate::ids::{AgentId, Digest};
use crate::limits::DELEGATION_HOPS_MAX;
use smol_str::SmolStr;

/// Who acts for whom: the root delegator, and one hop for each time the right was passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    gate: SmolStr,
    root: AgentId,
    root_key: KeyName,
    hops: Vec<Scope>,
    token: Digest,
}

/// Why hops are not a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Nothing is passed on.
    #[error("the delegation grants nothing")]
    Empty,
    /// Too many hops.
    #[error("it has {0} hops; at most {DELEGATION_HOPS_MAX} are allowed")]
    TooLong(usize),
    /// A member is in it twice.
    #[error("{0} is in it twice: a right that comes back to its delegator is a loop")]
    Loop(AgentId),
}

impl Chain {
    /// Puts a chain together; loops and chains without a hop are refused. `gate` is the origin of the gate that it is for, `token`
    /// the digest of the token as sent.
    pub fn new(
        gate: SmolStr,
        root: AgentId,
        root_key: KeyName,
        hops: Vec<Scope>,
        token: Digest,
    ) -> Result<Self, ChainError> {
        if hops.is_empty() {
            return Err(ChainError::Empty);
        }
        if hops.len() > DELEGATION_HOPS_MAX {
            return Err(ChainError::TooLong(hops.len()));
        }
        let chain = Self { gate, root, root_key, hops, token };
        let members: Vec<&AgentId> = chain.agents().collect();
        let twice = members.iter().enumerate().find(|(at, agent)| members.iter().take(*at).any(|seen| seen == *agent));
        match twice {
            Some((_, agent)) => Err(ChainError::Loop((*agent).clone())),
            None => Ok(chain),
        }
    }

    /// The origin of the only gate that it is for.
    pub fn gate(&self) -> &str {
        &self.gate
    }

    /// The root delegator: the principal of the action.
    pub fn root(&self) -> &AgentId {
        &self.root
    }

    /// The one who acts: the last member.
    pub fn actor(&self) -> &AgentId {
        self.hops.last().map_or(&self.root, |hop| &hop.to)
    }

    /// Every hop, from the root on.
    pub fn hops(&self) -> &[Scope] {
        &self.hops
    }

    /// The digest of the token that it was reduced from.
    pub fn token(&self) -> Digest {
        self.token
    }

    /// Every member with the key that it was named or signed by, root first, actor last.
    pub fn members(&self) -> impl Iterator<Item = (&AgentId, &KeyName)> {
        std::iter::once((&self.root, &self.root_key)).chain(self.hops.iter().map(|hop| (&hop.to, &hop.key)))
    }

    /// Every member, root first, actor last.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.members().map(|(agent, _)| agent)
    }

    /// Every hop with the one who made it and its number, counted from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &AgentId, &Scope)> {
        self.agents().zip(&self.hops).enumerate().map(|(at, (from, hop))| (at + 1, from, hop))
    }
}
