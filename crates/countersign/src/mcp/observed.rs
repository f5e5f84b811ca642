//! What agents are shown of external facts: read by the gate for them, and sealed, so that what they do afterwards is decided on it.
//!
//! A call of a tool that a pact names as the source of a fact is made by the gate's own worker. So the observation is of the very
//! answer that the agent gets, neither the agent nor the gateway can make one up, and readers and writers speak to the same
//! process of a server. What was shown is kept here for the session and goes along with its actions.

use super::delivery::{Delivery, lock};
use super::gate::{Calling, GateClient, Unless, tool_fact};
use super::message::{Members, Raw, raw};
use super::readings::{ClientSession, add_text, put, told_session, warnings};
use super::refusal::{MEMBER, Refusal};
use super::resumed::Notes;
use crate::client::Call;
use anyhow::Result;
use countersign_api::{ObserveRequest, ObserveResponse, Outdated};
use countersign_core::ids::{Digest, FactId, FactType};
use countersign_core::limits::OBSERVATIONS_MAX;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many facts are remembered as shown; the oldest is forgotten first.
const FACTS_MAX: usize = 1024;
/// How long the seal of a word is, in hexadecimal digits: 128 bits.
const SEAL_CHARS: usize = 32;
/// How often a tool that several facts come from is asked until one answer is the answer for all.
const TRIES_MAX: usize = 3;

/// What one client was shown, sealed by the gate; and what the words that it is given are sealed with.
pub struct Observations {
    /// Newest last, each fact once.
    kept: Mutex<VecDeque<(FactId, Arc<str>)>>,
    /// `None` where the system gives no randomness: then no word is good.
    secret: Option<[u8; 32]>,
    /// Its session at the gate.
    pub(super) session: ClientSession,
}

impl Default for Observations {
    fn default() -> Self {
        let mut secret = [0; 32];
        let is_drawn = getrandom::fill(&mut secret).is_ok();
        let session = ClientSession::default();
        Self { kept: Mutex::default(), secret: is_drawn.then_some(secret), session }
    }
}

