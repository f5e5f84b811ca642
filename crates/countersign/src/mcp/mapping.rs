//! Which tools the published pacts map: which action a call of one stands for, and which tool reads a fact.

use crate::client::{Call, Client, escape};
use anyhow::Result;
use countersign_api::{PactList, PactResponse};
use countersign_core::ids::FactId;
use countersign_core::pact::load::load;
use countersign_core::pact::{IdPart, Pact, SendRule, SourceRead};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// What the pacts say about tools.
#[derive(Debug, Default)]
pub struct Mapping {
    calls: HashMap<(String, String), Vec<Mapped>>,
    sources: HashMap<String, Source>,
    /// The hashes of the pacts that it was read from.
    read_from: Vec<String>,
}

/// The action that a call of a tool stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// The pact.
    pub pact: String,
    /// The action type.
    pub action: String,
    /// How long the call cools and may take.
    pub takes_ms: u64,
}

#[derive(Debug)]
struct Source {
    upstream: String,
    tool: String,
    arguments: Vec<(String, Vec<IdPart>)>,
}

impl Mapping {
    /// Reads all published pacts, unless they are those that `before` was read from.
    pub fn read(client: &Client, before: Option<&Arc<Self>>) -> Result<Arc<Self>> {
        let list: PactList = client.call(Call::get("/v1/pacts"))?;
        let read_from = list.pacts.iter().map(|pact| pact.hash.clone()).collect();
        if let Some(before) = before.filter(|before| before.read_from == read_from) {
            return Ok(Arc::clone(before));
        }
        let mut mapping = Self { read_from, ..Self::default() };
        for pact in list.pacts {
            let found: PactResponse = client.call(Call::get(format!("/v1/pacts/{}", escape(&pact.name))))?;
            // A pact of a later version than this program knows maps nothing here; its tools count as unmapped.
            if let Ok(loaded) = load(&found.source) {
                mapping.add(&loaded.pact);
            }
        }
        Ok(Arc::new(mapping))
    }

    fn add(&mut self, pact: &Pact) {
        for (name, action) in &pact.actions {
            let Some(call) = &action.call else { continue };
            if let SendRule::Tool { tool, .. } = &call.send {
                let mapped = Mapped {
                    pact: pact.name.to_string(),
                    action: name.to_string(),
                    takes_ms: call.after_ms.saturating_add(call.timeout_ms),
                };
                self.calls.entry((call.adapter.to_string(), tool.to_string())).or_default().push(mapped);
            }
        }
        for (ty, source) in &pact.sources {
            if let SourceRead::Tool { tool, arguments, .. } = &source.read {
                let arguments = arguments.iter().map(|(name, parts)| (name.to_string(), parts.clone())).collect();
                let source = Source { upstream: source.adapter.to_string(), tool: tool.to_string(), arguments };
                self.sources.insert(ty.to_string(), source);
            }
        }
    }

    /// The actions that map a tool: one, none, or too many to choose.
    pub fn find(&self, upstream: &str, tool: &str) -> &[Mapped] {
        self.calls.get(&(upstream.to_owned(), tool.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Whether anything is mapped at all.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call that reads a fact again, where a tool of this upstream does.
    pub fn reread(&self, upstream: &str, fact: &FactId) -> Option<Value> {
        let source = self.sources.get(fact.ty().as_str()).filter(|source| source.upstream == upstream)?;
        let text = |parts: &[IdPart]| {
            let part = |part: &IdPart| match part {
                IdPart::Literal(text) => text.to_string(),
                IdPart::Id => fact.id().to_owned(),
            };
            parts.iter().map(part).collect::<String>()
        };
        let arguments: serde_json::Map<String, Value> =
            source.arguments.iter().map(|(name, parts)| (name.clone(), json!(text(parts)))).collect();
        Some(json!({"tool": source.tool, "arguments": arguments}))
    }
}
