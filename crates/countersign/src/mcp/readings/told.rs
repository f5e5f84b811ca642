//! What a model is told of a write that is guarded as read: what has changed, by path, and what to do about it.

use crate::mcp::gated::CONTINUE;
use crate::mcp::refusal::TEXT_BYTES_MAX;
use crate::mcp::shell::word;
use countersign_api::{ChangedReading, Verdict, VerdictKind};
use countersign_core::call::FoundCode;
use countersign_core::json::parse_answer;
use countersign_core::session::called;
use serde_json::{Value, json};
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

/// The tools to read again first; none where the difference was told in full.
pub fn retry(changed: &[ChangedReading]) -> Value {
    let calls: Vec<Value> = changed.iter().filter(|it| !it.told).map(call).collect();
    if calls.is_empty() { json!({"how": "again"}) } else { json!({"how": "call", "calls": calls}) }
}

fn call(changed: &ChangedReading) -> Value {
    let arguments = parse_answer(&changed.arguments).unwrap_or_else(|_| json!({}));
    json!({"upstream": changed.upstream, "tool": changed.tool, "arguments": arguments})
}

/// One sentence that names tools and change, the changes by path, and what to do. What is told in full must be in it in full, because
/// it counts as read: so the parts round it are cut, and the lines for an operator come last.
///
/// With a word, it says how to get the rest by that.
pub fn refused_text(verdict: &Verdict, changed: &[ChangedReading], more: Option<&str>, telling: Telling) -> String {
    let at_most = |bytes_max: usize| if telling == Telling::InFull { usize::MAX } else { bytes_max };
    let message = cut(verdict.message.clone().unwrap_or_default(), at_most(PART_BYTES_MAX));
    let mut text = format!("Not done: {message}.\n");
    let (whole, in_part): (Vec<_>, Vec<_>) = changed.iter().partition(|it| it.told);
    whole.into_iter().chain(in_part).for_each(|changed| tell(&mut text, changed));
    let (volatile, rest): (Vec<_>, Vec<_>) = changed.iter().partition(|it| !it.volatile.is_empty());
    let untold: Vec<String> = rest.iter().filter(|it| !it.told).map(|it| named(it)).collect();
    text.push_str("Nothing was sent. ");
    match untold.as_slice() {
        [] => text.push_str("If it is still right, make the same call again."),
        tools => {
            let part = if more.is_some() { BESIDE_MORE_BYTES_MAX } else { PART_BYTES_MAX };
            let tools = cut(tools.join(", "), at_most(part));
            let _ = write!(text, "Read {tools} again; if it is still right, make the same call again.");
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
        let ChangedReading { upstream, tool, volatile, .. } = it;
        let _ = write!(
            text,
            "\n{} differs whenever it is read, at {}. An operator can leave that out of the comparison: countersign mcp approve {} \
             --ignore {}",
            word(tool),
            volatile.iter().map(|path| word(path)).collect::<Vec<_>>().join(", "),
            word(&format!("{upstream}/{tool}")),
            word(&volatile.join(","))
        );
    }
    cut(text, at_most(TEXT_BYTES_MAX))
}

/// What an own write changed of what was read, if it did.
pub fn own_changes(changed: &[ChangedReading]) -> Option<String> {
    let told: Vec<&ChangedReading> = changed.iter().filter(|it| it.told).collect();
    if told.is_empty() {
        return None;
    }
    let mut text = "After this call, what you read before reads differently:\n".to_owned();
    told.into_iter().for_each(|changed| tell(&mut text, changed));
    Some(text.trim_end().to_owned())
}

/// A reading as a model can call it again.
fn named(changed: &ChangedReading) -> String {
    called(&changed.tool, &changed.arguments)
}

fn tell(text: &mut String, changed: &ChangedReading) {
    if changed.changes.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}:", named(changed));
    for change in &changed.changes {
        let path = if change.path.is_empty() { "all of it" } else { change.path.as_str() };
        let _ = match (&change.before, &change.after) {
            (Some(before), Some(after)) => writeln!(text, "  {path}: {before} → {after}"),
            (Some(before), None) => writeln!(text, "  {path}: {before} is gone"),
            (None, Some(after)) => writeln!(text, "  {path}: new, {after}"),
            (None, None) => writeln!(text, "  {path}: changed"),
        };
    }
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