impl Observations {
    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<(FactId, Arc<str>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing yet, with words that are good wherever the secret is the same.
    pub fn sealed_with(secret: [u8; 32]) -> Self {
        Self { secret: Some(secret), ..Self::default() }
    }

    /// The same, in a session that is noted.
    pub fn noted(self, notes: Option<Notes>) -> Self {
        Self { session: ClientSession::noted(notes), ..self }
    }

    /// The same, with this session at the gate.
    pub fn in_session(self, session: ClientSession) -> Self {
        Self { session, ..self }
    }

    /// Nothing yet, for requests that belong to no session but the one that each names.
    pub fn stateless() -> Self {
        Self { session: ClientSession::stateless(), ..Self::default() }
    }

    /// The seal of a word that this client is given. No one else can make it, so another session cannot use the word by guessing.
    pub fn seal(&self, word: &str) -> Option<String> {
        let secret = self.secret.as_ref()?;
        let Digest(inner) = Digest::of(&[secret.as_slice(), word.as_bytes()].concat());
        let outer = Digest::of(&[secret.as_slice(), &inner].concat()).to_string();
        outer.get(..SEAL_CHARS).map(ToOwned::to_owned)
    }

    /// Remembers that these facts were shown.
    pub fn keep(&self, facts: &[FactId], token: &str) {
        let token: Arc<str> = token.into();
        let mut kept = self.kept();
        kept.retain(|(fact, _)| !facts.contains(fact));
        kept.extend(facts.iter().map(|fact| (fact.clone(), Arc::clone(&token))));
        while kept.len() > FACTS_MAX {
            kept.pop_front();
        }
    }

    /// What goes along with an action that reads facts of these types: first what its parameters name, then the newest.
    pub fn for_action(&self, types: &[FactType], params: &Map<String, Value>) -> Vec<String> {
        let is_named = |fact: &FactId| params.values().any(|value| value.as_str() == Some(fact.id()));
        let kept = self.kept();
        let of_types = || kept.iter().rev().filter(|(fact, _)| types.contains(fact.ty()));
        let named = of_types().filter(|(fact, _)| is_named(fact));
        let others = of_types().filter(|(fact, _)| !is_named(fact));
        let mut tokens: Vec<String> = Vec::new();
        for (_, token) in named.chain(others) {
            if tokens.len() < OBSERVATIONS_MAX && !tokens.iter().any(|known| **known == **token) {
                tokens.push(token.to_string());
            }
        }
        tokens
    }

    /// Forgets everything: the gate no longer opens what it sealed.
    pub fn forget(&self) {
        self.kept().clear();
    }
}

impl GateClient {
    /// Shows a client the facts that its call reads; the tool's own answer, with what was sealed beside it.
    pub(super) fn observed(
        &self,
        calling: &Calling,
        facts: &[FactId],
        is_reading: bool,
        seen: &Observations,
    ) -> Result<Raw, Refusal> {
        let tool = &calling.tool;
        let session = match is_reading {
            // What is kept in the session is the entry of this call.
            true => Some(self.begin_reading(calling, seen)?),
            false => self.may_pass(calling, Unless::Observes, None).map(|()| None)?,
        };
        let session = session.as_ref();
        let name = self.names.of(&calling.upstream, &tool.name);
        let not_read = |error: anyhow::Error| Refusal::not_read(&name, &error);
        let mut shown = self.observe(facts, session, &calling.delivery).map_err(not_read)?;
        for _ in 1..TRIES_MAX {
            if is_one_answer(&shown) {
                break;
            }
            shown = self.observe(facts, session, &calling.delivery).map_err(not_read)?;
        }
        let facts = if is_one_answer(&shown) {
            facts
        } else {
            // What changes faster than it can be read twice is observed for one fact only.
            let first = facts.get(..1).unwrap_or_default();
            shown = self.observe(first, session, &calling.delivery).map_err(not_read)?;
            first
        };
        let Some(answer) = shown.facts.first().and_then(|fact| fact.answer.as_deref()) else {
            return Err(Refusal::withheld(&name, &shown));
        };
        let mut result = Members::parse(answer).map_err(|_| Refusal::unfit(&name, "its answer is no object"))?;
        unspoken(&mut result).map_err(|why| Refusal::unfit(&name, &format!("its answer is ambiguous: {why}")))?;
        seen.keep(facts, &shown.observation);
        if is_reading {
            calling.delivery.tells_reading();
        }
        let names: Vec<String> = facts.iter().map(ToString::to_string).collect();
        add_text(&mut result, &warnings(&self.names, &calling.delivery, &shown.outdated, usize::MAX));
        let mut object = json!({"observed": names, "observed_at": shown.observed_at, "observation": shown.observation});
        if let Some(session) = session {
            put(&mut object, "session", json!(told_session(session, &calling.delivery)));
        }
        Ok(with_object(result, &object))
    }

    /// What a client's session has read that reads differently by now, for a call that belongs to it and is no business of the gate's.
    pub(super) fn outdated(&self, calling: &Calling, seen: &Observations) -> Vec<Outdated> {
        let Some(session) = seen.session.opened(&calling.delivery) else { return Vec::new() };
        let shown = tool_fact(&calling.upstream, &calling.tool.name)
            .and_then(|fact| self.observe(&[fact], Some(&session), &calling.delivery));
        // A warning decides nothing; it comes with a later answer.
        shown.map(|shown| shown.outdated).unwrap_or_default()
    }

