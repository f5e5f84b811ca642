//! What a model is told of a rejection, in terms of the tools that it has: the gate speaks of facts, parameters and observations, and an
//! agent behind a gateway knows tools, their arguments and their answers.

use super::mapping::{Mapping, Reread};
use super::names::Names;
use super::readings::{cut, put};
use super::tool::Tool;
use countersign_api::{FailedRead, ParamMisfit, RefusedReading, Verdict, VerdictKind};
use countersign_core::code::{Code, Next};
use countersign_core::ids::FactId;
use countersign_core::json::parse_answer;
use countersign_core::reason::{Misfit, NEW_SESSION};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How many changed attributes are told.
const CHANGES_MAX: usize = 8;
/// The longest value that is told.
const VALUE_BYTES_MAX: usize = 120;
/// The most that is said of changes, and of calls to make: together with what stands round it, no more than a refusal says.
const CHANGES_BYTES_MAX: usize = 1200;
const CALLS_BYTES_MAX: usize = 400;

/// What is said of a rejection, where more is known of it than the gate says.
#[derive(Debug, Default)]
pub struct Advice {
    /// What is wrong.
    pub message: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Who is advised: by which names it knows tools, and what the pacts say of them.
#[derive(Clone, Copy)]
pub struct Knows<'a> {
    pub names: &'a Names,
    pub mapping: &'a Mapping,
    /// The server that it called.
    pub upstream: &'a str,
    /// The tool, where that is known.
    pub tool: Option<&'a Tool>,
}

/// What would make sense next.
pub fn retry(knows: Knows<'_>, verdict: &Verdict) -> Value {
    let calls: Vec<Value> = calls(knows, verdict).iter().map(|call| call.as_json(knows.names)).collect();
    if !calls.is_empty() {
        return json!({"how": "call", "calls": calls});
    }
    // Nothing helps where the session is stuck, and that is a reason to begin another, and not to call again in this one.
    // A `how` that a client does not know counts as `never`, and so does a code that this gateway does not know.
    if code(verdict) == Some(Code::Halted) && verdict.verdict == VerdictKind::Failed {
        return json!({"how": "again"});
    }
    let is_over = verdict.hint.as_deref() == Some(NEW_SESSION);
    let next = code(verdict).map_or(Next::Never, Code::next);
    let mut retry = match if is_over { Next::Never } else { next } {
        Next::Change => json!({"how": "change"}),
        Next::Later => json!({"how": "later", "after_ms": 1000}),
        Next::Never => json!({"how": "never"}),
    };
    if code(verdict) == Some(Code::ReadingRequired) {
        let tools: Vec<String> = refused_for(verdict).iter().map(|it| knows.name(it)).collect();
        put(&mut retry, "tools", json!(tools));
    }
    retry
}

