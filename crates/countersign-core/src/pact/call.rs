//! What an action type calls outside: `call`, with its `probe`.
//!
//! A pact names an adapter and says what is sent; where that adapter is, and with which secrets, the gate's settings say. Texts
//! (paths, arguments) are templates like those of fact ids, values (bodies, SQL parameters) are expressions.

mod tool;

use super::check::Checker;
use super::diagnostic::{Problems, suggestion};
use super::params;
use super::reads::{self, Reads};
use super::source::{Node, Table, Text, array, kind, string, table};
use super::sql;
use super::template::{Part, parse_text};
use super::{BodyRule, CallRule, Params, ProbeRule, SendRule, TextPart, WriteRule};
use crate::expression::Expression;
use crate::ids::ActionName;
use crate::limits::{CALL_PARTS_MAX, CALL_TEXT_BYTES_MAX, RETRIES_MAX};
use smol_str::SmolStr;
use std::ops::Range;
use toml::de::DeValue;

/// What a call may wait for, unless the pact says otherwise.
const TIMEOUT_MS: u64 = 10_000;
/// Until when an attempt may begin, unless the pact says otherwise: long enough for the retries of an idempotent call that times out,
/// and short enough that a call which could not be sent does not run by itself when the ones who asked have gone on.
const DEADLINE_MS: u64 = 60_000;
/// How long after the last attempt *absent* counts, unless the pact says otherwise.
const ABSENT_AFTER_MS: u64 = 30_000;

const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];
const KINDS: [&str; 4] = ["http", "command", "postgres", "mcp"];
const KIND_HINT: &str = "name an adapter of the gate's settings: call = { http = \"payments\", path = \"/payouts\" }";

/// What expressions and templates of a call are checked with.
pub(super) struct Scope<'s, 'a> {
    pub(super) source: &'a str,
    pub(super) params: &'s Params,
    pub(super) reads: &'s Reads,
    pub(super) checker: &'s Checker<'s>,
}

/// Reads `call`.
pub(super) fn read<'a>(
    scope: &Scope<'_, 'a>,
    action: &mut Table<'a>,
    writes: &[WriteRule],
    problems: &mut Problems,
) -> Option<CallRule> {
    let (span, node) = action.get("call")?;
    let body = table(node, "`call`", problems)?;
    let mut body = Table::new(scope.source, body, span.clone(), "this call");
    let before = problems.errors();
    let (adapter, send) = send(scope, &mut body, problems).unzip();
    let after_ms = body.duration_or_zero("after", problems).unwrap_or(0);
    let timeout_ms = body.duration("timeout", problems).unwrap_or(TIMEOUT_MS);
    let deadline_ms = body.duration("deadline", problems).unwrap_or(DEADLINE_MS);
    let idempotent = body.flag("idempotent", problems);
    let retries = body.integer("retries", 0..=RETRIES_MAX.into(), problems);
    if !idempotent && retries.is_some_and(|retries| retries > 0) {
        let message = "`retries` needs `idempotent = true`: a call that could happen twice is never repeated";
        problems.error(&span, message, "remove it, or say that the other side knows the idempotency key");
    }
    let probe = probe(scope, &mut body, problems);
    let undo = undo(&mut body, problems);
    body.finish(problems);
    let rule = CallRule {
        adapter: adapter?,
        send: send?,
        after_ms,
        timeout_ms,
        deadline_ms,
        retries: retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(if idempotent { 3 } else { 0 }),
        probe,
        undo,
    };
    check_external(scope, &span, &rule, writes, problems);
    (problems.errors() == before).then_some(rule)
}

