//! Which tools the published pacts map: which action a call of one stands for, and which tool reads a fact.

use crate::client::{Call, Client, escape};
use anyhow::Result;
use countersign_api::{PactList, PactResponse};
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::load::load;
use countersign_core::pact::{IdPart, Pact, SendRule, SourceRead};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the pacts say about tools.
#[derive(Debug, Default)]
pub struct Mapping {
    calls: HashMap<(String, String), Vec<Mapped>>,
    sources: BTreeMap<String, Source>,
    /// Pacts that this program cannot read: name and text.
    unread: Vec<(String, String)>,
    /// The hashes of the pacts that it was read from.
    read_from: Vec<String>,
}

/// The action that a call of a tool stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    pub pact: String,
    /// The action type.
    pub action: String,
    /// How long the call cools and may take.
    pub takes_ms: u64,
    /// The types of the facts that it reads.
    pub reads: Vec<FactType>,
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
            mapping.read_one(&pact.name, found.source);
        }
        Ok(Arc::new(mapping))
    }

    fn read_one(&mut self, name: &str, source: String) {
        match load(&source) {
            Ok(loaded) => self.add(&loaded.pact),
            Err(_) => self.unread.push((name.to_owned(), source)),
        }
    }

    /// The pact that cannot be read and may map this tool: one whose text has the tool's name in it, or may have it in another
    /// spelling. What a pact guards must not count as unmapped because a gateway is older than the gate (I4).
    pub fn unread_about(&self, tool: &str) -> Option<&str> {
        let may_name = |text: &str| text.contains(tool) || text.contains('\\');
        self.unread.iter().find(|(_, text)| may_name(text)).map(|(name, _)| name.as_str())
    }

    /// The upstreams that pacts speak of.
    pub fn upstreams(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls.keys().map(|(upstream, _)| upstream.as_str());
        calls.chain(self.sources.values().map(|source| source.upstream.as_str()))
    }

    fn add(&mut self, pact: &Pact) {
        for (name, action) in &pact.actions {
            let Some(call) = &action.call else { continue };
            if let SendRule::Tool { tool, .. } = &call.send {
                let mapped = Mapped {
                    pact: pact.name.to_string(),
                    action: name.to_string(),
                    takes_ms: call.after_ms.saturating_add(call.timeout_ms),
                    reads: action.reads.iter().map(|read| read.ty.clone()).collect(),
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

    /// Whether no pact speaks of a tool, neither as something to do nor as something to read.
    pub fn knows_nothing_of(&self, upstream: &str, tool: &str) -> bool {
        self.find(upstream, tool).is_empty() && !self.sources.values().any(|source| source.is(upstream, tool))
    }

    /// The facts that a call reads: those whose source is this very call, with nothing added or left out.
    pub fn observed(&self, upstream: &str, tool: &str, arguments: &Map<String, Value>) -> Vec<FactId> {
        let named = |(ty, source): (&String, &Source)| {
            let id = source.id_in(arguments)?;
            FactId::new(FactType::new(ty.as_str()).ok()?, id).ok()
        };
        self.sources.iter().filter(|(_, source)| source.is(upstream, tool)).filter_map(named).collect()
    }

    /// Which arguments a tool that reads facts is called with, in words.
    pub fn accepted(&self, upstream: &str, tool: &str) -> String {
        let sources = self.sources.iter().filter(|(_, source)| source.is(upstream, tool));
        let accepted: Vec<String> = sources
            .map(|(ty, source)| {
                let arguments: Map<String, Value> =
                    source.arguments.iter().map(|(name, parts)| (name.clone(), json!(filled(parts, "{id}")))).collect();
                format!("{} for {ty}", Value::Object(arguments))
            })
            .collect();
        format!("a pact reads facts by this tool, which takes exactly {}", accepted.join(" or "))
    }

    /// The call that reads a fact again, where a tool of this upstream does.
    pub fn reread(&self, upstream: &str, fact: &FactId) -> Option<Value> {
        let source = self.sources.get(fact.ty().as_str()).filter(|source| source.upstream == upstream)?;
        let arguments: Map<String, Value> =
            source.arguments.iter().map(|(name, parts)| (name.clone(), json!(filled(parts, fact.id())))).collect();
        Some(json!({"tool": source.tool, "arguments": arguments}))
    }
}

impl Source {
    fn is(&self, upstream: &str, tool: &str) -> bool {
        self.upstream == upstream && self.tool == tool
    }

    /// The id of the fact that a call with these arguments reads.
    fn id_in(&self, arguments: &Map<String, Value>) -> Option<String> {
        let mut id = None;
        for (name, parts) in &self.arguments {
            let text = arguments.get(name)?.as_str()?;
            let at = parts.iter().position(|part| *part == IdPart::Id);
            if let (Some(at), None) = (at, &id) {
                let (before, after) = (parts.get(..at)?, parts.get(at + 1..)?);
                // Where the id stands more than once, this takes too much, and the comparison below finds out.
                let rest = text.strip_prefix(&filled(before, ""))?;
                id = Some(rest.strip_suffix(&filled(after, ""))?.to_owned());
            }
        }
        let id = id?;
        let same = |(name, parts): &(String, Vec<IdPart>)| {
            arguments.get(name).and_then(Value::as_str) == Some(filled(parts, &id).as_str())
        };
        (arguments.len() == self.arguments.len() && self.arguments.iter().all(same)).then_some(id)
    }
}

fn filled(parts: &[IdPart], id: &str) -> String {
    let part = |part: &IdPart| match part {
        IdPart::Literal(text) => text.to_string(),
        IdPart::Id => id.to_owned(),
    };
    parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(arguments: &[(&str, &[IdPart])]) -> Source {
        let arguments = arguments.iter().map(|(name, parts)| ((*name).to_owned(), parts.to_vec())).collect();
        Source { upstream: "bank".to_owned(), tool: "get".to_owned(), arguments }
    }

    fn id(source: &Source, arguments: Value) -> Option<String> {
        source.id_in(arguments.as_object().unwrap())
    }

    #[test]
    fn a_pact_that_cannot_be_read_guards_every_tool_that_it_may_name() {
        let mut mapping = Mapping::default();
        mapping.read_one("later", "pact = \"later\"\nversion = 1\n[guard.transfer]\nmcp = \"bank\"".to_owned());
        assert_eq!(mapping.unread_about("transfer"), Some("later"));
        assert_eq!(mapping.unread_about("look"), None);
        mapping.read_one("hidden", "[guard]\ntool = \"\\u006cook\"".to_owned());
        assert_eq!(mapping.unread_about("look"), Some("hidden"), "it may be spelled otherwise");
    }

    #[test]
    fn a_call_reads_a_fact_only_if_it_is_the_very_call_of_its_source() {
        let literal = |text: &str| IdPart::Literal(text.into());
        let plain = source(&[("id", &[IdPart::Id])]);
        assert_eq!(id(&plain, json!({"id": "42"})).as_deref(), Some("42"));
        for other in [json!({}), json!({"id": 42}), json!({"id": "42", "verbose": true}), json!({"key": "42"})] {
            assert_eq!(id(&plain, other.clone()), None, "{other}");
        }
        let inside = source(&[("path", &[literal("/accounts/"), IdPart::Id, literal(".json")])]);
        assert_eq!(id(&inside, json!({"path": "/accounts/42.json"})).as_deref(), Some("42"));
        assert_eq!(id(&inside, json!({"path": "/accounts/42.txt"})), None);
        let fixed = source(&[("kind", &[literal("account")]), ("id", &[IdPart::Id])]);
        assert_eq!(id(&fixed, json!({"kind": "account", "id": "42"})).as_deref(), Some("42"));
        assert_eq!(id(&fixed, json!({"kind": "card", "id": "42"})), None);
        let two = source(&[("a", &[IdPart::Id]), ("b", &[literal("x"), IdPart::Id])]);
        assert_eq!(id(&two, json!({"a": "1", "b": "x1"})).as_deref(), Some("1"));
        assert_eq!(id(&two, json!({"a": "1", "b": "x2"})), None);
    }
}
