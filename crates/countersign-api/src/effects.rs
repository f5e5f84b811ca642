//! Announced changes, and effects that leave the building.

use crate::{Evidence, FailedPrecondition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An announcement: these facts are about to change, and are not to be relied on until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The facts.
    #[cfg_attr(feature = "document", schema(min_items = 1, max_items = 32, example = json!(["Account::\"42\""])))]
    pub facts: Vec<String>,
    /// For how long, in milliseconds; the pact says how long is allowed.
    #[cfg_attr(feature = "document", schema(minimum = 1, example = 5000))]
    pub for_ms: u64,
    /// Why; those kept waiting are told.
    #[cfg_attr(feature = "document", schema(min_length = 1, max_length = 1024, example = "reported as stolen"))]
    pub reason: String,
}

/// For how long a claim is to stand from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaimExtension {
    /// For how long, in milliseconds.
    #[cfg_attr(feature = "document", schema(minimum = 1, example = 5000))]
    pub for_ms: u64,
}

/// A claim that was announced, extended or withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ClaimEntered {
    /// The claim, and its fencing token: send it along with the action that was announced.
    #[cfg_attr(feature = "document", schema(example = "clm_812"))]
    pub claim: String,
    /// The entry.
    pub entry: u64,
    /// The facts that it holds; none once it was withdrawn.
    pub facts: Vec<String>,
    /// Until when it stands, in ledger milliseconds; absent once it was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The latest that it can be extended to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: Option<String>,
}

/// A claim that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ClaimInForce {
    /// The claim.
    #[cfg_attr(feature = "document", schema(example = "clm_812"))]
    pub claim: String,
    /// Its holder.
    pub by: String,
    /// The facts that it holds.
    pub facts: Vec<String>,
    /// Since when, in ledger milliseconds.
    pub at: u64,
    /// Until when.
    pub expires_at: u64,
    /// The latest that it can be extended to.
    pub until: u64,
    /// A higher one takes a fact from a lower.
    pub priority: i64,
    /// Why; left out for an agent that may not claim such facts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The claims that stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ClaimList {
    /// Oldest first.
    pub claims: Vec<ClaimInForce>,
}

/// Where an effect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// Its intent stands; it is decided again when it has cooled.
    Cooling,
    /// It may be on its way.
    Dispatched,
    /// No one knows whether it happened.
    InDoubt,
    /// It happened.
    Settled,
    /// It did not happen, and will not.
    Failed,
}

impl EffectState {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cooling => "cooling",
            Self::Dispatched => "dispatched",
            Self::InDoubt => "in_doubt",
            Self::Settled => "settled",
            Self::Failed => "failed",
        }
    }
}

/// An external effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Effect {
    /// Its name: `eff_` and the entry of its intent.
    #[cfg_attr(feature = "document", schema(example = "eff_813"))]
    pub effect: String,
    /// Where it is.
    pub state: EffectState,
    /// The latest entry that speaks of it.
    pub entry: u64,
    /// Who acted.
    pub agent: String,
    /// The pact.
    pub pact: String,
    /// The action type.
    pub action: String,
    /// When its intent was entered, in ledger milliseconds.
    pub at: u64,
    /// When it is decided again; only while it cools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_at: Option<u64>,
    /// The idempotency key that the other side is given: the same for every attempt, and no other action's. Ask by it what became of
    /// a call that is in doubt.
    #[cfg_attr(feature = "document", schema(example = "cs-2f0c8d1be4a79356f80b6c1d9e24a735"))]
    pub idempotency_key: String,
    /// The adapter that carries it out; absent while it cools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// The call as it is sent; absent while it cools, and for agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub call: Option<Value>,
    /// The facts that stay as they are until it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<String>,
    /// The entries of feeds that wait for it to end, because it keeps their facts as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_feeds: Vec<u64>,
    /// Whether something finds out about a doubt by itself, or a person must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probed: Option<bool>,
    /// The latest attempt, or probe of a doubt, that has led to nothing yet. Only what the running gate knows: it is not in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_try: Option<LastTry>,
    /// What speaks for its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Why it was cancelled or blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, in one sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Every failed precondition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedPrecondition>,
    /// The action type that undoes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// What to send with that action; absent until the effect has settled, and once its parameters were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_with: Option<UndoWith>,
}

/// An attempt or a probe that has led to nothing yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct LastTry {
    /// When it ended, in ledger milliseconds.
    pub at: u64,
    /// Which it was, of the attempts, or of the probes of a doubt; the first is 1.
    pub number: u32,
    /// What it found.
    #[cfg_attr(feature = "document", schema(example = "no connection could be made"))]
    pub found: String,
}

/// How an effect is undone: by an action of the type that `undo` names, with these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct UndoWith {
    /// The idempotency key: it follows from the effect, so that undoing it twice within a day acts once.
    #[cfg_attr(feature = "document", schema(example = "undo-6f1c2f7e0b9d4c5a8e3f7a1b2c3d4e5f"))]
    pub idempotency_key: String,
    /// The parameters of the action that is undone, as far as the one that undoes it takes them.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub params: Map<String, Value>,
}

/// Effects under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct EffectList {
    /// Oldest first.
    pub effects: Vec<Effect>,
}

/// What a person found out about a doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// `settled` if it happened, `failed` if it did not and will not.
    pub outcome: Resolved,
    /// How that is known; it stands in the ledger.
    #[cfg_attr(
        feature = "document",
        schema(min_length = 1, max_length = 1024, example = "the bank confirms the transfer by phone")
    )]
    pub reason: String,
}

/// How a doubt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolved {
    /// It happened.
    Settled,
    /// It did not happen, and will not.
    Failed,
}
