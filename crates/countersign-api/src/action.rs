//! Actions and the verdicts on them.

use crate::{Atomicity, RestsOn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An action: one thing that an agent wants to do under a pact. The gate reads it more strictly than this type does, since
/// what two readers could understand differently must not be decided on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// The pact.
    #[cfg_attr(feature = "document", schema(example = "billing"))]
    pub pact: String,
    /// The action type within it.
    #[cfg_attr(feature = "document", schema(example = "refund"))]
    pub action: String,
    /// The caller's key for retries, with at least 128 random bits: 22 to 128 characters of `A-Z a-z 0-9 - _`. The same
    /// key with the same body answers with the same verdict.
    #[cfg_attr(
        feature = "document",
        schema(min_length = 22, max_length = 128, example = "5f0c1f6e-3e0a-4a53-9d3f-0c5a8a3b9e11")
    )]
    pub idempotency_key: String,
    /// The parameters, as the pact's schema wants them.
    #[serde(default)]
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub params: Map<String, Value>,
    /// The observations that the action was decided on, as they were given out.
    #[serde(default)]
    #[cfg_attr(feature = "document", schema(max_items = 16, example = json!(["obs1.AAAA"])))]
    pub observations: Vec<String>,
    /// The delegation that the action is under, as `countersign delegation new` made it; absent where the agent acts in its own
    /// right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = String, required = false, max_length = 16384, example = "dlg1.AAAA"))]
    pub delegation: Option<String>,
    /// The claim that the action is under, if it was announced; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "clm_812"))]
    pub claim: Option<String>,
    /// The session that the action is asked for in; needed where its action type is guarded as read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: Option<String>,
    /// The names of readings of which it is not known whether they reached the agent before it asked for this. For these, the reading
    /// before counts as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(max_items = 32))]
    pub unsure: Vec<String>,
}

/// The kind of a verdict. More kinds may come; treat one you do not know as not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// Everything held; the effects are done with this entry.
    Committed,
    /// Something did not hold; nothing was done.
    Rejected,
    /// Only what a person may waive did not hold; nothing was done yet.
    Review,
    /// Everything held, and an external call follows from it. What becomes of it is in `effect`.
    InFlight,
    /// The call happened, and its writes are done with this entry.
    Settled,
    /// The call did not happen, and will not; nothing was written.
    Failed,
    /// No one knows whether the call happened. The facts that it relies on stay fenced until that is known.
    InDoubt,
}

/// The verdict on an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// What was decided.
    pub verdict: VerdictKind,
    /// The ledger entry that holds it; absent after a check, which leaves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// The action's id: SHA-256 of the raw body.
    pub action: String,
    /// The pact it was decided under; absent where there is no such pact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pact: Option<PactRef>,
    /// The stable code of a rejection or review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, in one sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Every failed precondition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedPrecondition>,
    /// The facts that have to be observed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(example = json!(["Account::\"42\""])))]
    pub observe: Vec<String>,
    /// The parameters that do not fit the pact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misfits: Vec<ParamMisfit>,
    /// The facts written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<Wrote>,
    /// Time between the oldest observation that the action relied on and its use; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// How strong the guarantee is; absent after a check, which guarantees nothing, and where the pact has been replaced since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomicity: Option<Atomicity>,
    /// The review that waits for a person, or that a person refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "rev_813"))]
    pub review: Option<String>,
    /// Until when a person may decide, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The external call: see `GET /v1/effects/{effect}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "eff_813"))]
    pub effect: Option<String>,
    /// When a cooling call is decided again, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_at: Option<u64>,
    /// Evidence for the outcome of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The readings that it rests on, where it is guarded as read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readings: Option<RestsOn>,
    /// Calls in doubt whose turn was given back before this one was made: each may still have had its effect on what this one changed or
    /// rested on. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(example = json!(["eff_812"])))]
    pub beside: Vec<String>,
    /// In shadow mode, what enforcement would have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadowed: Option<Shadowed>,
    /// Who waived which preconditions, where a reviewer approved the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waived_by: Option<WaivedBy>,
    /// The entry's receipt, which verifies offline with the log's public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: Option<String>,
    /// Set where the verdict was given before, under the same idempotency key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// Set where the reasons of a repeated verdict have since been erased.
    #[serde(default, skip_serializing_if = "is_false")]
    pub erased: bool,
    /// Set where the action was only checked: nothing was written, and nothing is promised.
    #[serde(default, skip_serializing_if = "is_false")]
    pub checked: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// Evidence for the outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// How often it was tried.
    pub attempts: u32,
    /// The stable code of what came of it.
    #[serde(default)]
    #[cfg_attr(feature = "document", schema(example = "answered"))]
    pub code: String,
    /// What came of it, in a sentence.
    pub summary: String,
    /// The status that the service returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// What the service answered, as far as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The receipt that the service keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// What reading again took that the call rests on, all readings together, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reread_ms: Option<u64>,
    /// How long it was from when they were begun to be read again to when the call was answered, in milliseconds. What was changed
    /// past the gate in that time was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Set where `result`, `receipt` and the end of `summary` are left out: the call was made of what its agent may not see, and what
    /// the outside answers may repeat it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withheld: bool,
}

