//! Several actions under one signature: cut out of the body as they were sent, handed in as one, answered one by one.

use super::caller::Caller;
use super::error::{HttpError, invalid_json};
use super::facts::bad_query;
use super::rate::{Empty, cost, too_often};
use super::verdict::{self, Told};
use super::{App, body, json};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use countersign_api::routes::WAIT_MS_MAX;
use countersign_api::{ActionError, ActionRefused, BatchResponse, BatchResult, ErrorCode, Verdict};
use countersign_core::body::RawBody;
use countersign_core::call::EffectId;
use countersign_core::denial::DenialCode;
use countersign_core::ids::{ActionId, AgentId};
use countersign_core::limits::BATCH_ACTIONS_MAX;
use countersign_core::record::{Event, Kind};
use countersign_engine::gate::{AdmittedBatch, BatchError, Gate, LogError};
use countersign_engine::identity::meaning::asks_atomic;
use countersign_engine::request::{self, Answer, Entered, Refusal};
use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchQuery {
    #[serde(default)]
    atomic: bool,
    #[serde(default)]
    wait_ms: u64,
}

/// `POST /v1/actions/batch`
pub async fn act_many(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: Result<Query<BatchQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, HttpError> {
    let started = Instant::now();
    let Query(BatchQuery { atomic, wait_ms }) = query.map_err(|error| bad_query(&error))?;
    if wait_ms > WAIT_MS_MAX {
        let message = format!("`wait_ms` is {wait_ms}; a request waits {WAIT_MS_MAX} ms at most");
        return Err(HttpError::new(ErrorCode::InvalidPath, message, "wait for less, and ask again"));
    }
    // An audit reads what was signed, and must read it in the same way.
    if caller.auth.signed().is_some_and(|signed| asks_atomic(signed) != atomic) {
        let message = "`atomic` is spelled in a way that can be read in two ways";
        return Err(HttpError::new(ErrorCode::InvalidPath, message, "write `atomic=true`, without percent-encoding"));
    }
    let text = body::text(request).await?;
    let bodies = cut(&text)?;
    let agent = caller.name.clone();
    app.charge_batch(&caller, bodies.len(), text.len())?;
    let (count, Caller { name, auth, .. }) = (bodies.len(), caller);
    // So many actions at once take a while, and any of them may wait for the disk.
    let admit = move |gate: &Gate| gate.admit_many(name, auth, &bodies, atomic);
    let AdmittedBatch { many, refused } = app.blocking(admit).await?;
    let admitted: Vec<ActionId> = many.actions.iter().map(|action| action.id).collect();
    let answer = match admitted.is_empty() {
        true => Answer::Many(Vec::new()),
        false => app
            .submit(request::Request::ActMany(many))
            .await
            .inspect_err(|error| admitted.iter().for_each(|_| app.count_keys(&agent, error)))?,
    };
    let (batch, mut results) = match answer {
        Answer::Entered(entered) => (Some(entered.entry.index), app.of_group(&entered)?),
        Answer::Many(answers) => {
            if atomic {
                app.check_repeated(&answers).await?;
            }
            app.of_each(&agent, &admitted, answers).await?
        }
        Answer::Repeated(entry) => {
            return Err(HttpError::internal(format!("entry {entry} answered a batch as if it were one action")));
        }
    };
    app.metrics.action_took(started.elapsed());
    let until = started + Duration::from_millis(wait_ms);
    for Answered { result, under_way } in &mut results {
        if let BatchResult::Verdict(verdict) = result
            && under_way.is_some()
        {
            let left = until.saturating_duration_since(Instant::now());
            let told = Told { verdict: (**verdict).clone(), under_way: *under_way };
            // If how its call ended cannot be read, the verdict is still what was decided; the rest can be asked for later.
            if let Ok(settled) = app.settled_verdict(told, &agent, left).await {
                **verdict = settled;
            }
        }
    }
    let results = results.into_iter().map(|answered| answered.result).collect();
    json(&BatchResponse { batch, results: in_order(count, refused, results) })
}

/// What came of one action, and its effect where that can be waited for.
struct Answered {
    result: BatchResult,
    under_way: Option<EffectId>,
}

/// The raw bodies of the actions, byte for byte as they were sent. No more is read than a batch may have.
fn cut(text: &str) -> Result<Vec<RawBody>, HttpError> {
    let mut cut = Vec::new();
    let mut from = serde_json::Deserializer::from_str(text);
    match from.deserialize_seq(Cut(&mut cut)).and_then(|()| from.end()) {
        Ok(()) => Ok(cut.into_iter().map(|action| RawBody::from(action.get())).collect()),
        Err(_) if cut.len() > BATCH_ACTIONS_MAX => {
            let message = format!("the batch has more than {BATCH_ACTIONS_MAX} actions");
            Err(HttpError::new(ErrorCode::BatchSize, message, SIZE_HINT))
        }
        Err(error) => Err(invalid_json(format!("the body is not a JSON array of actions: {error}"))),
    }
}

/// Cuts the elements of an array out, one more than a batch may have at most.
struct Cut<'c, 'de>(&'c mut Vec<&'de RawValue>);

impl<'de> Visitor<'de> for Cut<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(action) = elements.next_element()? {
            self.0.push(action);
            if self.0.len() > BATCH_ACTIONS_MAX {
                return Err(A::Error::custom("too many"));
            }
        }
        Ok(())
    }
}

