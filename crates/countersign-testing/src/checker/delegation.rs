//! Delegations, judged from what delegators meant (`delegations.rs`) and not from their tokens.

use super::deed::Deed;
use super::rules::holds_key;
use crate::delegations::chain_of;
use serde_json::Value as Json;

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

/// The chain of an action: what the token in its body says, which the entry must have recorded.
pub(super) fn recorded(body: &Json, recorded: &Json) -> Result<Option<&'static Json>, String> {
    let Some(token) = body["delegation"].as_str() else {
        return if recorded.is_null() { Ok(None) } else { Err(format!("nobody sent the chain {recorded}")) };
    };
    let meant = chain_of(token).ok_or("a delegation that nobody made was taken")?;
    for member in ["hops", "root", "root_key"] {
        if recorded[member] != meant[member] {
            return Err(format!(
                "the chain says {} for {member}, and {} was handed on",
                recorded[member], meant[member]
            ));
        }
    }
    Ok(Some(meant))
}

/// The members of a chain, root first.
pub(super) fn members(chain: &Json) -> Vec<&str> {
    let hops = list(&chain["hops"]).filter_map(|hop| hop["to"].as_str());
    chain["root"].as_str().into_iter().chain(hops).collect()
}

/// Whether every hop lets a fact be written.
pub(super) fn covers(chain: &Json, fact: &str) -> bool {
    list(&chain["hops"]).all(|hop| hop["facts"].is_null() || list(&hop["facts"]).any(|held| held == fact))
}

/// The root delegator's fact, or why the chain is not good now.
pub(super) fn judge<'a>(
    chain: &Json,
    deed: &Deed<'_>,
    now_ms: u64,
    agent_fact: &dyn Fn(&str) -> Option<&'a Json>,
) -> Result<&'a Json, &'static str> {
    let hops: Vec<&Json> = list(&chain["hops"]).collect();
    if hops.windows(2).any(|pair| matches!(pair, [parent, child] if is_wider(child, parent))) {
        return Err("delegation_widened");
    }
    let count = hops.len() as u64;
    if (1..).zip(&hops).any(|(number, hop)| count - number > hop["depth"].as_u64().unwrap_or_default()) {
        return Err("delegation_too_deep");
    }
    if hops.iter().any(|hop| hop["expires_at"].as_u64().is_some_and(|at_ms| now_ms >= at_ms)) {
        return Err("delegation_expired");
    }
    let facts: Vec<Option<&Json>> = members(chain).into_iter().map(agent_fact).collect();
    if facts.iter().any(|fact| fact.is_none_or(|fact| fact["standing"] != "active")) {
        return Err("delegation_member_not_active");
    }
    let keys = std::iter::once(&chain["root_key"]).chain(hops.iter().map(|hop| &hop["key"]));
    let is_named = |(fact, key): (&Option<&Json>, &Json)| {
        fact.is_some_and(|fact| key.as_str().is_some_and(|key| holds_key(fact, key, now_ms)))
    };
    if !facts.iter().zip(keys).all(is_named) {
        return Err("delegation_key_not_current");
    }
    if members(chain).last() != Some(&deed.agent) || !hops.iter().all(|hop| allows(hop, deed.body)) {
        return Err("delegation_out_of_scope");
    }
    facts.first().copied().flatten().ok_or("delegation_member_not_active")
}

/// Whether one hop claims anything that the one before it was not given.
fn is_wider(child: &Json, parent: &Json) -> bool {
    let holds_more = |name: &str| {
        let given = &parent[name];
        let more = || list(&child[name]).any(|claimed| !list(given).any(|held| held == claimed));
        given.is_array() && (child[name].is_null() || more())
    };
    let limits = parent["limits"].as_object();
    let lifts = |(name, limit): (&String, &Json)| {
        let own = &child["limits"][name];
        let above = limit["max"].as_i64().is_some_and(|max| own["max"].as_i64().is_none_or(|own| own > max));
        let more = || list(&own["one_of"]).any(|claimed| !list(&limit["one_of"]).any(|held| held == claimed));
        above || limit["one_of"].is_array() && (own["one_of"].is_null() || more())
    };
    let number = |hop: &Json, name: &str| hop[name].as_u64();
    let lasts =
        number(parent, "expires_at").is_some_and(|given| number(child, "expires_at").is_none_or(|own| own > given));
    holds_more("actions")
        || limits.into_iter().flatten().any(lifts)
        || holds_more("facts")
        || lasts
        || number(child, "depth") > number(parent, "depth")
}

/// Whether a hop lets this action type with these parameters pass.
fn allows(hop: &Json, body: &Json) -> bool {
    let is_named = list(&hop["actions"]).any(|pair| pair[0] == body["pact"] && pair[1] == body["action"]);
    let is_within = |(name, limit): (&String, &Json)| {
        let value = &body["params"][name];
        let below = limit["max"].as_i64().is_none_or(|max| value.as_i64().is_some_and(|value| value <= max));
        below && (limit["one_of"].is_null() || list(&limit["one_of"]).any(|held| held == value))
    };
    (hop["actions"].is_null() || is_named) && hop["limits"].as_object().into_iter().flatten().all(is_within)
}
