//! What calls change outside: `changes`, and which calls do not say it although others rely on what they may change.

use super::catalogue::{AGENT, OPERATOR};
use super::diagnostic::{Diagnostic, Problems, Severity};
use super::facts::Facts;
use super::load::known_type;
use super::reads::check_id_param;
use super::source::{Table, Text, array, string};
use super::template::{Part, parse};
use super::{ActionType, Changes, Pact, Params, Presence, Read, SendRule, TemplatePart, call};
use crate::limits::CHANGES_MAX;
use smol_str::SmolStr;

const HINT: &str =
    "name servers and facts: changes = [\"bank\", 'Account::\"{to}\"']; [] for nothing beside the resource";

/// Reads `changes`.
pub(super) fn read<'a>(
    source: &'a str,
    body: &mut Table<'a>,
    params: Option<&Params>,
    facts: &Facts,
    problems: &mut Problems,
) -> Option<Changes> {
    let (span, node) = body.get("changes")?;
    let items = array(node, "`changes`", problems)?;
    if body.get("call").is_none() {
        let message = "`changes` says what a `call` changes, and this action has none";
        problems.error(&span, message, "what an action writes in the ledger is in `set` and `delete`");
    }
    if items.len() > CHANGES_MAX {
        let message = format!("an action names at most {CHANGES_MAX} changes, this one has {}", items.len());
        problems.error(&span, message, "name the server instead");
    }
    let mut changes = Changes::default();
    for item in items {
        let Some(text) = string(source, item, "a change", problems) else { continue };
        if text.value.contains("::") {
            changes.facts.extend(params.and_then(|params| fact(&text, params, facts, problems)));
        } else {
            changes.servers.extend(call::adapter_name(&text, problems));
        }
    }
    Some(changes)
}

/// A fact that the call changes. Which one must be known before anything is read, so its id is made of parameters alone.
fn fact(text: &Text<'_>, params: &Params, facts: &Facts, problems: &mut Problems) -> Option<Read> {
    let template = parse(text, problems)?;
    let (ty, _) = known_type(facts, &template.ty.0, &template.ty.1, problems)?;
    if [AGENT, OPERATOR].contains(&ty.as_str()) {
        problems.error(&text.content(), format!("a call changes no `{ty}`: operators do"), HINT);
        return None;
    }
    let before = problems.errors();
    let parts = template.parts.into_iter().filter_map(|part| match part {
        Part::Literal(text) => Some(TemplatePart::Literal(text.into())),
        Part::Param(name, by, span) => {
            check_id_param(&name, &span, params, problems);
            Some(TemplatePart::Param { name: name.into(), normalisers: by.into() })
        }
        Part::Attribute(read, attribute, _, span) => {
            let message = format!("`{read}.{attribute}` is not known before the call takes its turn");
            problems.error(&span, message, "build the id from parameters, or name the server");
            None
        }
    });
    let template: Vec<TemplatePart> = parts.collect();
    let (outside, name) = (facts.source(&ty), SmolStr::new_static("changes"));
    let presence = Presence::Optional;
    let fact = Read { name, ty, template, presence, unchanged: false, outside, max_staleness_ms: None };
    (problems.errors() == before).then_some(fact)
}

/// What is wrong with calls that could change what others rest on, and do not say what they change: for each of the first pact's own,
/// against its other action types and those of the other pacts.
pub fn unsaid(pact: &Pact, others: &[&Pact]) -> Vec<Diagnostic> {
    let silent = pact.actions.values().filter(|action| action.changes.is_none());
    let warned = silent.filter_map(|action| {
        let call = action.call.as_ref()?;
        // A call of a tool takes its whole server for its turn, and so does whatever is guarded.
        let changes = match call.send {
            SendRule::Http { .. } | SendRule::Command { .. } => "calls `{}` without saying what it changes there",
            SendRule::Sql { .. } => "changes rows of `{}` without saying which",
            SendRule::Tool { .. } | SendRule::AnyTool { .. } => return None,
        };
        if action.guard.is_some() {
            return None;
        }
        let all = std::iter::once(pact).chain(others.iter().copied().filter(|other| other.name != pact.name));
        let mut relying = all.flat_map(|other| other.actions.values().map(move |kind| (other, kind)));
        let (other, kind) = relying.find(|(other, kind)| {
            let is_itself = other.name == pact.name && kind.name == action.name;
            !is_itself && relies_on(kind, &call.adapter)
        })?;
        let message = format!(
            "`{}` {}, and `{}` of pact `{}` rests on facts in `{}`",
            action.name,
            changes.replace("{}", &call.adapter),
            kind.name,
            other.name,
            call.adapter
        );
        let hint = "say it: changes = [] for nothing beside its resource, or name facts and servers";
        let hint = Some(match call.send {
            // What statements change they lock, so nothing comes between; but what is not named is neither fenced nor claimed.
            SendRule::Sql { .. } => format!("{hint}; claims and fences hold for nothing that is not named"),
            _ => format!("{hint}; until then its calls take all of `{}` for their turn, one at a time", call.adapter),
        });
        let header = format!("[action.{}]", action.name);
        let start = pact.source.find(&header).unwrap_or(0);
        let end = if start == 0 { pact.source.find('\n').unwrap_or(0) } else { start + header.len() };
        Some(Diagnostic { severity: Severity::Warning, span: start..end, message, hint })
    });
    warned.collect()
}

/// Whether an action rests on external facts that an adapter reads.
pub(crate) fn relies_on(kind: &ActionType, adapter: &SmolStr) -> bool {
    kind.reads.iter().any(|read| read.outside.as_ref().is_some_and(|source| source.adapter == *adapter))
}
