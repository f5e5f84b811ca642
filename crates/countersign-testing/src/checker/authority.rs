//! Who may do what: signatures, keys and the roles of operators, and what agents may see.

use super::deed::signer;
use super::history::LogEntry;
use super::model::{Model, text};
use super::rules::holds_key;
use serde_json::{Value as Json, json};

/// The role that it takes to make an entry; `None` where it takes none.
fn role_of(entry: &LogEntry) -> Option<&'static str> {
    Some(match entry.leaf["kind"].as_str()? {
        "pact" => "publisher",
        "feed" => role_to_feed(entry.payload["writes"][0]["fact"].as_str()?),
        "approval" | "refusal" => "reviewer",
        "erasure" | "clock" | "halt" | "resume" | "rotation" => "admin",
        _ => return None,
    })
}

/// The role that it takes to feed a fact.
pub(super) fn role_to_feed(fact: &str) -> &'static str {
    let is_for_admins =
        ["Agent::", "Operator::", "McpServer::", "McpShadow::", "McpTool::"].iter().any(|ty| fact.starts_with(ty));
    if is_for_admins { "admin" } else { "feeder" }
}

impl Model {
    /// Whether somebody could do what takes a role, before the entry at `position`.
    pub(super) fn may(&self, by: &str, role: &str, key: Option<&str>, (position, now_ms): (u64, u64)) -> bool {
        if !self.is_identified(position) {
            return true;
        }
        let operator = self.value_at(&format!("Operator::\"{by}\""), position);
        operator.zip(key).is_some_and(|(operator, key)| {
            let has_role = operator["roles"].as_array().is_some_and(|roles| roles.contains(&json!(role)));
            operator["standing"] == "active" && has_role && holds_key(operator, key, now_ms)
        })
    }

    /// Whether the sender of an entry signed it, where somebody must, and could make it.
    pub(super) fn check_authority(&self, index: u64, time_ms: u64, entry: &LogEntry) -> Result<(), String> {
        let (by, key) = (text(&entry.leaf, "by")?, signer(&entry.payload));
        let auth = text(&entry.leaf, "auth")?;
        if (auth != "none") != key.is_some() {
            return Err("whether it is signed is said in two ways".to_owned());
        }
        let agent = self.value_at(&format!("Agent::\"{by}\""), index);
        let is_held = agent.is_some_and(|agent| {
            let is_its_key = [&agent["key"], &agent["old_key"]].into_iter().any(|held| held.as_str() == key);
            agent["held_by"] == "gateway" && key.is_some() && is_its_key
        });
        if is_held && auth == "signature" || !is_held && auth == "gateway" {
            return Err(format!("it says `{auth}`, which is not who held the key"));
        }
        if by == "countersign" {
            return Ok(());
        }
        match role_of(entry) {
            Some(role) if !self.may(by, role, key, (index, time_ms)) => {
                Err(format!("{by} may not do this, which takes {role}"))
            }
            _ => Ok(()),
        }
    }

    /// The attributes of a fact that an agent may see at `position`; `None` if not even whether it is there.
    pub(super) fn granted(&self, agent: &str, fact: &str, position: u64) -> Option<&'static [&'static str]> {
        self.pact_at(position)?;
        let agent = self.value_at(&format!("Agent::\"{agent}\""), position)?;
        if agent["standing"] != "active" {
            return None;
        }
        let is = |role: &str| agent["roles"].as_array().is_some_and(|roles| roles.contains(&json!(role)));
        match fact.split_once("::")?.0 {
            "Account" if is("fraud") => Some(&["balance", "owner", "status"]),
            "Account" if is("refunder") || is("payments") || is("clerk") => Some(&["balance", "status"]),
            "Transfer" if is("payments") || is("clerk") => Some(&["amount", "from", "state", "to"]),
            _ => None,
        }
    }

    /// What an agent sees of a fact at `position`: the rest of its value, and the names of what is withheld.
    pub(super) fn seen(&self, fact: &str, granted: &[&str], position: u64) -> (Option<Json>, Vec<String>) {
        let Some(value) = self.value_at(fact, position).and_then(Json::as_object) else { return (None, Vec::new()) };
        let (shown, withheld): (Vec<_>, Vec<_>) = value.iter().partition(|(name, _)| granted.contains(&name.as_str()));
        let shown = shown.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        (Some(Json::Object(shown)), withheld.into_iter().map(|(name, _)| name.clone()).collect())
    }
}
