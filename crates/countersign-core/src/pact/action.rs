//! One action type of a pact.

use super::budgets::named::Named;
use super::check::Checker;
use super::diagnostic::{Problems, closest};
use super::facts::Facts;
use super::source::{Node, Table, Text, array, shorten, string, table};
use super::{
    ActionType, AsRead, CARRIED, CallRule, Mode, OnFail, ReadingType, Require, SendRule, budgets, call, changes,
    params, reads, writes,
};
use crate::expression::Mention;
use crate::ids::{ActionName, IdError};
use crate::limits::{INTEGER_MAX, PRECONDITIONS_MAX, WAIT_MS_MAX};
use crate::session::Place;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use toml::de::DeValue;

/// The ids of the preconditions and budgets of an action type; a rejection names them, so each means one thing.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeSet<SmolStr>);

impl Ids {
    /// Takes an id, unless it is taken or no id at all.
    pub(super) fn take(&mut self, text: &Text<'_>, problems: &mut Problems) -> Option<SmolStr> {
        // An id is a name like that of an action; it stands in rejections, metrics and addresses.
        let id = match ActionName::new(text.value) {
            Ok(name) => name.smol().clone(),
            Err(IdError::NotAName(_)) | Err(_) => {
                let message = format!("`{}` is not an id", shorten(text.value));
                problems.error(&text.content(), message, "use letters, digits, `_` and `-`: \"account-is-active\"");
                return None;
            }
        };
        if !self.0.insert(id.clone()) {
            let message = format!("the id `{id}` is already taken in this action");
            problems.error(&text.content(), message, "every precondition and budget needs an id of its own");
            return None;
        }
        Some(id)
    }

    /// Takes an id that was made up, if it is free.
    pub(super) fn take_default(&mut self, id: &str) -> Option<SmolStr> {
        let id = SmolStr::new(id);
        self.0.insert(id.clone()).then_some(id)
    }
}

/// Reads `[action.NAME]`.
pub(super) fn read<'a>(
    source: &'a str,
    name: ActionName,
    mut body: Table<'a>,
    facts: &Facts,
    named: &Named,
    problems: &mut Problems,
) -> Option<ActionType> {
    let before = problems.errors();
    let doc = body.doc(problems);
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
    let mode = body.choice("mode", &modes, problems).unwrap_or(Mode::Enforce);
    let min_trust = body.integer("min_trust", 0..=INTEGER_MAX, problems);
    let require_observation = body.flag("require_observation", problems);
    let params_node = body.get("params").map(|(_, node)| node);
    let params = params::read(source, params_node, problems);
    let reads = reads::read(source, &mut body, params.as_ref(), facts, problems);
    let mut ids = Ids::default();
    // A rejection names a fact that changed by these ids, so no precondition may have them.
    for read in reads.iter().flat_map(|reads| &reads.reads).filter(|read| read.unchanged) {
        ids.take_default(&format!("{}-unchanged", read.name));
    }
    let budgets = budgets::read(source, &mut body, params.as_ref(), named, &mut ids, problems);
    let allow = body.required_string("allow", ALLOW_HINT, problems);
    let written = preconditions(source, &mut body, &mut ids, problems);
    let span = body.span.clone();
    // Without reads nothing can be type-checked; what is left is still looked at for unknown keys.
    let checked = match (&params, &reads) {
        (Some(params), Some(reads)) => {
            let asked = &facts.readings;
            let checker = Checker::new(name.as_str(), params, reads, require_observation, asked, &span, problems);
            checker.map(|checker| {
                let allow = allow.and_then(|allow| checker.condition(&allow, problems));
                let require = check_preconditions(written, &checker, problems);
                let writes = writes::read(source, &mut body, reads, &checker, problems);
                let scope = call::Scope { source, params, reads, checker: &checker };
                let call = call::read(&scope, &mut body, &writes, problems);
                (allow, require, writes, call)
            })
        }
        _ => {
            let _ = (body.get("set"), body.get("delete"), body.get("endorse"), body.get("call"));
            None
        }
    };
    let guard = guard(source, &mut body, problems);
    let changes = changes::read(source, &mut body, params.as_ref(), facts, problems);
    let wait_ms = wait(&mut body, problems);
    let outside = reads.iter().flat_map(|reads| reads.reads.iter().zip(&reads.spans));
    let outside =
        outside.filter(|(read, _)| read.outside.is_some()).map(|(read, span)| (read.name.clone(), span.clone()));
    if let Some((name, span)) = outside.take(1).next().filter(|_| body.get("call").is_none()) {
        let message = format!("`{name}` is external, and this action calls nothing there");
        problems.error(&span, message, "give the action a `call` to the same adapter: the check is made with it");
    }
    body.finish(problems);
    let (allow, require, writes, call) = checked?;
    if problems.errors() > before {
        return None;
    }
    let allow = allow?;
    let is_of = |call: &CallRule| matches!(call.send, SendRule::Tool { .. }).then(|| call.adapter.clone());
    let server = call.as_ref().and_then(is_of);
    let mut kind = ActionType {
        inputs: Vec::new(),
        name,
        doc,
        mode,
        params: params?,
        reads: reads?.reads,
        allow,
        min_trust,
        require_observation,
        require,
        budgets,
        writes,
        call,
        changes,
        guard: guard.map(|guard| AsRead { server, ..guard }),
        readings: Vec::new(),
        wait_ms,
    };
    kind.inputs = kind.mentioned();
    kind.readings = asked_about(&kind, facts);
    check_readings(&kind, &span, problems);
    check_labels(&kind, &span, problems);
    (problems.errors() == before).then_some(kind)
}

