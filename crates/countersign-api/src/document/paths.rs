//! One function for each operation of v1. They are never called: they carry what the document says about the operation.

#![allow(dead_code, reason = "these functions exist for their attributes; the handlers live in the gate")]

use crate::{
    ActionRequest, AgentList, ApproveRequest, CallerResponse, ClaimEntered, ClaimExtension, ClaimList, ClaimRequest,
    ClockConfirmed, ConsistencyResponse, Effect, EffectList, EntriesResponse, EntryResponse, ErasureRequest,
    ErasureResponse, FactConfirm, FactConfirmed, FactList, FactPut, FactResponse, FactWritten, HaltEntered, HaltList,
    HaltRequest, Health, HistoryResponse, LogKeyRotated, LogKeyRotation, ObserveRequest, ObserveResponse, OperatorList,
    PactChecked, PactList, PactPublished, PactResponse, Ready, ReceiptResponse, RefuseRequest, Refused, ResolveRequest,
    ReviewList, ReviewShown, Verdict,
};

/// Show facts to an agent, and seal what was shown. Writes nothing.
#[utoipa::path(post, path = "/v1/observe", tag = "actions", request_body = ObserveRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "The facts, and the token to act on", body = ObserveResponse)))]
pub(super) fn observe() {}

/// Decide an action and, if everything holds, do it: one step. Safe to retry with the same idempotency key and body.
#[utoipa::path(post, path = "/v1/actions", tag = "actions", request_body = ActionRequest,
    params(("wait_ms" = Option<u64>, Query, description = "Where a call follows, wait up to so long for its outcome; 60000 at most"),
        ("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "The verdict, durable", body = Verdict)))]
pub(super) fn act() {}

/// Decide an action on the facts as they are now, and do nothing. Promises nothing about later.
#[utoipa::path(post, path = "/v1/actions/check", tag = "actions", request_body = ActionRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "The verdict that an action would get now", body = Verdict)))]
pub(super) fn check() {}

/// What has become of an action of one's own: the verdict as it is now, however long ago the action was asked for.
#[utoipa::path(get, path = "/v1/actions/{entry}", tag = "actions",
    params(("entry" = u64, Path, description = "The entry of the first verdict; of a parked action, the number of its review"),
        ("wait_ms" = Option<u64>, Query, description = "Where a call is under way, wait up to so long for its outcome; 60000 at most"),
        ("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who asks")),
    responses((status = 200, description = "The verdict, durable", body = Verdict)))]
pub(super) fn get_action() {}

/// The facts of a type, deleted ones not among them.
#[utoipa::path(get, path = "/v1/facts/{type}", tag = "facts",
    params(("type" = String, Path, description = "The facts' type"),
        ("after" = Option<String>, Query, description = "Only ids after this one"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 unless told, never more than 256")),
    responses((status = 200, description = "The facts, by id", body = FactList)))]
pub(super) fn list_facts() {}

/// The current version of a fact.
#[utoipa::path(get, path = "/v1/facts/{type}/{id}", tag = "facts",
    params(("type" = String, Path, description = "The fact's type"), ("id" = String, Path, description = "Its id")),
    responses((status = 200, description = "The fact", body = FactResponse,
        headers(("ETag" = String, description = "The version, in quotes")))))]
pub(super) fn get_fact() {}

/// Feed a fact: replace its value, or make it.
#[utoipa::path(put, path = "/v1/facts/{type}/{id}", tag = "facts", request_body = FactPut,
    params(("type" = String, Path, description = "The fact's type"), ("id" = String, Path, description = "Its id"),
        ("If-Match" = Option<String>, Header, description = "The version it must have now, in quotes; \"0\" for none"),
        ("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The fact was written", body = FactWritten),
        (status = 202, description = "The feed is held until no effect in flight relies on the fact", body = FactWritten)))]
pub(super) fn put_fact() {}

/// Delete a fact. Its version goes on from where it was if it is ever fed again.
#[utoipa::path(delete, path = "/v1/facts/{type}/{id}", tag = "facts",
    params(("type" = String, Path, description = "The fact's type"), ("id" = String, Path, description = "Its id"),
        ("If-Match" = Option<String>, Header, description = "The version it must have now, in quotes"),
        ("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The fact was deleted", body = FactWritten),
        (status = 202, description = "The deletion is held until no effect in flight relies on the fact", body = FactWritten)))]
