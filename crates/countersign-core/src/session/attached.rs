//! What a registered front end attaches to a session: the user's own words, the task, and that it begins clean. Never its agent (L7).

use super::{CLEAN, Session, SessionId, SessionRefusal, TASK, write};
use crate::decide::Snapshot;
use crate::decision::Write;
use crate::fact::Fact;
use crate::ids::{ActionName, AgentId, FactId, FactType, PactName};
use crate::limits::{FACT_BYTES_MAX, TASK_ACTIONS_MAX};
use crate::value::{Attributes, Set, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// The type of the facts that hold the user's own words, one for each session.
pub const WORDS: &str = "SessionWords";
/// Their one attribute.
const SAID: &str = "said";

/// What is attached to a session when it is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attached {
    /// What the user said.
    pub words: Vec<SmolStr>,
    /// The action types that it may use, as `PACT/ACTION`.
    pub task: Option<Vec<SmolStr>>,
    /// Whether it begins without the labels of what its agent was shown before.
    pub is_clean: bool,
}

impl Attached {
    /// Checks the names of the task.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let Some(task) = &self.task else { return Ok(()) };
        if task.len() > TASK_ACTIONS_MAX {
            return Err(format!("the task names {} action types; at most {TASK_ACTIONS_MAX} are allowed", task.len()));
        }
        let is_name = |name: &&SmolStr| {
            let parts = name.split_once('/');
            !parts.is_some_and(|(pact, action)| PactName::new(pact).is_ok() && ActionName::new(action).is_ok())
        };
        match task.iter().find(is_name) {
            Some(name) => Err(format!("`{name}` is no action type: write PACT/ACTION, such as billing/refund")),
            None => Ok(()),
        }
    }
}

/// The texts of a set.
pub(super) fn texts(value: &Attributes, name: &str) -> Vec<SmolStr> {
    let Some(Value::Set(texts)) = value.get(name) else { return Vec::new() };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    texts.iter().filter_map(text).collect()
}

fn set(texts: &[SmolStr]) -> Value {
    Value::Set(Arc::new(texts.iter().cloned().map(Value::String).collect::<Set>()))
}

impl SessionId {
    /// The fact of the user's own words in it.
    pub fn words(self) -> Option<FactId> {
        FactId::new(FactType::new(WORDS).ok()?, self.to_string()).ok()
    }
}

/// The user's own words that a fact holds.
pub fn words_in(fact: &Fact) -> Vec<SmolStr> {
    fact.value.as_ref().map(|value| texts(value, SAID)).unwrap_or_default()
}

/// Whether a session began without what its agent was shown before.
pub(crate) fn is_clean(session: &Attributes) -> bool {
    matches!(session.get(CLEAN), Some(Value::Bool(true)))
}

/// What opening a session for an agent writes; its number is that of the entry.
///
/// # Errors
/// If what is attached does not fit.
pub fn open_for(
    agent: &AgentId,
    attached: &Attached,
    entry: u64,
    snapshot: &dyn Snapshot,
) -> Result<Vec<Write>, SessionRefusal> {
    let mut writes = super::open(agent, entry, snapshot);
    let mut fields = Vec::new();
    if attached.is_clean {
        fields.push((SmolStr::new_static(CLEAN), Value::Bool(true)));
    }
    if let Some(task) = &attached.task {
        fields.push((SmolStr::new_static(TASK), set(task)));
    }
    for write in &mut writes {
        write.value = write.value.take().map(|value| value.with(fields.clone()));
    }
    let fits = |write: &Write| write.value.as_ref().is_none_or(|value| value.bytes() <= FACT_BYTES_MAX / 4);
    if !writes.iter().all(fits) {
        return Err(SessionRefusal::Attached);
    }
    if !attached.words.is_empty() {
        writes.extend(said(SessionId(entry), &attached.words, snapshot)?);
    }
    Ok(writes)
}

/// What adding the user's own words to a session writes.
///
/// # Errors
/// If there is no room for them.
pub fn say(session: &Session, words: &[SmolStr], snapshot: &dyn Snapshot) -> Result<Vec<Write>, SessionRefusal> {
    said(session.id, words, snapshot)
}

fn said(session: SessionId, words: &[SmolStr], snapshot: &dyn Snapshot) -> Result<Vec<Write>, SessionRefusal> {
    let fact = session.words().ok_or(SessionRefusal::NotOpen(session))?;
    let mut all = snapshot.fact(&fact).map(|fact| words_in(fact)).unwrap_or_default();
    all.extend(words.iter().cloned());
    let value = Attributes::from_fields(vec![(SmolStr::new_static(SAID), set(&all))]);
    if value.bytes() > FACT_BYTES_MAX {
        return Err(SessionRefusal::Attached);
    }
    Ok(vec![write(&fact, Some(value), snapshot)])
}

/// What was attached to a session that was opened with these writes: inputs of its entry.
pub fn attached_in(writes: &[Write]) -> Attached {
    let mut attached = Attached::default();
    for write in writes {
        let Some(value) = &write.value else { continue };
        if write.fact.ty().as_str() == WORDS {
            attached.words = texts(value, SAID);
        } else {
            attached.task = value.get(TASK).map(|_| texts(value, TASK));
            attached.is_clean = is_clean(value);
        }
    }
    attached
}
