//! The public part of an entry: one CBOR map, in the one form that RFC 8949 calls core deterministic.

mod cbor;
mod read;
mod write;

use super::context::Context;
use super::decode::DecodeError;
use super::{Kind, LeafAuth, LeafIdentity, LeafVerdict};
use crate::action::KeyDigest;
use crate::call::EffectId;
use crate::decision::PactRef;
use crate::halt::Scope;
use crate::identity::RequestDigest;
use crate::ids::{AgentId, Digest, Tag};

pub(super) use write::{Fields, deletes};

/// The public part of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The entries whose messages were acknowledged, ascending.
    pub acknowledged: Option<Vec<u64>>,
    /// The action's id.
    pub action: Option<Digest>,
    /// The ids of the actions of a batch or a group, in their order.
    pub actions: Option<Vec<Digest>>,
    /// How the sender was authenticated.
    pub auth: LeafAuth,
    /// The entry of the batch that an action came in.
    pub batch: Option<u64>,
    /// Who caused it.
    pub by: AgentId,
    /// The claim that an extension or withdrawal speaks of.
    pub claim: Option<u64>,
    /// The commitment to the payload.
    pub commitment: Digest,
    /// Where it came from and what it weighs.
    pub context: Context,
    /// Which of the writes delete their facts, by place, ascending.
    pub deletes: Vec<u64>,
    /// The effect that a dispatch or settlement speaks of, or in whose turn a reading was made.
    pub effect: Option<u64>,
    /// The entries whose payloads an erasure erased.
    pub erased: Option<Vec<u64>>,
    /// Who sent the message that an approval delivers: the one whose action it executes.
    pub from: Option<AgentId>,
    /// The entry in which a feed was held until a fence ended.
    pub held: Option<u64>,
    /// Whose identity it is about: such an entry is never erased.
    pub identity: Option<LeafIdentity>,
    /// The place in the log.
    pub index: u64,
    /// The digest of the action's idempotency key.
    pub key: Option<KeyDigest>,
    /// The digests of the idempotency keys of a rejected group.
    pub keys: Option<Vec<KeyDigest>>,
    /// What kind of entry it is.
    pub kind: Kind,
    /// The log's verifier key: in a genesis entry its first, in a rotation its next.
    pub log_key: Option<String>,
    pub pact: Option<PactRef>,
    /// The tags and versions read.
    pub reads: Option<Vec<(Tag, u64)>>,
    /// What tells the signed request from every other; in every entry that is signed itself, and in no other.
    pub request: Option<RequestDigest>,
    /// The entry that parked what an approval, refusal or expiry speaks of.
    pub review: Option<u64>,
    /// What a halt or resume speaks of.
    pub scope: Option<String>,
    /// Ledger time.
    pub time: u64,
    /// The recipient of the message that the entry delivers.
    pub to: Option<AgentId>,
    pub verdict: Option<LeafVerdict>,
    /// The tags and versions written.
    pub writes: Option<Vec<(Tag, u64)>>,
}

impl Leaf {
    /// The effect that it dispatches or settles. A reading was made in the turn of one, and moves it nowhere.
    pub fn moves(&self) -> Option<EffectId> {
        self.effect.filter(|_| self.kind != Kind::Reading).map(EffectId)
    }

    /// Reads a leaf. Another format, an unknown kind or member, a member that its kind does not have, and bytes in any other than
    /// the deterministic form are refused.
    ///
    /// # Errors
    /// If the bytes are not a leaf of this format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        read::read(bytes)
    }

    /// What kind of entry a leaf says it is, without reading the rest.
    ///
    /// # Errors
    /// If the bytes do not begin as a leaf of this format does.
    pub fn kind_of(bytes: &[u8]) -> Result<Kind, DecodeError> {
        read::read_kind(bytes)
    }

    /// The commitment in a leaf, without reading the rest.
    ///
    /// # Errors
    /// If the bytes do not begin as a leaf of this format does.
    pub fn commitment_in(bytes: &[u8]) -> Result<Digest, DecodeError> {
        read::read_commitment(bytes)
    }

    /// What a halt or resume speaks of.
    ///
    /// # Errors
    /// If it speaks of nothing, or of nothing that there is.
    pub fn scope(&self) -> Result<Scope, DecodeError> {
        Ok(self.scope.as_deref().ok_or(DecodeError::Missing("scope"))?.parse()?)
    }
}
