//! Reviews: what waits for a person, what a reviewer is shown, and what comes of it.

use super::caller::Caller;
use super::error::HttpError;
use super::facts::bad_path;
use super::{App, body, json, receipt, verdict};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use countersign_api::{ErrorCode, PactRef, Refused, ReviewFact, ReviewList, ReviewReading, ReviewShown, ReviewSummary};
use countersign_core::action::Observed;
use countersign_core::decision::Verdict;
use countersign_core::difference::difference;
use countersign_core::limits::APPROVAL_EXPIRES_MS;
use countersign_core::review::{Parked, ReviewId};
use countersign_core::session::{Place, as_sent};
use countersign_engine::gate::{ExternalFacts, RestedOn, ShownReview};
use countersign_engine::request;
use serde_json::Value;
use std::sync::Arc;

type ReviewPath = Result<Path<String>, PathRejection>;

fn review_id(path: ReviewPath) -> Result<ReviewId, HttpError> {
    let Path(text) = path.map_err(|error| bad_path(&error))?;
    Ok(text.parse::<ReviewId>().map_err(request::Refusal::from)?)
}

fn summary(review: ReviewId, parked: &Parked) -> ReviewSummary {
    ReviewSummary {
        review: review.to_string(),
        entry: review.0,
        agent: parked.action.agent.to_string(),
        pact: parked.action.pact.to_string(),
        action: parked.action.action.to_string(),
        at: parked.at_ms,
        expires_at: parked.expires_at_ms,
    }
}

/// `GET /v1/reviews`
pub async fn list(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let reviews = app.gate.reviews();
    json(&ReviewList { reviews: reviews.iter().map(|(review, parked)| summary(*review, parked)).collect() })
}

/// `GET /v1/reviews/{review}`
pub async fn show(State(app): State<Arc<App>>, caller: Caller, path: ReviewPath) -> Result<Response, HttpError> {
    let review = review_id(path)?;
    let outside = app.gate.external_of_review(review).map_err(request::Refusal::from)?;
    let read = if outside.is_empty() {
        ExternalFacts::default()
    } else {
        let adapters = Arc::clone(&app.adapters);
        app.blocking(move |gate| gate.read_external(&outside, &adapters)).await?
    };
    let shown = app.gate.show_review_with(review, &caller.name, &read).map_err(request::Refusal::from)?;
    if shown.parked.rests_on.is_empty() {
        return json(&on_the_wire(&shown, &[]));
    }
    // What the agent had may have to be looked for in the log.
    let parked = shown.parked.clone();
    let readings = app.blocking(move |gate| Ok::<_, request::Refusal>(gate.readings_of(&parked))).await?;
    json(&on_the_wire(&shown, &readings))
}

/// The longest content of a reading that is shown, and of all together.
const CONTENT_BYTES_MAX: usize = 2048;
const CONTENTS_BYTES_MAX: usize = 32 << 10;