/// The readings that an action's expressions ask about.
fn asked_about(kind: &ActionType, facts: &Facts) -> Vec<(SmolStr, Arc<ReadingType>)> {
    let is_asked = |name: &SmolStr| {
        kind.inputs.iter().any(|(_, mention)| matches!(mention, Mention::Reading(asked, _) if asked == name))
    };
    let asked = facts.readings.iter().filter(|(name, _)| is_asked(name));
    asked.map(|(name, ty)| (name.clone(), Arc::clone(ty))).collect()
}

/// Refuses an action that decides on readings without resting on them: what it decided on could have changed before its call.
fn check_readings(kind: &ActionType, span: &Range<usize>, problems: &mut Problems) {
    let Some((name, _)) = kind.readings.first() else { return };
    let is_reading = |(_, mention): &(SmolStr, Mention)| matches!(mention, Mention::Reading(..));
    if kind.allow.mentions().any(is_reading) {
        let message = "`allow` says who may, and depends on no reading";
        problems.error(span, message, "ask about `context.readings` in a precondition, under [[action.NAME.require]]");
    }
    let Some(guard) = &kind.guard else {
        let message = format!("`context.readings.{name}` is for actions that are guarded as read");
        return problems.error(
            span,
            message,
            "add guard = \"as-read\", so that it is read again right before the call",
        );
    };
    for (name, ty) in &kind.readings {
        let arguments = SmolStr::new_static("{}");
        let place = Place { upstream: ty.upstream.clone(), tool: ty.tool.clone(), arguments };
        // What counts only where it is carried could be left out of the comparison.
        let is_certain = !guard.carried || guard.must(&place);
        if !guard.counts(&place) || !is_certain {
            let message = format!("the action decides on `context.readings.{name}`, and does not rest on {}", ty.tool);
            let key = if guard.carried { "must_read" } else { "rests_on" };
            problems.error(span, message, format!("add it: {key} = [\"{}\"]", place.tool_name()));
        }
    }
    if kind.reads.iter().any(|read| read.outside.is_some()) {
        let message = "an action cannot decide on readings and on external facts together";
        problems.error(span, message, "read the same as a fact with a `source`, or as a reading, but not both");
    }
}

