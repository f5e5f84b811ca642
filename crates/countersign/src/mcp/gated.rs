//! Calls of tools that a pact maps: each is an action, and the gate's own worker makes the call, after everything held.
//!
//! The gateway never makes such a call itself. It asks, waits a moment, and tells what became of it; for what takes longer it gives
//! out a continuation, by which the same action is asked for again and never done twice. A continuation names the action's entry and
//! is sealed for its session; over standard input for the agent's key, so that a gateway that was started again knows it too.

use super::advice::{Advice, Knows, advice, retry};
use super::delivery::Delivery;
use super::gate::{Approval, Approved, Calling, GateClient};
use super::mapping::{Mapped, Mapping};
use super::message::{Members, Raw, raw};
use super::observed::{Observations, unspoken, with_object};
use super::readings::Telling;
use super::refusal::Refusal;
use super::tool::Tool;
use crate::client::Call;
use crate::commands::{entry_of, is_refused_as};
use anyhow::Result;
use countersign_api::{ActionRequest, ErrorCode, Verdict, VerdictKind};
use countersign_core::call::EffectId;
use countersign_core::review::ReviewId;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The gateway's own tool, by which a call that is not over is asked for again.
pub const CONTINUE: &str = "countersign_continue";

/// How old what is known of the pacts and of approved tools may be.
const MAPPING_KEPT: Duration = Duration::from_secs(2);
/// How many calls under keys of clients are remembered; the oldest is forgotten first.
const SENT_MAX: usize = 4096;
/// How long a call is waited for at most before it is answered with a continuation.
const WAIT_MS_MAX: u64 = 20_000;
/// How long a continuation may wait.
const CONTINUE_MS_MAX: u64 = 5_000;

/// What is known of the pacts, and which definitions of mapped tools were found approved; for a moment each.
#[derive(Default)]
pub struct Calls {
    mapping: Mutex<Option<(Instant, Arc<Mapping>)>>,
    approved: Mutex<HashMap<(String, String), (Instant, String)>>,
    approved_as: Mutex<HashMap<(String, String), Known>>,
    /// The observations that went along under a key of a client's: repeated under it, the action must be the same, byte for byte.
    sent: Mutex<VecDeque<(String, Vec<String>)>>,
}

/// What a tool was found approved as, with which definition, and when.
struct Known {
    at: Instant,
    definition: String,
    approved: Approved,
}

impl Calls {
    /// The observations that go along under this key: those that did before, or else these, which are remembered.
    fn sent_under(&self, key: &str, fresh: Vec<String>) -> Vec<String> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, before)) = sent.iter().find(|(known, _)| known == key) {
            return before.clone();
        }
        sent.push_back((key.to_owned(), fresh.clone()));
        if sent.len() > SENT_MAX {
            sent.pop_front();
        }
        fresh
    }

    /// Forgets what went along under a key: nothing did.
    fn not_sent_under(&self, key: &str) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| known != key);
    }
}

