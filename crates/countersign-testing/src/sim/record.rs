//! Asking and being answered: the clients' wishes become requests of the engine, its answers become history.

use super::Simulation;
use super::clients::OPERATOR;
use super::reviews::{reason, refused};
use crate::checker::{Answered, Asked, Operation, Shown, stored};
use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::delegation::Chain;
use countersign_core::disclose::{disclose, withheld};
use countersign_core::erase::{EraseTarget, InForce};
use countersign_core::fact::Version;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::Pact;
use countersign_core::pact::load::load;
use countersign_core::record::{Entry, Leaf};
use countersign_core::review::ReviewId;
use countersign_core::value::Attributes;
use countersign_engine::clock::LedgerClock;
use countersign_engine::delegation::Delegations;
use countersign_engine::gate::Parts;
use countersign_engine::log_key::NextKey;
use countersign_engine::request::{ActMany, Answer, Refusal, Request, Submission};
use countersign_engine::storage::ReadLog as _;
use countersign_engine::token::{Length, Observation};
use serde_json::Value as Json;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of an operation, and what it was answered.
type Given = (usize, Result<Answer, Refusal>);

/// Where the answers of one batch arrive.
#[derive(Default, Clone)]
pub(super) struct Slot {
    answers: Arc<Mutex<Vec<Given>>>,
}

fn agent_id(name: &str) -> Result<AgentId, String> {
    AgentId::new(name).map_err(|error| error.to_string())
}

fn fact_id(text: &str) -> Result<FactId, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

