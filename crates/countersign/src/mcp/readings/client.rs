//! The session that a client of the gateway has at the gate: opened when it first reads, gone on in after it was cut off, closed when the
//! client says that it is done (R1).

use super::told::ended_before;
use super::{named_session, place};
use crate::client::Call;
use crate::mcp::delivery::arrivals::Input;
use crate::mcp::delivery::{self, Delivery, Named, Shared, lock};
use crate::mcp::gate::{GateClient, random_key};
use crate::mcp::message::{Members, Raw};
use crate::mcp::names::Names;
use crate::mcp::observed::Observations;
use crate::mcp::refusal::Refusal;
use crate::mcp::resumed::{CutOff, FOLLOWED_WITHIN, Note, Noted, Notes};
use anyhow::Result;
use countersign_api::{CallerResponse, EndedCall, Outdated, SessionClosed, SessionOpened, SessionRequest, Verdict};
use countersign_core::call::EffectId;
use countersign_core::ids::Digest;
use countersign_core::session::SessionName;
use countersign_core::utc::Utc;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The session that one client has at the gate.
#[derive(Default)]
pub struct ClientSession {
    name: Mutex<Option<String>>,
    /// Whether its requests belong to no session but the one that each names.
    is_stateless: bool,
    marks: Shared,
    /// The marks of the sessions that single requests name.
    sessions: delivery::Sessions,
    /// Where its session is noted, so that another gateway can go on in it.
    notes: Option<Notes>,
    note: Mutex<Option<Note>>,
    /// What was cut off before it began, and in which log that is; until its client first calls.
    before: Mutex<Option<(CutOff, String)>>,
    /// Since when it has not been known whether a session that was cut off is its own: it must read something first.
    unclear: Mutex<Option<Instant>>,
    /// Over HTTP.
    over_http: Option<OverHttp>,
}

/// What a client over HTTP is known by.
#[derive(Debug)]
struct OverHttp {
    /// Its `Mcp-Session-Id`.
    id: String,
    handshake: Mutex<Option<Raw>>,
    /// The session that was cut off under this id.
    cut_off: Mutex<Option<Noted>>,
    /// Whether the client said that it is done. Until then its session may be gone on in.
    is_ended: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// For a client over HTTP with this id, and the session that was cut off under it.
    pub fn over_http(notes: Option<Notes>, id: &str, cut_off: Option<Noted>) -> Self {
        let (handshake, cut_off) = (Mutex::default(), Mutex::new(cut_off));
        let over_http = OverHttp { id: id.to_owned(), handshake, cut_off, is_ended: AtomicBool::new(false) };
        Self { notes, over_http: Some(over_http), ..Self::default() }
    }

    /// The client begins with this.
    pub fn remember_handshake(&self, params: Raw) {
        self.over_http.iter().for_each(|it| *held(&it.handshake) = Some(params.clone()));
    }

    /// The client over HTTP said that it is done: from now on no one goes on in its session.
    pub fn end(&self) {
        let Some(over_http) = &self.over_http else { return };
        over_http.is_ended.store(true, Ordering::Release);
        held(&self.note).take().into_iter().for_each(Note::remove);
        // It came back only to say so: then its session is the one that was cut off.
        if let Some(Noted { session, note, .. }) = held(&over_http.cut_off).take() {
            note.remove();
            held(&self.name).get_or_insert(session);
        }
    }

    /// Whether it could still come back.
    fn may_come_back(&self) -> bool {
        self.over_http.as_ref().is_some_and(|it| !it.is_ended.load(Ordering::Acquire))
    }

    /// Its client writes to standard input.
    pub fn is_over(&self, input: &Arc<Input>) {
        lock(&self.marks).is_over(Arc::clone(input));
    }

    /// A call came at this place; the mark that goes with its answer.
    pub fn begin(&self, (upstream, tool): (&str, &str), arguments: &str, params: &Members, at: u64) -> Arc<Delivery> {
        let name = place(upstream, tool, arguments).map(|place| place.name().to_string()).unwrap_or_default();
        let named = named_session(params);
        let marks = self.marks_of(named.as_ref());
        if self.is_stateless && named.is_none() {
            lock(&marks).is_of(client_of(params));
        }
        Delivery::begin(&marks, name, at)
    }