impl GateClient {
    /// What the pacts map, as of a moment ago.
    pub fn mapping(&self) -> Result<Arc<Mapping>, Refusal> {
        let mut kept = self.calls.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, mapping)) = &*kept
            && at.elapsed() < MAPPING_KEPT
        {
            return Ok(Arc::clone(mapping));
        }
        self.read_mapping(&mut kept)
    }

    /// The same, as it is now: for what is rare, and must not pass by what was so a moment ago.
    pub fn mapping_now(&self) -> Result<Arc<Mapping>, Refusal> {
        self.read_mapping(&mut self.calls.mapping.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The gate gave no verdict; with what to do about it here.
    pub(super) fn no_gate(&self, error: &anyhow::Error) -> Refusal {
        Refusal::no_gate(error).advised(&self.operator)
    }

    fn read_mapping(&self, kept: &mut Option<(Instant, Arc<Mapping>)>) -> Result<Arc<Mapping>, Refusal> {
        // Where the pacts cannot be read nothing is taken for unmapped: fail closed (I4).
        let before = kept.as_ref().map(|(_, mapping)| mapping);
        let mapping = Mapping::read(&self.client, before).map_err(|error| self.no_gate(&error))?;
        *kept = Some((Instant::now(), Arc::clone(&mapping)));
        Ok(mapping)
    }

    /// Whether a tool is approved as it is, as of a moment ago.
    fn is_approved(&self, upstream: &str, tool: &Tool) -> Result<bool, Refusal> {
        let name = (upstream.to_owned(), tool.name.clone());
        let known = || self.calls.approved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            |(at, definition): &(Instant, String)| at.elapsed() < MAPPING_KEPT && *definition == tool.definition;
        if known().get(&name).is_some_and(is_known) {
            return Ok(true);
        }
        let asked = Instant::now();
        let approvals = self.approvals(upstream, std::slice::from_ref(tool));
        let is_approved = approvals.map_err(|error| self.no_gate(&error))?.first() == Some(&Approval::AsItIs);
        match is_approved {
            true => known().insert(name, (asked, tool.definition.clone())),
            false => known().remove(&name),
        };
        Ok(is_approved)
    }

    /// What a tool is approved as, as of a moment ago; `None` where it is not approved as it is.
    pub(super) fn approved_as(&self, upstream: &str, tool: &Tool) -> Result<Option<Approved>, Refusal> {
        let name = (upstream.to_owned(), tool.name.clone());
        let known = || self.calls.approved_as.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Known { at, definition, approved }) = known().get(&name)
            && at.elapsed() < MAPPING_KEPT
            && *definition == tool.definition
        {
            return Ok(Some(*approved));
        }
        let asked = Instant::now();
        let approved = self.look_up(upstream, tool).map_err(|error| self.no_gate(&error))?;
        match approved {
            Some(approved) => {
                let definition = tool.definition.clone();
                known().insert(name, Known { at: asked, definition, approved }).map(drop)
            }
            None => known().remove(&name).map(drop),
        };
        Ok(approved)
    }

    /// What is told of a call that is not over, and by which word to ask for it.
    pub(super) fn told_open(
        &self,
        upstream: &str,
        verdict: &Verdict,
        mut object: Value,
        seen: &Observations,
    ) -> Result<Raw, Refusal> {
        if let Some(members) = object.as_object_mut() {
            members.extend(new_word(upstream, verdict, seen).map(|word| ("continuation".to_owned(), json!(word))));
            members.insert("retry".to_owned(), json!({"how": "continue", "after_ms": 1000}));
        }
        Err(Refusal::of_verdict(verdict, Advice::default(), object).advised(&self.operator))
    }

    /// Carries out a call that a pact maps; the result for the client.
    pub fn gated(
        &self,
        calling: &Calling,
        mapping: &Mapping,
        mapped: &Mapped,
        key: Option<String>,
        seen: &Observations,
    ) -> Result<Raw, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        if !self.is_approved(upstream, tool)? {
            return Err(Refusal::not_approved((upstream, &tool.name), &self.names.of(upstream, &tool.name)));
        }
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let params = countersign_core::json::parse_object_exact(arguments)
            .map_err(|error| Refusal::arguments(&error.to_string()))?;
        let mut observations = seen.for_action(&mapped.reads, &params);
        let key = match key {
            Some(key) => {
                observations = self.calls.sent_under(&key, observations);
                key
            }
            None => super::gate::random_key().map_err(|error| self.no_gate(&error))?,
        };
        let mut request = ActionRequest {
            pact: mapped.pact.clone(),
            action: mapped.action.clone(),
            idempotency_key: key,
            observations,
            params,
            delegation: None,
            claim: None,
            session: None,
            unsure: Vec::new(),
        };
        if mapped.is_as_read {
            // What went along under a key of the client's before is the same again, or the gate says what became of it.
            let rested = self.rested(calling, seen)?;
            (request.session, request.unsure) = (Some(rested.session), rested.unsure);
            let name = self.names.called(upstream, &tool.name, arguments);
            return self.write_as(calling, (&request, &name), Some(mapping), seen);
        }
        let wait_ms = mapped.takes_ms.saturating_add(1_000).min(WAIT_MS_MAX);
        let act = |request: &ActionRequest| -> Result<Verdict> {
            let call = Call::post("/v1/actions").keyed(&request.idempotency_key).waiting_ms(wait_ms);
            self.client.call(call.agent(&self.agent).json(request)?)
        };
        let mut verdict = act(&request);
        // What the gate no longer opens was sealed with a key that is gone: the agent has seen nothing that counts.
        let is_sealed_anew = |error: &anyhow::Error| is_refused_as(error, ErrorCode::ObservationRefused);
        if !request.observations.is_empty() && verdict.as_ref().is_err_and(is_sealed_anew) {
            seen.forget();
            self.calls.not_sent_under(&request.idempotency_key);
            request.observations.clear();
            verdict = act(&request);
        }
        let verdict = verdict.map_err(|error| match is_refused_as(&error, ErrorCode::IdempotencyKeyReused) {
            true => self.made_before(upstream, &error, &request.idempotency_key, seen),
            false => Refusal::no_verdict(&error, &request.idempotency_key),
        })?;
        let is_settled = verdict.verdict == VerdictKind::Settled;
        if is_settled && kept(&verdict).is_none() && tool.member("outputSchema").is_some() {
            return Err(Refusal::of_unkept(&verdict));
        }
        let knows = Knows { names: &self.names, mapping, upstream, tool: Some(tool) };
        self.told(knows, &verdict, Word::New(seen))
    }

    /// What is told of a key that another action was asked for under: most often the same call, made through a gateway that was
    /// restarted since and no longer knows which observations went along. So what became of that one is told with it.
    pub(super) fn made_before(&self, upstream: &str, error: &anyhow::Error, key: &str, seen: &Observations) -> Refusal {
        let entry = entry_of(error);
        let call = entry.map(|entry| Call::get(format!("/v1/actions/{entry}")).agent(&self.agent));
        let verdict: Option<Verdict> = call.and_then(|call| self.client.call(call).ok());
        let word = entry.and_then(|entry| sealed_word(upstream, entry, seen));
        Refusal::made_before(key, entry, verdict.as_ref(), word)
    }

    /// Asks for a call that is not over. Without a verdict nothing here says that it was not done: it was asked for before.
    pub fn go_on(&self, arguments: &str, seen: &Observations, delivery: &Delivery) -> Result<Raw, Refusal> {
        let members = Members::parse(arguments).unwrap_or_default();
        let Some(given) = members.text("continuation") else {
            return Err(Refusal::no_continuation());
        };
        let wait_ms =
            members.get("wait_ms").and_then(|wait| wait.get().parse::<u64>().ok()).unwrap_or(0).min(CONTINUE_MS_MAX);
        let Some((upstream, entry)) = parse_word(&given, seen) else {
            return Err(Refusal::no_word("this is no continuation that this session was given"));
        };
        let is_in_full = members.get("more").is_some_and(|more| more.get() == "true");
        let telling = if is_in_full { Telling::InFull } else { Telling::Briefly };
        delivery.asks_for(entry);
        let call = Call::get(format!("/v1/actions/{entry}")).waiting_ms(wait_ms).agent(&self.agent);
        let verdict: Verdict = self.client.call(call).map_err(|error| {
            if is_refused_as(&error, ErrorCode::ActionNotFound) {
                return Refusal::no_word("this agent has no call of this continuation");
            }
            Refusal::not_known(&error, &given)
        })?;
        delivery.tells_outcome(super::readings::outcome("a call", &verdict));
        if verdict.readings.is_some() {
            // What has changed counts as told.
            let mapping = self.mapping().ok();
            return self.told_write((upstream, None), &verdict, mapping.as_deref(), (seen, delivery, telling));
        }
        // The pacts only say what to read again; a verdict is told without them.
        let mapping = self.mapping().unwrap_or_default();
        let knows = Knows { names: &self.names, mapping: &mapping, upstream, tool: None };
        self.told(knows, &verdict, Word::Given(&given))
    }

    /// A verdict whose hint an operator can run: the gate does not know by which folder it is reached.
    pub(super) fn with_whole_commands(&self, verdict: &Verdict) -> Verdict {
        Verdict { hint: verdict.hint.as_deref().map(|hint| self.operator.completed(hint)), ..verdict.clone() }
    }

    /// What a client is told of a verdict, and of a call that is not over by which word to ask for it.
    pub(super) fn told(&self, knows: Knows<'_>, verdict: &Verdict, word: Word<'_>) -> Result<Raw, Refusal> {
        let verdict = &self.with_whole_commands(verdict);
        let mut object = serde_json::to_value(verdict).unwrap_or_default();
        let put = |object: &mut Value, name: &str, value: Value| {
            if let Some(object) = object.as_object_mut() {
                object.insert(name.to_owned(), value);
            }
        };
        match verdict.verdict {
            VerdictKind::Committed | VerdictKind::Settled => return Ok(done(verdict, &object)),
            VerdictKind::Rejected | VerdictKind::Failed => put(&mut object, "retry", retry(knows, verdict)),
            VerdictKind::Review | VerdictKind::InFlight | VerdictKind::InDoubt => {
                let word = match word {
                    Word::Given(word) => Some(word.to_owned()),
                    Word::New(seen) => new_word(knows.upstream, verdict, seen),
                };
                if let Some(word) = word {
                    put(&mut object, "continuation", json!(word));
                }
                put(&mut object, "retry", json!({"how": "continue", "after_ms": 1000}));
            }
        }
        Err(Refusal::of_verdict(verdict, advice(knows, verdict), object).advised(&self.operator))
    }
}

