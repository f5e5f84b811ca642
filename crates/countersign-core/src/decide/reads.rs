//! Resolving the facts an action reads: its agent, its resource, and what its templates lead to.

use super::standing::check_actor;
use super::{Deciding, Resolved};
use crate::ids::FactId;
use crate::pact::{Normaliser, Presence, Read, TemplatePart};
use crate::reason::{IdProblem, Reason};
use crate::value::{Attributes, Value};
use smol_str::{SmolStr, SmolStrBuilder};
use std::fmt::Write as _;

impl Deciding<'_> {
    /// Resolves everything, or says what is in the way.
    pub(super) fn resolve(&mut self) -> Result<(), Reason> {
        self.resolve_members();
        check_actor(self.action, self.actor, self.snapshot.is_identified(), self.now_ms)?;
        self.check_chain()?;
        self.check_right(&|mention| mention.read().is_none())?;
        for (at, read) in self.kind.reads.iter().enumerate() {
            let id = self.fact_id(read)?;
            self.check_fact_scope(at, &id)?;
            let record = self.snapshot.fact(&id);
            self.reads.push(Resolved { id, record });
        }
        let unmet = |presence: Presence, exists: bool| {
            self.kind
                .reads
                .iter()
                .zip(&self.reads)
                .filter(|(read, _)| self.is_judgement() || read.outside.is_none())
                .find(|(read, resolved)| read.presence == presence && resolved.live().is_some() == exists)
        };
        if let Some((read, missing)) = unmet(Presence::Required, false) {
            return Err(fact_missing(read, missing));
        }
        if let Some((_, existing)) = unmet(Presence::Create, true) {
            return Err(Reason::FactExists { fact: existing.id.clone(), version: existing.version() });
        }
        for change in self.kind.changes.iter().flat_map(|changes| &changes.facts) {
            let id = self.fact_id(change)?;
            self.changed.push(Resolved { record: self.snapshot.fact(&id), id });
        }
        self.resolve_recipient()?;
        self.check_aliases()?;
        if self.is_judgement() { Ok(()) } else { self.check_fences() }
    }

    pub(super) fn fact_id(&self, read: &Read) -> Result<FactId, Reason> {
        let leads_on = |part: &TemplatePart| match part {
            TemplatePart::Attribute { read, .. } => {
                let earlier = self.kind.reads.get(*read).zip(self.reads.get(*read));
                earlier.filter(|(_, resolved)| resolved.live().is_none())
            }
            _ => None,
        };
        if let Some((read, missing)) = read.template.iter().find_map(leads_on) {
            return Err(fact_missing(read, missing));
        }
        built(read, self.params, &self.reads).map_err(|why| Reason::InvalidFactId {
            read: read.name.clone(),
            r#type: read.ty.clone(),
            why,
        })
    }

    /// Two names for one fact are harmless while it is only read. Written, they would hide one write behind the other.
    fn check_aliases(&self) -> Result<(), Reason> {
        for rule in &self.kind.writes {
            let Some(written) = self.reads.get(rule.read) else {
                continue;
            };
            let alias = self.reads.iter().enumerate().find(|(at, read)| *at != rule.read && read.id == written.id);
            if let Some((at, _)) = alias {
                let name = |at: usize| self.kind.reads.get(at).map(|read| read.name.clone()).unwrap_or_default();
                let names = [name(rule.read), name(at)];
                return Err(Reason::AliasedWrite { fact: written.id.clone(), names });
            }
        }
        Ok(())
    }
}

/// The id of a fact that a template names, from parameters and from facts that were read before.
pub(super) fn built(read: &Read, params: &Attributes, reads: &[Resolved<'_>]) -> Result<FactId, IdProblem> {
    let id = FactId::new(read.ty.clone(), fill(read, params, reads)?)?;
    match read.outside.as_ref().is_none_or(|source| source.has(id.id())) {
        true => Ok(id),
        false => Err(IdProblem::NotOfSource),
    }
}

fn fill(read: &Read, params: &Attributes, reads: &[Resolved<'_>]) -> Result<SmolStr, IdProblem> {
    let mut id = SmolStrBuilder::new();
    for part in &read.template {
        let (value, normalisers) = match part {
            TemplatePart::Literal(text) => {
                id.push_str(text);
                continue;
            }
            TemplatePart::Param { name, normalisers } => {
                let value = params.get(name).ok_or_else(|| IdProblem::NoParameter { name: name.clone() });
                (value?, normalisers)
            }
            TemplatePart::Attribute { read, attribute, normalisers } => {
                let fact = reads.get(*read).and_then(Resolved::live).and_then(|fact| fact.value.as_ref());
                let value = fact.and_then(|value| value.get(attribute));
                (value.ok_or_else(|| IdProblem::NoAttribute { name: attribute.clone() })?, normalisers)
            }
        };
        match value {
            Value::String(text) if normalisers.is_empty() => id.push_str(text),
            Value::String(text) => {
                id.push_str(&Normaliser::apply_all(normalisers, text).map_err(|why| IdProblem::Spelling { why })?);
            }
            // Writing to a string builder cannot fail.
            Value::Long(number) => drop(write!(id, "{number}")),
            _ => return Err(IdProblem::NotText),
        }
    }
    Ok(id.finish())
}

fn fact_missing(read: &Read, missing: &Resolved<'_>) -> Reason {
    let source = read.outside.as_ref().map(|source| source.adapter.clone());
    Reason::FactMissing { fact: missing.id.clone(), is_deleted: missing.record.is_some(), source }
}