pub(super) fn delete_fact() {}

/// Say, as its source, that a fact is still so. Makes an entry and no version, so observations of it stay good.
#[utoipa::path(post, path = "/v1/facts/{type}/{id}/confirm", tag = "facts", request_body = FactConfirm,
    params(("type" = String, Path, description = "The fact's type"), ("id" = String, Path, description = "Its id"),
        ("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The fact was confirmed", body = FactConfirmed)))]
pub(super) fn confirm_fact() {}

/// The versions of a fact, newest first.
#[utoipa::path(get, path = "/v1/facts/{type}/{id}/history", tag = "facts",
    params(("type" = String, Path, description = "The fact's type"), ("id" = String, Path, description = "Its id"),
        ("before" = Option<u64>, Query, description = "Only versions below this one"),
        ("limit" = Option<u64>, Query, description = "How many at most; 20 unless told, never more than 100")),
    responses((status = 200, description = "The versions", body = HistoryResponse)))]
pub(super) fn fact_history() {}

/// All agents, with their roles, standing and keys.
#[utoipa::path(get, path = "/v1/agents", tag = "identity",
    responses((status = 200, description = "The agents", body = AgentList)))]
pub(super) fn list_agents() {}

/// All operators, with their roles, standing and keys.
#[utoipa::path(get, path = "/v1/operators", tag = "identity",
    responses((status = 200, description = "The operators", body = OperatorList)))]
pub(super) fn list_operators() {}

/// Who the gate takes the caller for: a program can find out at its start that it signs with the wrong key.
#[utoipa::path(get, path = "/v1/caller", tag = "identity",
    responses((status = 200, description = "The caller", body = CallerResponse)))]
pub(super) fn get_caller() {}

/// All pacts, each at its current version.
#[utoipa::path(get, path = "/v1/pacts", tag = "pacts",
    responses((status = 200, description = "The pacts", body = PactList)))]
pub(super) fn list_pacts() {}

/// Publish a pact. Its version must follow the one that is published.
#[utoipa::path(post, path = "/v1/pacts", tag = "pacts",
    request_body(content = String, content_type = "application/toml", description = "The pact's text; text/plain is accepted too"),
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The pact is in force from this entry on", body = PactPublished)))]
pub(super) fn publish_pact() {}

/// Whether a pact could be published now: refused with what publishing it would be refused with. Writes nothing.
#[utoipa::path(post, path = "/v1/check/pact", tag = "pacts",
    request_body(content = String, content_type = "application/toml", description = "The pact's text; text/plain is accepted too"),
    responses((status = 200, description = "It could be published, or is already", body = PactChecked)))]
pub(super) fn check_pact() {}

/// One pact with its text.
#[utoipa::path(get, path = "/v1/pacts/{name}", tag = "pacts",
    params(("name" = String, Path, description = "The pact's name")),
    responses((status = 200, description = "The pact", body = PactResponse)))]
pub(super) fn get_pact() {}

/// Entries of the ledger, in order; with filters, those that match all of them. One request looks at 4096 entries at most, so a
/// page may be empty and still have a `next`.
#[utoipa::path(get, path = "/v1/ledger/entries", tag = "ledger",
    params(("start" = Option<u64>, Query, description = "The first entry; 0 unless told"),
        ("end" = Option<u64>, Query, description = "The entry to stop before"),
        ("by" = Option<String>, Query, description = "Only of this agent or operator"),
        ("kind" = Option<String>, Query, description = "Only of this kind"),
        ("verdict" = Option<String>, Query, description = "Only with this verdict"),
        ("pact" = Option<String>, Query, description = "Only under this pact"),
        ("action" = Option<String>, Query, description = "Only of this action type"),
        ("fact" = Option<String>, Query, description = "Only those that name this fact, as `Type::\"id\"`"),
        ("since" = Option<u64>, Query, description = "Only from this ledger time on, in milliseconds"),
        ("until" = Option<u64>, Query, description = "Only before this ledger time, in milliseconds"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 unless told, never more than 256")),
    responses((status = 200, description = "The entries", body = EntriesResponse)))]
