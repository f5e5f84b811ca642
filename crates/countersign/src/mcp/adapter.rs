//! Calls of tools that a pact maps: made by the gate's workers, after the dispatch, over links of their own; and only of tools
//! whose definition, on that very link, is the approved one.
//!
//! What a tool says counts only where it is clear. A whole result without an error means that it was done. Anything else, also an error
//! of any kind, means that no one knows: a tool that failed half-way says the same as one that did nothing (I6); unless the pact says
//! that this tool's errors do not.

mod answered;
mod found;

use self::answered::{Answered, Says};
use self::found::{Found, attributes, look, said};
use super::buffers::Buffers;
use super::direct::{Direct, NoAnswer, not_listed};
use super::gate::tool_fact;
use super::message::raw;
use super::refusal::MEMBER;
use super::settings::{McpSettings, Place};
use super::tool::Tool;
use super::upstream::Alive;
use crate::adapters::secret::Known;
use countersign_core::call::{Evidence, ExternalHow, ExternalRead, Send};
use countersign_core::limits::RESULT_BYTES_MAX;
use countersign_core::pact::FactSchema;
use countersign_core::value::Value as FactValue;
use countersign_engine::outbox::{Adapter, Adapters, Attempt, FactAsRead, FactReader, Job, Leave, Probed, Reading};
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;

/// How many calls may be under way to one server.
const CONCURRENCY: usize = 4;
/// How many programs of one server may run at a time, those that are ending included: a server that fails, or ends slowly, must not
/// be started once for each question.
const LIVING_MAX: usize = 16;
/// How long to wait for one of them, and how often to look.
const OPENED_WITHIN: Duration = Duration::from_secs(10);
const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// How long a tool may take to read a fact for an observation.
const OBSERVED_WITHIN: Duration = Duration::from_secs(10);

/// Calls the tools of one server.
pub struct McpAdapter {
    name: String,
    place: Place,
    threads: Arc<Threads>,
    idle: Mutex<Vec<Direct>>,
    /// Room for links that are open or whose program has not ended yet.
    living: Arc<Semaphore>,
    /// What operators have approved.
    facts: Mutex<Option<FactReader>>,
    /// The secrets that the server was given, to be searched for in what it says.
    known: Mutex<Known>,
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
        // The last adapter may be dropped where no one may wait; the links end by themselves.
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
    /// The server answered, with an error or with something that is no such fact. Waiting for another answer would keep everyone
    /// fenced out, and act by itself whenever it comes.
    Answered(String),
}

impl McpAdapter {
    /// For the server of this name.
    pub fn new(name: &str, place: Place, threads: Arc<Threads>) -> Self {
        let (name, idle, facts) = (name.to_owned(), Mutex::default(), Mutex::default());
        let living = Arc::new(Semaphore::new(LIVING_MAX));
        Self { name, place, threads, idle, living, facts, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evidence that is a sentence, without secrets. They go first: a cut through one would leave its front behind.
    fn said(&self, summary: impl Into<String>) -> Evidence {
        Evidence::said(self.known().hide(summary.into()))
    }

    /// What was said, with the result as it was sent, unless that is too long to keep: half of one says nothing.
    fn evidence(&self, summary: String, result: String) -> Evidence {
        let bytes = result.len();
        let result = self.known().hide(result);
        if result.len() > RESULT_BYTES_MAX {
            return self.said(format!("its answer of {bytes} bytes is too long to keep; {summary}"));
        }
        Evidence { result: Some(result), ..self.said(summary) }
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
        let until = Instant::now() + OPENED_WITHIN;
        let living = loop {
            if let Ok(living) = Arc::clone(&self.living).try_acquire_owned() {
                break living;
            }
            // One that is given back is as good as one that has ended.
            if let Some(kept) = take().filter(Direct::is_open) {
                return Ok(kept);
            }
            if Instant::now() > until {
                let why = format!("{LIVING_MAX} links to it are busy or still ending; try again");
                return Err(NoAnswer::NotSent(why));
            }
            std::thread::sleep(LOOKS_EVERY);
        };
        // Read again: a file may hold another one by now.
        if let Place::Command(program) = &self.place {
            program.secrets(&mut self.known());
        }
        // Nothing waits for it to end: a worker drops it, and its program ends with it. Until then it counts.
        let alive = Alive::counted(living);
        self.threads.handle.block_on(Direct::open(&self.name, &self.place, &alive, &self.threads.buffers))
    }

    fn call(
        &self,
        link: &mut Direct,
        tool: &str,
        arguments: &Value,
        sealed: Option<(&str, Leave)>,
        until: Instant,
    ) -> Result<Answered, NoAnswer> {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let (Some((key, _)), Some(params)) = (&sealed, params.as_object_mut()) {
            params.insert("_meta".to_owned(), json!({MEMBER: {"idempotency_key": key}}));
        }
        let leave = sealed.map(|(_, leave)| leave);
        let within = until.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err(NoAnswer::NotSent("the time for this attempt is over".to_owned()));
        }
        let answer = self.threads.handle.block_on(link.request_if("tools/call", Some(raw(&params)), within, leave))?;
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
        read: &ExternalRead,
        schema: &FactSchema,
        until: Instant,
    ) -> Result<Reading, Unread> {
        let ExternalHow::Tool { tool, arguments, at } = &read.how else {
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
            Says::Failed => Some(said(&answered.result).to_owned()),
            Says::Neither(why) => Some(format!("it {why}")),
        };
        if let Some(why) = why {
            return Err(Unread::Answered(format!("{tool} could not read {}: {why}", read.fact)));
        }
        // The whole answer is shown to anyone who observes the fact.
        if self.known().is_in(&answered.text) {
            let why = "holds a secret that the server was started with";
            return Err(Unread::Answered(format!("what {tool} says of {} {why}", read.fact)));
        }
        let value = attributes(&answered.result, at, schema, &self.known());
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
                    Ok(Reading { value, .. }) => read.push(FactAsRead { fact: wanted.fact.clone(), value }),
                    Err(Unread::Silent(why)) => return Attempt::NotSent(self.said(why)),
                    Err(Unread::Answered(why)) => return Attempt::Refused(self.said(why)),
                }
            }
            match job.judge.judge(&read) {
                Ok(passed) => judged = passed,
                Err(blocked) => return Attempt::Blocked(Box::new(blocked)),
            }
            Some(&judged)
        };
        let Some(Send::Tool { tool, arguments, fails_on_error }) = send else {
            return Attempt::Refused(self.said(format!("{} takes calls of tools and nothing else", self.name)));
        };
        match self.check_approved(link, tool, until) {
            Ok(()) => {}
            Err(NoAnswer::NotApproved(why)) => return Attempt::Refused(self.said(why)),
            Err(error) => return Attempt::NotSent(self.said(error.to_string())),
        }
        // The link asks right before the first byte whether it may still leave.
        match self.call(link, tool, arguments, Some((job.key, job.judge.leave())), until) {
            Ok(Answered { result, text, says }) => match says {
                Says::Completed => Attempt::Done(self.evidence(format!("{tool} was called"), text)),
                Says::Failed if *fails_on_error => {
                    Attempt::Refused(self.evidence(format!("{tool} did nothing: {}", said(&result)), text))
                }
                Says::Failed => Attempt::Unknown(self.evidence(format!("{tool} answered with an error"), text)),
                Says::Neither(why) => Attempt::Unknown(self.evidence(format!("{tool} {why}"), text)),
            },
            Err(NoAnswer::NotSent(why)) => Attempt::NotSent(self.said(why)),
            // Whatever its code: servers answer with "invalid params" where the result of what they did does not fit their own schema,
            // and one that asks others answers with the errors of these.
            Err(NoAnswer::Error { code, message }) if *fails_on_error => {
                let summary = format!("{tool} did nothing: {message}");
                Attempt::Refused(Evidence { status: Some(code), ..self.said(summary) })
            }
            Err(NoAnswer::Error { code, message }) => {
                let summary = format!("{tool} answered with error {code}: {message}");
                Attempt::Unknown(Evidence { status: Some(code), ..self.said(summary) })
            }
            Err(error) => Attempt::Unknown(self.said(error.to_string())),
        }
    }
}

