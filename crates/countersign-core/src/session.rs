//! Sessions, and what was read in them: facts that only the gate writes.
//!
//! A reading is one call of a reading tool and what it answered. It is a fact of the type `Reading`, named by its session and by the
//! digest of where it was read from, so versions, snapshots, erasure and audits treat it like any other. A session is a fact of the type
//! `Session`: whose it is, and which readings it has. Neither type is in the catalogue, so no pact reads them, no operator feeds them and
//! no agent observes them: an agent cannot add a reading, nor take one out (I8).

mod answered;
mod attached;
mod beyond;
mod content;
mod name;
mod told;

pub use answered::{answered, not_rechecked};
pub(crate) use attached::is_clean;
pub use attached::{Attached, WORDS, attached_in, open_for, say, words_in};
pub use beyond::{beyond_in, read_beyond};
pub(crate) use content::{content_of, with_content, without_content};
pub use name::{NotASession, SessionId, SessionName};
pub use told::{keeps_told, told};

use crate::call::{EffectId, Found};
use crate::canonical::Canonical;
use crate::decide::Snapshot;
use crate::decimal::{MARK, unmarked};
use crate::decision::Write;
use crate::difference::Change;
use crate::fact::Fact;
use crate::ids::{AgentId, Digest, FactId};
use crate::labels::{LabelSet, content_of_place, is_of_screening};
use crate::limits::{FACT_BYTES_MAX, READINGS_MAX};
use crate::value::{Attributes, Set, Value};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use self::attached::texts;
use std::borrow::Cow;
use std::sync::Arc;

/// The type of sessions. Reserved.
pub const SESSION: &str = "Session";
/// The type of readings. Reserved.
pub const READING: &str = "Reading";
/// What was read, as it is compared.
const CONTENT: &str = "content";
/// The pact under which a gateway calls what no other pact maps, and under which tools are read in sessions.
pub const GATEWAY_PACT: &str = "mcp-calls";
/// How often a session was gone on in.
const FOLLOWED: &str = "followed";
/// The action types that a session may use.
const TASK: &str = "task";
/// Whether a session began without what its agent was shown before.
const CLEAN: &str = "clean";

impl SessionId {
    /// The fact of what was read from a place in it.
    pub fn reading(self, place: &Place) -> Option<FactId> {
        self.named(&place.name().to_string())
    }
}

/// Where something was read: a tool with its arguments, or a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The server, by its name in the gate's settings.
    pub upstream: SmolStr,
    /// The tool; `resources/read` for a resource.
    pub tool: SmolStr,
    /// Its arguments, as canonical JSON.
    pub arguments: SmolStr,
}

impl Place {
    /// What names everything that is read from here.
    pub fn name(&self) -> Digest {
        // None of the first two holds a NUL: both are checked as ids.
        Digest::of_parts(&[
            b"countersign reading\0".as_slice(),
            self.upstream.as_bytes(),
            b"\0",
            self.tool.as_bytes(),
            b"\0",
            self.arguments.as_bytes(),
        ])
    }

    /// How many bytes its name takes where a change is told.
    pub fn called_bytes(&self) -> usize {
        called(&self.tool, &self.arguments).len()
    }

    /// The tool with its server, as people name it.
    pub fn tool_name(&self) -> String {
        format!("{}/{}", self.upstream, self.tool)
    }
}

/// The longest arguments that a reading is named with.
const NAMED_ARGUMENTS_MAX: usize = 80;

/// A reading as a model knows it: the tool, with its arguments where there are any and they are short.
pub fn called(tool: &str, arguments: &str) -> String {
    match as_sent(arguments).as_ref() {
        "{}" | "" => tool.to_owned(),
        long if long.len() > NAMED_ARGUMENTS_MAX => format!("{tool} {{…}}"),
        arguments => format!("{tool} {arguments}"),
    }
}

/// Arguments as they are sent: each number with its digits.
pub fn as_sent(arguments: &str) -> Cow<'_, str> {
    if !arguments.contains(MARK) {
        return arguments.into();
    }
    serde_json::from_str(arguments).map_or(arguments.into(), |arguments| unmarked(&arguments).into())
}

/// What was read, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Where.
    pub place: Place,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The digest of what is compared, whole.
    pub digest: Digest,
    /// Which rules said what is compared; a reading under other rules is another reading.
    pub projection: SmolStr,
    /// What is compared, unless it is too long to keep.
    pub content: Option<SmolStr>,
    /// What was told of how it differs from the one before, where one of the two is too long to keep: nothing else says so later.
    pub changes: Vec<Change>,
    /// What screening found in it, where it has labels.
    pub found: LabelSet,
}

