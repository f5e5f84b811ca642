//! The ledger: entries, receipts, proofs, erasures, and the gate's own state of health.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Entries of the ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct EntriesResponse {
    /// The entries, in order.
    pub entries: Vec<EntryResponse>,
    /// How many entries the ledger has.
    pub size: u64,
    /// Where the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct EntryResponse {
    /// Its place in the ledger; also its id.
    pub index: u64,
    /// The public part, byte for byte as it stands in the log.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub leaf: Box<RawValue>,
    /// The erasable part; absent where it was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub payload: Option<Box<RawValue>>,
    /// Whether the payload was erased.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
}

/// The receipt of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReceiptResponse {
    /// The entry.
    pub entry: u64,
    /// Its leaf, its inclusion proof and the latest checkpoint; verifies offline with the log's public key.
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: String,
}

/// The proof that an earlier log is the beginning of the present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ConsistencyResponse {
    /// The size of the earlier log.
    pub old: u64,
    /// The size of the present log.
    pub new: u64,
    /// The hashes of the proof (RFC 6962), in hexadecimal.
    pub proof: Vec<String>,
    /// The checkpoint of the present log; absent where the log grew too fast to tell, in which case ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// What to erase: entries, or everything that speaks of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ErasureRequest {
    /// The entries whose payloads are to be erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<u64>>,
    /// The fact whose copies are to be found; only with `dry_run`. The request of an erasure is kept forever with its signature,
    /// so it names entries and not the fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "Account::\"42\""))]
    pub fact: Option<String>,
    /// Why, for the ledger. Must not itself hold personal data: it is kept forever.
    #[cfg_attr(feature = "document", schema(min_length = 1, max_length = 1024))]
    pub reason: String,
    /// Only say what would be erased and what would be kept; nothing is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ErasureResponse {
    /// The entries that record the erasure; none after a dry run, or where nothing was left to erase.
    pub records: Vec<u64>,
    /// The entries whose payloads are gone, or would be.
    pub erased: Vec<u64>,
    /// Entries that hold a copy and are kept, because something of them is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptEntry>,
}

/// An entry that an erasure leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct KeptEntry {
    /// The entry.
    pub entry: u64,
    /// What of it is in force.
    pub why: String,
    /// What to do about it.
    pub hint: String,
    /// Until when, in ledger milliseconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// The wall clock was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ClockConfirmed {
    /// The entry that records it.
    pub entry: u64,
    /// Ledger time now, in milliseconds.
    pub now: u64,
}

/// Why the log's key is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LogKeyRotation {
    /// Why, for the ledger. Must not itself hold personal data: it is kept forever.
    #[cfg_attr(feature = "document", schema(min_length = 1, max_length = 1024))]
    pub reason: String,
}

/// The log's key was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct LogKeyRotated {
    /// The entry that records it, the last one of which the old key signed the checkpoint.
    pub entry: u64,
    /// The new public key, as a signed-note verifier key.
    pub log_key: String,
    /// The receipt of the entry, with a checkpoint that both keys signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// The process is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// The version of the gate.
    pub version: String,
}

/// The gate is ready to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Ready {
    /// Always true: a gate that is not ready answers 503.
    pub ready: bool,
    /// How many entries the ledger has.
    pub position: u64,
    /// Ledger time now, in milliseconds.
    pub now: u64,
    /// The entry that halted everything, while it is: the gate is ready, and rejects every action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<u64>,
}