    /// A client asks for the outcome of a call.
    pub fn begin_asking(&self, named: Option<&String>, at: u64) -> Arc<Delivery> {
        Delivery::begin(&self.marks_of(named), String::new(), at)
    }

    /// What a client with a session of its own names does not count: see `session_of`.
    fn marks_of(&self, named: Option<&String>) -> Shared {
        match named {
            Some(named) if self.is_stateless => self.sessions.named(named).unwrap_or_default(),
            None if self.is_stateless => Shared::default(),
            _ => Arc::clone(&self.marks),
        }
    }

    /// Whether single requests share it.
    pub fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    /// The gate does not know this session. If it is the client's, the client begins again; one that took its place meanwhile stays.
    pub fn forget(&self, refused: &str) {
        let mut name = held(&self.name);
        if name.as_deref() == Some(refused) {
            *name = None;
            self.begin_again();
            held(&self.note).take().into_iter().for_each(Note::remove);
        }
    }

    /// A write comes: refused where what its client has read before is not known, until the client was told so or has read something.
    pub(super) fn refuse_blind(&self, tool: &str, delivery: &Delivery) -> Result<(), Refusal> {
        if delivery.tells_gone() {
            return Err(Refusal::session_gone(tool));
        }
        let is_unclear = held(&self.unclear).is_some_and(|since| since.elapsed() <= FOLLOWED_WITHIN);
        if is_unclear && !delivery.knows_a_reading() {
            delivery.tells_nothing();
            return Err(Refusal::session_unclear(tool));
        }
        Ok(())
    }

    /// The session that a call belongs to, if it was opened: the one that it names, or the client's own.
    pub fn opened(&self, delivery: &Delivery) -> Option<String> {
        if self.is_stateless { named_in(delivery).map(|named| named.name) } else { held(&self.name).clone() }
    }

    /// Takes over the session that was cut off, if there is one.
    fn cut_off(&self, log: &str) -> CutOff {
        match &self.over_http {
            Some(over_http) => match held(&over_http.cut_off).take() {
                Some(Noted { session, log: of, note, .. }) if of == log => CutOff::One(session, note),
                Some(Noted { note, .. }) => CutOff::Gone(note),
                None => CutOff::None,
            },
            None => match held(&self.before).take() {
                Some((before, of)) if of == log => before,
                _ => self.notes.as_ref().map_or(CutOff::None, |notes| notes.take(log)),
            },
        }
    }

    /// The session that was cut off was not gone on in, for now.
    fn put_back(&self, cut_off: Option<(String, Note)>, log: String) {
        // Over standard input the note is there to be taken again.
        if let (Some(over_http), Some((session, note))) = (&self.over_http, cut_off) {
            *held(&over_http.cut_off) = Some(Noted { session, log, rest: String::new(), note });
        }
    }

    /// The session of this note is gone. Its client did not end it, and is to be told that what was read in it does not count.
    fn is_gone(&self, note: Note) {
        note.remove();
        self.begin_again();
    }

    /// What was read counts for nothing, so something must be read before the next write: who is only told may just try again.
    fn begin_again(&self) {
        lock(&self.marks).begin_again();
        self.is_unclear();
    }

    /// It is not known what its client has read before: something must be read first.
    pub fn is_unclear(&self) {
        *held(&self.unclear) = Some(Instant::now());
    }

    /// Its gateway lives.
    pub fn lives(&self) {
        held(&self.note).iter().for_each(Note::lives);
        let cut_off = self.over_http.as_ref().map(|it| held(&it.cut_off));
        cut_off.iter().filter_map(|it| it.as_ref()).for_each(|noted| noted.note.lives());
        if let Some((CutOff::One(_, note), _)) = &*held(&self.before) {
            note.lives();
        }
    }

    /// Notes the session that was opened in this log.
    fn note(&self, session: &str, log: &str) -> Option<Note> {
        let notes = self.notes.as_ref()?;
        match &self.over_http {
            Some(OverHttp { id, handshake, .. }) => {
                let handshake = held(handshake).as_ref().map(|handshake| handshake.get().to_owned());
                notes.make_named(id, session, log, &handshake.unwrap_or_default())
            }
            None => notes.make(session, log),
        }
    }
}

