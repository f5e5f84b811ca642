//! What is judged: an action as its entry has it, and what a reviewer was shown of it.

use super::delegation;
use super::history::LogEntry;
use super::model::text;
use serde_json::Value as Json;

/// An action, as its entry has it.
#[derive(Debug)]
pub(super) struct Deed<'a> {
    pub agent: &'a str,
    pub body: &'a Json,
    pub observed: &'a Json,
    /// What the delegation in the body says, by those who handed it on.
    pub chain: Option<&'a Json>,
    /// The key that signed.
    pub key: Option<&'a str>,
}

impl<'a> Deed<'a> {
    /// The action in an entry; its recorded chain must be what its delegation says.
    pub(super) fn of_entry(entry: &'a LogEntry, body: &'a Json) -> Result<Self, String> {
        let (agent, payload) = (text(&entry.leaf, "by")?, &entry.payload);
        let chain = delegation::recorded(body, &payload["chain"])?;
        Ok(Self { agent, body, observed: &payload["observed"], chain, key: signer(payload) })
    }

    /// One action of the entry of a rejected group.
    pub(super) fn of_group(entry: &'a LogEntry, action: &'a Json, body: &'a Json) -> Result<Self, String> {
        let agent = text(&entry.leaf, "by")?;
        let chain = delegation::recorded(body, &action["chain"])?;
        Ok(Self { agent, body, observed: &action["observed"], chain, key: signer(&entry.payload) })
    }

    /// Everybody that it rests on, root first, the one who acts last.
    pub(super) fn members(&self) -> Vec<&'a str> {
        let mut members = self.chain.map(delegation::members).unwrap_or_default();
        if !members.contains(&self.agent) {
            members.push(self.agent);
        }
        members
    }
}

/// The key that signed an entry, or the batch that its action came in.
pub(super) fn signer(payload: &Json) -> Option<&str> {
    payload["signed"]["key"].as_str().or_else(|| payload["signer"].as_str())
}

/// What a reviewer was shown and waives.
#[derive(Debug)]
pub(super) struct Approved<'a> {
    pub shown_at_ms: u64,
    pub facts: &'a [(String, u64)],
    pub waives: &'a [String],
}
