//! Calls of tools that a pact maps: made by the gate's workers, after the dispatch, over links of their own; and only of tools
//! whose definition, on that very link, is the approved one.
//!
//! What a tool says counts only where it is clear. A whole result without an error means that it was done. That a request was malformed, or
//! that there is no such tool, means that it was not. Anything else, also a result that is an error, means that nobody knows:
//! a tool that failed half-way says the same as one that did nothing (I6); unless the pact says that this tool's errors do not.

mod answered;

use self::answered::{Answered, Says};
use super::buffers::Buffers;
use super::direct::{Direct, NoAnswer, not_listed};
use super::gate::tool_fact;
use super::message::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, raw};
use super::refusal::MEMBER;
use super::settings::{McpSettings, Place};
use super::tool::Tool;
use super::upstream::Alive;
use countersign_core::call::{Evidence, OutsideHow, OutsideRead, Send};
use countersign_core::pact::FactSchema;
use countersign_core::value::{Attributes, Value as FactValue};
use countersign_engine::outbox::{Adapter, Adapters, Attempt, FactReader, Job, Outside, Probed, Reading};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

/// How many calls may be under way to one server.
const CONCURRENCY: usize = 4;
/// How long a tool may take to read a fact for an observation.
const OBSERVED_WITHIN: Duration = Duration::from_secs(10);
/// How much is told of what a tool says went wrong.
const SAID_CHARS_MAX: usize = 500;
/// How much of a result is kept.
const RESULT_BYTES_MAX: usize = 16 * 1024;

/// Calls the tools of one server.
pub struct McpAdapter {
    name: String,
    place: Place,
    threads: Arc<Threads>,
    idle: Mutex<Vec<Direct>>,
    /// What operators have approved.
    facts: Mutex<Option<FactReader>>,
}

/// The threads that all links of a gate's adapters run on.
pub struct Threads {
    handle: Handle,
    runtime: Option<Runtime>,
    /// What all their messages together may take.
    buffers: Arc<Buffers>,
}

impl Threads {
    /// Starts them.
    pub fn new(buffered_max: usize) -> std::io::Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let buffers = Buffers::new(buffered_max);
        Ok(Arc::new(Self { handle: runtime.handle().clone(), runtime: Some(runtime), buffers }))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The last adapter may be dropped where nobody may wait; the links end by themselves.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An adapter for each server of the settings.
pub fn adapters(settings: &McpSettings) -> std::io::Result<Adapters> {
    if settings.upstreams.is_empty() {
        return Ok(Adapters::new());
    }
    let threads = Threads::new(settings.buffered_max())?;
    let adapter = |(name, place): (&String, &Place)| {
        let adapter = McpAdapter::new(name, place.clone(), Arc::clone(&threads));
        (SmolStr::new(name), Arc::new(adapter) as Arc<dyn Adapter>)
    };
    Ok(settings.upstreams.iter().map(adapter).collect())
}

/// Why a fact could not be read.
enum Unread {
    /// No answer came; one may come next time.
    Silent(String),
    /// The server answered, with an error or with something that is no such fact. Waiting for another answer would keep everybody
    /// fenced out, and act by itself whenever it comes.
    Answered(String),
}

impl McpAdapter {
    /// For the server of this name.
    pub fn new(name: &str, place: Place, threads: Arc<Threads>) -> Self {
        Self { name: name.to_owned(), place, threads, idle: Mutex::default(), facts: Mutex::default() }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Direct>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link that is open: one that was used before, or a new one.
    fn link(&self) -> Result<Direct, NoAnswer> {
        let take = || self.idle().pop();
        while let Some(kept) = take() {
            if kept.is_open() {
                return Ok(kept);
            }
        }
        // Nothing waits for it to end: a worker drops it, and its program ends with it.
        let (alive, _) = Alive::new();
        self.threads.handle.block_on(Direct::open(&self.place, &alive, &self.threads.buffers))
    }

    fn call(
        &self,
        link: &mut Direct,
        tool: &str,
        arguments: &Value,
        key: Option<&str>,
        until: Instant,
    ) -> Result<Answered, NoAnswer> {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let (Some(key), Some(params)) = (key, params.as_object_mut()) {
            params.insert("_meta".to_owned(), json!({MEMBER: {"idempotency_key": key}}));
        }
        let within = until.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err(NoAnswer::NotSent("the time for this attempt is over".to_owned()));
        }
        let answer = self.threads.handle.block_on(link.request("tools/call", Some(raw(&params)), within))?;
        let no_result = || NoAnswer::Lost("its answer is no result".to_owned());
        let text = answer.result_raw().ok_or_else(no_result)?.get().to_owned();
        Answered::parse(text).map_err(NoAnswer::Lost)
    }

