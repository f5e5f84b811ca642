//! Which tools the published pacts map: which action a call of one stands for, and which tool reads a fact.

use super::gate::PACT_NAME;
use super::messages::Sending;
use super::names::Names;
use crate::client::{Call, Client, escape};
use anyhow::Result;
use countersign_api::{PactList, PactResponse};
use countersign_core::canonical::Canonical;
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::load::load;
use countersign_core::pact::tool_source::{Argument, ToolSource};
use countersign_core::pact::{Pact, SendRule, SourceRead};
use countersign_core::session::Place;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What the pacts say about tools.
#[derive(Debug, Default)]
pub struct Mapping {
    calls: HashMap<(String, String), Vec<Mapped>>,
    sources: BTreeMap<String, Source>,
    /// Servers at which the calls of some action rest on what is there.
    relied_on: BTreeSet<String>,
    /// The action types that send messages.
    messages: Vec<Sending>,
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
    /// Whether it runs only if what was read in the session reads the same.
    pub is_as_read: bool,
}

/// A call that reads something again.
#[derive(Debug, Clone, PartialEq)]
pub struct Reread {
    /// The server.
    pub upstream: String,
    /// The tool, as its server has it.
    pub tool: String,
    pub arguments: Map<String, Value>,
}

impl Reread {
    /// As an agent can make it.
    pub fn called(&self, names: &Names) -> String {
        names.called(&self.upstream, &self.tool, &json!(self.arguments).to_string())
    }

    /// The same for a program.
    pub fn as_json(&self, names: &Names) -> Value {
        json!({"tool": names.of(&self.upstream, &self.tool), "arguments": self.arguments})
    }
}

#[derive(Debug)]
struct Source {
    upstream: String,
    read: ToolSource,
    /// Whether every agent is shown all of its facts.
    is_open: bool,
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
            // The gateway's own pact maps whichever tool its parameters name, which is none of its own.
            Ok(_) if name == PACT_NAME => {}
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

    /// The action types that send messages.
    pub fn messages(&self) -> &[Sending] {
        &self.messages
    }

    fn add(&mut self, pact: &Pact) {
        self.relied_on.extend(pact.readings.values().map(|reading| reading.upstream.to_string()));
        for (name, action) in pact.actions.iter().filter(|(_, action)| action.deliver.is_some()) {
            self.messages.push(Sending {
                pact: pact.name.to_string(),
                action: name.to_string(),
                doc: action.doc.clone(),
                params: action.params.schema.clone(),
                reads: action.reads.iter().map(|read| read.ty.clone()).collect(),
            });
        }
        for (name, action) in &pact.actions {
            let Some(call) = &action.call else { continue };
            let facts = action.reads.iter().filter_map(|read| read.outside.as_ref());
            self.relied_on.extend(facts.map(|source| source.adapter.to_string()));
            if let SendRule::Tool { tool, .. } = &call.send {
                let mapped = Mapped {
                    pact: pact.name.to_string(),
                    action: name.to_string(),
                    takes_ms: call.after_ms.saturating_add(call.timeout_ms),
                    reads: action.reads.iter().map(|read| read.ty.clone()).collect(),
                    is_as_read: action.guard.is_some(),
                };
                self.calls.entry((call.adapter.to_string(), tool.to_string())).or_default().push(mapped);
            }
        }
        for (ty, source) in &pact.sources {
            if let SourceRead::Tool(read) = &source.read {
                let is_open = pact.shows_whole(ty);
                let source = Source { upstream: source.adapter.to_string(), read: read.clone(), is_open };
                self.sources.insert(ty.to_string(), source);
            }
        }
    }

