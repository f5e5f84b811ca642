//! What a client reads by tools that are guarded as read, and what it writes on the strength of it. The gate's worker makes every one
//! of these calls, keeps what it answered in the client's session, and compares it right before a write.

use super::adapter::RESOURCE;
use super::gate::{Calling, GateClient, PACT_NAME, Using};
use super::gated::Asked;
use super::mapping::Mapping;
use super::message::{Members, Raw, raw};
use super::observed::{Observations, unspoken, with_object};
use super::refusal::{MEMBER, Refusal};
use super::resumed::{Note, Notes};
use crate::client::Call;
use crate::commands::is_refused_as;
use anyhow::Result;
use countersign_api::{
    ChangedReading, ErrorCode, Outdated, ReadRequest, ReadResponse, SessionClosed, SessionOpened, SessionRequest,
    Verdict,
};
use countersign_core::canonical::Canonical;
use countersign_core::session::Place;
use countersign_core::utc::Utc;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a write is waited for before it is answered with a continuation.
const WAIT_MS: u64 = 20_000;
/// The most that a refusal says in its text.
const TEXT_BYTES_MAX: usize = 2048;
/// The most that it says before what has changed, and behind it. Together with what is told of changes, that is no more than a text.
const PART_BYTES_MAX: usize = 160;
/// The most calls whose answers are on their way that one write names.
const UNSURE_MAX: usize = 32;

/// The session that one client has at the gate.
#[derive(Default)]
pub struct ClientSession {
    name: Mutex<Option<String>>,
    /// Whether its requests belong to no session but the one that each names.
    is_stateless: bool,
    marks: Arc<Mutex<Marks>>,
    /// Where its session is noted, so that a gateway that follows can go on in it.
    notes: Option<Notes>,
    note: Mutex<Option<Note>>,
    /// What it was warned of.
    warned: Mutex<BTreeSet<(String, String, u64)>>,
}

/// The most names of readings whose answers were lost that are kept, beyond those that were read in the session.
const LOST_MAX: usize = 4096;

/// What may not have reached the client. Names are those of readings.
#[derive(Debug, Default)]
struct Marks {
    /// Whose answers are on their way.
    on_the_way: Vec<String>,
    /// What was read in this session.
    read: BTreeSet<String>,
    /// How many answers never arrived, since the last one of this name that did.
    lost: BTreeMap<String, usize>,
}

impl Marks {
    fn lose(&mut self, name: String) {
        if self.lost.len() >= LOST_MAX {
            let read = &self.read;
            self.lost.retain(|name, _| read.contains(name));
        }
        *self.lost.entry(name).or_default() += 1;
    }

    /// What would have told the difference of any reading did not arrive.
    fn lose_all(&mut self) {
        for name in &self.read {
            *self.lost.entry(name.clone()).or_default() += 1;
        }
    }
}

/// An answer on its way to the client. Dropped before it was made, it is lost: it may have been entered, and counts as not told.
#[derive(Debug)]
pub struct Delivery {
    marks: Arc<Mutex<Marks>>,
    name: String,
    is_over: AtomicBool,
}

impl Delivery {
    /// Its last byte goes to the client. Said before that byte does, so that nothing comes earlier that was sent on the strength of it.
    pub fn made(&self) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut marks = self.marks();
        marks.lost.remove(&self.name);
    }

    /// What is on its way no more.
    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = marks.on_the_way.iter().position(|name| *name == self.name) {
            marks.on_the_way.swap_remove(at);
        }
        marks
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if *self.is_over.get_mut() {
            return;
        }
        let name = self.name.clone();
        let mut marks = self.marks();
        // What does not only read may have told the difference of any reading. Of what the gate was not asked yet, neither is known.
        if !marks.read.contains(&name) {
            marks.lose_all();
        }
        marks.lose(name);
    }
}

impl ClientSession {
    /// For requests that belong to no session but the one that each names.
    pub fn stateless() -> Self {
        Self { is_stateless: true, ..Self::default() }
    }

    /// For a client whose session is noted, and which goes on in one that was cut off.
    pub fn noted(notes: Option<Notes>) -> Self {
        Self { notes, ..Self::default() }
    }

