//! What an action type delivers to another agent: `deliver`.
//!
//! `to` names the recipient as a template names a fact, from parameters and from attributes of facts that are read. The body is
//! parameters and nothing else: their schema binds it, what was signed is what is delivered, and no fact reaches a recipient who may
//! not observe it.

use super::call;
use super::catalogue::AGENT;
use super::diagnostic::{Problems, suggestion};
use super::reads::{Reads, check_id_param, check_text_attribute};
use super::source::{Table, array, shorten, string, table};
use super::template::{Part, parse_piece};
use super::{Params, Presence, Read, TemplatePart};
use crate::ids::FactType;
use smol_str::SmolStr;
use std::ops::Range;
use std::sync::Arc;

/// What an action type delivers.
#[derive(Debug)]
pub struct DeliverRule {
    /// How the recipient is named. Never read by expressions.
    pub to: Read,
    /// The parameters that the recipient is given.
    pub body: Arc<[SmolStr]>,
}

const TO_HINT: &str = "name the agent: deliver = { to = \"{to}\" }";
const BODY_HINT: &str =
    "name the parameters that the recipient is given: deliver = { to = \"{to}\", body = [\"text\"] }";

/// Reads `deliver`.
pub(super) fn read<'a>(
    scope: &call::Scope<'_, 'a>,
    action: &mut Table<'a>,
    problems: &mut Problems,
) -> Option<DeliverRule> {
    let (span, node) = action.get("deliver")?;
    if action.get("call").is_some() {
        let message = "an action delivers a message or makes a `call`, not both";
        problems.error(
            &span,
            message,
            "a message is delivered at once, and a call may fail: make two action types of it",
        );
    }
    let body = table(node, "`deliver`", problems)?;
    let mut body = Table::new(scope.source, body, node.span(), "this delivery");
    let to = body.required_string("to", TO_HINT, problems);
    let parts = to.and_then(|to| parse_piece(&to, problems).filter(|parts| is_named(parts, &to.span, problems)));
    let template = parts.and_then(|parts| template(parts, scope.params, scope.reads, problems));
    let named = match body.get("body") {
        Some((_, node)) => {
            let items = array(node, "`body`", problems)?;
            let name = |item| {
                let text = string(scope.source, item, "a parameter", problems)?;
                is_param(text.value, &text.content(), scope.params, problems).then(|| SmolStr::new(text.value))
            };
            items.iter().filter_map(name).collect()
        }
        None => template.as_deref().map_or_else(Vec::new, |to| rest(to, scope.params)),
    };
    let (span, before) = (body.span.clone(), problems.errors());
    body.finish(problems);
    let template = template?;
    if named.is_empty() {
        problems.error(&span, "this message has no content", BODY_HINT);
    }
    if let Some(twice) = named.iter().enumerate().find(|(at, name)| named.iter().take(*at).any(|other| other == *name))
    {
        problems.error(&span, format!("`{}` is in the message twice", twice.1), "name each parameter once");
    }
    let (name, ty) = (SmolStr::new_static("recipient"), FactType::new(AGENT).ok()?);
    let presence = Presence::Optional;
    let to = Read { name, ty, template, presence, unchanged: false, outside: None, max_staleness_ms: None };
    (problems.errors() == before).then(|| DeliverRule { to, body: named.into() })
}

fn is_named(parts: &[Part], span: &Range<usize>, problems: &mut Problems) -> bool {
    if parts.is_empty() {
        problems.error(span, "a message needs a recipient", TO_HINT);
    }
    !parts.is_empty()
}

/// The parameters that do not name the recipient.
fn rest(to: &[TemplatePart], params: &Params) -> Vec<SmolStr> {
    let names =
        |name: &str| to.iter().any(|part| matches!(part, TemplatePart::Param { name: named, .. } if named == name));
    properties(params).filter(|name| !names(name)).map(SmolStr::new).collect()
}

fn properties(params: &Params) -> impl Iterator<Item = &str> {
    let properties = params.lowered.get("properties").and_then(|properties| properties.as_object());
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
}

fn is_param(name: &str, span: &Range<usize>, params: &Params, problems: &mut Problems) -> bool {
    if properties(params).any(|known| known == name) {
        return true;
    }
    let names: Vec<&str> = properties(params).collect();
    let hint = suggestion(name, &names, "declare it under `params`, or use one of");
    problems.error(span, format!("`{}` is not a parameter of this action", shorten(name)), hint);
    false
}

fn template(parts: Vec<Part>, params: &Params, reads: &Reads, problems: &mut Problems) -> Option<Vec<TemplatePart>> {
    let before = problems.errors();
    let parts = parts.into_iter().filter_map(|part| match part {
        Part::Literal(text) => Some(TemplatePart::Literal(text.into())),
        Part::Param(name, by, span) => {
            check_id_param(&name, &span, params, problems);
            Some(TemplatePart::Param { name: name.into(), normalisers: by.into() })
        }
        Part::Attribute(read, attribute, by, span) => {
            let at = check_text_attribute(&read, &attribute, &span, reads, problems)?;
            if reads.reads.get(at).is_some_and(|read| read.outside.is_some()) {
                let message = format!("`{read}` is external, so its attributes cannot name a recipient");
                problems.error(&span, message, "take the name from a parameter, or from a fact of the gate");
            }
            Some(TemplatePart::Attribute { read: at, attribute: attribute.into(), normalisers: by.into() })
        }
    });
    let template: Vec<TemplatePart> = parts.collect();
    (problems.errors() == before).then_some(template)
}