/// Preconditions that did not hold, and were waived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct WaivedBy {
    /// The reviewer.
    pub reviewer: String,
    /// The entry that parked the action.
    pub review: u64,
    /// The preconditions.
    pub preconditions: Vec<String>,
}

/// A pact as a verdict names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactRef {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// SHA-256 of its text.
    pub hash: String,
}

/// A fact that an action wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Wrote {
    /// The fact.
    #[cfg_attr(feature = "document", schema(example = "Account::\"42\""))]
    pub fact: String,
    /// Its new version.
    pub version: u64,
}

/// What enforcement would have answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Shadowed {
    /// The stable code.
    pub code: String,
    /// Why, in one sentence for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// Every failed precondition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedPrecondition>,
}

/// In which way a precondition failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// The condition is false.
    False,
    /// The condition could not be evaluated; `error` says why.
    Error,
    /// The observation is older than allowed.
    Stale,
    /// It needs an observation of what it reads, and none was sent.
    Unobserved,
    /// The source of a fact has not confirmed it for longer than allowed, or never.
    Unconfirmed,
    /// The fact is not at the version that was observed.
    Changed,
}

/// One failed precondition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FailedPrecondition {
    /// Its id within the action type.
    #[cfg_attr(feature = "document", schema(example = "account-is-active"))]
    pub precondition: String,
    /// The condition as written in the pact.
    pub that: String,
    /// In which way it failed.
    pub why: Why,
    /// Why it could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Set where everything it reads is as the agent observed it: observing again changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_observed: bool,
    /// The attributes it reads: expected and actual.
    pub reads: Vec<FailedRead>,
    /// How many more attributes it reads that are not listed, because the explanation would be too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_left_out: Option<usize>,
    /// Time since the oldest observation it relied on; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// Where it is a matter of age, the most that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// What to do about it.
    pub hint: String,
}

/// A parameter that does not fit the pact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ParamMisfit {
    /// Which, as a JSON pointer; empty for the parameters as a whole.
    #[cfg_attr(feature = "document", schema(example = "/amount"))]
    pub at: String,
    /// What is wrong with it.
    pub what: String,
}

/// One attribute that a failed precondition reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct FailedRead {
    /// The attribute, or the fact as a whole.
    #[cfg_attr(feature = "document", schema(example = "Account::\"42\".status"))]
    pub attribute: String,
    /// Whether the agent carried an observation of the fact.
    pub observed: bool,
    /// Set where the agent may not see this attribute: `expected` and `actual` are then left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withheld: bool,
    /// What the agent had seen; absent where it had seen nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// What it is now; absent where there is nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// The version of the fact that the agent had seen; absent where it had seen none, and for external facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<u64>,
    /// Of an external fact, SHA-256 of the value that the agent had seen; absent where something of it is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_digest: Option<String>,
    /// The fact's version now; 0 where there is no such fact. External facts have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Of an external fact, SHA-256 of its value now; absent where something of it is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Who last changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    /// When, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<u64>,
    /// In which entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Where it is a matter of that, when the fact's source last confirmed it, in ledger milliseconds; absent where none ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<u64>,
    /// Who that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// In which entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_in: Option<u64>,
    /// Where it was read, if it lives outside: the adapter. Who changed it there the gate does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_in: Option<String>,
    /// When it was read there, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<u64>,
}