impl Adapter for McpAdapter {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        let mut link = match self.link() {
            Ok(link) => link,
            Err(error) => return Attempt::NotSent(self.said(format!("{} cannot be reached: {error}", self.name))),
        };
        let attempt = self.try_once(&mut link, job);
        // A link on which an answer may still come must not be used for anything else. An answer of its own has a code.
        let is_answered = |evidence: &Evidence| evidence.status.is_some() || evidence.result.is_some();
        if matches!(&attempt, Attempt::Done(_) | Attempt::Refused(_) | Attempt::Blocked(_))
            || matches!(&attempt, Attempt::Unknown(evidence) if is_answered(evidence))
        {
            self.idle().push(link);
        }
        attempt
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        let unknown = |why: String| Probed::Unknown(self.said(why));
        let probe = job.call.probe.as_ref();
        let Some(Send::Tool { tool, arguments, .. }) = probe.map(|probe| &probe.send) else {
            return unknown("the probe is no tool".to_owned());
        };
        let at = probe.and_then(|probe| probe.at.as_deref());
        let mut link = match self.link() {
            Ok(link) => link,
            Err(error) => return unknown(error.to_string()),
        };
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let checked = self.check_approved(&mut link, tool, until);
        let probed = match checked.and_then(|()| self.call(&mut link, tool, arguments, None, until)) {
            Ok(Answered { says: Says::Neither(why), .. }) => unknown(format!("{tool} {why}")),
            Ok(Answered { says: Says::Failed, result, .. }) => unknown(format!("{tool}: {}", said(&result))),
            Ok(answered) => match look(&answered.result, at) {
                Found::There => Probed::There(self.evidence(format!("{tool} finds it"), answered.text)),
                Found::Nothing => Probed::Absent(self.evidence(format!("{tool} finds nothing"), answered.text)),
                Found::Unclear(why) => unknown(format!("{tool} {why}")),
            },
            // It has answered, so the link is as good as before.
            Err(error @ (NoAnswer::Error { .. } | NoAnswer::NotApproved(_))) => unknown(error.to_string()),
            Err(error) => return unknown(error.to_string()),
        };
        self.idle().push(link);
        probed
    }

    fn observe(&self, read: &ExternalRead, schema: &FactSchema) -> Result<Reading, String> {
        let told = |why: String| self.said(why).summary;
        let mut link = self.link().map_err(|error| told(format!("{} cannot be reached: {error}", self.name)))?;
        match self.read(&mut link, read, schema, Instant::now() + OBSERVED_WITHIN) {
            Ok(reading) => {
                self.idle().push(link);
                Ok(reading)
            }
            Err(Unread::Answered(why)) => {
                self.idle().push(link);
                Err(told(why))
            }
            Err(Unread::Silent(why)) => Err(told(why)),
        }
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    fn connect(&self, facts: FactReader) {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }
}

#[cfg(test)]
mod tests;