/// What is sent, and by which adapter.
fn send<'a>(scope: &Scope<'_, 'a>, body: &mut Table<'a>, problems: &mut Problems) -> Option<(SmolStr, SendRule)> {
    let named: Vec<(&str, Text<'a>)> =
        KINDS.iter().filter_map(|kind| Some((*kind, body.string(kind, problems)?))).collect();
    if let [("mcp", server)] = named.as_slice()
        && server.value.starts_with('{')
    {
        return tool::any(scope, server, body, problems);
    }
    let chosen = match named.as_slice() {
        [(kind, adapter)] => adapter_name(adapter, problems).map(|adapter| (*kind, adapter)),
        [] => {
            problems.error(&body.span, "this call names no adapter", KIND_HINT);
            None
        }
        [_, (_, second), ..] => {
            problems.error(&second.span, "a call goes to one adapter", "remove the others");
            None
        }
    };
    let Some((kind, adapter)) = chosen else {
        // Without an adapter nothing can be said about what belongs to one.
        for key in ["method", "path", "body", "args", "run", "tool", "arguments", "if_version", "on_error"] {
            body.get(key);
        }
        return None;
    };
    let send = match kind {
        "http" => http(scope, body, problems)?,
        "command" => SendRule::Command { args: texts(scope, body, "args", problems)? },
        "postgres" => SendRule::Sql { statements: statements(scope, body, problems)? },
        _ => tool::read(scope, body, problems)?,
    };
    Some((adapter, send))
}

pub(super) fn adapter_name(text: &Text<'_>, problems: &mut Problems) -> Option<SmolStr> {
    match ActionName::new(text.value) {
        Ok(name) => Some(name.smol().clone()),
        Err(error) => {
            problems.error(&text.content(), error.to_string(), "an adapter has a short name, such as \"payments\"");
            None
        }
    }
}

fn http<'a>(scope: &Scope<'_, 'a>, body: &mut Table<'a>, problems: &mut Problems) -> Option<SendRule> {
    let methods = METHODS.map(|method| (method, method));
    let method = body.choice("method", &methods, problems).unwrap_or("POST");
    let path = body.required_string("path", "say where: path = \"/payouts\"", problems)?;
    let path = path_template(scope, &path, problems)?;
    let none = if method == "GET" || method == "DELETE" { BodyRule::None } else { BodyRule::Params };
    let members = members(scope, body, "body", none, problems)?;
    Some(SendRule::Http { method: SmolStr::new_static(method), path, body: members })
}

/// A template of a path below an adapter's base.
fn path_template(scope: &Scope<'_, '_>, text: &Text<'_>, problems: &mut Problems) -> Option<Vec<TextPart>> {
    let plain = text.value;
    if !plain.starts_with('/') || plain.starts_with("//") || plain.contains(['#', '\\']) || plain.contains("/../") {
        let message = "a path starts with one `/` and stays below the adapter's base";
        problems.error(&text.content(), message, "write path = \"/payouts/{account}\"");
        return None;
    }
    text_template(scope, text, problems)
}

/// A template of a text that is sent.
fn text_template(scope: &Scope<'_, '_>, text: &Text<'_>, problems: &mut Problems) -> Option<Vec<TextPart>> {
    if text.value.len() > CALL_TEXT_BYTES_MAX {
        let message = format!("this has {} bytes; at most {CALL_TEXT_BYTES_MAX} are sent", text.value.len());
        problems.error(&text.content(), message, "send large content by reference");
        return None;
    }
    let parts = parse_text(text, problems)?;
    let before = problems.errors();
    let part = |part: Part| match part {
        Part::Literal(text) => Some(TextPart::Literal(text.into())),
        Part::Attribute(read, name, ..) if read == "call" && name == "key" => Some(TextPart::Key),
        Part::Param(name, _, span) => {
            reads::check_text_param(&name, &span, scope.params, problems);
            Some(TextPart::Param(name.into()))
        }
        Part::Attribute(read, attribute, _, span) => {
            let read = reads::check_text_attribute(&read, &attribute, &span, scope.reads, problems)?;
            Some(TextPart::Attribute { read, attribute: attribute.into() })
        }
    };
    let parts: Vec<Option<TextPart>> = parts.into_iter().map(part).collect();
    parts.into_iter().collect::<Option<Vec<_>>>().filter(|_| problems.errors() == before)
}

fn texts<'a>(
    scope: &Scope<'_, 'a>,
    body: &mut Table<'a>,
    key: &'static str,
    problems: &mut Problems,
) -> Option<Vec<Vec<TextPart>>> {
    let Some((_, node)) = body.get(key) else { return Some(Vec::new()) };
    let items = array(node, &format!("`{key}`"), problems)?;
    check_count(items.len(), &node.span(), problems)?;
    items
        .iter()
        .map(|item| text_template(scope, &string(scope.source, item, "an argument", problems)?, problems))
        .collect()
}

fn check_count(count: usize, span: &Range<usize>, problems: &mut Problems) -> Option<()> {
    if count > CALL_PARTS_MAX {
        let message = format!("a call has at most {CALL_PARTS_MAX} parts, this one has {count}");
        problems.error(span, message, "send less");
        return None;
    }
    Some(())
}