/// What a session was not told yet, in a line each and as far as there is room: what became of calls whose answers reached no one, and
/// what is outdated. What has arrived is not said twice.
pub fn warnings(names: &Names, delivery: &Delivery, outdated: &[Outdated], room: usize) -> Vec<String> {
    let place = |it: &Outdated| (format!("{}/{}", it.upstream, it.tool), it.arguments.clone(), it.since);
    delivery.carries(outdated.iter().map(|it| (place(it), warning(names, it))), room)
}

fn warning(names: &Names, outdated: &Outdated) -> String {
    let Outdated { upstream, tool, arguments, since, after } = outdated;
    let tool = names.of(upstream, tool);
    let after = after.as_ref().map(|effect| format!(", after {effect}")).unwrap_or_default();
    let arguments = if arguments == "{}" { String::new() } else { format!(" with {arguments}") };
    format!(
        "Note: {tool}{arguments} answers differently since {}{after}. Read it again before you rely on it.",
        Utc(*since)
    )
}

/// The client that a single request says that it comes from.
fn client_of(params: &Members) -> Option<Digest> {
    let meta = params.object("_meta")?;
    meta.get("io.modelcontextprotocol/clientInfo").map(|client| Digest::of(client.get().as_bytes()))
}

/// Whether two names are of one session: who goes on in it is given a new one.
fn is_same(one: &str, other: &str) -> bool {
    let session = |name: &str| name.parse::<SessionName>().ok().map(|name| name.id);
    session(one).is_some() && session(one) == session(other)
}

/// The session that a single request names.
fn named_in(delivery: &Delivery) -> Option<Named> {
    lock(delivery.marks()).named().cloned()
}

/// A session as its client is told: single requests name it by something that no one can guess.
pub fn told_session(session: &str, delivery: &Delivery) -> String {
    named_in(delivery).filter(|named| named.name == session).map_or_else(|| session.to_owned(), |named| named.told)
}

impl GateClient {
    /// The session that a call belongs to: the one that it names, or the client's own, opened if there is none yet.
    pub(super) fn session_of(
        &self,
        named: Option<&String>,
        seen: &Observations,
        delivery: &Delivery,
    ) -> Result<String, Refusal> {
        let session = &seen.session;
        let open = |follows| self.open_session(follows).map_err(|error| self.no_gate(&error));
        // A client with a session of its own has no other: what it read there counts, whatever it names.
        if session.is_stateless && named.is_some() {
            return named_in(delivery).map(|named| named.name).ok_or_else(Refusal::unknown_session);
        }
        if session.is_stateless {
            let log = self.log().map_err(|error| self.no_gate(&error))?;
            let SessionOpened { session: name, .. } = open(None)?;
            lock(delivery.marks()).is_in(log);
            let secret = random_key().map_err(|error| self.no_gate(&error))?;
            let named = Named { told: format!("{name}.{secret}"), name: name.clone() };
            let forgotten = session.sessions.opened(named, delivery.marks());
            // No one can name them any more.
            forgotten.iter().for_each(|name| self.close_named(name, delivery.marks()));
            return Ok(name);
        }
        let mut name = held(&session.name);
        if let Some(name) = &*name {
            return Ok(name.clone());
        }
        let log = self.log().map_err(|error| self.no_gate(&error))?;
        let expired = session.notes.as_ref().map(|notes| notes.sweep(&log)).unwrap_or_default();
        expired.iter().for_each(|name| self.close_named(name, &session.marks));
        let cut_off = match session.cut_off(&log) {
            CutOff::One(name, note) => Some((name, note)),
            CutOff::None => None,
            CutOff::Gone(note) => {
                session.is_gone(note);
                None
            }
            CutOff::Unclear => {
                session.is_unclear();
                None
            }
        };
        let follows = cut_off.as_ref().map(|(name, _)| name.clone());
        let opened = match open(follows) {
            Ok(opened) => opened,
            Err(refusal) => {
                session.put_back(cut_off, log);
                return Err(refusal);
            }
        };
        let SessionOpened { session: opened, unsure, open: under_way, ended } = opened;
        lock(&session.marks).is_in(log.clone());
        let note = match cut_off {
            Some((name, note)) if is_same(&name, &opened) => {
                note.is_now(&opened, &log);
                let under_way = under_way.iter().filter_map(|effect| effect.parse::<EffectId>().ok());
                lock(delivery.marks()).follow(unsure, under_way.map(|effect| effect.0));
                ended.iter().for_each(|ended| self.tell_of(ended, delivery));
                Some(note)
            }
            gone => {
                gone.into_iter().for_each(|(_, note)| session.is_gone(note));
                session.note(&opened, &log)
            }
        };
        if note.is_none() && session.notes.is_some() {
            // What cannot be noted now could not be noted before.
            held(&session.unclear).get_or_insert_with(Instant::now);
        }
        *held(&session.note) = note;
        *name = Some(opened.clone());
        Ok(opened)
    }

