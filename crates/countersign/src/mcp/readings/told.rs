//! What a model is told of a write that is guarded as read: what has changed, by path, and what to do about it.

use crate::mcp::gated::CONTINUE;
use crate::mcp::names::Names;
use crate::mcp::operator::{OperatorCommands, Volatile};
use crate::mcp::refusal::TEXT_BYTES_MAX;
use countersign_api::{Change, ChangedReading, Verdict, VerdictKind};
use countersign_core::call::FoundCode;
use countersign_core::json::parse_answer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The most that a refusal says before what has changed, and behind it. Together with what is told of changes, that is no more than a text.
const PART_BYTES_MAX: usize = 160;
/// The most that it says of tools to read again where it says how to get the rest.
const BESIDE_MORE_BYTES_MAX: usize = 60;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// What fits a refusal.
    Briefly,
    /// All of it: it was asked for.
    InFull,
}

/// The tools to read again first; none where the difference was told in full. Where an answer differs whenever it is read, no call helps.
pub fn retry(names: &Names, changed: &[ChangedReading]) -> Value {
    if changed.iter().any(|it| !it.volatile.is_empty()) {
        return json!({"how": "never"});
    }
    let calls: Vec<Value> = changed.iter().filter(|it| !it.told).map(|it| call(names, it)).collect();
    if calls.is_empty() { json!({"how": "again"}) } else { json!({"how": "call", "calls": calls}) }
}

fn call(names: &Names, changed: &ChangedReading) -> Value {
    let ChangedReading { upstream, tool, arguments, .. } = changed;
    let arguments = parse_answer(arguments).unwrap_or_else(|_| json!({}));
    json!({"upstream": upstream, "tool": names.of(upstream, tool), "arguments": arguments})
}

/// Puts those first whose arguments share a value with the call's: where there is no room for all, these are what the call is about.
pub fn about_first(changed: &mut [ChangedReading], arguments: &str) {
    let said = values(arguments);
    changed.sort_by_cached_key(|it| values(&it.arguments).is_disjoint(&said));
}

/// The texts and numbers in arguments.
fn values(arguments: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![parse_answer(arguments).unwrap_or_default()];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => left.extend(members.into_iter().map(|(_, value)| value)),
            Value::String(text) => drop(found.insert(text)),
            Value::Number(number) => drop(found.insert(number.to_string())),
            Value::Null | Value::Bool(_) => {}
        }
    }
    found
}

/// Whom a refusal is told.
#[derive(Clone, Copy)]
pub struct Hearer<'a> {
    /// By which names it knows tools.
    pub names: &'a Names,
    /// What its operators are told to run.
    pub operator: &'a OperatorCommands,
}

/// What has happened, the changes by path, and what to do. What is told in full must be in it in full, because it counts as read: so the
/// parts round it are cut, and the lines for an operator come last.
///
/// With a word, it says how to get the rest by that.
pub fn refused_text(hearer: Hearer<'_>, changed: &[ChangedReading], more: Option<&str>, telling: Telling) -> String {
    let text = written(hearer, changed, more, (telling, Lines::Apart));
    // Quoted, lines take the room that was counted for them.
    let is_too_long = telling == Telling::Briefly && text.len() > TEXT_BYTES_MAX;
    if is_too_long { written(hearer, changed, more, (telling, Lines::Quoted)) } else { text }
}

/// How lines of a text are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Each on a line of its own, behind - or +.
    Apart,
    /// All in one, as JSON.
    Quoted,
}

