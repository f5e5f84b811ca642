//! Turns: what a call may change outside, and what it relies on there meanwhile (docs/adr/0027).
//!
//! A call that says nothing of its changes may change anything at its server: a tool's always, one over HTTP or of a command where a
//! published action rests on facts there. One that does changes what it names, and its resource
//! where that is external. What is known of a fact is the call that reads it, so that a reading is touched by a change of a fact if the
//! one is made by the same call as the other, and by every change at its server where no pact says which fact it reads.

use super::reads::built;
use super::{Snapshot, external_read, target};
use crate::action::Action;
use crate::call::{EffectId, ExternalHow, ExternalRead};
use crate::canonical::Canonical;
use crate::effect::{Effect, Effects};
use crate::ids::{Digest, FactId, PactName};
use crate::pact::changes::relies_on;
use crate::pact::{ActionType, FactSource, Pact, Presence, Read, SendRule, SourceRead, TemplatePart};
use crate::session::{Held, Place};
use crate::value::Attributes;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many calls in doubt are named beside which a write ran.
const BESIDE_MAX: usize = 16;

/// What a call touches at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The server, by its adapter's name.
    pub server: SmolStr,
    /// Which part of what is there; `None` for anything.
    pub part: Option<Digest>,
    /// Whether it may change that. Otherwise it relies on it.
    pub changes: bool,
}

impl Touch {
    /// Anything at a server.
    fn all_of(server: SmolStr, changes: bool) -> Self {
        Self { server, part: None, changes }
    }
}

/// Whether two calls must not be made beside each other.
pub fn meets(one: &[Touch], other: &[Touch]) -> bool {
    let same_part = |a: &Touch, b: &Touch| a.part.is_none() || b.part.is_none() || a.part == b.part;
    let meets = |a: &Touch, b: &Touch| a.server == b.server && (a.changes || b.changes) && same_part(a, b);
    one.iter().any(|a| other.iter().any(|b| meets(a, b)))
}

/// What the call of an action touches, by the pacts as they are now; nothing where it takes no turn, `None` where it calls nothing.
pub fn touches(action: &Action, snapshot: &dyn Snapshot, pacts: &BTreeMap<PactName, Arc<Pact>>) -> Option<Vec<Touch>> {
    let pact = snapshot.pact(&action.pact)?;
    let kind = pact.actions.get(&action.action)?;
    let rule = kind.call.as_ref()?;
    let (server, _) = target(action, snapshot)?;
    let whole = || vec![Touch::all_of(server.clone(), true)];
    let Some(changes) = &kind.changes else {
        let takes_all = match rule.send {
            SendRule::Tool { .. } | SendRule::AnyTool { .. } => true,
            // Where no action rests on anything there, there is nothing that a turn would keep.
            SendRule::Http { .. } | SendRule::Command { .. } => kind.guard.is_some() || is_relied_on(&server, pacts),
            // A transaction locks the rows that it reads and changes.
            SendRule::Sql { .. } => kind.guard.is_some(),
        };
        return Some(if takes_all { whole() } else { Vec::new() });
    };
    let binding = action.binding(&pact.hash, kind);
    // What does not bind is rejected, and until then nothing is known of it.
    let Ok(params) = &*binding else { return Some(whole()) };
    let mut touches: Vec<Touch> = changes.servers.iter().map(|server| Touch::all_of(server.clone(), true)).collect();
    let resource = kind.reads.first().filter(|read| read.presence != Presence::Create);
    for read in changes.facts.iter().chain(resource) {
        touches.extend(touch(read, params, true));
    }
    touches.extend(relied_on(kind, params));
    Some(touches)
}

/// Whether an action of any pact rests on external facts at a server.
fn is_relied_on(server: &SmolStr, pacts: &BTreeMap<PactName, Arc<Pact>>) -> bool {
    pacts.values().flat_map(|pact| pact.actions.values()).any(|kind| relies_on(kind, server))
}

/// The external facts that the call relies on beside its resource.
fn relied_on<'a>(kind: &'a ActionType, params: &'a Attributes) -> impl Iterator<Item = Touch> + 'a {
    kind.reads.iter().skip(1).filter_map(move |read| touch(read, params, false))
}

/// An external fact as a part of its server; all of the server where its id takes more than parameters, or names no fact of it.
fn touch(read: &Read, params: &Attributes, changes: bool) -> Option<Touch> {
    let source = read.outside.as_ref()?;
    // A transaction locks the rows itself.
    if matches!(source.read, SourceRead::Query(_)) {
        return None;
    }
    let is_of_params = !read.template.iter().any(|part| matches!(part, TemplatePart::Attribute { .. }));
    let fact = if is_of_params { built(read, params, &[]).ok() } else { None };
    let part = fact.and_then(|fact| part(source, &fact));
    Some(Touch { server: source.adapter.clone(), part, changes })
}

/// What names the call that reads a fact.
fn part(source: &FactSource, fact: &FactId) -> Option<Digest> {
    let ExternalRead { adapter: upstream, how, .. } = external_read(source, fact)?;
    let (tool, arguments) = match how {
        ExternalHow::Query(_) => return None,
        ExternalHow::Path(path) => (SmolStr::new_static("GET"), path.into()),
        ExternalHow::Tool { tool, arguments, .. } => {
            let mut canonical = Canonical::new();
            canonical.json(&arguments);
            (tool, canonical.as_str().into())
        }
    };
    Some(Place { upstream, tool, arguments }.name())
}

/// What a write touches that rests on a reading: the one fact that a pact reads by the same call, or anything at its server.
pub fn touched_by_reading<'a>(place: &Place, pacts: impl Iterator<Item = &'a Pact>) -> Touch {
    let arguments = serde_json::from_str::<Map<String, Json>>(&place.arguments).unwrap_or_default();
    let mut sources = pacts.flat_map(|pact| &pact.sources);
    let part = sources.find_map(|(ty, source)| {
        let SourceRead::Tool(tool) = &source.read else { return None };
        let is_it = source.is_tool(&place.upstream, &place.tool);
        let fact = FactId::new(ty.clone(), tool.id_of(&arguments).filter(|_| is_it)?).ok()?;
        part(source, &fact)
    });
    Touch { server: place.upstream.clone(), part, changes: false }
}

/// The calls in doubt beside which a call is made: each may still have its effect on what this one changes or rests on.
pub fn beside(effect: &Effect, snapshot: &dyn Snapshot, state: ReadRest<'_>) -> Vec<EffectId> {
    let ReadRest { effects, pacts } = state;
    let mut doubts = effects.in_doubt().filter(|other| other.id != effect.id).peekable();
    if doubts.peek().is_none() {
        return Vec::new();
    }
    let mut own = touches(&effect.action, snapshot, pacts).unwrap_or_default();
    let places = effect.rests_on.iter().filter_map(|(fact, _)| Held::of(snapshot.fact(fact)?));
    own.extend(places.map(|held| touched_by_reading(&held.reading.place, pacts.values().map(|pact| &**pact))));
    let is_beside = |other: &&Effect| {
        let theirs = touches(&other.action, snapshot, pacts).unwrap_or_default();
        let changed: Vec<Touch> = theirs.into_iter().filter(|touch| touch.changes).collect();
        meets(&own, &changed)
    };
    doubts.filter(is_beside).map(|other| other.id).take(BESIDE_MAX).collect()
}

/// What is looked at beside facts.
#[derive(Debug, Clone, Copy)]
pub struct ReadRest<'a> {
    /// What is under way.
    pub effects: &'a Effects,
    /// What is published.
    pub pacts: &'a BTreeMap<PactName, Arc<Pact>>,
}
