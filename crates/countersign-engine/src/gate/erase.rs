//! Erasing payloads: every copy of them, and nothing that is still in force.

use super::Gate;
use super::outside::LogError;
use crate::fold::Fold;
use crate::request::{Answer, EraseTarget, Refusal, Request};
use crate::storage::StorageError;
use crate::storage::snapshot::remove_older_than;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::limits::ERASED_MAX;
use countersign_core::pact::catalogue::OPERATOR;
use countersign_core::record::{DecodeError, Leaf};
use serde_json::Value as Json;

/// How many entries are read at a time while looking for copies.
const READ_AT_ONCE: u64 = 4096;

/// What an erasure would erase.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasePlan {
    /// The entries, ascending.
    pub entries: Vec<u64>,
    /// Entries that hold a copy but also the current version of a fact: they stay until that is written anew.
    pub kept: Vec<u64>,
}

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The gate refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Gate {
    /// Every entry whose payload speaks of a fact: that wrote it, read it, was shown it, or was rejected over it.
    pub fn erase_plan(&self, fact: &FactId) -> Result<ErasePlan, EraseError> {
        let name = fact.to_string();
        let (mut plan, mut start) = (ErasePlan::default(), 0);
        loop {
            let entries = self.read_log_range(start, READ_AT_ONCE)?;
            let Some(last) = entries.last() else { return Ok(plan) };
            start = last.index + 1;
            for entry in entries {
                let Some(payload) = &entry.payload else { continue };
                let json: Json = serde_json::from_slice(payload).unwrap_or_default();
                if !names(&json, &name) && !asks_for(&json, fact.id()) {
                    continue;
                }
                let damaged = |error: DecodeError| LogError::Damaged(entry.index, error.to_string());
                let leaf = Leaf::decode(&entry.leaf).map_err(damaged)?;
                let target = Fold::erase_target(&leaf, payload).map_err(damaged)?;
                let view = self.view();
                let current = |(id, version): &(FactId, u64)| {
                    view.state.facts.get(id).is_some_and(|held| held.version() == *version)
                };
                let of_operator = |(id, _): &(FactId, u64)| id.ty().as_str() == OPERATOR;
                if leaf.kind == "pact" || target.writes.iter().any(|write| current(write) || of_operator(write)) {
                    plan.kept.push(entry.index);
                } else {
                    plan.entries.push(entry.index);
                }
            }
        }
    }

    /// Whether these entries could be erased now; gives those that are not erased yet. Changes nothing.
    pub fn check_erase(&self, entries: &[u64]) -> Result<Vec<u64>, EraseError> {
        let targets = self.erase_targets(entries)?;
        let view = self.view();
        for target in &targets {
            target.check(&view.state)?;
        }
        Ok(targets.iter().map(|target| target.entry).collect())
    }

    /// Erases the payloads of entries. The erasure is itself an entry (several for very many); the leaves and all proofs
    /// stay. Gives the last erasure.
    pub fn erase(&self, by: AgentId, auth: Auth, entries: &[u64], reason: String) -> Result<u64, EraseError> {
        let targets = self.erase_targets(entries)?;
        let mut erasure = 0;
        for targets in targets.chunks(ERASED_MAX) {
            let (by, auth, targets, reason) = (by.clone(), auth.clone(), targets.to_vec(), reason.clone());
            let answer = self.call(Request::Erase { by, auth, targets, reason })?;
            let Answer::Entered(entered) = answer else { return Err(Refusal::Closed.into()) };
            erasure = entered.entry.index;
        }
        // Older snapshots may hold what was current then: one without takes their place.
        let position = self.snapshot()?;
        remove_older_than(self.shared.log.disk().as_ref(), position)?;
        Ok(erasure)
    }

    /// What these entries hold that can be erased.
    fn erase_targets(&self, entries: &[u64]) -> Result<Vec<EraseTarget>, EraseError> {
        let mut targets = Vec::with_capacity(entries.len());
        for index in entries {
            let stored = self.read_log(*index)?;
            let damaged = |error: DecodeError| LogError::Damaged(*index, error.to_string());
            let leaf = Leaf::decode(&stored.leaf).map_err(damaged)?;
            if !matches!(leaf.kind.as_str(), "action" | "shadow" | "feed" | "approval") {
                return Err(Refusal::NotErasable(*index, "only feeds and actions hold what can be erased").into());
            }
            // What is erased already stays so; naming it again is harmless.
            let Some(payload) = &stored.payload else { continue };
            targets.push(Fold::erase_target(&leaf, payload).map_err(damaged)?);
        }
        if targets.is_empty() {
            let index = entries.first().copied().unwrap_or_default();
            return Err(Refusal::NotErasable(index, "its payload is erased already").into());
        }
        Ok(targets)
    }
}

/// Whether an action that was rejected before its facts were resolved has the fact's id among its parameters. Such an
/// entry had no effect, so rather one too many is erased than one too few.
fn asks_for(payload: &Json, id: &str) -> bool {
    let body = payload.get("body").and_then(Json::as_str).filter(|_| payload.get("reads").is_none());
    let body: Json = body.and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    body.get("params").is_some_and(|params| names(params, id))
}

/// Whether a JSON value names a fact: as a member `fact`, or in a list of reads.
fn names(json: &Json, name: &str) -> bool {
    match json {
        Json::String(text) => text == name,
        Json::Array(items) => items.iter().any(|item| names(item, name)),
        Json::Object(members) => {
            members.iter().filter(|(key, _)| *key != "body").any(|(_, member)| names(member, name))
        }
        _ => false,
    }
}
