//! Calls of tools that a pact maps: made by the gate's workers, after the dispatch, over links of their own; and only of tools
//! whose definition, on that very link, is the approved one.
//!
//! What a tool says counts only where it is clear. A whole result without an error means that it was done. Anything else, also an error
//! of any kind, means that no one knows: a tool that failed half-way says the same as one that did nothing (I6); unless the pact says
//! that this tool's errors do not.

mod answered;
mod compared;
mod found;
mod reading;

use self::answered::{Answered, Says};
pub use self::compared::Rules;
use self::found::{Probe as ProbeFound, attributes, look, quoting};
use super::buffers::Buffers;
use super::connection::Connection;
use super::direct::NoAnswer;
use super::gate::tool_fact;
use super::message::sent;
use super::refusal::MEMBER;
use super::settings::{McpSettings, Place};
use super::tool::Tool;
use super::upstream::Alive;
use crate::adapters::secret::Known;
use countersign_core::call::{Evidence, ExternalHow, ExternalRead, Found, FoundCode, OnError, Send};
use countersign_core::ids::FactId;
use countersign_core::limits::RESULT_BYTES_MAX;
use countersign_core::pact::FactSchema;
use countersign_core::session::Place as Read;
use countersign_core::value::{Attributes, Value as FactValue};
use countersign_engine::outbox::{
    Adapter, Adapters, Attempt, FactAsRead, FactReader, Job, Leave, Probed, Reading, ToolAnswer,
};
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many calls may be under way to one server.
const CONCURRENCY: usize = 4;
/// How many programs of one server may run at a time, those that are ending included: a server that fails, or ends slowly, must not
/// be started once for each question.
const LIVING_MAX: usize = 16;
/// How long a program may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(7);
/// How long to wait for one of them, and how often to look.
const OPENED_WITHIN: Duration = Duration::from_secs(10);
const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// How long a tool may take to read a fact for an observation.
const OBSERVED_WITHIN: Duration = Duration::from_secs(10);

/// The method that reads a resource; it stands in the place of a tool's name.
pub const RESOURCE: &str = "resources/read";

/// What a tool is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    OnlyRead,
    Write,
}

/// Calls the tools of one server.
pub struct McpAdapter {
    name: String,
    place: Place,
    threads: Arc<Threads>,
    /// The one connection to it, and how many there were.
    connection: Mutex<(u64, Option<Arc<Connection>>)>,
    /// Room for connections that are open or whose program has not ended yet.
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
    Silent(Found),
    /// The server answered, with an error or with something that is no such fact. Waiting for another answer would keep everyone
    /// fenced out, and act by itself whenever it comes.
    Answered(Found),
}