    /// A call ended before the session was gone on in, and may have been told to no one.
    fn tell_of(&self, ended: &EndedCall, delivery: &Delivery) {
        let Ok(effect) = ended.effect.parse::<EffectId>() else { return };
        match self.client.call::<Verdict>(Call::get(format!("/v1/actions/{}", effect.0)).agent(&self.agent)) {
            Ok(verdict) => {
                let tool = ended.upstream.as_deref().zip(ended.tool.as_deref());
                let tool = tool.map(|(upstream, tool)| self.names.of(upstream, tool));
                lock(delivery.marks()).keep_untold(ended_before(tool.as_deref(), &verdict));
            }
            // It is asked for again, and until then everything is unsure.
            Err(_) => lock(delivery.marks()).follow(Vec::new(), [effect.0]),
        }
    }

    /// Which log the gate writes: sessions of one are none of another's, though both may be at one address, one after the other.
    fn log(&self) -> Result<String> {
        Ok(self.client.call::<CallerResponse>(Call::get("/v1/caller").agent(&self.agent))?.log)
    }

    /// Takes over what was cut off as soon as a gateway begins: its client may be silent for long before it first calls, and others may
    /// begin meanwhile.
    pub fn take_over(&self, seen: &Observations) {
        let session = &seen.session;
        let (Some(notes), None) = (&session.notes, &session.over_http) else { return };
        let name = held(&session.name);
        // Without the gate it is looked for when its client first calls.
        if let (None, Ok(log)) = (&*name, self.log()) {
            *held(&session.before) = Some((notes.take(&log), log));
        }
    }

    fn open_session(&self, follows: Option<String>) -> Result<SessionOpened> {
        let call = Call::post("/v1/sessions").agent(&self.agent).json(&SessionRequest { follows, ..SessionRequest::default() })?;
        self.client.call(call)
    }

    /// The client has ended its session, or is gone.
    pub fn close_session(&self, seen: &Observations) {
        let session = &seen.session;
        let (name, note) = (held(&session.name).take(), held(&session.note).take());
        // The note is let go of and stays, so that the session can be gone on in.
        if session.may_come_back() && (note.is_some() || name.is_none()) {
            return;
        }
        note.into_iter().for_each(Note::remove);
        name.iter().for_each(|name| self.close_named(name, &session.marks));
    }

    fn close_named(&self, name: &str, marks: &Shared) {
        let call = Call::post(format!("/v1/sessions/{name}/close")).agent(&self.agent).json(&json!({}));
        let call = call.map(|call| lock(marks).in_log(call));
        // What cannot be closed now is a session that was cut off.
        if let Err(error) = call.and_then(|call| self.client.call::<SessionClosed>(call)) {
            tracing::debug!(%error, "the session was not closed");
        }
    }

    /// What a client over HTTP was shown: nothing yet.
    pub fn seen_over_http(&self, id: &str) -> Arc<Observations> {
        Arc::new(self.of_http(id, None))
    }

    /// A client over HTTP whose session was cut off comes back with its id: what it was shown, and how it had begun.
    pub fn come_back_over_http(&self, id: &str) -> Option<(Arc<Observations>, Raw)> {
        let noted = self.notes_over_http()?.take_named(id)?;
        let handshake: Raw = serde_json::value::RawValue::from_string(noted.rest.clone()).ok()?;
        let seen = self.of_http(id, Some(noted));
        seen.session.remember_handshake(handshake.clone());
        Some((Arc::new(seen), handshake))
    }

    fn of_http(&self, id: &str, cut_off: Option<Noted>) -> Observations {
        let session = ClientSession::over_http(self.notes_over_http(), id, cut_off);
        // The same when the gateway is started again, so that continuations stay good.
        Observations::sealed_with(self.secret_of(id)).in_session(session)
    }
}
