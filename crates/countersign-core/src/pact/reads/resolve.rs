//! Putting the reads of an action type into order, and checking what their templates are built from.

use super::{Reads, Written};
use crate::ids::FactType;
use crate::limits::READ_DEPTH_MAX;
use crate::pact::diagnostic::{Problems, suggestion};
use crate::pact::source::shorten;
use crate::pact::template::Part;
use crate::pact::{FactSchema, Params, Presence, Read, TemplatePart};
use crate::value::ValueType;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::ops::Range;

/// Sorts the reads and turns names into indices. Reads that become ready together are taken in the order of their
/// names, so the order in the text has no meaning.
pub(super) fn resolve(written: Vec<Written>, params: &Params, problems: &mut Problems) -> Option<Reads> {
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
        let (name, ty, presence, unchanged, outside) = (one.name, one.ty, one.presence, one.unchanged, one.outside);
        let max_staleness_ms = one.max_staleness_ms;
        done.reads.push(Read { name, ty, template, presence, unchanged, outside, max_staleness_ms });
    }
    Some(done)
}

/// The template by index, if everything it needs has been read.
fn template(one: &Written, done: &Reads) -> Option<Vec<TemplatePart>> {
    one.parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => Some(TemplatePart::Literal(SmolStr::new(text))),
            Part::Param(name, by, _) => {
                Some(TemplatePart::Param { name: SmolStr::new(name), normalisers: by.as_slice().into() })
            }
            Part::Attribute(read, attribute, by, _) => {
                let (read, normalisers) = (done.position(read)?, by.as_slice().into());
                Some(TemplatePart::Attribute { read, attribute: SmolStr::new(attribute), normalisers })
            }
        })
        .collect()
}

fn check_parts(one: &Written, all: &[Written], params: &Params, problems: &mut Problems) {
    for part in &one.parts {
        match part {
            Part::Literal(_) => {}
            Part::Param(name, by, span) => {
                check_param(name, "an id", span, params, problems);
                let is_text = params.types.get(name.as_str()).is_none_or(|field| field.ty == ValueType::String);
                check_normalised(name, is_text || by.is_empty(), span, problems);
            }
            Part::Attribute(read, attribute, _, span) if one.name == "resource" => {
                let message = format!("`resource` is read first, so its id cannot use `{read}.{attribute}`");
                let hint = format!("make `{read}` the resource and read this fact under `reads`");
                problems.error(span, message, hint);
            }
            Part::Attribute(read, attribute, by, span) => {
                check_attribute(read, attribute, span, all, problems);
                let field =
                    all.iter().find(|other| other.name == *read).and_then(|it| it.schema.get(attribute.as_str()));
                let is_text = field.is_none_or(|field| field.ty == ValueType::String);
                check_normalised(&format!("{read}.{attribute}"), is_text || by.is_empty(), span, problems);
            }
        }
    }
}

fn check_normalised(name: &str, is_sound: bool, span: &Range<usize>, problems: &mut Problems) {
    if !is_sound {
        let message = format!("`{name}` is a number, which has one spelling already");
        problems.error(span, message, "remove the normaliser: it is for text");
    }
}

/// Warns where two different sets of parameters could build one id, as `a/b` + `c` and `a` + `b/c` do.
fn check_ambiguity(one: &Written, params: &Params, problems: &mut Problems) {
    let free = |part: &&Part| match part {
        Part::Literal(_) => false,
        Part::Param(name, ..) => {
            let property = params.lowered.get("properties").and_then(|all| all.get(name.as_str()));
            let bound = |key| property.is_some_and(|property| property.get(key).is_some());
            let is_text = params.types.get(name.as_str()).is_some_and(|field| field.ty == ValueType::String);
            is_text && !["pattern", "enum", "const"].into_iter().any(bound)
        }
        Part::Attribute(..) => true,
    };
    if one.parts.iter().filter(free).count() > 1 {
        let message = format!("two different requests could mean the same `{}`: its id joins several texts", one.name);
        let hint = "give all but one of the parameters a `pattern` without what is between them: \"^[a-z0-9-]+$\"";
        problems.warning(&one.span, message, hint);
    }
}