/// What to say in place of the gate's own words, which stay in the object.
pub fn advice(knows: Knows<'_>, verdict: &Verdict) -> Advice {
    let calls: Vec<String> = calls(knows, verdict).iter().map(|call| call.called(knows.names)).collect();
    let calls = cut(calls.join(", "), CALLS_BYTES_MAX);
    let refused = || refused_for(verdict).iter().map(|it| knows.name(it)).collect::<Vec<_>>().join(", ");
    match code(verdict) {
        Some(Code::InvalidParams) if !verdict.misfits.is_empty() => {
            let misfits: Vec<String> = verdict.misfits.iter().map(|misfit| said(misfit, knows.tool)).collect();
            let message = format!("the arguments do not fit: {}", cut(misfits.join("; "), CHANGES_BYTES_MAX));
            Advice { message: Some(message), hint: Some("Correct the arguments, then call it again.".to_owned()) }
        }
        Some(Code::ObservationRequired) if !calls.is_empty() => Advice {
            message: Some("this call has to be decided on what you have read, and you have not read it".to_owned()),
            hint: Some(format!("Call {calls} first. If it is still right then, make the same call again.")),
        },
        Some(Code::ReadingRequired) => Advice {
            message: Some(format!("you have not called {} in this session", refused())),
            hint: Some(format!("Call {} first. If it is still right then, make the same call again.", refused())),
        },
        Some(Code::ReadingStale) if !calls.is_empty() => Advice {
            message: renamed(knows, verdict),
            hint: Some(format!("Call {calls} again. If it is still right then, make the same call again.")),
        },
        Some(Code::PreconditionFailed) => Advice {
            message: verdict.message.as_ref().map(|message| with_changes(message, knows, verdict)),
            hint: (!calls.is_empty()).then(|| format!("Nothing was sent. Call {calls} again, then decide again.")),
        },
        // It was halted when it would have left, which may be over by now.
        Some(Code::Halted) if verdict.verdict == VerdictKind::Failed => Advice {
            message: None,
            hint: Some(
                "Nothing was sent. If you still want to do this, make the same call again: it is refused while the halt stands."
                    .to_owned(),
            ),
        },
        Some(Code::Halted) => Advice {
            message: None,
            hint: Some("Stop here: nothing passes until an operator lifts the halt.".to_owned()),
        },
        _ => Advice { message: renamed(knows, verdict), hint: None },
    }
}

fn code(verdict: &Verdict) -> Option<Code> {
    verdict.code.as_deref().and_then(Code::parse)
}

fn refused_for(verdict: &Verdict) -> &[RefusedReading] {
    verdict.readings.as_ref().map(|readings| readings.refused_for.as_slice()).unwrap_or_default()
}

/// The gate's words, with tools named as the agent knows them.
fn renamed(knows: Knows<'_>, verdict: &Verdict) -> Option<String> {
    let mut message = verdict.message.clone()?;
    for it in refused_for(verdict) {
        message = knows.names.renamed(&message, it.upstream.as_deref().unwrap_or(knows.upstream), &it.tool);
    }
    Some(message)
}

impl Knows<'_> {
    /// A tool that a pact names with its server or without, which is then that of the call.
    fn name(self, reading: &RefusedReading) -> String {
        self.names.of(reading.upstream.as_deref().unwrap_or(self.upstream), &reading.tool)
    }

    /// The call that reads a fact, if the agent can make it.
    fn reread(self, fact: &str) -> Option<Reread> {
        let fact = fact.parse::<FactId>().ok()?;
        self.mapping.reread(&fact).filter(|call| self.names.has(&call.upstream))
    }
}

/// The calls to make first.
fn calls(knows: Knows<'_>, verdict: &Verdict) -> Vec<Reread> {
    // What is as it was observed reads the same when it is read again.
    let changed = verdict.failed.iter().filter(|failed| !failed.as_observed).flat_map(|failed| &failed.reads);
    let facts = changed.map(|read| split(read).0).chain(verdict.observe.iter().cloned());
    let mut calls: Vec<Reread> = Vec::new();
    for call in facts.filter_map(|fact| knows.reread(&fact)) {
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
    if code(verdict) == Some(Code::ReadingStale) {
        calls.extend(refused_for(verdict).iter().filter_map(|it| {
            let arguments = parse_answer(it.arguments.as_deref()?).ok()?.as_object()?.clone();
            Some(Reread { upstream: it.upstream.clone()?, tool: it.tool.clone(), arguments })
        }));
    }
    calls
}

/// A fact and its attribute.
fn split(read: &FailedRead) -> (String, &str) {
    read.attribute
        .rsplit_once("\".")
        .map_or((read.attribute.clone(), ""), |(fact, attribute)| (format!("{fact}\""), attribute))
}

/// The gate's words, and below them what of an answer is not as it was read.
fn with_changes(message: &str, knows: Knows<'_>, verdict: &Verdict) -> String {
    let mut text = message.to_owned();
    let differs = |read: &&FailedRead| !read.withheld && read.expected != read.actual;
    let reads = verdict.failed.iter().flat_map(|failed| &failed.reads).filter(differs).take(CHANGES_MAX);
    for read in reads {
        let (fact, attribute) = split(read);
        let place = knows.reread(&fact).map_or(fact, |call| call.called(knows.names));
        let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), shown);
        let actual = value(&read.actual);
        let _ = match read.observed {
            true => write!(text, "\n  {place}: {attribute} {} → {actual}", value(&read.expected)),
            false => write!(text, "\n  {place}: {attribute} is {actual}"),
        };
    }
    cut(text, CHANGES_BYTES_MAX)
}

