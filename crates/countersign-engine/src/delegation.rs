//! Delegation tokens: one agent hands another a narrower right, offline, and the gate reduces the token to a chain.
//!
//! `dlg1.` and base64url of a Biscuit. Its authority block is signed by the root delegator's key and names it; each further
//! block is a third-party block, signed by the agent that the block before names. Blocks hold facts of a fixed vocabulary
//! and nothing else (docs/formats/delegation.md); no Datalog is ever evaluated, so what a token allows does not depend on a
//! clock or on the version of an engine (I3). A reduction depends on the token's bytes alone and may be kept; who is active
//! and who holds which key is never kept: `decide` looks at the facts.

mod cache;
mod mint;
mod reduce;
mod vocabulary;

pub use cache::Delegations;
pub use mint::{extend, mint};
pub use reduce::{reduce, reduce_for};

use countersign_core::delegation::ChainError;
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use countersign_core::limits::{CHAIN_BYTES_MAX, DELEGATION_BYTES_MAX};

/// What every token begins with.
const PREFIX: &str = "dlg1.";

/// Why a token was refused, or could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationError {
    /// Not a token.
    #[error("this is not a delegation; send what `countersign delegation new` printed as it is")]
    Malformed,
    #[error("the delegation has {0} bytes; at most {DELEGATION_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// It unfolds to too much.
    #[error("the delegation unfolds to {0} bytes; at most {CHAIN_BYTES_MAX} are allowed")]
    TooMuch(usize),
    /// A signature does not hold: a block was altered, moved, dropped or put in, or the key is another.
    #[error("a signature in the delegation does not hold: it was altered, cut, reordered or put together from others")]
    Forged,
    /// A hop holds something other than facts of the vocabulary.
    #[error("hop {hop} of the delegation holds {what}, which delegations must not hold")]
    Foreign {
        /// The hop, counted from 1.
        hop: usize,
        /// What it holds.
        what: String,
    },
    /// A fact of the vocabulary is missing, repeated or not acceptable.
    #[error("hop {hop} of the delegation: {what}")]
    Vocabulary {
        /// The hop, counted from 1.
        hop: usize,
        /// What is wrong.
        what: String,
    },
    /// A hop is not signed by the agent that was handed the right.
    #[error("hop {hop} of the delegation is not signed by {}, to which the hop before it was made", .expected.as_str())]
    WrongSigner {
        /// The hop, counted from 1.
        hop: usize,
        /// The key that should have signed.
        expected: KeyName,
    },
    /// It is for another gate.
    #[error(
        "the delegation is for the gate `{found}`, and this gate is `{expected}`; ask its delegator for one for this gate"
    )]
    OtherGate {
        /// What it says.
        found: String,
        /// What it must say.
        expected: String,
    },
    /// A member is not registered, or under another key. Which of the two is not said.
    #[error("{0} is in the delegation under a key that is not registered for it")]
    Stranger(AgentId),
    /// The hops are not a chain.
    #[error("the delegation is refused: {0}")]
    Chain(#[from] ChainError),
    /// The agent that passes it on is not the one that the delegation names.
    #[error("this delegation was made to {0}; only that key can hand it on")]
    NotYours(String),
    /// The token could not be made.
    #[error("the delegation cannot be made: {0}")]
    Unmade(String),
}

#[cfg(test)]
mod tests;