    /// The actions that map a tool: one, none, or too many to choose.
    pub fn find(&self, upstream: &str, tool: &str) -> &[Mapped] {
        self.calls.get(&(upstream.to_owned(), tool.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Whether an action of a pact calls any tool of an upstream.
    pub fn calls_any_of(&self, upstream: &str) -> bool {
        self.calls.keys().any(|(known, _)| known == upstream)
    }

    /// Whether the calls of some action rest on what is at a server.
    pub fn is_relied_on(&self, upstream: &str) -> bool {
        self.relied_on.contains(upstream)
    }

    /// Whether no pact speaks of a tool, neither as something to do nor as something to read.
    pub fn knows_nothing_of(&self, upstream: &str, tool: &str) -> bool {
        self.find(upstream, tool).is_empty() && !self.sources.values().any(|source| source.is(upstream, tool))
    }

    /// The facts that a call reads: those whose source is this very call, with nothing added or left out.
    pub fn observed(&self, upstream: &str, tool: &str, arguments: &Map<String, Value>) -> Vec<FactId> {
        let named = |(ty, source): (&String, &Source)| {
            let id = source.read.id_of(arguments)?;
            FactId::new(FactType::new(ty.as_str()).ok()?, id).ok()
        };
        self.sources.iter().filter(|(_, source)| source.is(upstream, tool)).filter_map(named).collect()
    }

    /// The names of the readings that facts are kept as which a call reads: each by the arguments that its source calls the tool with,
    /// which need not be spelled as the client's are.
    pub fn kept_as(&self, facts: &[FactId]) -> Vec<String> {
        let place = |fact: &FactId| {
            let source = self.sources.get(fact.ty().as_str())?;
            let (arguments, _) = source.read.arguments_for(fact.id())?;
            let mut canonical = Canonical::new();
            canonical.json(&Value::Object(arguments));
            let (upstream, tool) = (source.upstream.as_str().into(), source.read.tool.clone());
            Some(Place { upstream, tool, arguments: canonical.as_str().into() })
        };
        let names: BTreeSet<String> = facts.iter().filter_map(place).map(|place| place.name().to_string()).collect();
        names.into_iter().collect()
    }

    /// Whether a tool reads facts of which each call shows many, and every agent may see all of them: a list, of which a fact is one
    /// element. What such a call reads is no one fact, so it passes as any other reading.
    pub fn lists_openly(&self, upstream: &str, tool: &str) -> bool {
        let mut lists = self.sources.values().filter(|source| source.is(upstream, tool)).peekable();
        lists.peek().is_some() && lists.all(|source| source.read.key.is_some() && source.is_open)
    }

    /// Which arguments a tool that reads facts is called with, in words.
    pub fn accepted(&self, upstream: &str, tool: &str) -> String {
        let sources = self.sources.iter().filter(|(_, source)| source.is(upstream, tool));
        let accepted: Vec<String> = sources
            .map(|(ty, source)| {
                let shown = |argument: &Argument| match argument {
                    Argument::Fixed(json) => json.clone(),
                    Argument::Piece(piece) => json!(format!("{{{piece}}}")),
                    Argument::Text { before, piece, after } => json!(format!("{before}{{{piece}}}{after}")),
                };
                let arguments = source.read.arguments.iter().map(|(name, it)| (name.to_string(), shown(it))).collect();
                let whom = if source.read.key.is_some() { ", which not every agent may see all of" } else { "" };
                format!("{} for {ty}{whom}", Value::Object(arguments))
            })
            .collect();
        format!("a pact reads facts by this tool, which takes exactly {}", accepted.join(" or "))
    }

    /// The call that reads a fact again, where a tool does.
    pub fn reread(&self, fact: &FactId) -> Option<Reread> {
        let source = self.sources.get(fact.ty().as_str())?;
        let (arguments, _) = source.read.arguments_for(fact.id())?;
        Some(Reread { upstream: source.upstream.clone(), tool: source.read.tool.to_string(), arguments })
    }
}

impl Source {
    fn is(&self, upstream: &str, tool: &str) -> bool {
        self.upstream == upstream && self.read.tool == tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pact_that_cannot_be_read_guards_every_tool_that_it_may_name() {
        let mut mapping = Mapping::default();
        mapping.read_one("later", "pact = \"later\"\nversion = 1\n[guard.transfer]\nmcp = \"bank\"".to_owned());
        assert_eq!(mapping.unread_about("transfer"), Some("later"));
        assert_eq!(mapping.unread_about("look"), None);
        mapping.read_one(PACT_NAME, super::super::gate::PACT.to_owned());
        assert_eq!(mapping.upstreams().next(), None, "its own pact names tools by its parameters");
        mapping.read_one("hidden", "[guard]\ntool = \"\\u006cook\"".to_owned());
        assert_eq!(mapping.unread_about("look"), Some("hidden"), "it may be spelled otherwise");
    }
}
