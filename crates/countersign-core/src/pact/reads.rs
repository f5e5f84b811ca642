//! The facts that an action type reads: `resource` and `reads`.
//!
//! A template may use attributes of other reads, so reads are put into an order in which each only needs what was read
//! before. `resource` is always first and therefore built from parameters alone. Only a fact that must exist, and only an
//! attribute that it must have, can name another fact: a missing link would otherwise be a missing check.

mod resolve;

pub(super) use resolve::{check_id_param, check_text_attribute, check_text_param};

use super::catalogue::AGENT;
use super::diagnostic::Problems;
use super::facts::{Facts, check_name};
use super::load::known_type;
use super::source::{Node, Table, Text, kind, string, table};
use super::template::{Part, Template, parse};
use super::{FactSchema, FactSource, Params, Presence, RESERVED, Read};
use crate::limits::READS_MAX;
use smol_str::SmolStr;
use std::ops::Range;
use std::sync::Arc;
use toml::de::DeValue;

/// The reads of an action type and what the rest of the loader needs to know about each.
pub(super) struct Reads {
    /// In the order of reading; the first is `resource`.
    pub(super) reads: Vec<Read>,
    /// The attributes of each, in the same order.
    pub(super) schemas: Vec<FactSchema>,
    /// The place of each name, in the same order.
    pub(super) spans: Vec<Range<usize>>,
}

impl Reads {
    /// The index of a read.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.reads.iter().position(|read| read.name == name)
    }

    /// The names of all reads.
    pub(super) fn names(&self) -> Vec<&str> {
        self.reads.iter().map(|read| read.name.as_str()).collect()
    }
}

/// A read as written.
struct Written {
    name: SmolStr,
    span: Range<usize>,
    ty: crate::ids::FactType,
    schema: FactSchema,
    parts: Vec<Part>,
    presence: Presence,
    unchanged: bool,
    outside: Option<Arc<FactSource>>,
    max_staleness_ms: Option<u64>,
}

/// Reads `resource` and `reads`.
pub(super) fn read<'a>(
    source: &'a str,
    action: &mut Table<'a>,
    params: Option<&Params>,
    facts: &Facts,
    problems: &mut Problems,
) -> Option<Reads> {
    let mut written = Vec::new();
    match action.get("resource") {
        Some((span, node)) => written.push(one(source, "resource", &span, node, facts, problems)),
        None => action.missing("resource", "name the main fact: resource = 'Account::\"{account}\"'", problems),
    }
    if let Some((span, declared)) = action.table("reads", problems) {
        if declared.len() >= READS_MAX {
            let message = format!("an action reads at most {READS_MAX} facts, its resource included");
            problems.error(&span, message, "split the action");
            return None;
        }
        for (key, node) in declared {
            let name = key.get_ref().as_ref();
            if !check_name(name, &key.span(), problems) || clashes(name, &key.span(), params, problems) {
                written.push(None);
                continue;
            }
            written.push(one(source, name, &key.span(), node, facts, problems));
        }
    }
    // One read that was refused would make its uses look wrong, too.
    let written: Vec<Written> = written.into_iter().collect::<Option<_>>()?;
    if !written.iter().any(|one| one.name == "resource") {
        return None;
    }
    resolve::resolve(written, params?, problems)
}

fn clashes(name: &str, span: &Range<usize>, params: Option<&Params>, problems: &mut Problems) -> bool {
    if RESERVED.contains(&name) {
        let message = format!("a read cannot be called `{name}`: conditions use that name for something else");
        problems.error(span, message, "rename the read");
        return true;
    }
    if params.is_some_and(|params| params.types.contains_key(name)) {
        let message = format!("`{name}` is both a parameter and a read; `context.{name}` could mean either");
        problems.error(span, message, format!("rename one of them, for example the parameter to `{name}_id`"));
        return true;
    }
    false
}

fn one<'a>(
    source: &'a str,
    name: &str,
    span: &Range<usize>,
    node: Node<'a>,
    facts: &Facts,
    problems: &mut Problems,
) -> Option<Written> {
    let (text, presence, unchanged) = match node.get_ref() {
        DeValue::String(_) => (string(source, node, "a read", problems)?, Presence::Required, false),
        DeValue::Table(_) => options(source, name, node, problems)?,
        other => {
            let message = format!("`{name}` must be a template or a table, but is {}", kind(other));
            problems.error(
                &node.span(),
                message,
                "write it as 'Account::\"{account}\"', or as { fact = '…', optional = true }",
            );
            return None;
        }
    };
    let Template { ty: (ty, ty_span), parts } = parse(&text, problems)?;
    let (ty, schema) = known_type(facts, &ty, &ty_span, problems)?;
    if ty.as_str() == AGENT && presence == Presence::Create {
        let message = "an action cannot create an agent";
        problems.error(&ty_span, message, "agents are registered by operators; read the agent instead");
        return None;
    }
    let outside = facts.source(&ty);
    if outside.is_some() && presence == Presence::Create {
        let message = format!("facts of type `{ty}` are external, so an action cannot create one here");
        problems.error(&ty_span, message, "let the call create it, and read it as { fact = '…', optional = true }");
        return None;
    }
    // Nothing can have confirmed what the action is about to create.
    let max_staleness_ms = facts.max_staleness(&ty).filter(|_| presence != Presence::Create);
    let (name, span) = (SmolStr::new(name), span.clone());
    Some(Written { name, span, ty, schema, parts, presence, unchanged, outside, max_staleness_ms })
}

fn options<'a>(
    source: &'a str,
    name: &str,
    node: Node<'a>,
    problems: &mut Problems,
) -> Option<(Text<'a>, Presence, bool)> {
    let body = table(node, "a read", problems)?;
    let mut body = Table::new(source, body, node.span(), format!("read `{name}`"));
    let text = body.required_string("fact", "name the fact: fact = 'Account::\"{account}\"'", problems);
    let optional = body.flag("optional", problems);
    let create = body.flag("create", problems);
    let unchanged = body.flag("unchanged", problems);
    let span = body.span.clone();
    body.finish(problems);
    let before = problems.errors();
    if optional && create {
        let message = format!("`{name}` cannot be both `optional` and `create`");
        problems.error(&span, message, "`create` means it must not exist yet; `optional` means it may or may not");
    }
    if create && unchanged {
        let message = format!("`{name}` cannot be both `create` and `unchanged`");
        problems.error(&span, message, "remove `unchanged`: what does not exist yet cannot have been observed");
    }
    if optional && name == "resource" {
        let message = "`resource` cannot be optional";
        problems.error(
            &span,
            message,
            "put the fact that may be missing under `reads` and guard it with `context has …`",
        );
    }
    if problems.errors() > before {
        return None;
    }
    let presence = match (create, optional) {
        (true, _) => Presence::Create,
        (false, true) => Presence::Optional,
        (false, false) => Presence::Required,
    };
    Some((text?, presence, unchanged))
}