    fn observe(&self, facts: &[FactId], session: Option<&String>, delivery: &Delivery) -> Result<ObserveResponse> {
        let facts = facts.iter().map(ToString::to_string).collect();
        let request = ObserveRequest { facts, answers: true, attest: false, session: session.cloned() };
        let call = Call::post("/v1/observe").agent(&self.agent).json(&request)?.reading();
        let call = if session.is_some() { lock(delivery.marks()).in_log(call) } else { call };
        self.client.call(call)
    }
}

/// Whether all facts were read from the same answer, so that it can stand for all of them.
fn is_one_answer(shown: &ObserveResponse) -> bool {
    shown.facts.windows(2).all(|pair| matches!(pair, [one, other] if one.answer == other.answer))
}

/// A result with what the gate says of it beside.
pub(super) fn with_object(mut result: Members, object: &Value) -> Raw {
    if result.get("resultType").is_none() {
        result.set("resultType", raw(&"complete"));
    }
    let mut meta = result.object("_meta").unwrap_or_default();
    meta.set(MEMBER, raw(object));
    result.set("_meta", meta.to_raw());
    result.to_raw()
}

/// Takes out what only the gateway says: a server cannot speak for the gate. Whether anything was; an error where that can be
/// read in two ways, since then a client could read what was not taken out.
pub(super) fn unspoken(result: &mut Members) -> Result<bool, String> {
    let mut changed = false;
    for name in ["_meta", "structuredContent"] {
        let Some(inner) = result.get(name).filter(|inner| inner.get().starts_with('{')) else { continue };
        let mut inner = Members::parse(inner.get()).map_err(|error| format!("`{name}`: {error}"))?;
        if inner.remove(MEMBER).is_some() {
            result.set(name, inner.to_raw());
            changed = true;
        }
    }
    // What is meant for programs, or looks like it, in one of several parts.
    for (name, of_items) in [("content", Some("_meta")), ("structuredContent", None)] {
        let Some(list) = result.get(name).filter(|list| list.get().starts_with('[')) else { continue };
        let mut items: Vec<Raw> = serde_json::from_str(list.get()).map_err(|error| format!("`{name}`: {error}"))?;
        let mut is_said = false;
        for item in items.iter_mut().filter(|item| item.get().starts_with('{')) {
            let without = unspoken_item(item, of_items).map_err(|error| format!("`{name}`: {error}"))?;
            if let Some(without) = without {
                *item = without;
                is_said = true;
            }
        }
        if is_said {
            result.set(name, raw(&items));
            changed = true;
        }
    }
    Ok(changed)
}

/// The same of an item, or of an object in it; `None` where there is nothing to take out.
fn unspoken_item(item: &Raw, inside: Option<&str>) -> Result<Option<Raw>, serde_json::Error> {
    let mut members = Members::parse(item.get())?;
    let Some(name) = inside else { return Ok(members.remove(MEMBER).map(|_| members.to_raw())) };
    let Some(mut inner) = members.object(name) else { return Ok(None) };
    Ok(inner.remove(MEMBER).map(|_| {
        members.set(name, inner.to_raw());
        members.to_raw()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(text: &str) -> FactId {
        text.parse().unwrap()
    }

    #[test]
    fn an_action_takes_along_what_it_names_first_and_nothing_of_other_types() {
        let seen = Observations::default();
        let account = FactType::new("Account").unwrap();
        for id in 0..20 {
            seen.keep(&[fact(&format!("Account::\"{id}\""))], &format!("token-{id}"));
        }
        seen.keep(&[fact("Order::\"3\"")], "order");
        let params = json!({"account": "3"});
        let tokens = seen.for_action(std::slice::from_ref(&account), params.as_object().unwrap());
        assert_eq!(tokens.len(), OBSERVATIONS_MAX);
        assert_eq!(tokens.first().map(String::as_str), Some("token-3"));
        assert_eq!(tokens.get(1).map(String::as_str), Some("token-19"), "then the newest");
        assert!(!tokens.contains(&"order".to_owned()));
    }

    #[test]
    fn a_word_of_one_session_is_no_word_of_another() {
        let (one, other) = (Observations::default(), Observations::default());
        assert!(one.seal("bank:813").is_some());
        assert_eq!(one.seal("bank:813"), one.seal("bank:813"));
        assert_ne!(one.seal("bank:813"), one.seal("bank:814"));
        assert_ne!(one.seal("bank:813"), other.seal("bank:813"));
        let again = || Observations::sealed_with([7; 32]).seal("bank:813");
        assert_eq!(again(), again(), "started again with the same secret");
    }

    #[test]
    fn a_fact_is_remembered_as_it_was_shown_last() {
        let seen = Observations::default();
        let (one, two) = (fact("Account::\"1\""), fact("Account::\"2\""));
        seen.keep(&[one.clone(), two.clone()], "both");
        seen.keep(std::slice::from_ref(&one), "newer");
        let tokens = seen.for_action(&[one.ty().clone()], &Map::new());
        assert_eq!(tokens, ["newer", "both"]);
        seen.forget();
        assert!(seen.for_action(&[one.ty().clone()], &Map::new()).is_empty());
    }
}
