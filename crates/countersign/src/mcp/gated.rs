//! Calls of tools that a pact maps: each is an action, and the gate's own worker makes the call, after everything held.
//!
//! The gateway never makes such a call itself. It asks, waits a moment, and tells what became of it; for what takes longer it gives
//! out a continuation, by which the same action is asked for again and never done twice.

use super::gate::{Approval, GateClient};
use super::mapping::{Mapped, Mapping};
use super::message::{Members, Raw, raw};
use super::refusal::{MEMBER, Refusal};
use super::tool::Tool;
use crate::client::Call;
use countersign_api::{ActionRequest, Verdict, VerdictKind};
use countersign_core::ids::FactId;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The gateway's own tool, by which a call that is not over is asked for again.
pub const CONTINUE: &str = "countersign_continue";

/// How old what is known of the pacts may be.
const MAPPING_KEPT: Duration = Duration::from_secs(2);
/// How long a call is waited for at most before it is answered with a continuation.
const WAIT_MS_MAX: u64 = 20_000;
/// How long a continuation may wait.
const CONTINUE_MS_MAX: u64 = 5_000;
/// How many calls that are not over are remembered; the oldest is forgotten first.
const PENDING_MAX: usize = 4096;

/// What is known of the pacts, and which calls are not over.
#[derive(Default)]
pub struct Calls {
    mapping: Mutex<Option<(Instant, Arc<Mapping>)>>,
    pending: Mutex<VecDeque<(String, String, ActionRequest)>>,
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
        // Where the pacts cannot be read nothing is taken for unmapped: fail closed (I4).
        let before = kept.as_ref().map(|(_, mapping)| mapping);
        let mapping = Mapping::read(&self.client, before).map_err(|error| Refusal::no_gate(&error))?;
        *kept = Some((Instant::now(), Arc::clone(&mapping)));
        Ok(mapping)
    }

    /// Carries out a call that a pact maps; the result for the client.
    pub fn gated(
        &self,
        upstream: &str,
        tool: &Tool,
        mapping: &Mapping,
        mapped: &Mapped,
        arguments: &str,
        key: Option<String>,
    ) -> Result<Raw, Refusal> {
        let approvals =
            self.approvals(upstream, std::slice::from_ref(tool)).map_err(|error| Refusal::no_gate(&error))?;
        if approvals.first() != Some(&Approval::AsItIs) {
            return Err(Refusal::not_approved(upstream, &tool.name));
        }
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let params =
            countersign_core::json::parse_object(arguments).map_err(|error| Refusal::arguments(&error.to_string()))?;
        let key = key.map_or_else(super::gate::random_key, Ok).map_err(|error| Refusal::no_gate(&error))?;
        let request = ActionRequest {
            pact: mapped.pact.clone(),
            action: mapped.action.clone(),
            idempotency_key: key,
            params,
            observations: Vec::new(),
            delegation: None,
            claim: None,
        };
        let wait_ms = mapped.takes_ms.saturating_add(1_000).min(WAIT_MS_MAX);
        self.answered(upstream, mapping, &request, wait_ms)
    }

    /// Asks for a call that is not over.
    pub fn go_on(&self, arguments: &str) -> Result<Raw, Refusal> {
        let members = Members::parse(arguments).unwrap_or_default();
        let Some(word) = members.text("continuation") else {
            return Err(Refusal::arguments("the argument `continuation` is missing"));
        };
        let wait_ms =
            members.get("wait_ms").and_then(|wait| wait.get().parse::<u64>().ok()).unwrap_or(0).min(CONTINUE_MS_MAX);
        let pending = self.calls.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let found = pending.iter().find(|(known, _, _)| *known == word);
        let found = found.map(|(_, upstream, request)| (upstream.clone(), request.clone()));
        drop(pending);
        let (upstream, request) = found.ok_or_else(|| Refusal::arguments("this continuation is not known here"))?;
        self.answered(&upstream, &*self.mapping()?, &request, wait_ms)
    }

    fn answered(
        &self,
        upstream: &str,
        mapping: &Mapping,
        request: &ActionRequest,
        wait_ms: u64,
    ) -> Result<Raw, Refusal> {
        let call = Call::post(format!("/v1/actions?wait_ms={wait_ms}")).agent(&self.agent).json(request);
        let verdict =
            call.and_then(|call| self.client.call::<Verdict>(call)).map_err(|error| Refusal::no_gate(&error))?;
        let mut object = serde_json::to_value(&verdict).unwrap_or_default();
        let put = |object: &mut Value, name: &str, value: Value| {
            if let Some(object) = object.as_object_mut() {
                object.insert(name.to_owned(), value);
            }
        };
        match verdict.verdict {
            VerdictKind::Committed | VerdictKind::Settled => return Ok(done(&verdict, &object)),
            VerdictKind::Rejected | VerdictKind::Failed => {
                put(&mut object, "retry", retry(upstream, mapping, &verdict))
            }
            VerdictKind::Review | VerdictKind::InFlight | VerdictKind::InDoubt => {
                let word = self.remember(upstream, request);
                put(&mut object, "continuation", json!(word));
                put(&mut object, "retry", json!({"how": "continue", "after_ms": 1000}));
            }
        }
        Err(Refusal::of_verdict(&verdict, object))
    }

    /// Keeps a call that is not over; the word to ask for it by. The key is as hard to guess as any.
    fn remember(&self, upstream: &str, request: &ActionRequest) -> String {
        let word = format!("{CONTINUE}:{}", request.idempotency_key);
        let mut pending = self.calls.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.iter().any(|(known, _, _)| *known == word) {
            pending.push_back((word.clone(), upstream.to_owned(), request.clone()));
        }
        if pending.len() > PENDING_MAX {
            pending.pop_front();
        }
        word
    }
}