    /// Compares a tool, as the server has it on this very link, with what was approved. Before anything is sent: what a tool of
    /// another definition does is not what the pact's author has read.
    fn check_approved(&self, link: &mut Direct, tool: &str, until: Instant) -> Result<(), NoAnswer> {
        let within = until.saturating_duration_since(Instant::now());
        let listed = async { tokio::time::timeout(within, link.tool(tool)).await };
        let listed = match self.threads.handle.block_on(listed) {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => return Err(NoAnswer::NotSent(not_listed("it", &error.to_string()))),
            Err(_) => return Err(NoAnswer::NotSent("it did not list its tools in time".to_owned())),
        };
        let name = &self.name;
        let approve = format!("an operator reads it and runs: countersign mcp approve {name}/{tool}");
        let why = match (listed, self.approved(tool)) {
            (None, _) => format!("{name} has no tool `{tool}`"),
            (Some(Tool { unfit: Some(why), .. }), _) => format!("the tool {name}/{tool} is not to be used: {why}"),
            (Some(_), None) => format!("the tool {name}/{tool} is not approved; {approve}"),
            (Some(listed), Some(approved)) if listed.definition == approved => return Ok(()),
            (Some(_), Some(_)) => {
                format!("the definition of the tool {name}/{tool} has changed since it was approved; {approve}")
            }
        };
        // What an operator does about it counts at once: the next look is a new one.
        link.forget_tools();
        Err(NoAnswer::NotApproved(why))
    }

    /// The definition that was approved of a tool.
    fn approved(&self, tool: &str) -> Option<String> {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let value = facts(&tool_fact(&self.name, tool).ok()?)?;
        match value.get("definition") {
            Some(FactValue::String(definition)) => Some(definition.to_string()),
            _ => None,
        }
    }

    /// Reads one fact. Whatever goes wrong here, nothing was done yet.
    fn read(
        &self,
        link: &mut Direct,
        read: &OutsideRead,
        schema: &FactSchema,
        until: Instant,
    ) -> Result<Reading, Unread> {
        let OutsideHow::Tool { tool, arguments, at } = &read.how else {
            return Err(Unread::Answered(format!("{} is not read by a tool", read.fact)));
        };
        let checked = self.check_approved(link, tool, until);
        let answered = checked.and_then(|()| self.call(link, tool, arguments, None, until));
        let answered = answered.map_err(|error| match error {
            NoAnswer::Error { .. } => Unread::Answered(format!("{tool} could not read {}: {error}", read.fact)),
            NoAnswer::NotApproved(why) => Unread::Answered(why),
            NoAnswer::NotSent(why) | NoAnswer::Lost(why) => Unread::Silent(why),
        })?;
        let why = match answered.says {
            Says::Completed => None,
            Says::Failed => Some(said(&answered.result)),
            Says::Neither(why) => Some(format!("it {why}")),
        };
        if let Some(why) = why {
            return Err(Unread::Answered(format!("{tool} could not read {}: {why}", read.fact)));
        }
        let value = attributes(&answered.result, at, schema);
        let value = value.map_err(|why| Unread::Answered(format!("what {tool} says of {}: {why}", read.fact)))?;
        Ok(Reading { value, answer: Some(answered.text) })
    }