impl Simulation<'_> {
    pub(super) fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Shows facts to some agent, as the gate does.
    pub(super) fn observe(&mut self, parts: &Parts, ledger_clock: &mut LedgerClock) {
        let by = self.clients.observer();
        let started = self.now();
        let at_ms = ledger_clock.read(&*self.clock);
        let view = parts.view();
        let facts = self.clients.curiosity(by, &view);
        let Ok(agent) = agent_id(by) else { return };
        let (mut shown, mut observed, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for text in &facts {
            let Ok(id) = fact_id(text) else { continue };
            let fact = view.whole_state().facts.get(&id);
            let (version, value) = fact.map_or((0, None), |fact| (fact.version(), fact.value.clone()));
            let disclosed = disclose(view.whole_state(), &agent, &id);
            if !disclosed.is_observable() {
                refused.push(text.clone());
                continue;
            }
            let seen = value.as_ref().map(|value| value.only(|name| disclosed.shows(name)).to_json());
            let withheld =
                fact.filter(|_| value.is_some()).map(|fact| withheld(view.whole_state(), fact.id.ty(), &disclosed));
            let withheld = withheld.into_iter().flatten().map(|name| name.to_string()).collect();
            shown.push(Shown { fact: text.clone(), version, value: seen, withheld });
            observed.push(Observed { fact: id, version: Version::Number(version), at_ms, value });
        }
        let position = view.position;
        drop(view);
        if !refused.is_empty() {
            self.say(|| format!("{by} may not observe {refused:?} at {position}"));
            return self.note(by, Asked::Observe { facts }, started, Answered::NotObservable { facts: refused });
        }
        let nonce = self.clients.nonce();
        let token = self.clients.sealer.seal(&Observation { agent, position, observed }, Length::Exact, nonce);
        self.clients.keep_token(by, token, &facts);
        self.say(|| format!("{by} observes {facts:?} at {position}"));
        self.note(by, Asked::Observe { facts }, started, Answered::Observed { position, at_ms, facts: shown });
    }

    /// Notes what was asked and answered at once, without an entry.
    pub(super) fn note(&mut self, by: &str, asked: Asked, started: u64, answer: Answered) {
        let (ended, by) = (Some(self.now()), by.to_owned());
        self.operations.push(Operation { by, signed_with: None, asked, started, ended, answer: Some(answer) });
    }

    /// Takes a batch of wishes from the clients.
    pub(super) fn ask(&mut self, parts: &Parts, slot: &Slot) -> Result<Vec<Submission>, String> {
        // Callers sign by the time that the gate judges by.
        self.signing_ms = parts.sequencer.time_ms(&*self.clock);
        let is_new = parts.view().whole_state().pacts.is_empty();
        let mut asked = Vec::new();
        if is_new && self.rng.below(10) > 0 {
            asked = self.clients.opening();
        } else if self.rng.below(12) == 0 {
            asked.extend(self.pick_erasure(parts)?);
        } else {
            for _ in 0..=self.rng.below(6) {
                asked.push(self.clients.next(&parts.view()));
            }
        }
        let mut submissions = Vec::new();
        for (by, asked) in asked {
            submissions.extend(self.submit(parts, slot, by, asked)?);
        }
        Ok(submissions)
    }

    fn submit(&mut self, parts: &Parts, slot: &Slot, by: &str, asked: Asked) -> Result<Option<Submission>, String> {
        let auth = self.auth(by, &asked)?;
        let signed_with = auth.signed().map(|signed| signed.key.to_string());
        let Some(request) = self.request(parts, by, auth, &asked)? else { return Ok(None) };
        Ok(Some(self.submission(slot, by, signed_with, asked, request)))
    }

    /// A request of the operator to rotate to a key that is in its file already.
    pub(super) fn submit_rotation(&mut self, slot: &Slot, next: NextKey) -> Result<Submission, String> {
        let asked = Asked::Rotate { log_key: next.public().to_string() };
        let (by, auth) = (agent_id(OPERATOR)?, self.auth(OPERATOR, &asked)?);
        let signed_with = auth.signed().map(|signed| signed.key.to_string());
        let request = Request::RotateLogKey { by, auth, next, reason: reason(&asked).to_owned() };
        Ok(self.submission(slot, OPERATOR, signed_with, asked, request))
    }

    fn submission(
        &mut self,
        slot: &Slot,
        by: &str,
        signed_with: Option<String>,
        asked: Asked,
        request: Request,
    ) -> Submission {
        let (at, answers) = (self.operations.len(), Arc::clone(&slot.answers));
        let reply = Box::new(move |answer| {
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
        });
        let started = self.now();
        self.stats.operations += 1;
        let by = by.to_owned();
        self.operations.push(Operation { by, signed_with, asked, started, ended: None, answer: None });
        Submission::new(request, reply)
    }

    fn request(&mut self, parts: &Parts, by: &str, auth: Auth, asked: &Asked) -> Result<Option<Request>, String> {
        let by = agent_id(by)?;
        Ok(Some(match asked {
            Asked::Act { body } => Request::Act(Box::new(self.admit(parts, by, auth, body)?)),
            Asked::Many { bodies, atomic } => {
                let of_each = auth.of_batch();
                let admitted = bodies.iter().map(|body| self.admit(parts, by.clone(), of_each.clone(), body));
                let actions = admitted.collect::<Result<Vec<_>, _>>()?;
                let ids = actions.iter().map(|action| action.id).collect();
                Request::ActMany(Box::new(ActMany { by, auth: auth.by_digests(), ids, actions, is_atomic: *atomic }))
            }
            Asked::Approve { review, shown_at_ms, until_ms } => {
                let shown = self.clients.showing(by.as_str(), *review, *shown_at_ms).cloned();
                let Some(shown) = shown.map(Box::new) else { return Ok(None) };
                Request::Approve { by, auth, shown, until_ms: *until_ms }
            }
            Asked::Refuse { review } => {
                Request::Refuse { by, auth, review: ReviewId(*review), reason: reason(asked).into() }
            }
            Asked::Feed { fact, value, if_match } => {
                let value = value.as_ref().and_then(Json::as_object).map(Attributes::from_untyped_json);
                let value = value.transpose().map_err(|error| error.to_string())?;
                Request::Feed { by, auth, fact: fact_id(fact)?, value, if_match: *if_match }
            }
            Asked::Publish { source, .. } => Request::Publish { by, auth, pact: loaded(source)? },
            Asked::Erase { entries } => {
                let mut targets = Vec::new();
                for entry in entries {
                    let stored = parts.committer.log().read_entry(*entry).map_err(|error| error.to_string())?;
                    let Some((_, payload)) = stored.content else { return Ok(None) };
                    let leaf = Leaf::decode(&stored.leaf).map_err(|error| error.to_string())?;
                    let entry = Entry::decode(leaf, Some(&payload)).map_err(|error| error.to_string())?;
                    targets.push(EraseTarget::new(&entry));
                }
                Request::Erase { by, auth, targets, reason: reason(asked).to_owned() }
            }
            Asked::Halt { scope } => {
                let scope = scope.parse().map_err(|error| format!("{scope}: {error}"))?;
                Request::Halt { by, auth, scope, reason: reason(asked).into() }
            }
            Asked::Resume { scope } => {
                let scope = scope.parse().map_err(|error| format!("{scope}: {error}"))?;
                Request::Resume { by, auth, scope, reason: reason(asked).into() }
            }
            Asked::ConfirmClock => Request::ConfirmClock { by, auth },
            Asked::Rotate { .. } | Asked::Observe { .. } | Asked::Show { .. } => return Ok(None),
        }))
    }

    /// Admission, as the gate does it: the binding is by the pact of now, which may be another when it is decided.
    fn admit(&self, parts: &Parts, agent: AgentId, auth: Auth, body: &str) -> Result<Action, String> {
        let request = ActionRequest::parse(body).map_err(|error| error.to_string())?;
        let mut observed = Vec::new();
        for token in &request.observations {
            observed.extend(self.clients.sealer.open(token, &agent, 0).map_err(|error| error.to_string())?.observed);
        }
        let pact = parts.view().whole_state().pacts.get(&request.pact).cloned();
        let chain = request.delegation.as_deref().map(reduced).transpose()?;
        let mut action = Action::new(agent, auth.without_body(body), body.into(), request, observed);
        action.chain = chain;
        if let Some((pact, kind)) = pact.as_ref().and_then(|pact| Some((pact, pact.actions.get(&action.action)?))) {
            action.bind(pact.hash, kind);
        }
        Ok(action)
    }

    /// Some entry to erase. What the log holds is noted first: afterwards nobody can know it.
    fn pick_erasure(&mut self, parts: &Parts) -> Result<Option<(&'static str, Asked)>, String> {
        self.note_payloads()?;
        let position = parts.view().position;
        let entry = self.rng.below(position);
        let read = parts.committer.log().read_entry(entry).map_err(|error| error.to_string())?;
        let leaf = stored::leaf(&read.leaf)?;
        let Some((_, content)) = read.content else { return Ok(None) };
        if !matches!(leaf["kind"].as_str(), Some("action" | "shadow" | "feed" | "approval" | "group")) {
            return Ok(None);
        }
        // Who might do what must stay provable.
        if !leaf["identity"].is_null() {
            return Ok(None);
        }
        let payload = stored::payload(&leaf, &content)?;
        let body: Json = payload["body"].as_str().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
        self.clients.erasing = Some(body["idempotency_key"].as_str().map(str::to_owned));
        Ok(Some((OPERATOR, Asked::Erase { entries: vec![entry] })))
    }

    /// Notes the answers of one batch.
    pub(super) fn take_answers(&mut self, slot: &Slot) -> Result<(), String> {
        let answers = std::mem::take(&mut *slot.answers.lock().unwrap_or_else(PoisonError::into_inner));
        for (at, answer) in answers {
            let answered = self.answered(answer)?;
            let ended = self.now();
            let Some(operation) = self.operations.get_mut(at) else { continue };
            if matches!((&operation.asked, &answered), (Asked::Erase { .. }, Some(Answered::Entered { .. }))) {
                self.clients.erased = self.clients.erasing.take();
            }
            let line = format!("{} {} -> {answered:?}", operation.by, brief(&operation.asked));
            // An answer that says nothing is none: the operation may still turn up in the log.
            operation.ended = answered.is_some().then_some(ended);
            operation.answer = answered;
            self.say(|| line);
        }
        Ok(())
    }

    fn answered(&mut self, answer: Result<Answer, Refusal>) -> Result<Option<Answered>, String> {
        Ok(Some(match answer {
            Ok(Answer::Many(answers)) => {
                Answered::Many(answers.into_iter().map(|answer| self.answered(answer)).collect::<Result<_, _>>()?)
            }
            Err(Refusal::GroupRepeats { .. }) => Answered::GroupRepeats,
            Ok(Answer::Repeated(index)) => Answered::Repeated { index },
            Ok(Answer::Entered(entered)) => {
                if self.rng.below(4) == 0 {
                    let receipt = entered.proof.receipt(&entered.entry).ok_or("an entry has no receipt")?;
                    // Which of its keys, the verifier tells in the end.
                    if !self.keys.iter().any(|key| receipt.verify(key).is_ok()) {
                        return Err("a receipt does not verify".to_owned());
                    }
                    self.receipts.push(receipt);
                }
                let event = &entered.entry.event;
                let wrote = event.writes().iter().map(|write| (write.fact.to_string(), write.version)).collect();
                let decision = event.decision();
                let blocked = decision.and_then(|decision| decision.blocked());
                Answered::Entered {
                    index: entered.entry.index,
                    verdict: decision.map(|decision| decision.verdict.as_str().to_owned()),
                    code: blocked.map(|blocked| blocked.code().as_str().to_owned()),
                    failed: blocked.iter().flat_map(|b| b.failed()).map(|failed| failed.id.to_string()).collect(),
                    wrote,
                }
            }
            Err(Refusal::Poisoned(_)) => return Ok(None),
            Err(Refusal::KeyReused(index)) => Answered::KeyReused { index },
            Err(Refusal::VersionMismatch { current, .. }) => Answered::VersionMismatch { current },
            Err(Refusal::Publish(_)) => Answered::NotNextVersion,
            Err(Refusal::UnknownType(_)) => Answered::UnknownType,
            Err(Refusal::InForce { entry, what: InForce::Current(fact) }) => {
                Answered::CurrentValue { index: entry, fact: fact.to_string() }
            }
            Err(Refusal::InForce { entry, what: InForce::Budget { .. } | InForce::Review { .. } }) => {
                Answered::InForce { index: entry }
            }
            Err(Refusal::Halt(_)) => Answered::NotHalted,
            Err(Refusal::NotAuthorised(_)) => Answered::NotAuthorised,
            Err(Refusal::Review(refusal)) => Answered::ReviewRefused(refused(&refusal)?),
            Err(Refusal::ClockSteady) => Answered::ClockSteady,
            Err(refusal) => return Err(format!("nobody should be told this: {refusal}")),
        }))
    }
}

