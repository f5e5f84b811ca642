//! What agents of the bank workload pass on to each other: plain data, and the tokens that say the same.
//!
//! The data is what the checker judges by; the tokens are made from it once. So the checker depends on no one's reading of a
//! token, and anyone who reads one wrongly is found.

use crate::identities::{key_name, signing_key};
use crate::sim::ORIGIN;
use countersign_core::delegation::{Limit, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, PactName};
use countersign_engine::delegation::{extend, mint};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// When the one that expires does: in the middle of the times at which runs begin.
const EXPIRES_AT_MS: u64 = 1_800_000_000_000 + (1 << 29);

/// One delegation.
#[derive(Debug)]
pub struct Handed {
    pub token: String,
    /// The chain that it says, in the form that entries have it in, without the token's digest.
    pub chain: Json,
}

/// Every delegation that there is.
///
/// # Errors
/// Says why a token could not be made.
pub fn all() -> Result<&'static [Handed], String> {
    static ALL: OnceLock<Result<Vec<Handed>, String>> = OnceLock::new();
    let made = ALL.get_or_init(|| {
        let token = |chain: Json| Ok(Handed { token: token(&chain)?, chain });
        chains().into_iter().map(token).collect()
    });
    made.as_deref().map_err(Clone::clone)
}

/// The chain that a token says.
#[must_use]
pub fn chain_of(token: &str) -> Option<&'static Json> {
    all().ok()?.iter().find(|handed| handed.token == token).map(|handed| &handed.chain)
}

fn chain(root: &str, hops: &[(&str, u64, Json)]) -> Json {
    let hop = |(to, depth, limits): &(&str, u64, Json)| {
        let mut hop = json!({"depth": depth, "key": key_name(to, 0), "to": to});
        for (name, value) in limits.as_object().into_iter().flatten() {
            hop[name] = value.clone();
        }
        hop
    };
    let hops: Vec<Json> = hops.iter().map(hop).collect();
    json!({"hops": hops, "root": root, "root_key": key_name(root, 0)})
}

/// Good ones, narrow ones, and some that no gate may take: passed on too often, and widened in each way.
fn chains() -> Vec<Json> {
    let refunds = json!({"actions": [["bank", "refund"]]});
    let small = json!({
        "actions": [["bank", "refund"]], "facts": ["Account::\"a\"", "Account::\"b\""], "limits": {"amount": {"max": 30_000}},
    });
    let smaller = json!({
        "actions": [["bank", "refund"]], "facts": ["Account::\"a\""],
        "limits": {"account": {"one_of": ["a", "c"]}, "amount": {"max": 20_000}},
    });
    let transfers = json!({"facts": ["Account::\"a\"", "Account::\"b\"", "Transfer::\"t0\"", "Transfer::\"t1\""]});
    vec![
        chain("refund-1", &[("clerk-1", 0, json!({}))]),
        chain("refund-1", &[("clerk-1", 0, refunds.clone())]),
        chain("refund-2", &[("clerk-1", 0, small.clone())]),
        chain("refund-1", &[("clerk-2", 1, small.clone()), ("clerk-1", 0, smaller.clone())]),
        chain(
            "refund-2",
            &[("clerk-2", 2, json!({})), ("refund-1", 1, refunds.clone()), ("clerk-1", 0, refunds.clone())],
        ),
        chain("refund-2", &[("clerk-1", 0, json!({"expires_at": EXPIRES_AT_MS}))]),
        chain("pay-1", &[("clerk-1", 0, transfers)]),
        chain("fraud-1", &[("clerk-1", 0, json!({"actions": [["bank", "freeze"], ["bank", "thaw"]]}))]),
        chain("refund-1", &[("clerk-2", 0, json!({})), ("clerk-1", 0, json!({}))]),
        chain("refund-1", &[("clerk-2", 1, small.clone()), ("clerk-1", 0, refunds)]),
        chain("refund-2", &[("clerk-2", 1, smaller), ("clerk-1", 0, small)]),
        chain("refund-2", &[("clerk-2", 1, json!({})), ("clerk-1", 2, json!({}))]),
        chain("refund-2", &[("clerk-2", 1, json!({"expires_at": EXPIRES_AT_MS})), ("clerk-1", 0, json!({}))]),
    ]
}

/// The token for a chain, each hop signed by its delegator.
fn token(chain: &Json) -> Result<String, String> {
    let root = chain["root"].as_str().unwrap_or_default();
    let mut from = root.to_owned();
    let mut token: Option<String> = None;
    for hop in chain["hops"].as_array().into_iter().flatten() {
        let (scope, key) = (scope(hop)?, signing_key(&from, 0));
        let made = match &token {
            None => AgentId::new(root)
                .map_err(|error| error.to_string())
                .and_then(|root| mint(&key, &root, ORIGIN, &scope).map_err(|error| error.to_string())),
            Some(token) => extend(token, &key, &scope).map_err(|error| error.to_string()),
        };
        token = Some(made?);
        from = hop["to"].as_str().unwrap_or_default().to_owned();
    }
    token.ok_or_else(|| "nothing is handed on".to_owned())
}

fn scope(hop: &Json) -> Result<Scope, String> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    let list = |json: &Json| json.as_array().cloned().unwrap_or_default();
    let mut scope = Scope {
        to: AgentId::new(text(&hop["to"])).map_err(|error| error.to_string())?,
        key: text(&hop["key"]).parse::<KeyName>().map_err(|error| error.to_string())?,
        actions: None,
        limits: BTreeMap::new(),
        facts: None,
        expires_at_ms: hop["expires_at"].as_u64(),
        depth: u32::try_from(hop["depth"].as_u64().unwrap_or_default()).map_err(|error| error.to_string())?,
    };
    if hop["actions"].is_array() {
        let name = |pair: Json| Some((PactName::new(text(&pair[0])).ok()?, ActionName::new(text(&pair[1])).ok()?));
        scope.actions = Some(list(&hop["actions"]).into_iter().filter_map(name).collect());
    }
    if hop["facts"].is_array() {
        scope.facts = Some(list(&hop["facts"]).iter().filter_map(|fact| text(fact).parse().ok()).collect());
    }
    for (name, limit) in hop["limits"].as_object().into_iter().flatten() {
        let values = || list(&limit["one_of"]).iter().map(|value| text(value).into()).collect();
        let one_of = limit["one_of"].is_array().then(values);
        scope.limits.insert(name.as_str().into(), Limit { max: limit["max"].as_i64(), one_of });
    }
    Ok(scope)
}