/// The word by which a client asks for a call that is not over: one that it has already, or one of the session's.
pub(super) enum Word<'a> {
    Given(&'a str),
    New(&'a Observations),
}

/// The word by which a call that is not over is asked for again. The gate shows an action to its own agent only; the seal keeps
/// other sessions of the same agent from guessing it.
pub(super) fn new_word(upstream: &str, verdict: &Verdict, seen: &Observations) -> Option<String> {
    let entry = open_entry(verdict).or(verdict.entry)?;
    sealed_word(upstream, entry, seen)
}

fn sealed_word(upstream: &str, entry: u64, seen: &Observations) -> Option<String> {
    let word = format!("{upstream}:{entry}");
    Some(format!("{word}:{}", seen.seal(&word)?))
}

/// The entry that the effect or review of a verdict began in.
pub(super) fn open_entry(verdict: &Verdict) -> Option<u64> {
    match (&verdict.effect, &verdict.review) {
        (Some(effect), _) => effect.parse().ok().map(|EffectId(entry)| entry),
        (None, Some(review)) => review.parse().ok().map(|ReviewId(entry)| entry),
        (None, None) => None,
    }
}

fn parse_word<'a>(word: &'a str, seen: &Observations) -> Option<(&'a str, u64)> {
    let (word, seal) = word.rsplit_once(':')?;
    if seen.seal(word)? != seal {
        return None;
    }
    let (upstream, entry) = word.rsplit_once(':')?;
    Some((upstream, entry.parse().ok()?))
}

