//! What a client reads by tools that are guarded as read, and what it writes on the strength of it. The gate's worker makes every one
//! of these calls, keeps what it answered in the client's session, and compares it right before a write.

mod client;
mod told;
mod voice;

pub use self::client::{ClientSession, told_session, warnings};
pub use self::told::{Telling, outcome};
pub use self::voice::add_text;

pub(super) use self::told::cut;
use self::told::{Hearer, about_first, closing, own_changes, refused_text, retry};
use self::voice::{own_word, quote_alike};
use super::adapter::RESOURCE;
use super::advice::{self, Knows, advice};
use super::delivery::{Delivery, Doubt, TooLong, lock};
use super::gate::{Calling, GateClient, PACT_NAME, Using, random_key};
use super::gated::{new_word, open_entry};
use super::mapping::Mapping;
use super::message::{Members, OWN_CODES, Raw, SERVER_ERROR, raw, sent};
use super::observed::{Observations, unspoken, with_object};
use super::refusal::{MEMBER, Refusal};
use super::tool::Tool;
use crate::client::Call;
use crate::commands::{is_refused, is_refused_as};
use anyhow::Result;
use countersign_api::{ActionRequest, ErrorCode, Outdated, ReadRequest, ReadResponse, RestsOn, Verdict, VerdictKind};
use countersign_core::call::EffectId;
use countersign_core::canonical::Canonical;
use countersign_core::code::Code;
use countersign_core::json::parse_answer;
use countersign_core::limits::{BODY_BYTES_MAX, UNSURE_MAX};
use countersign_core::session::Place;
use serde_json::{Map, Value, json};

/// How long a write is waited for before it is answered with a continuation.
const WAIT_MS: u64 = 20_000;
/// The longest arguments of a call that no pact maps, in characters: as the gateway's own pact has it.
const ARGUMENTS_CHARS_MAX: usize = 200_000;
/// How many calls that were left open are looked at when a client comes again.
const OPEN_MAX: usize = 8;

/// What is said with an answer that the session has no room for.
const UNKEPT: &str = "Note: this session has as many readings as are kept, and this answer is not one of them. Nothing can be written \
                      that would rest on it: begin a new session before you change anything, and read there what you need.";

/// What a resource holds.
pub enum Resource {
    /// The result of reading it.
    Found(Raw),
    /// The error that its server answers with: there is none, for example. That is a reading too.
    Error {
        /// The code of the error.
        code: i64,
        /// The error, with what the gate says of it.
        error: Raw,
    },
}

/// What a call rests on.
pub(super) struct Rested {
    pub(super) session: String,
    /// Names of readings of which it is not known whether they arrived.
    pub(super) unsure: Vec<String>,
}

/// Where a call reads, as the gate names it.
fn place(upstream: &str, tool: &str, arguments: &str) -> Option<Place> {
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    let mut canonical = Canonical::new();
    canonical.json(&parse_answer(arguments).ok()?);
    Some(Place { upstream: upstream.into(), tool: tool.into(), arguments: canonical.as_str().into() })
}