fn written(
    hearer: Hearer<'_>,
    changed: &[ChangedReading],
    more: Option<&str>,
    (telling, lines): (Telling, Lines),
) -> String {
    let names = hearer.names;
    let at_most = |bytes_max: usize| if telling == Telling::InFull { usize::MAX } else { bytes_max };
    let mut text = format!("Not done: {}.\n", cut(happened(names, changed), at_most(PART_BYTES_MAX)));
    let (whole, in_part): (Vec<_>, Vec<_>) = changed.iter().partition(|it| it.told);
    whole.into_iter().chain(in_part).for_each(|changed| tell(&mut text, names, changed, lines));
    let (volatile, rest): (Vec<_>, Vec<_>) = changed.iter().partition(|it| !it.volatile.is_empty());
    let untold: Vec<String> = rest.iter().filter(|it| !it.told).map(|it| named(names, it)).collect();
    text.push_str("Nothing was sent. ");
    match untold.as_slice() {
        _ if !volatile.is_empty() => {
            let calls: Vec<String> = volatile.iter().map(|it| named(names, it)).collect();
            let calls = cut(calls.join(", "), at_most(PART_BYTES_MAX));
            let _ =
                write!(text, "Retrying in this session will not help. Reconnect, and do it without calling {calls}.");
        }
        [] => text.push_str("If it is still right, make the same call again."),
        tools => {
            let part = if more.is_some() { BESIDE_MORE_BYTES_MAX } else { PART_BYTES_MAX };
            let tools = cut(tools.join(", "), at_most(part));
            let _ = write!(text, "Call {tools} again; if it is still right, make the same call again.");
        }
    }
    if let Some(more) = more {
        let more = json!({"continuation": more, "more": true});
        let line = format!(" For the rest, call {CONTINUE} with {more}.");
        // It is in the object, too.
        if text.len().saturating_add(line.len()) <= TEXT_BYTES_MAX {
            text.push_str(&line);
        }
    }
    for it in &volatile {
        let ChangedReading { upstream, tool, arguments, volatile: paths, .. } = it;
        let name = names.of(upstream, tool);
        let volatile = Volatile { name: &name, upstream, tool, arguments, paths };
        let _ = write!(text, "\n{}", hearer.operator.of_volatile(volatile));
    }
    cut(text, at_most(TEXT_BYTES_MAX))
}

/// What has happened, in a sentence. Where it is not known what the agent has, no one has seen a change.
fn happened(names: &Names, changed: &[ChangedReading]) -> String {
    let of = |changed: &[&ChangedReading]| {
        let mut tools: Vec<String> = changed.iter().map(|it| names.of(&it.upstream, &it.tool)).collect();
        tools.dedup();
        tools.join(", ")
    };
    let (unsure, known): (Vec<_>, Vec<_>) = changed.iter().partition(|it| it.unsure);
    let known = (!known.is_empty()).then(|| {
        let (answer, it) = if known.len() == 1 { ("answers", "it") } else { ("answer", "them") };
        format!("{} {answer} differently now than when this session read {it}", of(&known))
    });
    let unsure =
        (!unsure.is_empty()).then(|| format!("it is not known whether the last answer of {} reached you", of(&unsure)));
    known.into_iter().chain(unsure).collect::<Vec<_>>().join("; ")
}

/// What an own write changed of what was read, if it did.
pub fn own_changes(names: &Names, changed: &[ChangedReading]) -> Option<String> {
    let told: Vec<&ChangedReading> = changed.iter().filter(|it| it.told).collect();
    if told.is_empty() {
        return None;
    }
    let mut text = "After this call, what you read before reads differently:\n".to_owned();
    told.into_iter().for_each(|changed| tell(&mut text, names, changed, Lines::Apart));
    Some(text.trim_end().to_owned())
}

/// A reading as a model can call it again.
fn named(names: &Names, changed: &ChangedReading) -> String {
    names.called(&changed.upstream, &changed.tool, &changed.arguments)
}

fn tell(text: &mut String, names: &Names, changed: &ChangedReading, lines: Lines) {
    if changed.changes.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}:", named(names, changed));
    for change in &changed.changes {
        if let Some(apart) = apart(change).filter(|_| lines == Lines::Apart) {
            text.push_str(&apart);
            continue;
        }
        let path = if change.path.is_empty() { "all of it" } else { change.path.as_str() };
        let _ = match (&change.before, &change.after) {
            (Some(before), Some(after)) => writeln!(text, "  {path}: {before} → {after}"),
            (Some(before), None) => writeln!(text, "  {path}: {before} is gone"),
            (None, Some(after)) => writeln!(text, "  {path}: new, {after}"),
            (None, None) => writeln!(text, "  {path}: changed"),
        };
    }
}