impl Reading {
    /// The value of its fact, in the place of the one before.
    fn value(
        &self,
        session: SessionId,
        before: Option<&Fact>,
        content: Option<&SmolStr>,
        labels: &LabelSet,
    ) -> Attributes {
        let text = |text: &str| Value::String(text.into());
        let mut fields = vec![
            (SmolStr::new_static("arguments"), Value::String(self.place.arguments.clone())),
            (SmolStr::new_static("at"), Value::Long(i64::try_from(self.at_ms).unwrap_or(i64::MAX))),
        ];
        if let Some(before) = before.and_then(Held::of) {
            fields.push((SmolStr::new_static("before"), text(&before.digest.to_string())));
        }
        // Two contents that are kept say how they differ.
        let are_kept = content.is_some() && before.and_then(Held::of).is_some_and(|it| it.reading.content.is_some());
        if let Some(changes) = self.changes_text().filter(|_| !are_kept) {
            fields.push((SmolStr::new_static("changes"), Value::String(changes)));
        }
        if let Some(content) = content {
            fields.push((SmolStr::new_static(CONTENT), Value::String(content.clone())));
        }
        fields.push((SmolStr::new_static("digest"), text(&self.digest.to_string())));
        if !labels.is_empty() {
            let labels = labels.iter().cloned().map(Value::String).collect();
            fields.push((SmolStr::new_static("labels"), Value::Set(Arc::new(labels))));
        }
        fields.extend([(SmolStr::new_static("projection"), Value::String(self.projection.clone()))]);
        if let Some(repeats) = before.and_then(Held::of).and_then(|before| before.repeated_by(self)) {
            fields.push((SmolStr::new_static("repeats"), Value::Long(repeats)));
        }
        fields.extend([
            (SmolStr::new_static("session"), text(&session.to_string())),
            (SmolStr::new_static("tool"), Value::String(self.place.tool.clone())),
            (SmolStr::new_static("upstream"), Value::String(self.place.upstream.clone())),
        ]);
        Attributes::from_fields(fields)
    }

    /// What was told of how it differs, as it is kept.
    fn changes_text(&self) -> Option<SmolStr> {
        // Names and texts alone, so this cannot fail.
        let text = serde_json::to_string(&self.changes).ok()?;
        (!self.changes.is_empty()).then(|| text.into())
    }
}

/// A reading as a session has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub fact: FactId,
    /// The version of its fact.
    pub version: u64,
    /// What was read.
    pub reading: Reading,
    /// The digest of what is compared.
    pub digest: Digest,
    /// The digest of the reading that it took the place of.
    pub before: Option<Digest>,
    /// How many versions right before this one read the same.
    pub repeats: u64,
    /// The labels of what was read.
    pub labels: LabelSet,
}

impl Held {
    /// Reads it from its fact; `None` where the fact is deleted, or no reading.
    pub fn of(fact: &Fact) -> Option<Self> {
        if fact.id.ty().as_str() != READING {
            return None;
        }
        let value = fact.value.as_ref()?;
        let text = |name: &str| match value.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        let digest: Digest = text("digest")?.parse().ok()?;
        let at_ms = match value.get("at") {
            Some(Value::Long(at)) => u64::try_from(*at).ok()?,
            _ => return None,
        };
        let place = Place { upstream: text("upstream")?, tool: text("tool")?, arguments: text("arguments")? };
        let (projection, content) = (text("projection")?, text(CONTENT));
        let changes = text("changes").map(|changes| serde_json::from_str(&changes)).transpose().ok()?;
        let changes = changes.unwrap_or_default();
        let before = text("before").and_then(|before| before.parse().ok());
        let repeats = match value.get("repeats") {
            Some(Value::Long(repeats)) => u64::try_from(*repeats).ok()?,
            _ => 0,
        };
        let labels = match value.get("labels") {
            Some(Value::Set(labels)) => labels
                .iter()
                .filter_map(|label| match label {
                    Value::String(label) => Some(label.clone()),
                    _ => None,
                })
                .collect(),
            _ => LabelSet::new(),
        };
        let found = labels.clone();
        let reading = Reading { place, at_ms, digest, projection, content, changes, found };
        Some(Self { fact: fact.id.clone(), version: fact.version(), reading, digest, before, repeats, labels })
    }

    /// What names it. Its fact says so; to make it again takes as long as the arguments are.
    pub fn name(&self) -> Digest {
        let named = self.fact.id().split_once('/').and_then(|(_, name)| name.parse().ok());
        named.unwrap_or_else(|| self.reading.place.name())
    }

    /// How many versions right before the next one read the same as that; `None` where this one does not.
    fn repeated_by(&self, next: &Reading) -> Option<i64> {
        let is_same = self.digest == next.digest && self.reading.projection == next.projection;
        i64::try_from(self.repeats.saturating_add(1)).ok().filter(|_| is_same)
    }