/// Refuses an action that decides on labels which are not known where it is decided.
fn check_labels(kind: &ActionType, span: &Range<usize>, problems: &mut Problems) {
    let is_asked = |wanted: &Mention| kind.inputs.iter().any(|(_, mention)| mention == wanted);
    if !kind.inputs.iter().any(|(_, mention)| mention.is_labels()) {
        return;
    }
    if kind.allow.mentions().any(|(_, mention)| mention.is_labels()) {
        let message = "`allow` says who may, and depends on nothing that was read";
        problems.error(span, message, "ask about labels in a precondition, under [[action.NAME.require]]");
    }
    if is_asked(&Mention::RestsOnLabels) && kind.guard.is_none() {
        let message =
            "`context.rests_on.labels` is for actions that are guarded as read: what others rest on is not known";
        problems.error(span, message, "add guard = \"as-read\", or ask for context.session.labels");
    }
    let of_what_was_read = is_asked(&Mention::SessionLabels) || is_asked(&Mention::RestsOnLabels);
    if of_what_was_read && kind.reads.iter().any(|read| read.outside.is_some()) {
        let message = "an action cannot decide on labels of what was read and on external facts together";
        problems.error(
            span,
            message,
            "ask for context.tainted, read the same in the session, or decide on it in another action",
        );
    }
}

/// What the action rests on, where it is guarded as read.
fn guard<'a>(source: &'a str, body: &mut Table<'a>, problems: &mut Problems) -> Option<AsRead> {
    let choice = body.choice("guard", &[("as-read", true), ("none", false)], problems);
    // What is misspelt was refused already, and is no other guard.
    let is_misspelt = choice.is_none() && body.get("guard").is_some();
    let is_guarded = choice == Some(true);
    let carried = is_carried(body);
    let rests_on = if carried || is_misspelt_carried(body, problems) {
        Vec::new()
    } else {
        tools(source, body, "rests_on", problems)
    };
    let must_read = tools(source, body, "must_read", problems);
    let stale_after_ms = body.duration("stale_after", problems);
    if is_guarded {
        if body.get("call").is_none() {
            let message = "`guard = \"as-read\"` is for actions with a `call`";
            problems.error(&body.span, message, "give the action a `call`, or leave the guard out");
        }
        return Some(AsRead { rests_on, carried, must_read, stale_after_ms, server: None });
    }
    if !is_misspelt && (carried || !rests_on.is_empty() || !must_read.is_empty() || stale_after_ms.is_some()) {
        let message = "`rests_on`, `must_read` and `stale_after` of an action need `guard = \"as-read\"`";
        problems.error(&body.span, message, "add guard = \"as-read\", or leave them out");
    }
    None
}

/// Whether it rests on readings whose values it carries.
fn is_carried(body: &mut Table<'_>) -> bool {
    body.get("rests_on").is_some_and(|(_, node)| matches!(node.get_ref(), DeValue::String(word) if word == CARRIED))
}

/// A word in place of a list of tools that is not the one that there is.
fn is_misspelt_carried(body: &mut Table<'_>, problems: &mut Problems) -> bool {
    let Some((_, node)) = body.get("rests_on") else { return false };
    let DeValue::String(word) = node.get_ref() else { return false };
    let message = format!("`rests_on` cannot be `{}`", shorten(word));
    let hint = match closest(word, [CARRIED]) {
        Some(_) => format!("did you mean \"{CARRIED}\"?"),
        None => format!("write \"{CARRIED}\", or a list of tools: [\"get_stock\"]"),
    };
    problems.error(&node.span(), message, hint);
    true
}

fn tools<'a>(source: &'a str, body: &mut Table<'a>, key: &'static str, problems: &mut Problems) -> Vec<SmolStr> {
    let Some((_, node)) = body.get(key) else { return Vec::new() };
    let items = array(node, &format!("`{key}`"), problems).unwrap_or_default();
    items.iter().filter_map(|item| Some(SmolStr::new(string(source, item, "a tool", problems)?.value))).collect()
}

