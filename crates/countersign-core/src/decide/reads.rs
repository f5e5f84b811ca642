//! Resolving the facts an action reads: its agent, its resource, and what its templates lead to.

use super::standing::check_actor;
use super::{Deciding, Resolved, Snapshot, Stage, blocked};
use crate::code::Code;
use crate::decision::Blocked;
use crate::ids::{FactId, IdError};
use crate::pact::{Presence, Read, TemplatePart};
use crate::value::Value;
use smol_str::{SmolStr, SmolStrBuilder};
use std::fmt::Write as _;

impl<S: Snapshot> Deciding<'_, S> {
    /// Resolves everything, or says what is in the way.
    pub(super) fn resolve(&mut self) -> Result<(), Blocked> {
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
                .filter(|(read, _)| self.stage == Stage::Judgement || read.outside.is_none())
                .find(|(read, resolved)| read.presence == presence && resolved.live().is_some() == exists)
        };
        if let Some((read, missing)) = unmet(Presence::Required, false) {
            return Err(fact_missing(read, missing));
        }
        if let Some((_, existing)) = unmet(Presence::Create, true) {
            let message = format!("{} exists already, at version {}", existing.id, existing.version());
            return Err(blocked(Code::FactExists, message, "choose another id, or use an action that changes it"));
        }
        self.check_aliases()?;
        if self.stage == Stage::Judgement { Ok(()) } else { self.check_fences() }
    }

    fn fact_id(&self, read: &Read) -> Result<FactId, Blocked> {
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
        let built = self.fill(read).and_then(|id| FactId::new(read.ty.clone(), id).map_err(|e: IdError| e.to_string()));
        built.map_err(|why| {
            let message = format!("the id of `{}` ({}) cannot be built: {why}", read.name, read.ty);
            blocked(Code::InvalidFactId, message, "mend the parameter or the fact that the id is built from")
        })
    }

    fn fill(&self, read: &Read) -> Result<SmolStr, String> {
        let mut id = SmolStrBuilder::new();
        for part in &read.template {
            let value = match part {
                TemplatePart::Literal(text) => {
                    id.push_str(text);
                    continue;
                }
                TemplatePart::Param(name) => {
                    self.params.get(name).ok_or_else(|| format!("parameter `{name}` is missing"))?
                }
                TemplatePart::Attribute { read, attribute } => self
                    .reads
                    .get(*read)
                    .and_then(Resolved::live)
                    .and_then(|fact| fact.value.as_ref())
                    .and_then(|value| value.get(attribute))
                    .ok_or_else(|| format!("attribute `{attribute}` of an earlier read is missing"))?,
            };
            match value {
                Value::String(text) => id.push_str(text),
                // Writing to a string builder cannot fail.
                Value::Long(number) => drop(write!(id, "{number}")),
                _ => return Err("an id is built from strings and integers only".to_owned()),
            }
        }
        Ok(id.finish())
    }

    /// Two names for one fact are harmless while it is only read. Written, they would hide one write behind the other.
    fn check_aliases(&self) -> Result<(), Blocked> {
        for rule in &self.kind.writes {
            let Some(written) = self.reads.get(rule.read) else {
                continue;
            };
            let alias = self.reads.iter().enumerate().find(|(at, read)| *at != rule.read && read.id == written.id);
            if let Some((at, _)) = alias {
                let name = |at: usize| self.kind.reads.get(at).map_or("", |read| read.name.as_str());
                let message = format!("`{}` and `{}` are both {}", name(rule.read), name(at), written.id);
                return Err(blocked(Code::AliasedWrite, message, "name two different facts"));
            }
        }
        Ok(())
    }
}

fn fact_missing(read: &Read, missing: &Resolved<'_>) -> Blocked {
    let gone = if missing.record.is_some() { "has been deleted" } else { "does not exist" };
    let hint = match &read.outside {
        Some(source) => {
            format!("mend the parameter that names it; facts of this type live outside, in `{}`", source.adapter)
        }
        None => "mend the parameter that names it, or have an operator feed it".to_owned(),
    };
    blocked(Code::FactMissing, format!("{} {gone}", missing.id), &hint)
}