pub(super) fn list_entries() {}

/// One entry.
#[utoipa::path(get, path = "/v1/ledger/entries/{index}", tag = "ledger",
    params(("index" = u64, Path, description = "The entry")),
    responses((status = 200, description = "The entry", body = EntryResponse)))]
pub(super) fn get_entry() {}

/// The receipt of an entry under the latest checkpoint.
#[utoipa::path(get, path = "/v1/ledger/receipts/{index}", tag = "ledger",
    params(("index" = u64, Path, description = "The entry")),
    responses((status = 200, description = "The receipt", body = ReceiptResponse)))]
pub(super) fn get_receipt() {}

/// The proof that an earlier log is the beginning of the present one.
#[utoipa::path(get, path = "/v1/ledger/consistency", tag = "ledger",
    params(("old" = u64, Query, description = "The size of the earlier log")),
    responses((status = 200, description = "The proof", body = ConsistencyResponse)))]
pub(super) fn get_consistency() {}

/// Erase payloads. Leaves and proofs stay, current values are refused, and the erasure is itself an entry.
#[utoipa::path(post, path = "/v1/ledger/erasures", tag = "ledger", request_body = ErasureRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "What was erased, and what had to be kept", body = ErasureResponse)))]
pub(super) fn erase() {}

/// What waits for a person.
#[utoipa::path(get, path = "/v1/reviews", tag = "actions",
    responses((status = 200, description = "The reviews, oldest first", body = ReviewList)))]
pub(super) fn list_reviews() {}

/// Show a parked action to a reviewer: its parameters whole, its facts as observed and as they are now, and a token that an
/// approval must carry.
#[utoipa::path(get, path = "/v1/reviews/{review}", tag = "actions",
    params(("review" = String, Path, description = "The review", example = "rev_813"),
        ("Countersign-Agent" = Option<String>, Header, description = "The reviewer, in an open gate; `operator` if absent")),
    responses((status = 200, description = "What waits, as it is now", body = ReviewShown)))]
pub(super) fn get_review() {}

/// Approve what was shown. The approving entry executes the action, once; where anything that a condition reads has changed
/// since, it is void and nothing is done.
#[utoipa::path(post, path = "/v1/reviews/{review}/approve", tag = "actions", request_body = ApproveRequest,
    params(("review" = String, Path, description = "The review", example = "rev_813"),
        ("Countersign-Agent" = Option<String>, Header, description = "The reviewer, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The action is done", body = Verdict)))]
pub(super) fn approve() {}

/// Refuse a parked action.
#[utoipa::path(post, path = "/v1/reviews/{review}/refuse", tag = "actions", request_body = RefuseRequest,
    params(("review" = String, Path, description = "The review", example = "rev_813"),
        ("Countersign-Agent" = Option<String>, Header, description = "The reviewer, in an open gate; `operator` if absent")),
    responses((status = 200, description = "It will not be done", body = Refused)))]
pub(super) fn refuse() {}

/// The claims that stand.
#[utoipa::path(get, path = "/v1/claims", tag = "actions",
    responses((status = 200, description = "The claims, oldest first", body = ClaimList)))]
pub(super) fn list_claims() {}

/// Announce that facts are about to change: until then nobody else relies on them.
#[utoipa::path(post, path = "/v1/claims", tag = "actions", request_body = ClaimRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "The claim holds from this entry on", body = ClaimEntered)))]
pub(super) fn claim() {}

/// Extend a claim, up to the longest time that the pact allows.
#[utoipa::path(post, path = "/v1/claims/{claim}/extend", tag = "actions", request_body = ClaimExtension,
    params(("claim" = String, Path, description = "The claim", example = "clm_812"),
        ("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "Until when it holds now", body = ClaimEntered)))]
pub(super) fn extend_claim() {}

/// Withdraw a claim: the facts can be relied on again.
#[utoipa::path(post, path = "/v1/claims/{claim}/withdraw", tag = "actions", request_body(content = Object),
    params(("claim" = String, Path, description = "The claim", example = "clm_812"),
        ("Countersign-Agent" = Option<String>, Header, description = "The agent, in an open gate; elsewhere who signs is who acts")),
    responses((status = 200, description = "The claim has ended with this entry", body = ClaimEntered)))]
