//! Answers that no one can compare later: of tools that were approved as ones that may change something. They give no reading, because
//! reading them again would do it again. What a session was told by them is noted, so that later verdicts can say so (R9).

use super::{Session, write};
use crate::decide::Snapshot;
use crate::decision::Write;
use crate::fact::Fact;
use crate::limits::{ANSWERING_TOOLS_MAX, FACT_BYTES_MAX};
use crate::value::{Set, Value};
use smol_str::SmolStr;
use std::sync::Arc;

const ANSWERS: &str = "answers";

/// What is written where a tool, named with its server, has answered in a session: nothing where that is noted already, or no room is left.
pub fn answered(session: &Session, tool: &str, snapshot: &dyn Snapshot) -> Vec<Write> {
    let known = noted(&session.fact);
    let is_noted = known.iter().any(|(_, noted)| *noted == tool);
    if is_noted || known.len() >= ANSWERING_TOOLS_MAX {
        return Vec::new();
    }
    let version = session.fact.version().saturating_add(1);
    let known = known.iter().map(|(version, tool)| entry(*version, tool));
    let answers: Set = known.chain([entry(version, tool)]).collect();
    let value = session
        .fact
        .value
        .clone()
        .unwrap_or_default()
        .with(vec![(SmolStr::new_static(ANSWERS), Value::Set(Arc::new(answers)))]);
    if value.bytes() > FACT_BYTES_MAX {
        return Vec::new();
    }
    vec![write(&session.fact.id, Some(value), snapshot)]
}

/// The tools, with their servers, whose answers a session had at a version of its fact and that are not asked again.
pub fn not_rechecked(session: &Fact, version: u64) -> Vec<SmolStr> {
    let known = noted(session).into_iter().filter(|(noted, _)| *noted <= version);
    known.map(|(_, tool)| tool.into()).collect()
}

/// A tool, with the version of the session at which it was noted: what came later was not known to a write before.
fn entry(version: u64, tool: &str) -> Value {
    Value::String(format!("{version} {tool}").into())
}

fn noted(session: &Fact) -> Vec<(u64, &str)> {
    let Some(Value::Set(answers)) = session.value.as_ref().and_then(|value| value.get(ANSWERS)) else {
        return Vec::new();
    };
    let noted = answers.iter().filter_map(|answer| match answer {
        Value::String(answer) => answer.split_once(' ').and_then(|(version, tool)| Some((version.parse().ok()?, tool))),
        _ => None,
    });
    let mut noted: Vec<(u64, &str)> = noted.collect();
    noted.sort_unstable();
    noted
}
