//! The gate under test, as its callers see it: an operator with every role, agents with keys of their own, and nothing but the
//! public interface.

use super::names;
use super::own::Own;
use crate::client::{Call, Client};
use crate::commands::{Failure, fact_path, is_refused_as};
use crate::examples::PactFile;
use crate::key_file;
use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use countersign_api::{
    ActionRequest, Effect, EntriesResponse, EntryResponse, ErrorCode, FactPut, FactResponse, FactWritten,
    ObserveRequest, ObserveResponse, PactPublished, PactResponse, Ready, Verdict, VerdictKind,
};
use countersign_core::identity::KeyName;
use countersign_core::ids::{AgentId, FactId};
use ed25519_dalek::SigningKey;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a call that has begun may take to end: cooling, dispatch and settlement together.
const EFFECT_WITHIN_MS: u64 = 30_000;

/// How many entries one page of the ledger has.
const PAGE: u64 = 200;

/// The gate under test.
pub struct Subject {
    url: String,
    operator: Client,
    operator_key: KeyName,
    agents: Mutex<HashMap<String, Arc<Agent>>>,
    /// Different in each run, so that budgets and keys of an earlier one have no part in it.
    run: String,
    /// What only a gate of our own has.
    own: Option<Own>,
}

/// An agent or operator, with its key.
pub struct Agent {
    /// Its name on the gate.
    pub name: String,
    pub key: SigningKey,
    client: Client,
}

/// One entry of the ledger.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number.
    pub index: u64,
    /// What is public.
    pub leaf: Json,
    /// What lies beside it.
    pub payload: Json,
}

/// What cannot be shown on this gate, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub &'static str);

impl Subject {
    /// A gate that answers at an address and knows this operator's key.
    pub fn at(url: &str, key: SigningKey, own: Option<Own>) -> Result<Self> {
        let operator_key = key_file::name(&key);
        let operator = Client::remote(url)?.signing(key, None)?;
        Ok(Self { url: url.to_owned(), operator, operator_key, agents: Mutex::default(), run: random(6)?, own })
    }

    /// A new gate in a folder of its own, as a process of its own.
    pub fn start() -> Result<Self> {
        let (own, url, key) = Own::start()?;
        Self::at(&url, key, Some(own))
    }

    /// Where it answers.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The public name of the key that the tests are made with.
    pub fn operator_key(&self) -> &KeyName {
        &self.operator_key
    }

    /// The name of its log, which requests are signed for.
    pub fn origin(&self) -> Result<String> {
        self.operator.origin()
    }

    /// The name of this run, unlike that of any other.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// What only a gate of our own has.
    pub fn own(&self) -> Result<&Own> {
        let why = "needs a gate of its own, with a payment service beside it: run it without --target";
        self.own.as_ref().ok_or(Unavailable(why)).context("not on this gate")
    }

    /// Publishes a pact of the project under its other name, unless it is there as it should be.
    pub fn publish(&self, file: &PactFile) -> Result<()> {
        let name = names::pact(file.name);
        let version = match self.pact(&name)? {
            None => 1,
            Some(there) if there.source == names::source(file, there.pact.version)? => return Ok(()),
            Some(there) => there.pact.version + 1,
        };
        self.publish_text(&names::source(file, version)?)?;
        Ok(())
    }

    /// Publishes a text as it is.
    pub fn publish_text(&self, text: &str) -> Result<PactPublished> {
        self.operator.call(Call::post("/v1/pacts").body("application/toml", text.as_bytes().to_vec()))
    }

    /// A pact by its name on the gate.
    pub fn pact(&self, name: &str) -> Result<Option<PactResponse>> {
        absent_as_none(self.operator.call(Call::get(format!("/v1/pacts/{name}"))), ErrorCode::PactNotFound)
    }

    /// An agent of this name and with these roles, registered the first time that it is asked for.
    pub fn agent(&self, name: &str, roles: &[&str]) -> Result<Arc<Agent>> {
        let value = json!({"org": "conform", "roles": roles, "standing": "active", "trust": 1000});
        self.registered(name, FactId::of_agent, value)
    }

    /// An operator, in the same way.
    pub fn operator(&self, name: &str, roles: &[&str]) -> Result<Arc<Agent>> {
        self.registered(name, FactId::of_operator, json!({"roles": roles, "standing": "active"}))
    }