const SIZE_HINT: &str = "send 1 to 256 actions at once, in an atomic group 1 to 32";

/// What came of each action, with those among them that were refused at the door.
fn in_order(
    count: usize,
    mut refused: BTreeMap<usize, countersign_engine::gate::AdmitError>,
    results: Vec<BatchResult>,
) -> Vec<BatchResult> {
    let mut results = results.into_iter();
    let at = |at| match refused.remove(&at) {
        Some(error) => Some(told(error.into())),
        None => results.next(),
    };
    (0..count).filter_map(at).collect()
}

fn told(error: HttpError) -> BatchResult {
    let HttpError { code, message, hint, entry, .. } = error;
    let error = ActionError { code: code.as_str().to_owned(), message, hint: hint.into_owned(), entry };
    BatchResult::Refused(ActionRefused { error })
}

impl App {
    /// A batch counts as its actions. What its bytes cost was charged when its signature was verified.
    fn charge_batch(&self, caller: &Caller, actions: usize, bytes: usize) -> Result<(), HttpError> {
        let Some(key) = caller.auth.key() else { return Ok(()) };
        let more = (actions as u64).saturating_sub(cost(bytes));
        if more == 0 {
            return Ok(());
        }
        self.rates.charge_key(&key.public_key(), more).map(drop).map_err(|Empty| {
            for _ in 0..actions {
                self.gate.deny(&caller.name, DenialCode::RateLimited, "/v1/actions/batch");
            }
            too_often(caller.name.as_str())
        })
    }

    fn count_keys(&self, agent: &AgentId, error: &HttpError) {
        if error.code == ErrorCode::TooManyKeys {
            self.gate.deny(agent, DenialCode::TooManyKeys, "");
        }
    }

    /// The answers to actions that were decided each on its own, and the entry of their batch.
    async fn of_each(
        &self,
        agent: &AgentId,
        ids: &[ActionId],
        answers: Vec<Result<Answer, Refusal>>,
    ) -> Result<(Option<u64>, Vec<Answered>), HttpError> {
        // Where nothing of it was made durable, the batch as a whole has no verdict.
        let is_lost = |answer: &Result<_, _>| matches!(answer, Err(Refusal::Poisoned(_) | Refusal::Closed));
        if answers.iter().all(is_lost)
            && let Some(Err(refusal)) = answers.first()
        {
            return Err(refusal.clone().into());
        }
        let mut batch = None;
        let mut results = Vec::with_capacity(answers.len());
        for (id, answer) in ids.iter().zip(answers) {
            let answered = match answer {
                Ok(Answer::Entered(entered)) => {
                    batch = batch.or_else(|| entered.entry.event.batch());
                    verdict::of_entry(&self.gate, &entered)
                        .ok_or_else(|| HttpError::internal("an action became an entry of another kind"))
                }
                Ok(Answer::Repeated(entry)) => self.stored_verdict_on(entry, Some(*id)).await,
                Ok(Answer::Many(_)) => Err(HttpError::internal("one action was answered as several")),
                Err(refusal) => Err(refusal.into()),
            };
            results.push(match answered {
                Ok(Told { verdict, under_way }) => {
                    Answered { result: BatchResult::Verdict(Box::new(verdict)), under_way }
                }
                // What cannot be said of one would make the others unknown too: nothing that committed may sound as if it had not.
                Err(error) => {
                    self.count_keys(agent, &error);
                    Answered { result: told(error), under_way: None }
                }
            });
        }
        Ok((batch, results))
    }

