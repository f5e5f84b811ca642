//! Batches: what vouches for an action that came with others, and what an atomic group comes to as a whole.

use super::deed::{Deed, signer};
use super::history::LogEntry;
use super::model::{Model, items, text};
use super::rules::{Verdict, outcome};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Most actions of a batch, and of a group.
const MOST: [usize; 2] = [256, 32];

/// The batches so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Batches {
    /// The entry of each: who sent it, the key that signed it, and the actions that have no entry yet.
    listed: BTreeMap<u64, (String, Option<String>, Vec<String>)>,
    /// The group that has begun: its entry, and the actions that must follow.
    group: Option<(u64, Vec<String>)>,
}

impl Batches {
    pub(super) fn check(&mut self, index: u64, entry: &LogEntry) -> Result<(), String> {
        let leaf = &entry.leaf;
        if let Some((batch, left)) = &mut self.group {
            let next = left.remove(0);
            let is_next = leaf["batch"] == *batch && leaf["action"] == next.as_str() && leaf["verdict"] == "committed";
            let batch = *batch;
            if left.is_empty() || !is_next {
                self.group = None;
            }
            if !is_next {
                return Err(format!("the group of entry {batch} did not commit as a whole"));
            }
        }
        if leaf["kind"] == "batch" {
            let actions: Vec<String> = items(&leaf["actions"]).filter_map(Json::as_str).map(str::to_owned).collect();
            let is_atomic = entry.payload["atomic"] == true;
            if actions.is_empty() || actions.len() > MOST[usize::from(is_atomic)] {
                return Err(format!("a batch of {} actions", actions.len()));
            }
            self.group = is_atomic.then(|| (index, actions.clone()));
            let key = signer(&entry.payload).map(str::to_owned);
            self.listed.insert(index, (text(leaf, "by")?.to_owned(), key, actions));
        }
        let Some(batch) = leaf["batch"].as_u64() else { return Ok(()) };
        let (by, key, left) = self.listed.get_mut(&batch).ok_or_else(|| format!("there is no batch {batch}"))?;
        if leaf["by"] != by.as_str() || signer(&entry.payload) != key.as_deref() {
            return Err(format!("batch {batch} is not of the one who acts"));
        }
        let at = left.iter().position(|id| leaf["action"] == id.as_str());
        let at = at.ok_or_else(|| format!("batch {batch} does not list it, or has brought it in before"))?;
        left.remove(at);
        Ok(())
    }
}

impl Model {
    /// A rejected group: everything before the action that failed would have committed, and that one would not.
    pub(super) fn replay_group(&mut self, index: u64, now_ms: u64, entry: &LogEntry) -> Result<&'static str, String> {
        let actions: Vec<&Json> = items(&entry.payload["actions"]).collect();
        let mut bodies = Vec::new();
        for action in &actions {
            let body: Json = serde_json::from_str(text(action, "body")?).map_err(|error| error.to_string())?;
            self.use_key(index, now_ms, text(&entry.leaf, "by")?, &body)?;
            bodies.push(body);
        }
        if !entry.payload["writes"].is_null() || !entry.payload["charges"].is_null() {
            return Err("a rejected group does something".to_owned());
        }
        let failed = entry.payload["failed"].as_u64().ok_or("which action failed is not said")?;
        // Nothing of the group itself stays: it is played on a copy, at places that no entry has yet.
        let mut model = self.clone();
        for ((place, action), body) in (0u64..).zip(&actions).zip(&bodies) {
            let (position, deed) = (index + place, Deed::of_group(entry, action, body)?);
            let expected = outcome(&model, position, &deed, None, now_ms);
            let is_done = expected.verdict == Verdict::Committed;
            if is_done != (place < failed) {
                return Err(format!("action {place} of the group should be {}", expected.verdict.as_str()));
            }
            if !is_done {
                let blocked = &entry.payload["decision"]["blocked"];
                let found = items(&blocked["failed"]).filter_map(|failed| failed["precondition"].as_str());
                if blocked["code"].as_str() != expected.code || !found.eq(expected.failed.iter().map(String::as_str)) {
                    let expected = (expected.code, &expected.failed);
                    return Err(format!("action {place} fails for {blocked}, and not for {expected:?}"));
                }
                if entry.payload["decision"]["gap_ms"].as_u64() != expected.gap_ms {
                    return Err(format!("the gap of action {place} should be {:?}", expected.gap_ms));
                }
                return Ok(Verdict::Rejected.as_str());
            }
            model.assume(position, &expected);
        }
        Err("every action of the group would have committed".to_owned())
    }
}