/// The chain of a delegation. Each token is verified once, as the gate does with those that it has seen.
fn reduced(token: &str) -> Result<Arc<Chain>, String> {
    static SEEN: OnceLock<Delegations> = OnceLock::new();
    SEEN.get_or_init(Delegations::default).reduce(token, super::ORIGIN).map_err(|error| error.to_string())
}

/// A loaded pact; the first version is the same in every run, and loading is slow.
fn loaded(source: &str) -> Result<Arc<Pact>, String> {
    static FIRST: OnceLock<Arc<Pact>> = OnceLock::new();
    if let Some(first) = FIRST.get().filter(|first| &*first.source == source) {
        return Ok(Arc::clone(first));
    }
    let pact = load(source).map_err(|problems| format!("the bank's pact does not load: {problems:?}"))?.pact;
    let pact = Arc::new(pact);
    if pact.version == 1 {
        FIRST.get_or_init(|| Arc::clone(&pact));
    }
    Ok(pact)
}

/// What was asked, on one line of a trace.
fn brief(asked: &Asked) -> String {
    match asked {
        Asked::Act { body } => {
            let body: Json = serde_json::from_str(body).unwrap_or_default();
            let (action, params, key) = (&body["action"], &body["params"], &body["idempotency_key"]);
            let tokens = body["observations"].as_array().map_or(0, Vec::len);
            format!("does {action} {params} with {tokens} observations under {key}")
        }
        Asked::Publish { version, .. } => format!("publishes version {version}"),
        other => format!("asks {other:?}"),
    }
}