    fn note(&self) -> std::sync::MutexGuard<'_, Option<Note>> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins; what is on its way when it does, and the answer to this one.
    pub fn begin(&self, upstream: &str, tool: &str, arguments: &str) -> (Vec<String>, Arc<Delivery>) {
        let name = place(upstream, tool, arguments).map(|place| place.name().to_string()).unwrap_or_default();
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = marks.on_the_way.iter().filter(|name| !name.is_empty()).cloned().collect();
        marks.on_the_way.push(name.clone());
        let delivery = Delivery { marks: Arc::clone(&self.marks), name, is_over: AtomicBool::new(false) };
        (before, Arc::new(delivery))
    }

    /// Notes that something is read in this session.
    pub(super) fn reads(&self, request: &ReadRequest) {
        let arguments = Value::Object(request.arguments.clone()).to_string();
        if let Some(place) = place(&request.upstream, &request.tool, &arguments) {
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).read.insert(place.name().to_string());
        }
    }

    /// What a write cannot be sure that the client knows: what was on its way when it began, and what was lost. A name that is there
    /// twice stands for two answers, of which the client may know neither.
    fn unsure(&self, on_the_way: &[String]) -> Vec<String> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        on_the_way.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        for (name, count) in marks.lost.iter().filter(|(name, _)| marks.read.contains(*name)) {
            *counts.entry(name).or_default() += count;
        }
        counts.into_iter().flat_map(|(name, count)| std::iter::repeat_n(name.to_owned(), count.min(2))).collect()
    }

    /// What was to be told with the answer of a call that is not over may never be asked for.
    pub(super) fn is_left_open(&self) {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).lose_all();
    }

    fn name(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has not been said yet of what is outdated, in a line each; nothing is said twice.
    pub(super) fn warnings(&self, outdated: &[Outdated]) -> Vec<String> {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new =
            |it: &&Outdated| warned.insert((it.upstream.clone() + "/" + &it.tool, it.arguments.clone(), it.since));
        outdated.iter().filter(is_new).map(warning).collect()
    }
}

fn warning(outdated: &Outdated) -> String {
    let Outdated { tool, arguments, since, after, .. } = outdated;
    let after = after.as_ref().map(|effect| format!(", after {effect}")).unwrap_or_default();
    let arguments = if arguments == "{}" { String::new() } else { format!(" with {arguments}") };
    format!(
        "Note: {tool}{arguments} answers differently since {}{after}. Read it again before you rely on it.",
        Utc(*since)
    )
}

/// Where a call reads, as the gate names it.
fn place(upstream: &str, tool: &str, arguments: &str) -> Option<Place> {
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let mut canonical = Canonical::new();
    canonical.json(&arguments);
    Some(Place { upstream: upstream.into(), tool: tool.into(), arguments: canonical.as_str().into() })
}

impl GateClient {
    /// The session that a call belongs to: the one that it names, or the client's own, opened if there is none yet.
    pub(super) fn session_of(&self, named: Option<&String>, seen: &Observations) -> Result<String, Refusal> {
        // A client with a session of its own has no other: what it read there counts, whatever it names.
        if let Some(named) = named.filter(|_| seen.session.is_stateless) {
            return Ok(named.clone());
        }
        let open = |follows| self.open_session(follows).map_err(|error| Refusal::no_gate(&error));
        if seen.session.is_stateless {
            return open(None);
        }
        let mut name = seen.session.name();
        if let Some(name) = &*name {
            seen.session.note().iter().for_each(Note::used);
            return Ok(name.clone());
        }
        let notes = seen.session.notes.as_ref();
        let cut_off = notes.and_then(Notes::take);
        let opened = open(cut_off.as_ref().map(|(name, _)| name.clone()))?;
        let note = match cut_off {
            Some((name, note)) if name == opened => Some(note),
            gone => {
                gone.into_iter().for_each(|(_, note)| note.remove());
                notes.and_then(|notes| notes.make(&opened))
            }
        };
        *seen.session.note() = note;
        *name = Some(opened.clone());
        Ok(opened)
    }

    fn open_session(&self, follows: Option<String>) -> Result<String> {
        let call = Call::post("/v1/sessions").agent(&self.agent).json(&SessionRequest { follows })?;
        Ok(self.client.call::<SessionOpened>(call)?.session)
    }

    /// The client has ended its session.
    pub fn close_session(&self, seen: &Observations) {
        let Some(name) = seen.session.name().take() else { return };
        seen.session.note().take().into_iter().for_each(Note::remove);
        let call = Call::post(format!("/v1/sessions/{name}/close")).agent(&self.agent).json(&json!({}));
        // What cannot be closed now is a session that was cut off.
        if let Err(error) = call.and_then(|call| self.client.call::<SessionClosed>(call)) {
            tracing::debug!(%error, "the session was not closed");
        }
    }

