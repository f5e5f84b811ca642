//! The facts that an action type reads: `resource` and `reads`.
//!
//! A template may use attributes of other reads, so reads are put into an order in which each only needs what was read
//! before. `resource` is always first and therefore built from parameters alone. Only a fact that must exist, and only an
//! attribute that it must have, can name another fact: a missing link would otherwise be a missing check.

use super::catalogue::AGENT;
use super::diagnostic::{Problems, suggestion};
use super::facts::{Facts, check_name};
use super::load::known_type;
use super::source::{Node, Table, Text, kind, shorten, string, table};
use super::template::{Part, Template, parse};
use super::{FactSchema, Params, Presence, RESERVED, Read, TemplatePart};
use crate::limits::{READ_DEPTH_MAX, READS_MAX};
use crate::value::ValueType;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::ops::Range;
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
    resolve(written, params?, problems)
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
    Some(Written { name: SmolStr::new(name), span: span.clone(), ty, schema, parts, presence, unchanged })
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

/// Sorts the reads and turns names into indices. Reads that become ready together are taken in the order of their
/// names, so the order in the text has no meaning.
fn resolve(written: Vec<Written>, params: &Params, problems: &mut Problems) -> Option<Reads> {
    let before = problems.errors();
    for one in &written {
        check_parts(one, &written, params, problems);
        check_ambiguity(one, params, problems);
    }
    if problems.errors() > before {
        return None;
    }
    let mut waiting: BTreeMap<(bool, SmolStr), Written> =
        written.into_iter().map(|one| ((one.name != "resource", one.name.clone()), one)).collect();
    let mut done = Reads { reads: Vec::new(), schemas: Vec::new(), spans: Vec::new() };
    let mut depths: Vec<usize> = Vec::new();
    while !waiting.is_empty() {
        let ready = waiting.iter().find_map(|(key, one)| Some((key.clone(), template(one, &done)?)));
        let Some((key, template)) = ready else {
            for one in waiting.values() {
                let message = format!("`{}` cannot be read: it needs a fact that needs it", one.name);
                problems.error(&one.span, message, "break the circle by taking one of the ids from a parameter");
            }
            return None;
        };
        let Some(one) = waiting.remove(&key) else {
            continue;
        };
        let deepest = template.iter().filter_map(|part| match part {
            TemplatePart::Attribute { read, .. } => depths.get(*read).map(|depth| depth + 1),
            _ => None,
        });
        let depth = deepest.max().unwrap_or(0);
        if depth > READ_DEPTH_MAX {
            let message = format!("`{}` is reached through more than {READ_DEPTH_MAX} other facts", one.name);
            problems.error(&one.span, message, "take one of the ids from a parameter instead");
        }
        depths.push(depth);
        done.schemas.push(one.schema);
        done.spans.push(one.span);
        let (name, ty, presence, unchanged) = (one.name, one.ty, one.presence, one.unchanged);
        done.reads.push(Read { name, ty, template, presence, unchanged });
    }
    Some(done)
}

/// The template by index, if everything it needs has been read.
fn template(one: &Written, done: &Reads) -> Option<Vec<TemplatePart>> {
    one.parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => Some(TemplatePart::Literal(SmolStr::new(text))),
            Part::Param(name, _) => Some(TemplatePart::Param(SmolStr::new(name))),
            Part::Attribute(read, attribute, _) => {
                let read = done.position(read)?;
                Some(TemplatePart::Attribute { read, attribute: SmolStr::new(attribute) })
            }
        })
        .collect()
}

fn check_parts(one: &Written, all: &[Written], params: &Params, problems: &mut Problems) {
    for part in &one.parts {
        match part {
            Part::Literal(_) => {}
            Part::Param(name, span) => check_param(name, span, params, problems),
            Part::Attribute(read, attribute, span) if one.name == "resource" => {
                let message = format!("`resource` is read first, so its id cannot use `{read}.{attribute}`");
                let hint = format!("make `{read}` the resource and read this fact under `reads`");
                problems.error(span, message, hint);
            }
            Part::Attribute(read, attribute, span) => check_attribute(read, attribute, span, all, problems),
        }
    }
}

/// Warns where two different sets of parameters could build one id, as `a/b` + `c` and `a` + `b/c` do.
fn check_ambiguity(one: &Written, params: &Params, problems: &mut Problems) {
    let free = |part: &&Part| match part {
        Part::Literal(_) => false,
        Part::Param(name, _) => {
            let property = params.schema.get("properties").and_then(|all| all.get(name.as_str()));
            let bound = |key| property.is_some_and(|property| property.get(key).is_some());
            let is_text = params.types.get(name.as_str()).is_some_and(|field| field.ty == ValueType::String);
            is_text && !["pattern", "enum", "const"].into_iter().any(bound)
        }
        Part::Attribute(..) => true,
    };
    if one.parts.iter().filter(free).count() > 1 {
        let message = format!("two different requests could mean the same `{}`: its id joins several texts", one.name);
        let hint = "give all but one of the parameters a `pattern` without what stands between them: \"^[a-z0-9-]+$\"";
        problems.warning(&one.span, message, hint);
    }
}

fn check_param(name: &str, span: &Range<usize>, params: &Params, problems: &mut Problems) {
    let Some(field) = params.types.get(name) else {
        let names: Vec<&str> = params.types.keys().map(SmolStr::as_str).collect();
        let hint = suggestion(name, &names, "declare it under `params`, or use one of");
        problems.error(span, format!("`{}` is not a parameter of this action", shorten(name)), hint);
        return;
    };
    if !matches!(field.ty, ValueType::String | ValueType::Long) {
        let message = format!("`{name}` is {}, so it cannot be part of an id", field.ty);
        problems.error(span, message, "use a string or an integer");
    } else if !field.required {
        let message = format!("`{name}` may be missing, so it cannot be part of an id");
        problems.error(span, message, format!("add \"{name}\" to `required`"));
    }
}

fn check_attribute(read: &str, attribute: &str, span: &Range<usize>, all: &[Written], problems: &mut Problems) {
    let Some(other) = all.iter().find(|other| other.name == read) else {
        let names: Vec<&str> = all.iter().map(|other| other.name.as_str()).collect();
        let hint = suggestion(read, &names, "declare it under `reads`, or use one of");
        problems.error(span, format!("`{}` is not a fact that this action reads", shorten(read)), hint);
        return;
    };
    if other.presence != Presence::Required {
        let message = format!("`{read}` may be missing, so its attributes cannot be part of an id");
        problems.error(span, message, "use a fact that must exist, or take the id from a parameter");
        return;
    }
    match other.schema.get(attribute) {
        None => {
            let names: Vec<&str> = other.schema.keys().map(SmolStr::as_str).collect();
            let hint = suggestion(attribute, &names, "use one of");
            let message = format!("fact type `{}` has no attribute `{}`", other.ty, shorten(attribute));
            problems.error(span, message, hint);
        }
        Some(field) if !matches!(field.ty, ValueType::String | ValueType::Long) => {
            let message = format!("`{read}.{attribute}` is {}, so it cannot be part of an id", field.ty);
            problems.error(span, message, "use a string or an integer");
        }
        Some(field) if !field.required => {
            let message = format!("`{read}.{attribute}` may be missing, so it cannot be part of an id");
            problems.error(span, message, "use an attribute that is always there");
        }
        Some(_) => {}
    }
}