    fn try_once(&self, link: &mut Direct, job: &Job<'_>) -> Attempt {
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let judged;
        let send = if job.call.outside.is_empty() {
            job.call.send.as_ref()
        } else {
            let mut read = Vec::with_capacity(job.call.outside.len());
            for wanted in &job.call.outside {
                match self.read(link, wanted, &job.judge.schema(&wanted.fact), until) {
                    Ok(Reading { value, .. }) => read.push(Outside { fact: wanted.fact.clone(), value }),
                    Err(Unread::Silent(why)) => return Attempt::NotSent(Evidence::said(why)),
                    Err(Unread::Answered(why)) => return Attempt::Refused(Evidence::said(why)),
                }
            }
            match job.judge.judge(&read) {
                Ok(passed) => judged = passed,
                Err(blocked) => return Attempt::Blocked(Box::new(blocked)),
            }
            Some(&judged)
        };
        let Some(Send::Tool { tool, arguments, fails_on_error }) = send else {
            return Attempt::Refused(Evidence::said(format!("{} takes calls of tools and nothing else", self.name)));
        };
        match self.check_approved(link, tool, until) {
            Ok(()) => {}
            Err(NoAnswer::NotApproved(why)) => return Attempt::Refused(Evidence::said(why)),
            Err(error) => return Attempt::NotSent(Evidence::said(error.to_string())),
        }
        if let Some(halted) = job.judge.stopped() {
            return Attempt::NotSent(Evidence::said(halted.message()));
        }
        match self.call(link, tool, arguments, Some(job.key), until) {
            Ok(Answered { result, text, says }) => match says {
                Says::Completed => Attempt::Done(evidence(format!("{tool} was called"), text)),
                Says::Failed if *fails_on_error => {
                    Attempt::Refused(evidence(format!("{tool} did nothing: {}", said(&result)), text))
                }
                Says::Failed => Attempt::Unknown(evidence(format!("{tool} answered with an error"), text)),
                Says::Neither(why) => Attempt::Unknown(evidence(format!("{tool} {why}"), text)),
            },
            Err(NoAnswer::NotSent(why)) => Attempt::NotSent(Evidence::said(why)),
            Err(NoAnswer::Error { code: code @ (INVALID_PARAMS | INVALID_REQUEST | METHOD_NOT_FOUND), message }) => {
                let summary = format!("{} did not take the call: {message}", self.name);
                Attempt::Refused(Evidence { status: Some(code), ..Evidence::said(summary) })
            }
            Err(error) => Attempt::Unknown(Evidence::said(error.to_string())),
        }
    }
}

impl Adapter for McpAdapter {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        let mut link = match self.link() {
            Ok(link) => link,
            Err(error) => return Attempt::NotSent(Evidence::said(format!("{} cannot be reached: {error}", self.name))),
        };
        let attempt = self.try_once(&mut link, job);
        // A link on which an answer may still come must not be used for anything else.
        if matches!(attempt, Attempt::Done(_) | Attempt::Refused(_) | Attempt::Blocked(_)) {
            self.idle().push(link);
        }
        attempt
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        let unknown = |why: String| Probed::Unknown(Evidence::said(why));
        let Some(Send::Tool { tool, arguments, .. }) = job.call.probe.as_ref().map(|probe| &probe.send) else {
            return unknown("the probe is no tool".to_owned());
        };
        let mut link = match self.link() {
            Ok(link) => link,
            Err(error) => return unknown(error.to_string()),
        };
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let checked = self.check_approved(&mut link, tool, until);
        let probed = match checked.and_then(|()| self.call(&mut link, tool, arguments, None, until)) {
            Ok(Answered { says: Says::Neither(why), .. }) => unknown(format!("{tool} {why}")),
            Ok(Answered { says: Says::Failed, result, .. }) => unknown(format!("{tool}: {}", said(&result))),
            Ok(answered) if is_nothing(answered.result.get("structuredContent")) => {
                Probed::Absent(evidence(format!("{tool} finds nothing"), answered.text))
            }
            Ok(answered) => Probed::There(evidence(format!("{tool} finds it"), answered.text)),
            Err(error) => return unknown(error.to_string()),
        };
        self.idle().push(link);
        probed
    }

    fn observe(&self, read: &OutsideRead, schema: &FactSchema) -> Result<Reading, String> {
        let mut link = self.link().map_err(|error| format!("{} cannot be reached: {error}", self.name))?;
        match self.read(&mut link, read, schema, Instant::now() + OBSERVED_WITHIN) {
            Ok(reading) => {
                self.idle().push(link);
                Ok(reading)
            }
            Err(Unread::Silent(why) | Unread::Answered(why)) => Err(why),
        }
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    fn connect(&self, facts: FactReader) {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }
}

/// The attributes at a place of a result, where a text is read as JSON; `None` where there is nothing.
fn attributes(result: &Value, at: &str, schema: &FactSchema) -> Result<Option<Attributes>, String> {
    let object: Map<String, Value> = match result.pointer(at) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object.clone(),
        Some(Value::String(text)) => strict(text)?,
        Some(_) => return Err(format!("at {at} stands no object")),
    };
    Attributes::declared_in(&object, schema).map(Some).map_err(|error| error.to_string())
}

fn strict(text: &str) -> Result<Map<String, Value>, String> {
    countersign_core::json::parse_object(text).map_err(|error| error.to_string())
}

/// Whether a probe's result says that there is nothing.
fn is_nothing(content: Option<&Value>) -> bool {
    match content {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Array(items)) => items.is_empty(),
        // Servers wrap what is no object.
        Some(Value::Object(members)) => {
            members.is_empty()
                || (members.len() == 1 && members.get("result").is_some_and(|result| is_nothing(Some(result))))
        }
        Some(_) => false,
    }
}

/// The first text of a result.
fn said(result: &Value) -> String {
    let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or("it does not say why");
    text.chars().take(SAID_CHARS_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// What was said, with the result as it was sent, unless that is too long to keep: half of one says nothing.
fn evidence(summary: String, result: String) -> Evidence {
    if result.len() > RESULT_BYTES_MAX {
        let bytes = result.len();
        return Evidence::said(format!("{summary}; its answer of {bytes} bytes is too long to keep"));
    }
    Evidence { result: Some(result), ..Evidence::said(summary) }
}

#[cfg(test)]
mod tests;
