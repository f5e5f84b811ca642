//! The labels of what is shown: of facts, attribute by attribute, and of what tools answer.

use super::{LabelSet, Labels, SERVER, TOOL, UNTRUSTED};
use crate::decide::Snapshot;
use crate::fact::Fact;
use crate::ids::{FactId, FactType};
use crate::session::Place;
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// The labels of attributes that actions wrote: of the values that they have now. An attribute that is not in it is as its type says.
pub type AttributeLabels = BTreeMap<SmolStr, LabelSet>;

/// The labels of one attribute of a fact, or of one that it could have.
pub fn of_attribute<'a>(labels: &'a Labels, fact: &'a Fact, name: &str) -> &'a LabelSet {
    let own = fact.labels.as_ref().and_then(|own| own.get(name));
    own.unwrap_or_else(|| labels.of_type(fact.id.ty()))
}

/// The labels of those attributes of a fact that are shown.
pub fn content_of_fact(labels: &Labels, fact: &Fact, is_shown: impl Fn(&str) -> bool) -> LabelSet {
    let names = fact.value.iter().flat_map(Attributes::iter).map(|(name, _)| name).filter(|name| is_shown(name));
    names.flat_map(|name| of_attribute(labels, fact, name)).cloned().collect()
}

/// The labels of what is read from a place.
pub fn content_of_place(place: &Place, snapshot: &dyn Snapshot) -> LabelSet {
    content_of_tool(&place.upstream, &place.tool, snapshot)
}

/// The labels of what a tool of a server answers: its own, those of its server, and those of the facts that it is read for.
pub fn content_of_tool(upstream: &str, tool: &str, snapshot: &dyn Snapshot) -> LabelSet {
    let mut all = snapshot.labels().read_by(upstream, tool);
    for fact in terms_of_tool(upstream, tool) {
        let value = snapshot.fact(&fact).and_then(|fact| fact.value.as_ref());
        all.extend(value.into_iter().flat_map(|value| of_terms(value, snapshot.labels())));
    }
    all
}

/// The facts that say on which terms a tool and its server are approved.
pub fn terms_of_tool(upstream: &str, tool: &str) -> impl Iterator<Item = FactId> + use<> {
    let terms = [(TOOL, format!("{upstream}/{tool}")), (SERVER, upstream.to_owned())];
    terms.into_iter().filter_map(|(ty, id)| FactId::new(FactType::new(ty).ok()?, id).ok())
}

/// The labels that the terms give on which a tool or a server is approved. A name that no one declared says at least that much.
pub(super) fn of_terms(terms: &Attributes, labels: &Labels) -> Vec<SmolStr> {
    let Some(Value::Set(named)) = terms.get("labels") else { return Vec::new() };
    let known = |value: &Value| match value {
        Value::String(name) if labels.names().contains(name) => name.clone(),
        _ => SmolStr::new_static(UNTRUSTED),
    };
    named.iter().map(known).collect()
}

/// A name among the labels that a tool or server is approved with that no one declared.
pub fn unknown_label<'a>(fact: &FactId, terms: &'a Attributes, labels: &Labels) -> Option<&'a str> {
    let Some(Value::Set(named)) = terms.get("labels").filter(|_| [TOOL, SERVER].contains(&fact.ty().as_str())) else {
        return None;
    };
    named.iter().find_map(|name| match name {
        Value::String(name) => Some(name.as_str()).filter(|name| !labels.names().contains(*name)),
        _ => None,
    })
}