    pub fn session(fact: &FactId) -> Option<SessionId> {
        fact.id().split_once('/')?.0.parse().ok()
    }
}

/// A session that is open.
#[derive(Debug, Clone)]
pub struct Session {
    /// Which it is.
    pub id: SessionId,
    pub fact: Arc<Fact>,
    /// Whose it is.
    pub agent: AgentId,
    /// How often it was gone on in.
    pub followed: u32,
    names: Arc<Set>,
    /// Tools whose answers reached the agent when it had as many readings as are kept.
    beyond: Arc<Set>,
}

/// Why something cannot be done in a session. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// There is no such session.
    #[error("there is no open session {0}")]
    NotOpen(SessionId),
    /// It belongs to another agent.
    #[error("{0} is not a session of {1}")]
    OfAnother(SessionId, AgentId),
    /// Someone else went on in it since.
    #[error("{0} was taken over: another client went on in this session, and it has a new name since")]
    TakenOver(SessionName),
    /// It has as many readings as are kept.
    #[error("{0} has {READINGS_MAX} readings already, which is the limit")]
    Full(SessionId),
    /// What a front end attaches does not fit.
    #[error("what is attached to a session has room for 16 KiB of the user's words and 64 action types")]
    Attached,
    /// What was read does not fit a fact.
    #[error("the arguments of this reading have {0} bytes, which is too long to keep")]
    TooLong(usize),
}

impl Session {
    /// An open session.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn find(id: SessionId, snapshot: &dyn Snapshot) -> Result<Self, SessionRefusal> {
        let found = id.fact().and_then(|fact| snapshot.fact(&fact).cloned());
        found.and_then(|fact| Self::read(id, fact)).ok_or(SessionRefusal::NotOpen(id))
    }

    /// Reads it from its fact; `None` where it is closed.
    pub fn read(id: SessionId, fact: Arc<Fact>) -> Option<Self> {
        let value = fact.value.clone()?;
        let agent = match value.get("agent") {
            Some(Value::String(agent)) => AgentId::new(agent.clone()).ok(),
            _ => None,
        };
        let set = |name: &str| match value.get(name) {
            Some(Value::Set(set)) => Arc::clone(set),
            _ => Arc::default(),
        };
        let (names, beyond) = (set("readings"), set("beyond"));
        let followed = match value.get(FOLLOWED) {
            Some(Value::Long(count)) => u32::try_from(*count).unwrap_or(u32::MAX),
            _ => 0,
        };
        Some(Self { id, fact, agent: agent?, followed, names, beyond })
    }

    /// An open session of this agent, under whichever name.
    ///
    /// # Errors
    /// If there is none, or it belongs to another.
    pub fn of(id: SessionId, agent: &AgentId, snapshot: &dyn Snapshot) -> Result<Self, SessionRefusal> {
        let session = Self::find(id, snapshot)?;
        if session.agent == *agent { Ok(session) } else { Err(SessionRefusal::OfAnother(id, agent.clone())) }
    }

    /// An open session of this agent, by the name that it has now: no one else went on in it since the name was given out.
    ///
    /// # Errors
    /// If there is none, it belongs to another, or it was taken over.
    pub fn named(name: SessionName, agent: &AgentId, snapshot: &dyn Snapshot) -> Result<Self, SessionRefusal> {
        let session = Self::of(name.id, agent, snapshot)?;
        if session.name() == name { Ok(session) } else { Err(SessionRefusal::TakenOver(name)) }
    }

    /// The name that it has now.
    pub fn name(&self) -> SessionName {
        SessionName { id: self.id, followed: self.followed }
    }

    /// The action types that it may use, as `PACT/ACTION`; `None` where no one said.
    pub fn task(&self) -> Option<Vec<SmolStr>> {
        let value = self.fact.value.as_ref()?;
        value.get(TASK).map(|_| texts(value, TASK))
    }

    /// The facts of what was read in it.
    pub fn readings(&self) -> impl Iterator<Item = FactId> {
        self.names.iter().filter_map(|name| match name {
            Value::String(name) => self.id.named(name),
            _ => None,
        })
    }
}

/// What opening a session writes; its number is that of the entry.
pub fn open(agent: &AgentId, entry: u64, snapshot: &dyn Snapshot) -> Vec<Write> {
    let Some(fact) = SessionId(entry).fact() else { return Vec::new() };
    let fields = vec![
        (SmolStr::new_static("agent"), Value::String(agent.smol().clone())),
        (SmolStr::new_static("readings"), Value::Set(Arc::default())),
    ];
    vec![write(&fact, Some(Attributes::from_fields(fields)), snapshot)]
}