impl McpAdapter {
    /// For the server of this name.
    pub fn new(name: &str, place: Place, threads: Arc<Threads>) -> Self {
        let (name, connection, facts) = (name.to_owned(), Mutex::default(), Mutex::default());
        let living = Arc::new(Semaphore::new(LIVING_MAX));
        Self { name, place, threads, connection, living, facts, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hidden(&self, found: Found) -> Found {
        let known = self.known();
        found.map(|text| known.hide(text))
    }

    /// Evidence that is a finding, without secrets. They go first: a cut through one would leave its front behind.
    fn found(&self, found: Found) -> Evidence {
        Evidence::of(self.hidden(found))
    }

    /// What was said, with the result as it was sent, unless that is too long to keep: half of one says nothing.
    fn evidence(&self, found: Found, result: String) -> Evidence {
        let bytes = result.len();
        let result = self.known().hide(result);
        if result.len() > RESULT_BYTES_MAX {
            return Evidence { unkept: Some(bytes as u64), ..self.found(found) };
        }
        Evidence { result: Some(result), ..self.found(found) }
    }

    fn unreachable(&self, error: NoAnswer) -> Found {
        FoundCode::Unreachable.about(&self.name).and_because(error.found())
    }

    /// The same of a call, for whoever waits: what is too long for an entry is still handed over whole.
    fn whole_evidence(&self, job: &Job<'_>, found: Found, result: String) -> Evidence {
        if result.len() > RESULT_BYTES_MAX && !self.known().is_in(&result) {
            job.judge.answered(result.clone());
        }
        self.evidence(found, result)
    }

    /// The connection to the server: the one that there is, or a new one.
    fn connection(&self) -> Result<Arc<Connection>, NoAnswer> {
        let until = Instant::now() + OPENED_WITHIN;
        loop {
            // Whoever comes while one is opened waits for that one.
            let mut current = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = current.1.as_ref().filter(|open| open.is_open()) {
                return Ok(Arc::clone(open));
            }
            current.1 = None;
            if let Ok(living) = Arc::clone(&self.living).try_acquire_owned() {
                return self.open(&mut current, living);
            }
            drop(current);
            if Instant::now() > until {
                return Err(NoAnswer::NotSent(FoundCode::ConnectionsEnding.number(LIVING_MAX)));
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    fn open(
        &self,
        (number, open): &mut (u64, Option<Arc<Connection>>),
        living: OwnedSemaphorePermit,
    ) -> Result<Arc<Connection>, NoAnswer> {
        // Read again: a file may hold another one by now.
        if let Place::Command(program) = &self.place {
            program.secrets(&mut self.known());
        }
        // Nothing waits for it to end: a worker drops it, and its program ends with it. Until then it counts.
        let alive = Alive::counted(living);
        *number += 1;
        let opening = Connection::open(*number, &self.name, &self.place, &alive, &self.threads.buffers);
        let opened = Arc::new(self.threads.handle.block_on(opening)?);
        *open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Nothing more goes over a connection on which a call was not answered: over standard input its program is ended with it, and
    /// waited for, so that the call has no effect later.
    fn give_up(&self, connection: &Connection) {
        connection.close(&FoundCode::AnotherUnanswered.alone());
        {
            let mut current = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            if current.1.as_ref().is_some_and(|open| open.number == connection.number) {
                current.1 = None;
            }
        }
        let until = Instant::now() + ENDS_WITHIN;
        let is_process = matches!(self.place, Place::Command(_));
        while is_process && self.living.available_permits() < LIVING_MAX && Instant::now() < until {
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    fn call(
        &self,
        link: &Connection,
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
            return Err(NoAnswer::NotSent(FoundCode::NoTime.alone()));
        }
        let answer = self.threads.handle.block_on(link.request("tools/call", Some(sent(&params)), within, leave))?;
        let no_result = || NoAnswer::Lost(FoundCode::NotAnObject.alone());
        let text = answer.result_raw().ok_or_else(no_result)?.get().to_owned();
        Answered::parse(text).map_err(NoAnswer::Lost)
    }

    /// Compares a tool, as the server has it on this very link, with what was approved. Before anything is sent: what a tool of
    /// another definition does is not what the pact's author has read.
    fn check_approved(&self, link: &Connection, tool: &str, until: Instant, it: May) -> Result<(), NoAnswer> {
        let within = until.saturating_duration_since(Instant::now());
        let listed = async { tokio::time::timeout(within, link.tool(tool)).await };
        let listed = match self.threads.handle.block_on(listed) {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => return Err(NoAnswer::NotSent(FoundCode::ToolsUnlisted.because(error.found()))),
            Err(_) => {
                return Err(NoAnswer::NotSent(FoundCode::ToolsUnlisted.because(FoundCode::NoTime.alone())));
            }
        };
        let why = match (listed, self.approved(tool)) {
            (None, _) => FoundCode::NoTool,
            (Some(Tool { unfit: Some(_), .. }), _) => FoundCode::UnfitTool,
            (Some(_), None) => FoundCode::ToolUnapproved,
            (Some(listed), Some((approved, _))) if listed.definition != approved => FoundCode::ToolChanged,
            // Whoever wrote the pact is not the one who says what only reads.
            (Some(_), Some((_, false))) if it == May::OnlyRead => FoundCode::ToolWrites,
            (Some(_), Some(_)) => return Ok(()),
        };
        // What an operator does about it counts at once: the next look is a new one.
        link.forget_tools();
        Err(NoAnswer::NotApproved(why.about(format!("{}/{tool}", self.name))))
    }

    /// The definition that was approved of a tool, and whether as one that only reads.
    fn approved(&self, tool: &str) -> Option<(String, bool)> {
        let value = self.fact(&tool_fact(&self.name, tool).ok()?)?;
        match value.get("definition") {
            Some(FactValue::String(definition)) => {
                Some((definition.to_string(), value.get("read_only") == Some(&FactValue::Bool(true))))
            }
            _ => None,
        }
    }

    /// Reads one fact. Whatever goes wrong here, nothing was done yet.
    fn read(
        &self,
        link: &Connection,
        read: &ExternalRead,
        schema: &FactSchema,
        until: Instant,
    ) -> Result<Reading, Unread> {
        let ExternalHow::Tool { tool, arguments, at, key } = &read.how else {
            return Err(Unread::Answered(FoundCode::WrongSource.about(&self.name)));
        };
        let checked = self.check_approved(link, tool, until, May::OnlyRead);
        let answered = checked.and_then(|()| self.call(link, tool, arguments, None, until));
        let answered = answered.map_err(|error| match error {
            NoAnswer::Error { code, message } => {
                Unread::Answered(FoundCode::ToolError.about(tool).with_number(code).and_said(message))
            }
            NoAnswer::NotApproved(why) => Unread::Answered(why),
            NoAnswer::NotSent(why) | NoAnswer::Lost(why) => Unread::Silent(why),
        })?;
        let why = match answered.says {
            Says::Completed => None,
            Says::Failed => Some(quoting(FoundCode::ToolError.about(tool), &answered.result)),
            Says::Neither(why) => Some(FoundCode::ToolUnclear.about(tool).and_because(why.alone())),
        };
        if let Some(why) = why {
            return Err(Unread::Answered(why));
        }
        // The whole answer is shown to anyone who observes the fact.
        if self.known().is_in(&answered.text) {
            return Err(Unread::Answered(FoundCode::HoldsSecret.alone()));
        }
        let value = attributes(&answered.text, at, key.as_ref(), schema, &self.known());
        let value = value.map_err(|why| Unread::Answered(FoundCode::ToolUnclear.about(tool).and_because(why)))?;
        Ok(Reading { value, answer: Some(answered.text) })
    }

    /// A read that was not answered, and was cancelled. The connection is everyone's, and its program keeps in memory what all have done:
    /// it ends only if it is silent.
    fn unanswered(&self, link: &Connection, error: &NoAnswer) {
        if matches!(error, NoAnswer::Lost(_)) && link.is_silent() {
            self.give_up(link);
        }
    }

    fn fact(&self, fact: &FactId) -> Option<Attributes> {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        facts(fact)
    }

    fn try_once(&self, link: &Connection, job: &Job<'_>) -> Attempt {
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let judged;
        let send = if job.call.outside.is_empty() {
            job.call.send.as_ref()
        } else {
            let mut read = Vec::with_capacity(job.call.outside.len());
            for wanted in &job.call.outside {
                match self.read(link, wanted, &job.judge.schema(&wanted.fact), until) {
                    Ok(Reading { value, .. }) => read.push(FactAsRead { fact: wanted.fact.clone(), value }),
                    Err(Unread::Silent(why)) => return Attempt::NotSent(self.found(unread(wanted, why))),
                    Err(Unread::Answered(why)) => return Attempt::Refused(self.found(unread(wanted, why))),
                }
            }
            match job.judge.judge(&read) {
                Ok(passed) => judged = passed,
                Err(blocked) => return Attempt::Blocked(Box::new(blocked)),
            }
            Some(&judged)
        };
        let Some(Send::Tool { tool, arguments, on_error }) = send else {
            return Attempt::Refused(self.found(FoundCode::WrongKind.about(&self.name)));
        };
        match self.check_approved(link, tool, until, May::Write) {
            Ok(()) => {}
            Err(NoAnswer::NotApproved(why)) => {
                return Attempt::Refused(self.found(FoundCode::NotApproved.about(tool).and_because(why)));
            }
            Err(error) => return Attempt::NotSent(self.found(Found::not_sent(error.found()))),
        }
        // What an error says that is an answer; `None` where no one knows.
        let over = match on_error {
            OnError::InDoubt => None,
            OnError::Failed => Some(FoundCode::ToolFailed),
            OnError::Over => Some(FoundCode::ToolOver),
        };
        // The link asks right before the first byte whether it may still leave.
        match self.call(link, tool, arguments, Some((job.key, job.judge.leave())), until) {
            Ok(Answered { result, text, says }) => match says {
                Says::Completed => Attempt::Done(self.whole_evidence(job, FoundCode::ToolCalled.about(tool), text)),
                Says::Failed => match over {
                    Some(code) => Attempt::Refused(self.whole_evidence(job, quoting(code.about(tool), &result), text)),
                    None => Attempt::Unknown(self.evidence(FoundCode::ToolError.about(tool), text)),
                },
                Says::Neither(why) => {
                    Attempt::Unknown(self.evidence(FoundCode::ToolUnclear.about(tool).and_because(why.alone()), text))
                }
            },
            Err(NoAnswer::NotSent(why)) => Attempt::NotSent(self.found(Found::not_sent(why))),
            // Whatever its code: servers answer with "invalid params" where the result of what they did does not fit their own schema,
            // and one that asks others answers with the errors of these.
            Err(NoAnswer::Error { code: status, message }) => {
                let found = over.unwrap_or(FoundCode::ToolError).about(tool).and_said(message);
                let evidence = Evidence { status: Some(status), ..self.found(found) };
                if over.is_some() { Attempt::Refused(evidence) } else { Attempt::Unknown(evidence) }
            }
            Err(error) => Attempt::Unknown(self.found(FoundCode::NoAnswer.because(error.found()))),
        }
    }
}

impl Adapter for McpAdapter {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        let link = match self.connection() {
            Ok(link) => link,
            Err(error) => return Attempt::NotSent(self.found(self.unreachable(error))),
        };
        // What it rests on was read over another one: that server may know of other things, or of nothing.
        if job.judge.connection().is_some_and(|number| number != link.number) {
            return Attempt::NotSent(self.found(Found::not_sent(FoundCode::ConnectionLost.alone())));
        }
        let attempt = self.try_once(&link, job);
        // A call that may still have its effect must not be followed by others on the same connection.
        if matches!(&attempt, Attempt::Unknown(evidence) if !is_answered(evidence)) {
            self.give_up(&link);
        }
        attempt
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        let unknown = |found: Found| Probed::Unknown(self.found(found));
        let probe = job.call.probe.as_ref();
        let Some(Send::Tool { tool, arguments, .. }) = probe.map(|probe| &probe.send) else {
            return unknown(FoundCode::WrongKind.about(&self.name));
        };
        let at = probe.and_then(|probe| probe.at.as_deref());
        let link = match self.connection() {
            Ok(link) => link,
            Err(error) => return unknown(self.unreachable(error)),
        };
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let checked = self.check_approved(&link, tool, until, May::OnlyRead);
        match checked.and_then(|()| self.call(&link, tool, arguments, None, until)) {
            Ok(Answered { says: Says::Neither(why), .. }) => {
                unknown(FoundCode::ProbeUnclear.about(tool).and_because(why.alone()))
            }
            Ok(Answered { says: Says::Failed, result, .. }) => {
                unknown(quoting(FoundCode::ToolError.about(tool), &result))
            }
            Ok(answered) => match look(&answered.result, at) {
                ProbeFound::There => Probed::There(self.evidence(FoundCode::ProbeFound.about(tool), answered.text)),
                ProbeFound::Nothing => Probed::Absent(self.evidence(FoundCode::ProbeAbsent.about(tool), answered.text)),
                ProbeFound::Unclear(why) => unknown(FoundCode::ProbeUnclear.about(tool).and_because(why)),
            },
            Err(error) => {
                self.unanswered(&link, &error);
                unknown(FoundCode::ProbeUnclear.about(tool).and_because(error.found()))
            }
        }
    }

    fn observe(&self, read: &ExternalRead, schema: &FactSchema) -> Result<Reading, Found> {
        let link = self.connection().map_err(|error| self.hidden(self.unreachable(error)))?;
        match self.read(&link, read, schema, Instant::now() + OBSERVED_WITHIN) {
            Ok(reading) => Ok(reading),
            Err(Unread::Answered(why) | Unread::Silent(why)) => Err(self.hidden(unread(read, why))),
        }
    }

    fn read(&self, place: &Read) -> Result<ToolAnswer, Found> {
        let link = self.connection().map_err(|error| self.hidden(self.unreachable(error)))?;
        self.read_place(&link, place).map_err(|why| self.hidden(why))
    }

    fn compared(&self, place: &Read, answer: &str) -> Option<(String, SmolStr)> {
        let rules = self.reading_rules(&place.tool).ok()?;
        Some((rules.compared(answer), rules.name()))
    }

    fn is_destructive(&self, tool: &str) -> bool {
        let value = tool_fact(&self.name, tool).ok().and_then(|fact| self.fact(&fact));
        value.is_some_and(|value| value.get("destructive") == Some(&FactValue::Bool(true)))
    }

    fn may_still_act(&self, evidence: &Evidence) -> bool {
        // A server that answers that it is not over goes on with it, and is not ended for that: it may be doing what was asked.
        // Whatever else has answered is over, and a program that was ended does nothing more.
        let is_promised = evidence.found.code == FoundCode::ToolUnclear;
        is_promised || !is_answered(evidence) && matches!(self.place, Place::Url(_))
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    fn connect(&self, facts: FactReader) {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }
}

/// Whether the server has answered: with a code, or with a result, which may have been too long to keep.
fn is_answered(evidence: &Evidence) -> bool {
    evidence.status.is_some() || evidence.result.is_some() || evidence.unkept.is_some()
}

/// A fact that could not be read, and why.
fn unread(read: &ExternalRead, why: Found) -> Found {
    FoundCode::Unread.about(&read.fact).and_because(why)
}

#[cfg(test)]
mod tests;