impl GateClient {
    /// Has the gate read a tool, and keep what it answered.
    pub(super) fn read(&self, calling: &Calling, seen: &Observations) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let request =
            ReadRequest { upstream: upstream.clone(), tool: tool.name.clone(), arguments: object(arguments)? };
        let read = self.read_for(calling.session.as_ref(), &request, seen, &calling.delivery)?;
        let name = self.names.of(upstream, &tool.name);
        let mut result = Members::parse(&read.answer).map_err(|_| Refusal::unfit(&name, "its answer is no object"))?;
        unspoken(&mut result).map_err(|why| Refusal::unfit(&name, &format!("its answer is ambiguous: {why}")))?;
        let mut lines = warnings(&self.names, &calling.delivery, &read.outdated, usize::MAX);
        lines.extend(read.unkept.then(|| UNKEPT.to_owned()));
        add_text(&mut result, &lines);
        let session = told_session(&read.session, &calling.delivery);
        let object = json!({"session": session, "reading": read.entry, "read_at": read.read_at});
        tells_of(&read, &calling.delivery);
        Ok(with_object(result, &object))
    }

    /// Reads in the session that is named, or in the client's own.
    fn read_for(
        &self,
        named: Option<&String>,
        request: &ReadRequest,
        seen: &Observations,
        delivery: &Delivery,
    ) -> Result<ReadResponse, Refusal> {
        delivery.is_named();
        let session = self.session_of(named, seen, delivery)?;
        self.look_at_open(delivery);
        // A write that came before was sent without knowing what this call reads.
        delivery.waits_for_writes().map_err(|TooLong| waiting())?;
        delivery.reads();
        // What a client with a session of its own names does not count: see `session_of`.
        let is_own = !seen.session.is_stateless();
        let read = match self.read_in(&session, request, delivery) {
            // A gate that was begun anew knows nothing of a session before: what was read then counts for nothing, so it begins again.
            Err(error) if is_own && is_refused_as(&error, ErrorCode::SessionNotFound) => {
                seen.session.forget(&session);
                // It is read in the session that takes the place of that one.
                delivery.reads();
                self.read_in(&self.session_of(None, seen, delivery)?, request, delivery)
            }
            read => read,
        };
        read.map_err(|error| {
            // Without an answer of the gate's, it may have kept a reading that no one was told.
            if is_refused(&error) {
                delivery.tells_nothing();
            }
            Refusal::not_read(&self.names.of(&request.upstream, &request.tool), &error)
        })
    }

    /// Looks for the outcome of calls that were left open, and that no one has asked for.
    fn look_at_open(&self, delivery: &Delivery) {
        let open = lock(delivery.marks()).open();
        for effect in open.into_iter().take(OPEN_MAX) {
            let verdict = self.client.call::<Verdict>(Call::get(format!("/v1/actions/{effect}")).agent(&self.agent));
            // While it is not known, everything stays unsure.
            let Ok(verdict) = verdict else { continue };
            let line = outcome("a call", &verdict);
            if !line.is_empty() {
                lock(delivery.marks()).ended(effect, line);
            }
        }
    }

    /// Whether a server may be used otherwise than by a call of a tool; a resource of a guarded one is read by the gate.
    pub fn used(&self, using: &Using, seen: &Observations) -> Result<Option<Resource>, Refusal> {
        let is_read = using.method == RESOURCE
            && self.is_server_guarded(&using.upstream).map_err(|error| self.no_gate(&error))?;
        let Some(delivery) = using.delivery.as_ref().filter(|_| is_read) else {
            using.delivery.iter().for_each(|delivery| delivery.tells_nothing());
            return self.may_use(using).map(|()| None);
        };
        let arguments = Map::from_iter([("uri".to_owned(), json!(using.about))]);
        let request = ReadRequest { upstream: using.upstream.clone(), tool: using.method.clone(), arguments };
        let read = self.read_for(using.session.as_ref(), &request, seen, delivery)?;
        let ambiguous = |why: String| Refusal::unfit(RESOURCE, &format!("its answer is ambiguous: {why}"));
        let mut result = Members::parse(&read.answer).map_err(|error| ambiguous(error.to_string()))?;
        let session = told_session(&read.session, delivery);
        let mut object = json!({"session": session, "reading": read.entry, "read_at": read.read_at});
        // What it holds is the server's alone. The next result of a tool says it in words.
        if !read.outdated.is_empty() {
            put(&mut object, "outdated", json!(read.outdated));
        }
        let found = match result.object("error").filter(|_| result.get("contents").is_none()) {
            Some(error) => {
                let code = error.get("code").and_then(|code| code.get().parse().ok()).unwrap_or(SERVER_ERROR);
                // Only the gateway speaks with its own codes.
                let code = if OWN_CODES.contains(&code) { SERVER_ERROR } else { code };
                let message = error.text("message").unwrap_or_default();
                let error = raw(&json!({"code": code, "message": message, "data": {MEMBER: object}}));
                Resource::Error { code, error }
            }
            None => {
                unspoken(&mut result).map_err(ambiguous)?;
                Resource::Found(with_object(result, &object))
            }
        };
        tells_of(&read, delivery);
        Ok(Some(found))
    }

    fn read_in(&self, session: &str, request: &ReadRequest, delivery: &Delivery) -> Result<ReadResponse> {
        let call = Call::post(format!("/v1/sessions/{session}/readings")).agent(&self.agent).json(request)?.reading();
        let call = lock(delivery.marks()).in_log(call);
        self.client.call(call)
    }

    /// Has the gate call a tool that may change something, if everything that was read in the session still reads the same.
    pub(super) fn write(&self, calling: &Calling, key: Option<String>, seen: &Observations) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let chars = arguments.chars().count();
        if chars > ARGUMENTS_CHARS_MAX {
            return Err(Refusal::arguments_too_long(&self.names.of(upstream, &tool.name), chars));
        }
        // What two readers could understand in two ways is decided on by no one.
        let sent = sent(&Value::Object(object(arguments)?)).to_string();
        let name = self.names.called(upstream, &tool.name, &sent);
        let params = json!({
            "server": upstream, "name": tool.name, "definition": tool.definition, "arguments": arguments,
        });
        let Value::Object(params) = params else { return Err(Refusal::arguments("expected a JSON object")) };
        let Rested { session, unsure } = self.rested(calling, seen)?;
        let is_watched = self.is_watched(upstream).map_err(|error| self.no_gate(&error))?;
        let request = ActionRequest {
            pact: PACT_NAME.to_owned(),
            action: if is_watched { "watch" } else { "write" }.to_owned(),
            idempotency_key: key.map_or_else(random_key, Ok).map_err(|error| self.no_gate(&error))?,
            params,
            observations: Vec::new(),
            delegation: None,
            claim: None,
            session: Some(session),
            unsure,
        };
        self.write_as(calling, (&request, &name), None, seen)
    }

    /// What a call rests on: the session that it belongs to, and the readings of it of which it is not known whether they arrived.
    pub(super) fn rested(&self, calling: &Calling, seen: &Observations) -> Result<Rested, Refusal> {
        let Calling { upstream, tool, delivery, .. } = calling;
        let name = self.names.of(upstream, &tool.name);
        if calling.session.is_none() && seen.session.is_stateless() {
            return Err(Refusal::no_session(&name));
        }
        let session = self.session_of(calling.session.as_ref(), seen, delivery)?;
        seen.session.refuse_blind(&name, delivery)?;
        self.look_at_open(delivery);
        // What a call before it keeps from here on has not arrived, whatever it is kept as.
        delivery.waits_for_names().map_err(|TooLong| waiting())?;
        let unsure = delivery.unsure();
        if unsure.len() > UNSURE_MAX || lock(delivery.marks()).is_overfull() {
            return Err(Refusal::unsure(&name, unsure.len()));
        }
        Ok(Rested { session, unsure })
    }

    /// A call reads facts, and its answer is kept in this session.
    pub(super) fn begin_reading(&self, calling: &Calling, seen: &Observations) -> Result<String, Refusal> {
        let delivery = &calling.delivery;
        let session = self.session_of(calling.session.as_ref(), seen, delivery)?;
        self.look_at_open(delivery);
        // A write that came before was sent without knowing what this call reads.
        delivery.waits_for_writes().map_err(|TooLong| waiting())?;
        delivery.reads();
        Ok(session)
    }

    /// Asks for a write that is guarded as read, under whichever pact, and tells what became of it.
    pub(super) fn write_as(
        &self,
        calling: &Calling,
        (request, name): (&ActionRequest, &str),
        mapping: Option<&Mapping>,
        seen: &Observations,
    ) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, delivery, .. } = calling;
        // A gate refuses it at the door, where nothing says which part of it is too long.
        if serde_json::to_vec(request).is_ok_and(|body| body.len() > BODY_BYTES_MAX) {
            let name = self.names.of(upstream, &tool.name);
            return Err(Refusal::arguments_too_long(&name, calling.arguments.chars().count()));
        }
        self.refuse_doubtful(calling, &request.idempotency_key)?;
        let call = Call::post("/v1/actions").keyed(&request.idempotency_key).agent(&self.agent);
        let call = call.json(request).map_err(|error| self.no_gate(&error))?;
        let call = lock(delivery.marks()).in_log(call);
        delivery.writes();
        let verdict: Verdict = self.client.call(call).map_err(|error| {
            if is_refused(&error) {
                delivery.tells_nothing();
            }
            if is_refused_as(&error, ErrorCode::SessionNotFound) {
                return self.session_is_gone(request, &self.names.of(upstream, &tool.name), seen);
            }
            // In another session, or after a restart, the same call is another action.
            match is_refused_as(&error, ErrorCode::IdempotencyKeyReused) {
                true => self.made_before(upstream, &error, &request.idempotency_key, seen),
                false => Refusal::no_verdict(&error, &request.idempotency_key),
            }
        })?;
        // What it rests on is in the ledger: what is read from now on does not count for it. So its outcome is asked for apart.
        delivery.is_noted();
        let mut verdict = self.outcome_of(verdict);
        if let Some(readings) = &mut verdict.readings {
            about_first(&mut readings.changed, &calling.arguments);
        }
        let is_gone = verdict.code.as_deref() == Some(Code::SessionNotOpen.as_str());
        if let Some(session) = request.session.as_deref().filter(|_| is_gone && !seen.session.is_stateless()) {
            seen.session.forget(session);
            delivery.tells_nothing();
            seen.session.refuse_blind(&self.names.of(upstream, &tool.name), delivery)?;
        }
        match verdict.verdict {
            VerdictKind::Review | VerdictKind::InFlight => delivery.leaves_open(open_entry(&verdict)),
            VerdictKind::InDoubt => {
                self.remember_doubt(calling, &request.idempotency_key, &verdict);
                delivery.tells_outcome(outcome(name, &verdict));
            }
            _ => delivery.tells_outcome(outcome(name, &verdict)),
        }
        self.told_write((upstream, Some(tool)), &verdict, mapping, (seen, delivery, Telling::Briefly))
    }

    /// The gate writes another log than the one in which the session of a write was opened.
    fn session_is_gone(&self, request: &ActionRequest, name: &str, seen: &Observations) -> Refusal {
        match request.session.as_deref().filter(|_| !seen.session.is_stateless()) {
            Some(session) => {
                seen.session.forget(session);
                Refusal::session_gone(name)
            }
            None => Refusal::unknown_session(),
        }
    }

    /// No one knows whether a write was done.
    fn remember_doubt(&self, calling: &Calling, key: &str, verdict: &Verdict) {
        let Calling { upstream, tool, arguments, delivery, .. } = calling;
        if let (Some(call), Some(effect)) = (place(upstream, &tool.name, arguments), open_entry(verdict)) {
            lock(delivery.marks()).doubts(call.name().to_string(), Doubt { effect, key: key.to_owned() });
        }
    }

    /// Refuses a call that the same client made before, as long as no one knows whether that one was done: agents try again what they
    /// are told about, and it would be done twice. Under the same key it is the same action, and the gate says so itself.
    fn refuse_doubtful(&self, calling: &Calling, key: &str) -> Result<(), Refusal> {
        let Calling { upstream, tool, arguments, delivery, .. } = calling;
        let Some(call) = place(upstream, &tool.name, arguments).map(|call| call.name().to_string()) else {
            return Ok(());
        };
        let Some(doubt) = lock(delivery.marks()).doubt_of(&call).filter(|doubt| doubt.key != key) else {
            return Ok(());
        };
        let asked = Call::get(format!("/v1/actions/{}", doubt.effect)).agent(&self.agent);
        match self.client.call::<Verdict>(asked) {
            Ok(verdict) if verdict.verdict != VerdictKind::InDoubt => {
                lock(delivery.marks()).is_sure(&call);
                Ok(())
            }
            _ => {
                delivery.tells_nothing();
                let effect = EffectId(doubt.effect).to_string();
                Err(Refusal::in_doubt(&self.names.of(upstream, &tool.name), &effect, &self.operator))
            }
        }
    }

    /// What became of a write within a moment.
    fn outcome_of(&self, verdict: Verdict) -> Verdict {
        let Some(entry) = open_entry(&verdict).filter(|_| verdict.verdict == VerdictKind::InFlight) else {
            return verdict;
        };
        let call = Call::get(format!("/v1/actions/{entry}")).waiting_ms(WAIT_MS).agent(&self.agent);
        match self.client.call::<Verdict>(call) {
            Ok(outcome) => Verdict { repeated: verdict.repeated, ..outcome },
            // It is under way, and can be asked for.
            Err(error) => {
                tracing::debug!(%error, "the outcome was not told");
                verdict
            }
        }
    }

    /// What a client is told of a write.
    pub(super) fn told_write(
        &self,
        (upstream, tool): (&str, Option<&Tool>),
        verdict: &Verdict,
        mapping: Option<&Mapping>,
        (seen, delivery, telling): (&Observations, &Delivery, Telling),
    ) -> Result<Raw, Refusal> {
        let verdict = &self.with_whole_commands(verdict);
        let names = &self.names;
        let name = tool.map_or_else(|| "the tool".to_owned(), |tool| names.of(upstream, &tool.name));
        let mut object = serde_json::to_value(verdict).unwrap_or_default();
        if let Some(members) = object.as_object_mut() {
            // A model needs no proof; whoever does finds it by the entry.
            members.remove("receipt");
        }
        let readings = verdict.readings.as_ref();
        let changed = readings.map(|readings| readings.changed.as_slice()).unwrap_or_default();
        let answered = verdict.evidence.as_ref().and_then(|evidence| evidence.result.as_deref());
        match (verdict.verdict, answered) {
            (VerdictKind::Settled, _) | (VerdictKind::Failed | VerdictKind::InDoubt, Some(_)) => {
                let mut result = answered.and_then(|answer| Members::parse(answer).ok()).unwrap_or_default();
                if answered.is_none() {
                    let said = verdict.evidence.as_ref().map_or("Done.", |evidence| evidence.summary.as_str());
                    result.set("content", raw(&json!([{"type": "text", "text": said}])));
                }
                let mut lines: Vec<String> =
                    closing(&name, verdict).into_iter().chain(own_changes(names, changed)).collect();
                // What has changed counts as told, so it is told whatever the answer looks like.
                unspoken(&mut result)
                    .map_err(|why| Refusal::unfit(&name, &format!("its answer is ambiguous: {why}")).saying(&lines))?;
                // The last word on the call is the gate's own.
                lines.extend(quote_alike(&mut result).then(|| own_word(verdict)));
                let outdated = readings.map(|it| it.outdated.as_slice()).unwrap_or_default();
                lines.extend(warnings(names, delivery, outdated, usize::MAX));
                add_text(&mut result, &lines);
                Ok(with_object(result, &object))
            }
            (VerdictKind::Rejected | VerdictKind::Failed, _) => {
                let refusal = if verdict.code.as_deref() == Some("reading_changed") {
                    put(&mut object, "retry", retry(names, changed));
                    let hearer = Hearer { names, operator: &self.operator };
                    let text = in_brief((upstream, hearer), verdict, &mut object, (seen, telling));
                    Refusal::changed(&text, object)
                } else {
                    // The pacts only say what to read again; without them, the code says what makes sense.
                    let none = Mapping::default();
                    let knows = Knows { names, mapping: mapping.unwrap_or(&none), upstream, tool };
                    put(&mut object, "retry", advice::retry(knows, verdict));
                    let refusal = Refusal::of_verdict(verdict, advice(knows, verdict), object);
                    refusal.saying(own_changes(names, changed).as_slice())
                };
                let lines = warnings(names, delivery, &not_told(verdict), refusal.room());
                Err(refusal.saying(&lines))
            }
            _ => self.told_open(upstream, verdict, object, seen).map_err(|refusal| {
                let lines = warnings(names, delivery, &not_told(verdict), refusal.room());
                refusal.saying(&lines)
            }),
        }
    }
}