/// Lines of a text that differ, each on a line of its own behind - or +; `None` where it is no text of lines.
fn apart(change: &Change) -> Option<String> {
    let (path, at) = change.path.rsplit_once(':')?;
    let at: usize = at.parse().ok()?;
    let of = |sign: char, text: &Option<String>| {
        let Some(text) = text else { return Some(String::new()) };
        let lines: String = serde_json::from_str(text).ok()?;
        Some(lines.split('\n').map(|line| format!("  {sign} {}\n", shown(line))).collect())
    };
    let (before, after) = (of('-', &change.before)?, of('+', &change.after)?);
    let place = if path.is_empty() { String::new() } else { format!("{path}, ") };
    Some(format!("  {place}line {at}:\n{before}{after}"))
}

/// A line without what could end it for someone who shows it.
fn shown(line: &str) -> String {
    let shown = |char: char| match char {
        '\t' => char.to_string(),
        char if char.is_control() || char == '\u{2028}' || char == '\u{2029}' => char.escape_unicode().to_string(),
        char => char.to_string(),
    };
    line.chars().map(shown).collect()
}

pub fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether a tool has answered with an error that does not say what it did.
pub fn is_over(verdict: &Verdict) -> bool {
    verdict.evidence.as_ref().is_some_and(|evidence| evidence.code == FoundCode::ToolOver.as_str())
}

/// The gate's own word on a call whose answer does not say what it did.
pub fn closing(tool: &str, verdict: &Verdict) -> Option<String> {
    let effect = verdict.effect.as_ref().map(|effect| format!(" ({effect})")).unwrap_or_default();
    is_over(verdict).then(|| {
        format!(
            "Note: {tool} was sent{effect} and answered with an error, and may have been carried out. Look at what it changes before \
             you call it again."
        )
    })
}

/// What became of a write, in a line, for a client that its answer did not reach; nothing as long as it goes on.
pub fn outcome(name: &str, verdict: &Verdict) -> String {
    became(verdict).map(|became| format!("Note: {name}, whose answer did not reach you, {became}.")).unwrap_or_default()
}

/// The same of a call that a gateway made before this one. Its answer may have arrived.
pub fn ended_before(tool: Option<&str>, verdict: &Verdict) -> String {
    let name = tool.map_or_else(|| "a call".to_owned(), |tool| format!("a call of {tool}"));
    let line =
        |became| format!("Note: before the gateway was started again, {name} {became}. You may not have been told.");
    became(verdict).map(line).unwrap_or_default()
}

fn became(verdict: &Verdict) -> Option<String> {
    let became = match verdict.verdict {
        VerdictKind::Failed if is_over(verdict) => "was answered with an error, and may have been carried out",
        VerdictKind::Committed | VerdictKind::Settled => "was carried out",
        VerdictKind::Rejected | VerdictKind::Failed => "was not carried out",
        VerdictKind::InDoubt => "may have been carried out",
        VerdictKind::Review | VerdictKind::InFlight => return None,
    };
    let place = match (&verdict.effect, verdict.entry) {
        (Some(effect), _) => format!(" ({effect})"),
        (None, Some(entry)) => format!(" (entry {entry})"),
        (None, None) => String::new(),
    };
    Some(format!("{became}{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_call_is_about_is_told_first() {
        let reading = |arguments: &str| ChangedReading {
            upstream: "shop".to_owned(),
            tool: "get_stock".to_owned(),
            arguments: arguments.to_owned(),
            unsure: false,
            changes: Vec::new(),
            told: false,
            volatile: Vec::new(),
        };
        let mut changed =
            [r#"{"item":"i3"}"#, r#"{"at":[{"item":"i1"}]}"#, r#"{"item":"i2"}"#, r#"{"id":7}"#].map(reading);
        about_first(&mut changed, r#"{"qty":7,"item":"i1"}"#);
        let order: Vec<&str> = changed.iter().map(|it| it.arguments.as_str()).collect();
        assert_eq!(order, [r#"{"at":[{"item":"i1"}]}"#, r#"{"id":7}"#, r#"{"item":"i3"}"#, r#"{"item":"i2"}"#]);
    }
}