/// The members of a body: all parameters, some of them by name, or expressions.
fn members<'a>(
    scope: &Scope<'_, 'a>,
    body: &mut Table<'a>,
    key: &'static str,
    otherwise: BodyRule,
    problems: &mut Problems,
) -> Option<BodyRule> {
    let Some((_, node)) = body.get(key) else { return Some(otherwise) };
    let members = match node.get_ref() {
        DeValue::Table(table) => table,
        DeValue::Boolean(false) => return Some(BodyRule::None),
        other => {
            let message = format!("`{key}` must be a table, or false for none, but is {}", kind(other));
            problems.error(&node.span(), message, format!("write {key} = {{ amount = \"context.amount\" }}"));
            return None;
        }
    };
    check_count(members.len(), &node.span(), problems)?;
    let member = |(name, node): (&toml::Spanned<std::borrow::Cow<'_, str>>, Node<'a>)| {
        let text = string(scope.source, node, &format!("`{}`", name.get_ref()), problems)?;
        Some((SmolStr::new(name.get_ref()), scope.checker.any_value(&text, problems)?))
    };
    // Every problem is told, not only the first.
    let members: Vec<_> = members.iter().map(member).collect();
    members.into_iter().collect::<Option<Vec<_>>>().map(BodyRule::Members)
}

fn statements<'a>(
    scope: &Scope<'_, 'a>,
    body: &mut Table<'a>,
    problems: &mut Problems,
) -> Option<Vec<(std::sync::Arc<str>, Vec<Expression>)>> {
    let Some((_, node)) = body.get("run") else {
        let hint = "say what is run: run = [{ sql = \"update … where id = $1\", params = [\"context.account\"] }]";
        body.missing("run", hint, problems);
        return None;
    };
    let items = array(node, "`run`", problems)?;
    check_count(items.len(), &node.span(), problems)?;
    if items.is_empty() {
        problems.error(&node.span(), "`run` has no statement", "say what is changed, or leave the call out");
    }
    let statements: Vec<_> = items.iter().map(|item| statement(scope, item, problems)).collect();
    statements.into_iter().collect()
}

fn statement<'a>(
    scope: &Scope<'_, 'a>,
    node: Node<'a>,
    problems: &mut Problems,
) -> Option<(std::sync::Arc<str>, Vec<Expression>)> {
    let body = table(node, "a statement", problems)?;
    let mut body = Table::new(scope.source, body, node.span(), "this statement");
    let text = body.required_string("sql", "write the statement: sql = \"update … where id = $1\"", problems);
    let params = match body.get("params") {
        None => Some(Vec::new()),
        Some((_, node)) => array(node, "`params`", problems).and_then(|items| {
            let value = |item| scope.checker.any_value(&string(scope.source, item, "a parameter", problems)?, problems);
            items.iter().map(value).collect()
        }),
    };
    body.finish(problems);
    let (text, params) = (text?, params?);
    match sql::check_statement(text.value) {
        Ok(wanted) if wanted == params.len() => Some((text.value.into(), params)),
        Ok(wanted) => {
            let message = format!("the statement has {wanted} parameters, and `params` gives {}", params.len());
            problems.error(&text.content(), message, "give one expression for each of $1, $2, …");
            None
        }
        Err(found) => {
            for (place, message, hint) in found {
                problems.error(&text.part(&place), message, hint);
            }
            None
        }
    }
}

fn probe<'a>(scope: &Scope<'_, 'a>, body: &mut Table<'a>, problems: &mut Problems) -> Option<ProbeRule> {
    let (span, node) = body.get("probe")?;
    let inner = table(node, "`probe`", problems)?;
    let mut inner = Table::new(scope.source, inner, span, "this probe");
    let path = inner.string("path", problems).map(|path| path_template(scope, &path, problems));
    let tool = inner.string("tool", problems).map(|tool| SmolStr::new(tool.value));
    let args = inner.get("args").is_some().then(|| texts(scope, &mut inner, "args", problems));
    let mut at = None;
    let send = match (path, tool, args) {
        (Some(path), None, None) => {
            SendRule::Http { method: SmolStr::new_static("GET"), path: path?, body: BodyRule::None }
        }
        (None, Some(tool), None) => {
            at = inner.string("at", problems).and_then(|at| tool::structured(&at, problems));
            let arguments = members(scope, &mut inner, "arguments", BodyRule::Params, problems)?;
            SendRule::Tool { tool, arguments, versions: Vec::new(), fails_on_error: false }
        }
        (None, None, Some(args)) => SendRule::Command { args: args? },
        _ => {
            let hint = "name one read that finds the call: probe = { path = \"/payouts/{call.key}\" }";
            problems.error(&inner.span, "a probe has one of `path`, `tool` and `args`", hint);
            return None;
        }
    };
    let absent_after_ms = inner.duration("absent_after", problems).unwrap_or(ABSENT_AFTER_MS);
    inner.finish(problems);
    Some(ProbeRule { send, absent_after_ms, at })
}