    /// The verdicts on the actions of a group that was rejected as a whole.
    fn of_group(&self, entered: &Entered) -> Result<Vec<Answered>, HttpError> {
        let Event::Group(group) = &entered.entry.event else {
            return Err(HttpError::internal("a group became an entry of another kind"));
        };
        self.gate.note_entered(&entered.entry);
        let (entry, receipt) = (entered.entry.index, super::receipt(entered));
        let verdict = |at| {
            let verdict = verdict::of_group(&self.gate, group, entry, at);
            let result = BatchResult::Verdict(Box::new(Verdict { receipt: receipt.clone(), ..verdict }));
            Answered { result, under_way: None }
        };
        Ok((0..group.actions.len()).map(verdict).collect())
    }

    /// Whether actions that were decided before were decided as one group. If not, answering for them would promise what never was.
    async fn check_repeated(&self, answers: &[Result<Answer, Refusal>]) -> Result<(), HttpError> {
        let entries: Vec<u64> = answers
            .iter()
            .filter_map(|answer| match answer {
                Ok(Answer::Repeated(entry)) => Some(*entry),
                _ => None,
            })
            .collect();
        let Some(first) = entries.first().copied() else { return Ok(()) };
        let is_one = self.blocking(move |gate| is_one_group(gate, &entries)).await?;
        match is_one {
            true => Ok(()),
            false => Err(Refusal::GroupRepeats { at: 1, entry: first }.into()),
        }
    }
}

/// Whether these entries are those of one atomic group, in its order, or one that rejected it.
fn is_one_group(gate: &Gate, entries: &[u64]) -> Result<bool, LogError> {
    let Some((first, rest)) = entries.split_first() else { return Ok(true) };
    let first_leaf = gate.read_log(*first)?.leaf()?;
    if first_leaf.kind == Kind::Group {
        return Ok(first_leaf.actions.map_or(0, |all| all.len()) == entries.len() && rest.iter().all(|it| it == first));
    }
    let Some(batch) = first_leaf.batch else { return Ok(false) };
    let Event::Batch { actions, is_atomic: true } = gate.read_log(batch)?.decode()?.event else { return Ok(false) };
    // Those of a group are next to each other, right behind the entry of their batch.
    Ok(actions.len() == entries.len() && entries.iter().copied().eq((batch + 1)..=(batch + actions.len() as u64)))
}

impl From<BatchError> for HttpError {
    fn from(error: BatchError) -> Self {
        let message = error.to_string();
        match error {
            BatchError::Empty | BatchError::TooMany { .. } => Self::new(ErrorCode::BatchSize, message, SIZE_HINT),
            BatchError::Unlisted => Self::new(
                ErrorCode::SignatureIncomplete,
                message,
                "send `Countersign-Actions: sha-256=:…:`, the digest of the actions' ids, and cover it with the signature",
            ),
            BatchError::OtherActions => Self::new(
                ErrorCode::ActionsMismatch,
                message,
                "hash each action as its bytes are in the body, without the spaces around it; then hash these ids in order",
            ),
            BatchError::Action { at, source } => {
                let mut error = Self::from(*source);
                error.message = format!("action {at}: {}", error.message);
                error
            }
            BatchError::Twice { .. } => Self::field(message),
        }
    }
}