    /// Has the gate read a tool, and keep what it answered.
    pub(super) fn read(&self, calling: &Calling, seen: &Observations) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let request = ReadRequest {
            upstream: upstream.clone(),
            tool: tool.name.clone(),
            arguments: object(arguments).ok_or_else(|| Refusal::arguments("expected a JSON object"))?,
        };
        let read = self.read_for(calling.session.as_ref(), &request, seen)?;
        let mut result =
            Members::parse(&read.answer).map_err(|_| Refusal::unfit(&tool.name, "its answer is no object"))?;
        unspoken(&mut result).map_err(|why| Refusal::unfit(&tool.name, &format!("its answer is ambiguous: {why}")))?;
        add_text(&mut result, &seen.session.warnings(&read.outdated));
        let object = json!({"session": read.session, "reading": read.entry, "read_at": read.read_at});
        Ok(with_object(result, &object))
    }

    /// Reads in the session that is named, or in the client's own.
    fn read_for(
        &self,
        named: Option<&String>,
        request: &ReadRequest,
        seen: &Observations,
    ) -> Result<ReadResponse, Refusal> {
        let session = self.session_of(named, seen)?;
        seen.session.reads(request);
        // What a client with a session of its own names does not count: see `session_of`.
        let is_own = !seen.session.is_stateless;
        let read = match self.read_in(&session, request) {
            // A gate that was begun anew knows nothing of a session before: what was read then counts for nothing, so it begins again.
            Err(error) if is_own && is_refused_as(&error, ErrorCode::SessionNotFound) => {
                *seen.session.name() = None;
                seen.session.note().take().into_iter().for_each(Note::remove);
                self.read_in(&self.session_of(None, seen)?, request)
            }
            read => read,
        };
        read.map_err(|error| Refusal::not_read(&request.tool, &error))
    }

    /// Whether a server may be used otherwise than by a call of a tool; a resource of a guarded one is read by the gate.
    pub fn used(&self, using: &Using, seen: &Observations) -> Result<Option<Raw>, Refusal> {
        let is_read = using.method == RESOURCE
            && self.is_server_guarded(&using.upstream).map_err(|error| Refusal::no_gate(&error))?;
        if !is_read {
            return self.may_use(using).map(|()| None);
        }
        let arguments = Map::from_iter([("uri".to_owned(), json!(using.about))]);
        let request = ReadRequest { upstream: using.upstream.clone(), tool: using.method.clone(), arguments };
        let read = self.read_for(using.session.as_ref(), &request, seen)?;
        let ambiguous = |why: String| Refusal::unfit(RESOURCE, &format!("its answer is ambiguous: {why}"));
        let mut result = Members::parse(&read.answer).map_err(|error| ambiguous(error.to_string()))?;
        unspoken(&mut result).map_err(ambiguous)?;
        Ok(Some(with_object(result, &json!({"session": read.session, "reading": read.entry, "read_at": read.read_at}))))
    }

    fn read_in(&self, session: &str, request: &ReadRequest) -> Result<ReadResponse> {
        self.client
            .call(Call::post(format!("/v1/sessions/{session}/readings")).agent(&self.agent).json(request)?.reading())
    }

    /// A call reads facts, and its answer is kept in this session.
    pub(super) fn begin_reading(&self, calling: &Calling, seen: &Observations) -> Result<String, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let session = self.session_of(calling.session.as_ref(), seen)?;
        let arguments = object(arguments).ok_or_else(|| Refusal::arguments("they are no object"))?;
        seen.session.reads(&ReadRequest { upstream: upstream.clone(), tool: tool.name.clone(), arguments });
        Ok(session)
    }

    /// What a call rests on: the session that it belongs to, and the readings of it of which it is not known whether they arrived.
    pub(super) fn rested(&self, calling: &Calling, seen: &Observations) -> Result<Rested, Refusal> {
        if calling.session.is_none() && seen.session.is_stateless {
            return Err(Refusal::no_session(&calling.tool.name));
        }
        let session = self.session_of(calling.session.as_ref(), seen)?;
        let unsure = seen.session.unsure(&calling.unsure);
        if unsure.len() > UNSURE_MAX {
            return Err(Refusal::unsure(&calling.tool.name, unsure.len()));
        }
        Ok(Rested { session: Some(session), unsure })
    }

    /// Has the gate call a tool that may change something, if everything that was read in the session still reads the same.
    pub(super) fn write(
        &self,
        calling: &Calling,
        mapping: &Mapping,
        key: Option<String>,
        seen: &Observations,
    ) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let rested = self.rested(calling, seen)?;
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let params = json!({
            "server": upstream, "name": tool.name, "definition": tool.definition, "arguments": arguments,
        });
        let Value::Object(params) = params else { return Err(Refusal::arguments("expected a JSON object")) };
        let (observations, wait_ms) = (Vec::new(), WAIT_MS);
        let asked = Asked { pact: PACT_NAME, action: "write", params, observations, rested, wait_ms };
        self.carry_out(calling, mapping, asked, key, seen)
    }
}