/// The beginning of a text, in at most so many bytes.
fn beginning(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

/// Readings as their agent had them when it asked.
fn readings_on_the_wire(readings: &[RestedOn]) -> Vec<ReviewReading> {
    let mut left = CONTENTS_BYTES_MAX;
    let one = |RestedOn { had, now }: &RestedOn| {
        let Place { upstream, tool, arguments } = now.reading.place.clone();
        let content = had.as_ref().and_then(|had| had.reading.content.as_deref());
        let shown = content.map(|content| beginning(content, CONTENT_BYTES_MAX.min(left)));
        left = left.saturating_sub(shown.as_ref().map_or(0, String::len));
        let read_again = had.as_ref().is_none_or(|had| had.digest != now.digest);
        let after = now.reading.content.as_deref().filter(|_| read_again);
        let difference = content.zip(after).map(|(before, after)| difference(before, after, CONTENT_BYTES_MAX));
        ReviewReading {
            upstream: upstream.to_string(),
            tool: tool.to_string(),
            arguments: as_sent(&arguments).into_owned(),
            read_at: had.as_ref().unwrap_or(now).reading.at_ms,
            cut: shown.as_deref() != content,
            content: shown,
            read_again,
            changes: difference.map(verdict::changes).unwrap_or_default(),
        }
    };
    readings.iter().map(one).collect()
}

fn on_the_wire(review: &ShownReview, readings: &[RestedOn]) -> ReviewShown {
    let ShownReview { parked, shown, decision, token } = review;
    let fact = |now: &Observed| {
        let observed = parked.action.observation_of(&now.fact);
        ReviewFact {
            fact: now.fact.to_string(),
            version: now.version.number().unwrap_or_default(),
            digest: now.version.digest().map(|digest| digest.to_string()),
            value: now.value.as_ref().map(|value| value.to_json()),
            observed_version: observed.and_then(|observed| observed.version.number()),
            observed_value: observed.and_then(|observed| observed.value.as_ref()).map(|value| value.to_json()),
            observed_at: observed.map(|observed| observed.at_ms),
        }
    };
    let waives = match &decision.verdict {
        Verdict::Review { blocked, .. } => verdict::in_words(blocked).failed,
        Verdict::Committed | Verdict::Rejected(_) | Verdict::InFlight(_) => Vec::new(),
    };
    let blocked = match &decision.verdict {
        Verdict::Rejected(blocked) => Some(format!("{}: {}", blocked.code(), blocked.message())),
        Verdict::Committed | Verdict::Review { .. } | Verdict::InFlight(_) => None,
    };
    let body: Value = serde_json::from_str(&parked.action.body).unwrap_or_default();
    ReviewShown {
        summary: summary(shown.review, parked),
        action_id: shown.action.to_string(),
        chain: parked.action.chain.iter().flat_map(|chain| chain.agents()).map(ToString::to_string).collect(),
        params: body.get("params").cloned().unwrap_or_default(),
        pact_ref: PactRef {
            name: shown.pact.name.to_string(),
            version: shown.pact.version,
            hash: shown.pact.hash.to_string(),
        },
        facts: shown.facts.iter().map(fact).collect(),
        readings: readings_on_the_wire(readings),
        waives,
        blocked,
        shown_at: shown.at_ms,
        shown: token.clone(),
    }
}

/// `POST /v1/reviews/{review}/approve`
pub async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: ReviewPath,
    request: Request,
) -> Result<Response, HttpError> {
    let review = review_id(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let token = fields.string("shown")?;
    let expires_in_ms = match fields.take("expires_in_ms") {
        None => APPROVAL_EXPIRES_MS,
        Some(value) => value
            .as_u64()
            .filter(|span| *span <= APPROVAL_EXPIRES_MS)
            .ok_or_else(|| HttpError::field(format!("field `expires_in_ms` must be at most {APPROVAL_EXPIRES_MS}")))?,
    };
    fields.done()?;
    let Caller { name: by, auth, .. } = caller;
    let hint = "show the review again, as the reviewer who approves, and send the token as it was given out";
    let refused = |message: String| HttpError::new(ErrorCode::ShownRefused, message, hint);
    let shown = app.gate.open_shown(&token, &by).map_err(|error| refused(error.of_shown().to_owned()))?;
    if shown.review != review {
        return Err(refused(format!("this is what was shown of {}, not of {review}", shown.review)));
    }
    let until_ms = shown.at_ms.saturating_add(expires_in_ms);
    let entered = app.enter(request::Request::Approve { by, auth, shown: Box::new(shown), until_ms }).await?;
    let told = verdict::of_entry(&app.gate, &entered);
    json(&told.ok_or_else(|| HttpError::internal("an approval became an entry of another kind"))?.verdict)
}

/// `POST /v1/reviews/{review}/refuse`
pub async fn refuse(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: ReviewPath,
    request: Request,
) -> Result<Response, HttpError> {
    let review = review_id(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let reason = fields.string("reason")?;
    fields.done()?;
    let Caller { name: by, auth, .. } = caller;
    let entered = app.enter(request::Request::Refuse { by, auth, review, reason: reason.into() }).await?;
    let receipt = receipt(&entered);
    json(&Refused { review: review.to_string(), entry: entered.entry.index, receipt })
}