/// What a refusal says; where that is not all, with a word to ask for all of it.
fn in_brief(
    (upstream, hearer): (&str, Hearer<'_>),
    verdict: &Verdict,
    object: &mut Value,
    (seen, telling): (&Observations, Telling),
) -> String {
    let changed = verdict.readings.as_ref().map(|readings| readings.changed.as_slice()).unwrap_or_default();
    let all = refused_text(hearer, changed, None, Telling::InFull);
    let brief = refused_text(hearer, changed, None, Telling::Briefly);
    if telling == Telling::InFull || all == brief {
        return all;
    }
    let Some(word) = new_word(upstream, verdict, seen) else { return brief };
    put(object, "more", json!(word));
    refused_text(hearer, changed, Some(&word), Telling::Briefly)
}

/// What a session has read that reads differently by now, beside what a verdict itself names.
fn not_told(verdict: &Verdict) -> Vec<Outdated> {
    let Some(RestsOn { changed, outdated, .. }) = &verdict.readings else { return Vec::new() };
    let is_named = |it: &Outdated| {
        let place = (&it.upstream, &it.tool, &it.arguments);
        changed.iter().any(|changed| (&changed.upstream, &changed.tool, &changed.arguments) == place)
    };
    outdated.iter().filter(|it| !is_named(it)).cloned().collect()
}

/// An answer holds what was read, and whether it was kept.
fn tells_of(read: &ReadResponse, delivery: &Delivery) {
    if read.unkept { delivery.tells_nothing() } else { delivery.tells_reading() }
}

/// The gate takes too long over a call that came before.
fn waiting() -> Refusal {
    Refusal::no_gate(&anyhow::anyhow!("a call before it waits"))
}

pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// The arguments of a call, each number as it is written.
fn object(arguments: &str) -> Result<Map<String, Value>, Refusal> {
    if arguments.is_empty() {
        return Ok(Map::new());
    }
    let arguments = parse_answer(arguments).map_err(|error| Refusal::arguments(&error.to_string()))?;
    match arguments {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(Refusal::arguments("expected a JSON object")),
    }
}

/// The session that a message names, in `_meta`.
pub fn named_session(params: &Members) -> Option<String> {
    params.object("_meta")?.object(MEMBER)?.text("session")
}
