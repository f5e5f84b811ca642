//! Why there is no claim.

use crate::ids::{AgentId, FactId};
use crate::limits::{CLAIM_FACTS_MAX, CLAIMS_MAX, CLAIMS_PER_AGENT_MAX, REASON_BYTES_MAX};
use crate::utc::{Span, Utc};

/// Why a claim cannot be. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    /// There is no such claim of the one who asks, or it has ended.
    #[error("there is no claim `{0}` of yours, or it has ended")]
    NotFound(String),
    /// No pact lets this agent announce changes of this fact.
    #[error("no pact lets {by} announce a change of {fact}")]
    NotAllowed {
        /// The agent.
        by: AgentId,
        fact: FactId,
    },
    /// Someone else has announced a change, with no lower priority.
    #[error("{fact} is claimed by {holder} since {} (entry {entry}), until {}", Utc(*.at_ms), Utc(*.until_ms))]
    Held {
        fact: FactId,
        holder: AgentId,
        /// Since when.
        at_ms: u64,
        /// In which entry.
        entry: u64,
        /// Until when at present.
        until_ms: u64,
    },
    /// Longer than the pact allows.
    #[error(
        "the pact lets {by} hold {fact} for at most {}, extensions included, and {} was asked for", Span(*.max_ms), Span(*.for_ms)
    )]
    TooLong {
        /// The agent.
        by: AgentId,
        fact: FactId,
        /// The most.
        max_ms: u64,
        /// What was asked for.
        for_ms: u64,
    },
    /// None, or too many, or one twice.
    #[error("a claim names 1 to {CLAIM_FACTS_MAX} facts, each once")]
    Facts,
    /// The reason is empty or too long.
    #[error("the reason must be 1 to {REASON_BYTES_MAX} bytes long; this one is {0}")]
    Reason(usize),
    /// More claims than are kept.
    #[error("{CLAIMS_MAX} claims, or {CLAIMS_PER_AGENT_MAX} of one agent, are already held, which is the limit")]
    TooMany,
    /// The agent may not act at all.
    #[error("{0}")]
    Agent(String),
}