/// What the upstream answered, if that was kept, without what only the gateway says.
fn kept(verdict: &Verdict) -> Option<Members> {
    let mut result = Members::parse(verdict.evidence.as_ref()?.result.as_deref()?).ok()?;
    // What can be read in two ways could speak for the gate in one of them.
    unspoken(&mut result).ok()?;
    Some(result)
}

/// What the upstream answered, with what the gate says of it beside.
fn done(verdict: &Verdict, object: &Value) -> Raw {
    let said = verdict.evidence.as_ref().map_or("Done.", |evidence| evidence.summary.as_str());
    let result = kept(verdict).unwrap_or_else(|| {
        let mut result = Members::default();
        result.set("content", raw(&json!([{"type": "text", "text": said}])));
        result
    });
    with_object(result, object)
}

/// The definition of the gateway's own tool.
pub fn continue_tool() -> Raw {
    raw(&json!({
        "name": CONTINUE,
        "description": "Asks what became of a call that was not over: one that waits for a person, or is still under way; or, with \
                        `more`, for everything that a refusal had no room for. It never makes the call a second time.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "continuation": {"type": "string"},
                "wait_ms": {"type": "integer", "minimum": 0, "maximum": CONTINUE_MS_MAX},
                "more": {"type": "boolean"},
            },
            "required": ["continuation"],
        },
        "annotations": {"readOnlyHint": true},
    }))
}