    /// Takes an operator's rights away again.
    pub fn revoke_operator(&self, name: &str, roles: &[&str]) -> Result<()> {
        let operator = self.operator(name, roles)?;
        let key = key_file::name(&operator.key);
        let value = json!({"key": key.as_str(), "roles": roles, "standing": "revoked"});
        let fact = FactId::of_operator(&AgentId::new(operator.name.as_str())?);
        self.put(&fact, value.as_object().cloned().unwrap_or_default())?;
        Ok(())
    }

    fn registered(&self, name: &str, fact: fn(&AgentId) -> FactId, mut value: Json) -> Result<Arc<Agent>> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(name) {
            return Ok(Arc::clone(agent));
        }
        let full = format!("{}{}-{name}", names::PREFIX, self.run);
        let key = key_file::generate()?;
        let value = value.as_object_mut().context("the identity is not an object")?;
        value.insert("key".to_owned(), json!(key_file::name(&key).as_str()));
        self.put(&fact(&AgentId::new(full.as_str())?), value.clone())?;
        let client = Client::remote(&self.url)?.signing(key.clone(), None)?;
        let agent = Arc::new(Agent { name: full, key, client });
        agents.insert(name.to_owned(), Arc::clone(&agent));
        Ok(agent)
    }

    /// Feeds a fact, named as the project's pacts name it.
    pub fn feed(&self, fact: &str, value: &Json) -> Result<FactWritten> {
        let value = value.as_object().with_context(|| format!("the value of {fact} is no object"))?;
        self.put(&names::fact(fact)?, value.clone())
    }

    fn put(&self, fact: &FactId, value: Map<String, Json>) -> Result<FactWritten> {
        self.operator.call(Call::put(fact_path(fact)).json(&FactPut { value })?)
    }

    /// Deletes a fact, if it is there.
    pub fn delete(&self, fact: &str) -> Result<()> {
        let path = fact_path(&names::fact(fact)?);
        absent_as_none::<FactWritten>(self.operator.call(Call::delete(path)), ErrorCode::FactNotFound)?;
        Ok(())
    }

    /// A fact as it is now.
    pub fn fact(&self, fact: &str) -> Result<Option<FactResponse>> {
        let path = fact_path(&names::fact(fact)?);
        absent_as_none(self.operator.call(Call::get(path)), ErrorCode::FactNotFound)
    }

    /// One attribute of a fact as it is now; null where there is none.
    pub fn attribute(&self, fact: &str, attribute: &str) -> Result<Json> {
        let found = self.fact(fact)?;
        Ok(found.and_then(|found| found.value.get(attribute).cloned()).unwrap_or_default())
    }

    /// How many entries the ledger has.
    pub fn position(&self) -> Result<u64> {
        Ok(self.operator.call::<Ready>(Call::get("/readyz"))?.position)
    }

    /// One entry.
    pub fn entry(&self, index: u64) -> Result<Entry> {
        Entry::of(self.operator.call(Call::get(format!("/v1/ledger/entries/{index}")))?)
    }

    /// All entries from a position on.
    pub fn entries_from(&self, start: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            let next = start + u64::try_from(entries.len())?;
            let path = format!("/v1/ledger/entries?start={next}&limit={PAGE}");
            let page: EntriesResponse = self.operator.call(Call::get(path))?;
            if page.entries.is_empty() {
                return Ok(entries);
            }
            for entry in page.entries {
                entries.push(Entry::of(entry)?);
            }
        }
    }

    /// Waits until an effect is over, and says what became of it.
    pub fn ended(&self, effect: &str) -> Result<Effect> {
        self.operator.call(Call::get(format!("/v1/effects/{effect}")).waiting_ms(EFFECT_WITHIN_MS))
    }
}