/// What a call rests on that is guarded as read.
#[derive(Debug, Clone, Default)]
pub(super) struct Rested {
    pub(super) session: Option<String>,
    /// The names of readings of which it is not known whether their answers reached the client.
    pub(super) unsure: Vec<String>,
}

pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// The tools to read again first; none where the difference was told in full.
pub(super) fn retry_changed(changed: &[ChangedReading]) -> Value {
    let calls: Vec<Value> = changed.iter().filter(|it| !it.told).map(call).collect();
    if calls.is_empty() { json!({"how": "again"}) } else { json!({"how": "call", "calls": calls}) }
}

fn call(changed: &ChangedReading) -> Value {
    let arguments: Value = serde_json::from_str(&changed.arguments).unwrap_or_else(|_| json!({}));
    json!({"upstream": changed.upstream, "tool": changed.tool, "arguments": arguments})
}

/// One sentence that names tools and change, the changes by path, and what to do. What is told in full must be in it in full, because
/// it counts as read: so the parts round it are cut, and the lines for an operator come last.
pub(super) fn refused_text(verdict: &Verdict, changed: &[ChangedReading]) -> String {
    let message = cut(verdict.message.clone().unwrap_or_default(), PART_BYTES_MAX);
    let mut text = format!("Not done: {message}.\n");
    let (whole, in_part): (Vec<_>, Vec<_>) = changed.iter().partition(|it| it.told);
    whole.into_iter().chain(in_part).for_each(|changed| tell(&mut text, changed));
    let (volatile, rest): (Vec<_>, Vec<_>) = changed.iter().partition(|it| !it.volatile.is_empty());
    let untold: Vec<String> = rest.iter().filter(|it| !it.told).map(|it| named(it)).collect();
    text.push_str("Nothing was sent. ");
    match untold.as_slice() {
        [] => text.push_str("If it is still right, make the same call again."),
        tools => {
            let tools = cut(tools.join(", "), PART_BYTES_MAX);
            let _ = write!(text, "Read {tools} again; if it is still right, make the same call again.");
        }
    }
    for it in &volatile {
        let ChangedReading { upstream, tool, volatile, .. } = it;
        let _ = write!(
            text,
            "\n{tool} differs whenever it is read, at {}. An operator can leave that out of the comparison: countersign mcp approve \
             {upstream}/{tool} --ignore {}",
            volatile.join(", "),
            volatile.join(",")
        );
    }
    cut(text, TEXT_BYTES_MAX)
}

/// What an own write changed of what was read, if it did.
pub(super) fn own_changes(changed: &[ChangedReading]) -> Option<String> {
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
    countersign_core::session::called(&changed.tool, &changed.arguments)
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

fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Adds blocks of text behind what a tool answered.
pub(super) fn add_text(result: &mut Members, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let content = result.get("content").and_then(|content| serde_json::from_str::<Vec<Raw>>(content.get()).ok());
    let mut content = content.unwrap_or_default();
    content.extend(lines.iter().map(|line| raw(&json!({"type": "text", "text": line}))));
    result.set("content", raw(&content));
}

fn object(arguments: &str) -> Option<Map<String, Value>> {
    if arguments.is_empty() {
        return Some(Map::new());
    }
    match serde_json::from_str(arguments).ok()? {
        Value::Object(arguments) => Some(arguments),
        _ => None,
    }
}

/// The session that a message names, in `_meta`.
pub fn named_session(params: &Members) -> Option<String> {
    params.object("_meta")?.object(MEMBER)?.text("session")
}
