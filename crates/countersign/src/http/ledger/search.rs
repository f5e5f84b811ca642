//! Looking for entries: by who caused them, when, what came of them and what they are about.

use super::PAGE;
use crate::http::error::HttpError;
use crate::http::numbers::{position, within};
use countersign_core::record::LeafVerdict;
use countersign_engine::gate::{Gate, LogError, StoredEntry};
use serde::Deserialize;
use serde_json::Value;

/// How many entries one request looks at: enough for a page to be worth its way, and bounded whatever is asked for.
const LOOKED_AT_MAX: u64 = 4096;

/// The query of a page of entries.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    start: Option<u64>,
    end: Option<u64>,
    limit: Option<u64>,
    by: Option<String>,
    kind: Option<String>,
    verdict: Option<String>,
    pact: Option<String>,
    action: Option<String>,
    fact: Option<String>,
    since: Option<u64>,
    until: Option<u64>,
}

/// A page, and where the next begins.
pub struct Page {
    /// The entries that match.
    pub entries: Vec<StoredEntry>,
    /// How many entries the log has.
    pub size: u64,
    /// The first entry that was not looked at.
    pub next: Option<u64>,
}

impl PageQuery {
    /// Refuses numbers beyond the limits.
    pub fn check(&self) -> Result<(), HttpError> {
        let places = [("start", self.start), ("end", self.end), ("since", self.since), ("until", self.until)];
        for (name, value) in places {
            value.map(|value| position(name, value)).transpose()?;
        }
        self.limit.map(|limit| within("limit", limit, 1..=PAGE.1)).transpose()?;
        Ok(())
    }

    /// Looks through a bounded part of the log.
    pub fn page(&self, gate: &Gate) -> Result<Page, LogError> {
        let size = gate.view().position;
        let start = self.start.unwrap_or(0);
        let end = self.end.unwrap_or(size).min(size);
        let limit = self.limit.unwrap_or(PAGE.0);
        let looked_at = if self.filters() { LOOKED_AT_MAX } else { limit };
        let mut page = Page { entries: Vec::new(), size, next: None };
        let mut at = start;
        while at < end.min(start.saturating_add(looked_at)) {
            let left = end.min(start.saturating_add(looked_at)) - at;
            // A page of the largest entries must still fit in memory.
            for entry in gate.read_log_range(at, left.min(PAGE.1))? {
                at = entry.index.saturating_add(1);
                if self.matches(&entry)? {
                    page.entries.push(entry);
                }
                if u64::try_from(page.entries.len()).unwrap_or(u64::MAX) >= limit {
                    page.next = Some(at).filter(|at| *at < end);
                    return Ok(page);
                }
            }
        }
        page.next = Some(at).filter(|at| *at < end);
        Ok(page)
    }

    fn filters(&self) -> bool {
        let texts = [&self.by, &self.kind, &self.verdict, &self.pact, &self.action, &self.fact];
        texts.iter().any(|text| text.is_some()) || self.since.is_some() || self.until.is_some()
    }

    fn matches(&self, entry: &StoredEntry) -> Result<bool, LogError> {
        if !self.filters() {
            return Ok(true);
        }
        let leaf = entry.leaf()?;
        let is =
            |asked: &Option<String>, found: Option<&str>| asked.as_deref().is_none_or(|asked| found == Some(asked));
        let by_leaf = is(&self.kind, Some(leaf.kind.as_str()))
            && is(&self.verdict, leaf.verdict.map(LeafVerdict::as_str))
            && is(&self.pact, leaf.pact.as_ref().map(|pact| pact.name.as_str()))
            && self.since.is_none_or(|since| leaf.time >= since)
            && self.until.is_none_or(|until| leaf.time < until);
        if !by_leaf {
            return Ok(false);
        }
        let by_payload = self.by.is_some() || self.action.is_some() || self.fact.is_some();
        let payload = if by_payload { entry.show()?.payload } else { None };
        let payload: Value = payload.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let text = |value: Option<&Value>, asked| is(asked, value.and_then(Value::as_str));
        let by = is(&self.by, Some(leaf.by.as_str())) || text(payload.get("agent"), &self.by);
        let action = self.action.is_none() || text(action_of(&payload).as_ref(), &self.action);
        Ok(by && action && self.fact.as_deref().is_none_or(|fact| names(&payload, fact)))
    }
}

/// The action type that a body asks for.
fn action_of(payload: &Value) -> Option<Value> {
    let body: Value = serde_json::from_str(payload.get("body")?.as_str()?).ok()?;
    body.get("action").cloned()
}

/// Whether a payload names a fact anywhere but in the words of a body.
fn names(json: &Value, fact: &str) -> bool {
    match json {
        Value::String(text) => text == fact,
        Value::Array(items) => items.iter().any(|item| names(item, fact)),
        Value::Object(members) => {
            members.iter().filter(|(key, _)| *key != "body").any(|(_, member)| names(member, fact))
        }
        _ => false,
    }
}