fn undo(body: &mut Table<'_>, problems: &mut Problems) -> Option<(ActionName, Range<usize>)> {
    let text = body.string("undo", problems)?;
    match ActionName::new(text.value) {
        Ok(name) => Some((name, text.content())),
        Err(error) => {
            problems.error(&text.content(), error.to_string(), "name an action type of this pact");
            None
        }
    }
}

/// External facts are read by the worker that acts; what it can do with them is bounded.
fn check_external(
    scope: &Scope<'_, '_>,
    span: &Range<usize>,
    rule: &CallRule,
    writes: &[WriteRule],
    problems: &mut Problems,
) {
    let mut outside = scope.reads.reads.iter().filter_map(|read| Some((read, read.outside.as_ref()?)));
    if let Some((read, source)) = outside.find(|(_, source)| source.adapter != rule.adapter) {
        let message = format!(
            "`{}` lives in `{}`, and this call goes to `{}`: they cannot be one step",
            read.name, source.adapter, rule.adapter
        );
        problems.error(span, message, "read and act through one adapter");
    }
    tool::check_versions(scope, span, &rule.send, problems);
    let reads_external = |part: &TextPart| match part {
        TextPart::Attribute { read, .. } => scope.reads.reads.get(*read).is_some_and(|read| read.outside.is_some()),
        _ => false,
    };
    let probed = rule.probe.as_ref().map(|probe| &probe.send);
    let depends = probed.is_some_and(|send| {
        let texts = match send {
            SendRule::Http { path, .. } => std::slice::from_ref(path),
            SendRule::Command { args } => args.as_slice(),
            SendRule::Sql { .. } | SendRule::Tool { .. } | SendRule::AnyTool { .. } => &[],
        };
        let outside = |at: usize| scope.reads.reads.get(at).is_some_and(|read| read.outside.is_some());
        texts.iter().flatten().any(reads_external) || send.expressions().flat_map(Expression::facts).any(outside)
    });
    if depends {
        let message = "a probe cannot depend on external facts: after a crash it is unknown what they were";
        problems.error(span, message, "find the call by `{call.key}` or by parameters");
    }
    let is_external = |write: &&WriteRule| scope.reads.reads.get(write.read).is_some_and(|read| read.outside.is_some());
    if writes.iter().find(is_external).is_some() {
        problems.error(span, "an external fact cannot be `set`", "change it with the call's own statement or request");
    } else if scope.reads.reads.iter().any(|read| read.outside.is_some()) && !writes.is_empty() {
        let message = "an action that reads external facts writes only external facts";
        problems.error(span, message, "let another action set the fact, or keep both in one place");
    }
}

/// Checks that what `undo` names can be done with the same parameters.
pub(super) fn check_undo(actions: &std::collections::BTreeMap<ActionName, super::ActionType>, problems: &mut Problems) {
    for action in actions.values() {
        let Some((undo, span)) = action.call.as_ref().and_then(|call| call.undo.as_ref()) else { continue };
        let Some(other) = actions.get(undo) else {
            let names: Vec<&str> = actions.keys().map(ActionName::as_str).collect();
            let hint = suggestion(undo.as_str(), &names, "declare it as [action.NAME], or use one of");
            problems.error(span, format!("`{undo}` is not an action type of this pact"), hint);
            continue;
        };
        let missing = params::missing_for(&other.params, &action.params);
        if let Some(name) = missing.first() {
            let message = format!("`{undo}` needs parameter `{name}`, which `{}` does not have", action.name);
            problems.error(span, message, "what is undone is undone with the same parameters");
        }
    }
}
