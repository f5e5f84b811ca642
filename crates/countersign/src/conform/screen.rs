//! What `conform` prints: a line for each id as it is found, a summary, and the report of action types.

use super::requirements::Row;
use super::sweep::{Found, Sweep, TypeSwept};
use super::{Finding, State};
use crate::terminal::{Paint, Stream, Tone, say, say_json};
use anyhow::Result;
use serde_json::Value as Json;

/// One id.
pub fn line(row: &Row, finding: &Finding, json: bool) -> Result<()> {
    if json {
        say(serde_json::to_string(finding)?);
        return Ok(());
    }
    let paint = Paint::of(Stream::Out);
    let (tone, word) = match finding.state {
        State::Pass => (Tone::Good, "pass"),
        State::Fail => (Tone::Bad, "FAIL"),
        State::NotYet => (Tone::Warn, "not yet"),
    };
    say(format_args!("{}{:pad$} {:<11} {}", paint.word(tone, word), "", row.id, row.asks, pad = 7 - word.len()));
    if finding.state == State::Fail {
        let problem = finding.evidence.get("problem").and_then(Json::as_str).unwrap_or_default();
        let did = row.conform.as_deref().unwrap_or_default();
        say(format_args!("{:20}{}\n{:20}it {did}", "", paint.word(Tone::Bad, problem), ""));
    }
    if let (State::NotYet, Some(why)) = (finding.state, finding.evidence.get("why").and_then(Json::as_str)) {
        say(format_args!("{:20}{why}", ""));
    }
    Ok(())
}

/// How many of each.
pub fn summary(findings: &[Finding]) -> Result<()> {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (pass, fail, not_yet) = (count(State::Pass), count(State::Fail), count(State::NotYet));
    say(format_args!("\n{pass} pass, {fail} fail, {not_yet} not yet; --json has the evidence"));
    Ok(())
}

/// A line for each action type.
pub fn types(sweep: &Sweep, json: bool) -> Result<()> {
    for swept in sweep {
        if json {
            say_json(&serde_json::to_value(swept)?);
        } else {
            say(type_line(swept));
        }
    }
    Ok(())
}

fn type_line(swept: &TypeSwept) -> String {
    let name = format!("{} {}", swept.pact, swept.action);
    if let Some(why) = &swept.skipped {
        return format!("not yet {name:<26} {why}");
    }
    let blocked = swept.preconditions.iter().filter(|one| one.changed.problem().is_none()).count();
    let word = if swept.is_well() { "pass   " } else { "FAIL   " };
    let back = match &swept.changed_back {
        Found::Entry(entry) => format!("passes when nothing has changed (entry {entry})"),
        Found::Problem(problem) => problem.clone(),
    };
    let many = swept.preconditions.len();
    let problem = swept.first_problem().map(|problem| format!("\n{:8}{problem}", "")).unwrap_or_default();
    format!("{word} {name:<26} {blocked} of {many} preconditions block when they change; {back}{problem}")
}