fn check_param(name: &str, of: &str, span: &Range<usize>, params: &Params, problems: &mut Problems) {
    let Some(field) = params.types.get(name) else {
        let names: Vec<&str> = params.types.keys().map(SmolStr::as_str).collect();
        let hint = suggestion(name, &names, "declare it under `params`, or use one of");
        problems.error(span, format!("`{}` is not a parameter of this action", shorten(name)), hint);
        return;
    };
    if !matches!(field.ty, ValueType::String | ValueType::Long) {
        let message = format!("`{name}` is {}, so it cannot be part of {of}", field.ty);
        problems.error(span, message, "use a string or an integer");
    } else if !field.required {
        let message = format!("`{name}` may be missing, so it cannot be part of {of}");
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
    if other.outside.is_some() {
        let message = format!("`{read}` is external, so its attributes cannot name another fact");
        problems.error(span, message, "take the id from a parameter, or from a fact of the gate");
        return;
    }
    check_always_there((read, other.presence), (&other.ty, &other.schema), attribute, "an id", span, problems);
}

/// What the parts of a call's texts are part of.
const SENT: &str = "what is sent";

/// Checks a parameter in the id of a fact.
pub(in crate::pact) fn check_id_param(name: &str, span: &Range<usize>, params: &Params, problems: &mut Problems) {
    check_param(name, "an id", span, params, problems);
}

/// Checks a parameter in a text that is sent.
pub(in crate::pact) fn check_text_param(name: &str, span: &Range<usize>, params: &Params, problems: &mut Problems) {
    check_param(name, SENT, span, params, problems);
}

/// Checks an attribute of a read in a text that is sent, and finds the read.
pub(in crate::pact) fn check_text_attribute(
    read: &str,
    attribute: &str,
    span: &Range<usize>,
    reads: &Reads,
    problems: &mut Problems,
) -> Option<usize> {
    let Some(at) = reads.position(read) else {
        let hint = suggestion(read, &reads.names(), "declare it under `reads`, or use one of");
        problems.error(span, format!("`{}` is not a fact that this action reads", shorten(read)), hint);
        return None;
    };
    let (found, schema) = (reads.reads.get(at)?, reads.schemas.get(at)?);
    check_always_there((read, found.presence), (&found.ty, schema), attribute, SENT, span, problems);
    Some(at)
}

/// Refuses an attribute that might not be there, or that is no text or number.
fn check_always_there(
    (read, presence): (&str, Presence),
    (ty, schema): (&FactType, &FactSchema),
    attribute: &str,
    of: &str,
    span: &Range<usize>,
    problems: &mut Problems,
) {
    if presence != Presence::Required {
        let message = format!("`{read}` may be missing, so its attributes cannot be part of {of}");
        problems.error(span, message, "use a fact that must exist, or take the id from a parameter");
        return;
    }
    match schema.get(attribute) {
        None => {
            let names: Vec<&str> = schema.keys().map(SmolStr::as_str).collect();
            let hint = suggestion(attribute, &names, "use one of");
            let message = format!("fact type `{ty}` has no attribute `{}`", shorten(attribute));
            problems.error(span, message, hint);
        }
        Some(field) if !matches!(field.ty, ValueType::String | ValueType::Long) => {
            let message = format!("`{read}.{attribute}` is {}, so it cannot be part of {of}", field.ty);
            problems.error(span, message, "use a string or an integer");
        }
        Some(field) if !field.required => {
            let message = format!("`{read}.{attribute}` may be missing, so it cannot be part of {of}");
            problems.error(span, message, "use an attribute that is always there");
        }
        Some(_) => {}
    }
}