/// What going on in a session writes: the names that it had before end.
pub fn follow(session: &Session, snapshot: &dyn Snapshot) -> Vec<Write> {
    let followed = (SmolStr::new_static(FOLLOWED), Value::Long(i64::from(session.followed).saturating_add(1)));
    let value = session.fact.value.clone().unwrap_or_default().with(vec![followed]);
    vec![write(&session.fact.id, Some(value), snapshot)]
}

/// What closing a session writes: it and its readings are deleted.
pub fn close(session: &Session, snapshot: &dyn Snapshot) -> Vec<Write> {
    let live = |fact: &FactId| snapshot.fact(fact).is_some_and(|fact| fact.value.is_some());
    let readings = session.readings().filter(live);
    let words = session.id.words().filter(live);
    let facts: Vec<FactId> = std::iter::once(session.fact.id.clone()).chain(readings).chain(words).collect();
    facts.iter().map(|fact| write(fact, None, snapshot)).collect()
}

/// What a reading writes: itself, and its session where it is the first of its name.
///
/// # Errors
/// If the session is full, or the reading too long.
pub fn read(session: &Session, reading: &Reading, snapshot: &dyn Snapshot) -> Result<Vec<Write>, SessionRefusal> {
    let too_long = || SessionRefusal::TooLong(reading.place.arguments.len());
    let name = reading.place.name().to_string();
    let fact = session.id.named(&name).ok_or_else(too_long)?;
    let before = snapshot.fact(&fact).map(AsRef::as_ref);
    let mut labels = content_of_place(&reading.place, snapshot);
    if !labels.is_empty() {
        labels.extend(reading.found.iter().filter(|label| is_of_screening(label)).cloned());
    }
    let fits = |value: &Attributes| value.bytes_bound() <= FACT_BYTES_MAX || value.bytes() <= FACT_BYTES_MAX;
    // What is too long to keep is kept by its digest.
    let value = Some(reading.value(session.id, before, reading.content.as_ref(), &labels)).filter(fits);
    let digested = || Some(reading.value(session.id, before, None, &labels)).filter(fits);
    let value = value.or_else(digested).ok_or_else(too_long)?;
    let mut writes = vec![write(&fact, Some(value), snapshot)];
    let name = Value::String(name.into());
    if !session.names.contains(&name) {
        if session.names.iter().count() >= READINGS_MAX {
            return Err(SessionRefusal::Full(session.id));
        }
        let names: Set = session.names.iter().cloned().chain([name]).collect();
        let names = (SmolStr::new_static("readings"), Value::Set(Arc::new(names)));
        let value = session.fact.value.clone().unwrap_or_default().with(vec![names]);
        writes.push(write(&session.fact.id, Some(value), snapshot));
    }
    Ok(writes)
}

fn write(fact: &FactId, value: Option<Attributes>, snapshot: &dyn Snapshot) -> Write {
    let before = snapshot.fact(fact);
    Write {
        fact: fact.clone(),
        tag: before.map(|fact| fact.tag),
        version: before.map_or(snapshot.version_floor(), |fact| fact.version()).saturating_add(1),
        value,
        previous_entry: before.map(|fact| fact.written.entry),
        labels: None,
    }
}

/// What a reading that a write rests on read right before the call: a recorded input of its dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reread {
    /// The digest of what is compared now; none where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The reading.
    pub fact: FactId,
    /// The rules by which it was read now.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub projection: SmolStr,
    /// How long that took.
    pub took_ms: u64,
    /// Whether the whole difference is told, so that what was read now counts as read by the agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub told: bool,
    /// What of the difference is shown without counting as read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Change>,
    /// Where it differed again when it was read twice in a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<SmolStr>,
    /// Why it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<Found>>,
    /// Who had the turn, where nothing was read again because the write did not get its own. The fact is then the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Box<HeldTurn>>,
}

/// A turn that another call has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldTurn {
    /// The call that has it.
    pub effect: EffectId,
    /// Whether no one knows what became of that call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_doubt: bool,
    pub server: SmolStr,
    /// Since when, in ledger milliseconds.
    pub since: u64,
}

impl Reread {
    /// Nothing was read again for a write of a session: the gate ended while it waited, or it did not get its turn.
    pub fn none(session: FactId, held: Option<HeldTurn>) -> Self {
        let (projection, held) = (SmolStr::default(), held.map(Box::new));
        Self {
            digest: None,
            fact: session,
            projection,
            took_ms: 0,
            told: false,
            shown: Vec::new(),
            volatile: Vec::new(),
            why: None,
            held,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(truth: &bool) -> bool {
    !truth
}

/// Writes what was read again, as it stands in a record.
pub(crate) fn write_rereads(out: &mut Canonical, rereads: &[Reread]) {
    // Every member has a JSON form, so this cannot fail.
    out.json(&serde_json::to_value(rereads).unwrap_or_default());
}
