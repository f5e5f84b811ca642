//! A chain as it stands in the payload of an entry.

use super::{Chain, Limit, Scope};
use crate::canonical::Canonical;
use crate::identity::KeyName;
use crate::ids::{ActionName, AgentId, FactId, PactName, check_identifier};
use crate::record::DecodeError;
use serde::Deserialize;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

impl Chain {
    /// The chain in a payload that was read as JSON, if it is one.
    pub fn from_recorded(json: &serde_json::Value) -> Option<Self> {
        StoredChain::deserialize(json).ok()?.decode().ok()
    }

    /// Writes the chain; keys in ascending order.
    pub fn write(&self, out: &mut Canonical) {
        out.open('{');
        out.key("gate");
        out.string(&self.gate);
        out.key("hops");
        out.open('[');
        for hop in &self.hops {
            out.element();
            hop.write(out);
        }
        out.close(']');
        out.key("root");
        out.string(self.root.as_str());
        out.key("root_key");
        out.string(self.root_key.as_str());
        out.key("token");
        out.hex_string(&self.token.0);
        out.close('}');
    }
}

impl Scope {
    fn write(&self, out: &mut Canonical) {
        out.open('{');
        if let Some(actions) = &self.actions {
            out.key("actions");
            out.open('[');
            for (pact, action) in actions {
                out.element();
                out.open('[');
                out.element();
                out.string(pact.as_str());
                out.element();
                out.string(action.as_str());
                out.close(']');
            }
            out.close(']');
        }
        out.key("depth");
        out.u64(u64::from(self.depth));
        if let Some(expires_at_ms) = self.expires_at_ms {
            out.key("expires_at");
            out.u64(expires_at_ms);
        }
        if let Some(facts) = &self.facts {
            out.key("facts");
            out.open('[');
            for fact in facts {
                out.element();
                out.fact(fact);
            }
            out.close(']');
        }
        out.key("key");
        out.string(self.key.as_str());
        if !self.limits.is_empty() {
            out.key("limits");
            out.open('{');
            for (name, limit) in &self.limits {
                out.key(name);
                limit.write(out);
            }
            out.close('}');
        }
        out.key("to");
        out.string(self.to.as_str());
        out.close('}');
    }
}

impl Limit {
    fn write(&self, out: &mut Canonical) {
        out.open('{');
        if let Some(max) = self.max {
            out.key("max");
            out.i64(max);
        }
        if let Some(values) = &self.one_of {
            out.key("one_of");
            out.open('[');
            for value in values {
                out.element();
                out.string(value);
            }
            out.close(']');
        }
        out.close('}');
    }
}

/// A chain, read back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredChain {
    gate: SmolStr,
    hops: Vec<StoredScope>,
    root: String,
    root_key: String,
    token: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredScope {
    actions: Option<Vec<(String, String)>>,
    depth: u32,
    expires_at: Option<u64>,
    facts: Option<Vec<String>>,
    key: String,
    #[serde(default)]
    limits: BTreeMap<SmolStr, StoredLimit>,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLimit {
    max: Option<i64>,
    one_of: Option<BTreeSet<SmolStr>>,
}

impl StoredChain {
    /// The chain, checked as it was when it was admitted.
    pub(crate) fn decode(self) -> Result<Chain, DecodeError> {
        let hops = self.hops.into_iter().map(StoredScope::decode).collect::<Result<_, _>>()?;
        let root_key = key(&self.root_key)?;
        Chain::new(self.gate, AgentId::new(self.root)?, root_key, hops, self.token.parse()?)
            .map_err(|error| DecodeError::Chain(error.to_string()))
    }
}

fn key(text: &str) -> Result<KeyName, DecodeError> {
    text.parse::<KeyName>().map_err(|error| DecodeError::Chain(error.to_string()))
}

impl StoredScope {
    fn decode(self) -> Result<Scope, DecodeError> {
        let action =
            |(pact, action)| -> Result<_, DecodeError> { Ok((PactName::new(pact)?, ActionName::new(action)?)) };
        let actions = self.actions.map(|actions| actions.into_iter().map(action).collect::<Result<_, _>>());
        let facts = self.facts.map(|facts| facts.iter().map(|fact| fact.parse::<FactId>()).collect::<Result<_, _>>());
        let mut limits = BTreeMap::new();
        for (name, StoredLimit { max, one_of }) in self.limits {
            check_identifier(&name)?;
            limits.insert(name, Limit { max, one_of });
        }
        Ok(Scope {
            to: AgentId::new(self.to)?,
            key: key(&self.key)?,
            actions: actions.transpose()?,
            limits,
            facts: facts.transpose()?,
            expires_at_ms: self.expires_at,
            depth: self.depth,
        })
    }
}