fn shown(value: &Value) -> String {
    cut(value.to_string(), VALUE_BYTES_MAX)
}

/// What is wrong with an argument, by the schema that the agent was shown.
fn said(misfit: &ParamMisfit, tool: Option<&Tool>) -> String {
    let ParamMisfit { at, what } = misfit;
    let name = at.trim_start_matches('/').replace('/', ".");
    let subject = if name.is_empty() { String::new() } else { format!("`{name}` ") };
    if *what == Misfit::Type.to_string() {
        let wanted = tool.and_then(|tool| wanted(tool, at));
        return match wanted {
            Some(wanted) => format!("{subject}must be {wanted}"),
            None => format!("{subject}has the wrong type"),
        };
    }
    match what.strip_prefix("it ").filter(|_| !subject.is_empty()) {
        Some(rest) => format!("{subject}{rest}"),
        None => format!("{subject}{what}").replace(" is required and missing", " is missing"),
    }
}

/// What a tool's schema wants at a place, in words.
fn wanted(tool: &Tool, at: &str) -> Option<&'static str> {
    let schema: Value = serde_json::from_str(tool.member("inputSchema")?.get()).ok()?;
    let mut found = &schema;
    for part in at.split('/').filter(|part| !part.is_empty()) {
        let by_name = found.get("properties").and_then(|properties| properties.get(part));
        found = by_name.or_else(|| found.get("items").filter(|_| part.parse::<usize>().is_ok()))?;
    }
    Some(match found.get("type")?.as_str()? {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn how(code: &str) -> Value {
        let verdict = json!({"verdict": "rejected", "action": "a", "code": code});
        let verdict: Verdict = serde_json::from_value(verdict).unwrap();
        let (names, mapping) = (Names::default(), Mapping::default());
        retry(Knows { names: &names, mapping: &mapping, upstream: "bank", tool: None }, &verdict)["how"].clone()
    }

    #[test]
    fn what_to_do_next_is_what_the_hint_of_the_code_says() {
        assert_eq!(how("observation_required"), "change", "observe, then act");
        assert_eq!(how("too_many_effects"), "later");
        assert_eq!(how("too_many_reviews"), "later");
        assert_eq!(how("not_allowed"), "never");
        assert_eq!(how("halted"), "never", "a person ends it");
        assert_eq!(how("a_code_of_a_later_gate"), "never");
    }

    #[test]
    fn an_argument_of_the_wrong_type_is_told_by_the_schema_that_the_agent_has() {
        let tool = json!({"name": "edit", "inputSchema": {"type": "object", "properties": {
            "edits": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
        }}});
        let tool = Tool::parse(&RawValue::from_string(tool.to_string()).unwrap()).unwrap();
        for (at, what, wanted) in [
            ("/edits", Misfit::Type, "`edits` must be a list"),
            ("/edits/0/line", Misfit::Type, "`edits.0.line` must be a whole number"),
            ("/other", Misfit::Type, "`other` has the wrong type"),
            ("/edits", Misfit::MinItems { limit: 1 }, "`edits` must have at least 1 items"),
            ("", Misfit::Missing { name: "edits".to_owned() }, "\"edits\" is missing"),
        ] {
            assert_eq!(said(&ParamMisfit { at: at.to_owned(), what: what.to_string() }, Some(&tool)), wanted);
        }
    }
}
