//! Facts: observed by agents, fed by operators, with their history.

use crate::{Atomicity, Outdated};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which facts to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ObserveRequest {
    /// The facts, each as `Type::"id"`.
    #[cfg_attr(feature = "document", schema(min_items = 1, max_items = 32, example = json!(["Account::\"42\""])))]
    pub facts: Vec<String>,
    /// Whether to show, of facts that a tool reads, also what the tool answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// Whether to enter what is shown in the ledger, so that it can be proved to others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attest: bool,
    /// A session of the agent, in which what tools answer is kept as a reading, where an operator approved the tool as one whose answers
    /// are compared and nothing of its facts is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: Option<String>,
}

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ObserveResponse {
    /// The sealed token to send along with an action; good for this agent only.
    #[cfg_attr(feature = "document", schema(example = "obs1.AAAA"))]
    pub observation: String,
    /// When, in ledger milliseconds.
    pub observed_at: u64,
    /// The ledger position shown: every entry before it.
    pub position: u64,
    /// The facts, in the order asked for.
    pub facts: Vec<ObservedFact>,
    /// Where a session was named: readings of it that read differently by now, as far as is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<Outdated>,
    /// Where `attest` asked for it: the entry that says what was shown, and what proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attested: Option<Attested>,
}

/// What proves to a third party, with the log's public key alone, what an entry says: the receipt proves its leaf, and the leaf commits to
/// the salt and the payload. Who has these three can show them to anyone, also when the payload is erased in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Attested {
    /// The entry.
    pub entry: u64,
    /// Its receipt.
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: String,
    /// The salt of its payload, 16 bytes in hexadecimal.
    pub salt: String,
    /// Its payload, as it is stored.
    pub payload: String,
}

/// One fact as it was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ObservedFact {
    /// The fact.
    pub fact: String,
    /// Its version; 0 where there is no such fact. External facts have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Of an external fact, SHA-256 of its value; absent where something of it is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its value; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub value: Option<Value>,
    /// Attributes of the fact's type that no grant shows to this agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// When this version was written, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<u64>,
    /// How strong the guarantee on it is.
    pub atomicity: Atomicity,
    /// What the tool that reads it answered, as JSON; only where it was asked for and nothing is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// The current version of a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactResponse {
    /// The fact.
    pub fact: String,
    /// Its version; also the `ETag`.
    pub version: u64,
    /// Its value.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub value: Value,
    /// When this version was written, in ledger milliseconds.
    pub written_at: u64,
    /// Who wrote it.
    pub written_by: String,
    /// In which entry.
    pub entry: u64,
    /// When its source last fed or confirmed it, in ledger milliseconds; absent where none ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<u64>,
    /// Who that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// How strong the guarantee on it is.
    pub atomicity: Atomicity,
    /// The effects in flight that rely on it: until they have ended no one changes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(example = json!(["eff_813"])))]
    pub fenced_by: Vec<String>,
    /// The feeds that wait for those effects, oldest first: until they are written no one relies on the fact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldFeed>,
    /// The claim that announces a change of it, if one stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// Facts of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactList {
    /// The facts, by id.
    pub facts: Vec<FactSummary>,
    /// The id after which the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// One fact of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactSummary {
    /// The fact.
    pub fact: String,
    /// Its version.
    pub version: u64,
    /// Its value.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub value: Value,
    /// When this version was written, in ledger milliseconds.
    pub written_at: u64,
    /// Who wrote it.
    pub written_by: String,
}

/// A feed that waits for effects in flight to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct HeldFeed {
    /// The entry in which it came.
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at: u64,
    /// Who fed it.
    pub by: String,
    /// The value that will be written; absent where the fact will be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub value: Option<Value>,
}

/// A new value for a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FactPut {
    /// All attributes of the fact; those not named here are gone afterwards.
    #[cfg_attr(feature = "document", schema(value_type = Object, example = json!({"status": "active", "balance": 900000, "owner": "ada"})))]
    pub value: Map<String, Value>,
}

/// That a fact is still so, as its source says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FactConfirm {
    /// The version that the source has looked at and confirms.
    pub version: u64,
}

/// A fact was confirmed by its source. It stays at its version, and what was observed of it stays good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactConfirmed {
    /// The fact.
    pub fact: String,
    /// The version that was confirmed.
    pub version: u64,
    /// The entry.
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub confirmed_at: u64,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// A fact was written or deleted by an operator, or will be as soon as nothing in flight relies on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactWritten {
    /// The fact.
    pub fact: String,
    /// Its new version; absent where the feed is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The entry.
    pub entry: u64,
    /// Whether the feed is held, because effects in flight rely on the fact: it is in the ledger, is written right after they have
    /// ended, and until then no action relies on the fact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The effects that a held feed waits for, as they were when it was answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// The history of a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct HistoryResponse {
    /// The fact.
    pub fact: String,
    /// Its versions, newest first.
    pub versions: Vec<FactVersion>,
    /// Where the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
    /// The erased entry at which the history ends early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at_entry: Option<u64>,
}

/// One version of a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FactVersion {
    /// The version.
    pub version: u64,
    /// Its value; absent where it deleted the fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub value: Option<Value>,
    /// When it was written, in ledger milliseconds.
    pub written_at: u64,
    /// Who wrote it.
    pub written_by: String,
    /// In which entry.
    pub entry: u64,
}