impl Agent {
    /// Observes facts, named as the project's pacts name them; gives the token.
    pub fn observe<'a>(&self, facts: impl IntoIterator<Item = &'a str>) -> Result<String> {
        Ok(self.shown(facts)?.observation)
    }

    /// The same with everything that is told.
    pub fn shown<'a>(&self, facts: impl IntoIterator<Item = &'a str>) -> Result<ObserveResponse> {
        let facts = facts.into_iter().map(|fact| Ok(names::fact(fact)?.to_string())).collect::<Result<_>>()?;
        let request = ObserveRequest { facts, answers: false, attest: false, session: None };
        self.client.call(Call::post("/v1/observe").json(&request)?.reading())
    }

    /// Acts; a refusal is an error, a rejection is a verdict.
    pub fn act(&self, pact: &str, action: &str, params: &Json, tokens: &[String]) -> Result<Verdict> {
        let request = self.request(pact, action, params, tokens)?;
        self.client.call(Call::post("/v1/actions").keyed(&request.idempotency_key).json(&request)?)
    }

    /// The same, and nothing is tried again: for those who go on while a gate is killed.
    pub fn act_once(&self, pact: &str, action: &str, params: &Json, tokens: &[String]) -> Result<Verdict> {
        let request = self.request(pact, action, params, tokens)?;
        self.client.call_once(Call::post("/v1/actions").json(&request)?)
    }

    /// Asks what would become of an action.
    pub fn check(&self, pact: &str, action: &str, params: &Json, tokens: &[String]) -> Result<Verdict> {
        let request = self.request(pact, action, params, tokens)?;
        self.client.call(Call::post("/v1/actions/check").json(&request)?.reading())
    }

    /// The body of an action, with a key that no other has.
    pub fn request(&self, pact: &str, action: &str, params: &Json, tokens: &[String]) -> Result<ActionRequest> {
        Ok(ActionRequest {
            pact: names::pact(pact),
            action: action.to_owned(),
            idempotency_key: random(18)?,
            params: params.as_object().cloned().unwrap_or_default(),
            observations: tokens.to_vec(),
            delegation: None,
            claim: None,
            session: None,
            unsure: Vec::new(),
        })
    }

    /// Calls anything else with its key.
    pub fn call<T: serde::de::DeserializeOwned>(&self, call: Call) -> Result<T> {
        self.client.call(call)
    }
}

impl Entry {
    fn of(entry: EntryResponse) -> Result<Self> {
        let EntryResponse { index, leaf, payload, .. } = entry;
        let payload = payload.map(|payload| serde_json::from_str(payload.get())).transpose()?;
        Ok(Self { index, leaf: serde_json::from_str(leaf.get())?, payload: payload.unwrap_or_default() })
    }

    /// A member of the leaf as text.
    pub fn leaf(&self, member: &str) -> &str {
        self.leaf.get(member).and_then(Json::as_str).unwrap_or_default()
    }

    /// What failed, as the entry keeps it.
    pub fn failed(&self) -> &[Json] {
        let failed = self.payload.pointer("/decision/blocked/failed").and_then(Json::as_array);
        failed.map_or(&[], Vec::as_slice)
    }
}

/// The entry of a verdict that must have one.
pub fn entry_of(verdict: &Verdict) -> Result<u64> {
    verdict.entry.context("the verdict names no entry")
}

/// The preconditions that a verdict names.
pub fn failed(verdict: &Verdict) -> Vec<&str> {
    verdict.failed.iter().map(|failed| failed.precondition.as_str()).collect()
}

/// Whether an action took effect, or is on its way to.
pub fn passed(verdict: &Verdict) -> bool {
    matches!(verdict.verdict, VerdictKind::Committed | VerdictKind::InFlight | VerdictKind::Settled)
}

/// The code that a gate refused with.
pub fn refusal_code(error: &anyhow::Error) -> Option<&str> {
    error.downcast_ref::<Failure>().and_then(Failure::code)
}

/// Whether a call was refused with this code, and with no other.
pub fn must_refuse<T>(answer: Result<T>, code: ErrorCode, what: &str) -> Result<()> {
    match answer {
        Err(error) if is_refused_as(&error, code) => Ok(()),
        Err(error) => bail!("{what} was refused, but not as {}: {error}", code.as_str()),
        Ok(_) => bail!("{what} was not refused"),
    }
}

/// So many random bytes, as text.
pub fn random(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).context("the system gives no randomness")?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(random).replace(['-', '_'], "0"))
}

fn absent_as_none<T>(answer: Result<T>, code: ErrorCode) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_refused_as(&error, code) => Ok(None),
        Err(error) => Err(error),
    }
}