pub(super) fn withdraw_claim() {}

/// Effects under way: cooling, dispatched or in doubt.
#[utoipa::path(get, path = "/v1/effects", tag = "actions",
    responses((status = 200, description = "The effects, oldest first", body = EffectList)))]
pub(super) fn list_effects() {}

/// Where an effect is. An agent is shown its own.
#[utoipa::path(get, path = "/v1/effects/{effect}", tag = "actions",
    params(("effect" = String, Path, description = "The effect", example = "eff_813"),
        ("wait_ms" = Option<u64>, Query, description = "Wait up to so long until it has ended or is in doubt; 60000 at most"),
        ("Countersign-Agent" = Option<String>, Header, description = "The caller, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The effect", body = Effect)))]
pub(super) fn get_effect() {}

/// Say what became of an effect that is in doubt. Its fences end.
#[utoipa::path(post, path = "/v1/effects/{effect}/resolve", tag = "actions", request_body = ResolveRequest,
    params(("effect" = String, Path, description = "The effect", example = "eff_813"),
        ("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The effect has ended", body = Effect)))]
pub(super) fn resolve_effect() {}

/// Stop a scope. Goes past everything that has queued, and works while the queue is full; no action of the scope commits in a
/// later entry.
#[utoipa::path(post, path = "/v1/halts", tag = "gate", request_body = HaltRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator; `operator` if absent")),
    responses((status = 200, description = "The scope is halted from this entry on", body = HaltEntered)))]
pub(super) fn halt() {}

/// Lift the halt of exactly this scope.
#[utoipa::path(post, path = "/v1/halts/resume", tag = "gate", request_body = HaltRequest,
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator; `operator` if absent")),
    responses((status = 200, description = "The scope is no longer halted from this entry on", body = HaltEntered)))]
pub(super) fn resume() {}

/// What is halted, and which effects are in flight.
#[utoipa::path(get, path = "/v1/halts", tag = "gate",
    responses((status = 200, description = "The halts in force", body = HaltList)))]
pub(super) fn list_halts() {}

/// Confirm that the wall clock is right after it stepped.
#[utoipa::path(post, path = "/v1/clock/confirm", tag = "gate",
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "Ledger time follows the wall clock again", body = ClockConfirmed)))]
pub(super) fn confirm_clock() {}

/// Replace the key that signs the log by a new one. The gate makes it; its private half never leaves the gate.
#[utoipa::path(post, path = "/v1/keys/log/rotate", tag = "gate", request_body = LogKeyRotation,
    params(("Countersign-Agent" = Option<String>, Header, description = "The operator, in an open gate; `operator` if absent")),
    responses((status = 200, description = "The entry, and the key that signs from now on", body = LogKeyRotated)))]
pub(super) fn rotate_log_key() {}

/// The latest checkpoint, as a signed note.
#[utoipa::path(get, path = "/log/checkpoint", tag = "log",
    responses((status = 200, description = "The checkpoint", body = String, content_type = "text/plain")))]
pub(super) fn get_checkpoint() {}

/// A tile of hashes (`tile/<level>/<index>`) or a bundle of entries (`tile/entries/<index>`), as C2SP tlog-tiles has them.
#[utoipa::path(get, path = "/log/{path}", tag = "log",
    params(("path" = String, Path, description = "The tile's path, slashes included", example = "tile/0/x001/067.p/8")),
    responses((status = 200, description = "The tile or bundle", body = Vec<u8>, content_type = "application/octet-stream")))]
pub(super) fn get_tile() {}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "gate",
    responses((status = 200, description = "It is", body = Health)))]
pub(super) fn healthz() {}

/// Whether the gate is ready to decide.
#[utoipa::path(get, path = "/readyz", tag = "gate",
    responses((status = 200, description = "It is", body = Ready)))]
pub(super) fn readyz() {}

/// Counts for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "gate",
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(super) fn metrics() {}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "gate",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json")))]
pub(super) fn openapi() {}