/// How long the action waits for fences.
fn wait(body: &mut Table<'_>, problems: &mut Problems) -> u64 {
    let wait_ms = body.duration("wait", problems).unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        let message = format!("an action waits {} seconds at most", WAIT_MS_MAX / 1000);
        problems.error(&body.span, message, "a longer wait is a matter of the agent's plan: let it act again");
    }
    wait_ms
}

const ALLOW_HINT: &str = "say who may do it, for example allow = 'principal.roles.contains(\"refunder\")'";

/// A precondition before its condition was checked.
struct Written<'a> {
    id: SmolStr,
    doc: Option<String>,
    that: Text<'a>,
    stale_after: Option<(u64, Range<usize>)>,
    max_staleness: Option<(u64, Range<usize>)>,
    on_fail: OnFail,
}

fn preconditions<'a>(
    source: &'a str,
    body: &mut Table<'a>,
    ids: &mut Ids,
    problems: &mut Problems,
) -> Vec<Written<'a>> {
    let items = match body.get("require") {
        Some((_, node)) => array(node, "`require`", problems),
        None => Some(&[][..]),
    };
    let Some(items) = items else {
        return Vec::new();
    };
    if items.is_empty() {
        let message = format!("{} has no precondition", body.what);
        let hint = "an action with nothing to check needs no gate; add [[action.NAME.require]] with `id` and `that`";
        problems.error(&body.span, message, hint);
    }
    if items.len() > PRECONDITIONS_MAX {
        let message = format!("an action has at most {PRECONDITIONS_MAX} preconditions, this one has {}", items.len());
        problems.error(&body.span, message, "join some of them with &&, or split the action");
        return Vec::new();
    }
    items.iter().filter_map(|node| precondition(source, node, ids, problems)).collect()
}

fn precondition<'a>(source: &'a str, node: Node<'a>, ids: &mut Ids, problems: &mut Problems) -> Option<Written<'a>> {
    let body = table(node, "a precondition", problems)?;
    let mut body = Table::new(source, body, node.span(), "this precondition");
    let id = body.required_string("id", "name it after what it protects: id = \"account-is-active\"", problems);
    let id = id.and_then(|id| ids.take(&id, problems));
    let doc = body.doc(problems);
    let that = body.required_string("that", "say what must hold: that = 'resource.status == \"active\"'", problems);
    let stale_after = body.duration("stale_after", problems);
    let stale_span = body.get("stale_after").map(|(span, _)| span);
    let max_staleness = body.duration("max_staleness", problems);
    let max_span = body.get("max_staleness").map(|(span, _)| span);
    let outcomes = [("reject", OnFail::Reject), ("review", OnFail::Review), ("reject-always", OnFail::RejectAlways)];
    let on_fail = body.choice("on_fail", &outcomes, problems).unwrap_or(OnFail::Reject);
    body.finish(problems);
    let (stale_after, max_staleness) = (stale_after.zip(stale_span), max_staleness.zip(max_span));
    Some(Written { id: id?, doc, that: that?, stale_after, max_staleness, on_fail })
}

fn check_preconditions(written: Vec<Written<'_>>, checker: &Checker<'_>, problems: &mut Problems) -> Vec<Require> {
    let mut require = Vec::new();
    for Written { id, doc, that: text, stale_after, max_staleness, on_fail } in written {
        let Some(that) = checker.condition(&text, problems) else {
            continue;
        };
        if that.mentions().next().is_none() {
            let message = "this condition depends on nothing, so it checks nothing";
            problems.error(&text.content(), message, "compare an attribute of a fact, a parameter, or the time");
        }
        if let Some((_, span)) = &stale_after {
            checker.check_stale_after(&that, span, problems);
        }
        if let Some((_, span)) = &max_staleness {
            checker.check_max_staleness(&that, span, problems);
        }
        let (stale_after_ms, max_staleness_ms) = (stale_after.map(|(ms, _)| ms), max_staleness.map(|(ms, _)| ms));
        require.push(Require { id, doc, that, stale_after_ms, max_staleness_ms, on_fail });
    }
    require
}