/// What the upstream answered, with what the gate says of it beside.
fn done(verdict: &Verdict, object: &Value) -> Raw {
    let kept = verdict.evidence.as_ref().and_then(|evidence| evidence.result.as_deref());
    let mut result = kept.and_then(|kept| Members::parse(kept).ok()).unwrap_or_else(|| {
        let mut result = Members::default();
        result.set("content", raw(&json!([{"type": "text", "text": "Done."}])));
        result
    });
    if result.get("resultType").is_none() {
        result.set("resultType", raw(&"complete"));
    }
    let mut meta = result.object("_meta").unwrap_or_default();
    meta.set(MEMBER, raw(object));
    result.set("_meta", meta.to_raw());
    result.to_raw()
}

/// What would make sense next: to read again what no longer held, where tools of this upstream read it.
fn retry(upstream: &str, mapping: &Mapping, verdict: &Verdict) -> Value {
    let mut calls: Vec<Value> = Vec::new();
    for read in verdict.failed.iter().flat_map(|failed| &failed.reads) {
        let fact = read.attribute.rsplit_once("\".").map_or(read.attribute.clone(), |(fact, _)| format!("{fact}\""));
        let call = fact.parse::<FactId>().ok().and_then(|fact| mapping.reread(upstream, &fact));
        calls.extend(call.filter(|call| !calls.contains(call)));
    }
    match verdict.code.as_deref() {
        _ if !calls.is_empty() => json!({"how": "call", "calls": calls}),
        Some("fact_fenced" | "fact_claimed" | "budget_exceeded" | "halted") => {
            json!({"how": "later", "after_ms": 1000})
        }
        Some("precondition_failed" | "invalid_params" | "fact_missing" | "stale") => json!({"how": "change"}),
        _ => json!({"how": "never"}),
    }
}

/// The definition of the gateway's own tool.
pub fn continue_tool() -> Raw {
    raw(&json!({
        "name": CONTINUE,
        "description": "Asks what became of a call that was not over: one that waits for a person, or is still under way. \
                        It never makes the call a second time.",
        "inputSchema": {
            "type": "object",
            "properties": {"continuation": {"type": "string"}, "wait_ms": {"type": "integer", "minimum": 0, "maximum": CONTINUE_MS_MAX}},
            "required": ["continuation"],
        },
        "annotations": {"readOnlyHint": true},
    }))
}
