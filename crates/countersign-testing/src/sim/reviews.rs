//! Reviewers look at what waits, and everybody signs in identified runs.

use super::clients::ADMIN;
use super::{ORIGIN, Simulation};
use crate::checker::{Answered, Asked, ReviewRefused};
use crate::identities::{signed, signed_batch, signing_key};
use countersign_core::decide::show;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::review::{ReviewId, ReviewRefusal};
use countersign_engine::clock::LedgerClock;
use countersign_engine::gate::Parts;
use serde_json::json;

impl Simulation<'_> {
    /// Shows an action that waits to somebody, as the gate does.
    pub(super) fn show_review(&mut self, parts: &Parts, ledger_clock: &mut LedgerClock) {
        let by = self.clients.reviewer();
        let started = self.now();
        let at_ms = ledger_clock.read(&*self.clock);
        let view = parts.view();
        let Some(review) = self.clients.waiting(&view).map(ReviewId) else { return };
        let Ok(to) = AgentId::new(by) else { return };
        let parked = view.whole_state().reviews.waiting(review, at_ms).ok();
        let Some((shown, _)) = parked.and_then(|parked| show(review, parked, &to, view.whole_state(), &[], at_ms))
        else {
            return;
        };
        let position = view.position;
        drop(view);
        let facts =
            shown.facts.iter().map(|fact| (fact.fact.to_string(), fact.version.number().unwrap_or_default())).collect();
        let waives = shown.waives.iter().map(ToString::to_string).collect();
        let answer = Answered::ReviewShown { position, at_ms, facts, waives };
        self.say(|| format!("{by} is shown {review} at {position}"));
        self.clients.keep_showing(by, shown);
        self.note(by, Asked::Show { review: review.0 }, started, answer);
    }

    /// How a request is authenticated: in identified runs by a signature, mostly with the right key.
    pub(super) fn auth(&mut self, by: &str, asked: &Asked) -> Result<Auth, String> {
        if !self.identified {
            return Ok(Auth::None);
        }
        let may_err = by != ADMIN && !self.entries.is_empty();
        if may_err && self.rng.below(50) == 0 {
            return Ok(Auth::None);
        }
        let number = u8::from(may_err && self.rng.below(16) == 0);
        if let Asked::Many { bodies, atomic } = asked {
            self.nonce += 1;
            let key = signing_key(by, number);
            return signed_batch(&key, ORIGIN, bodies, *atomic, self.signing_ms / 1000, self.nonce);
        }
        self.nonce += 1;
        let ((method, path), body) = (request_line(asked), request_body(asked));
        signed(&signing_key(by, number), ORIGIN, (method, &path), &body, self.signing_ms / 1000, self.nonce)
    }
}

/// How what is asked is sent.
fn request_line(asked: &Asked) -> (&'static str, String) {
    let path = match asked {
        Asked::Act { .. } => "/v1/actions".to_owned(),
        Asked::Many { .. } => "/v1/actions/batch".to_owned(),
        Asked::Feed { fact, value, .. } => {
            let method = if value.is_some() { "PUT" } else { "DELETE" };
            return (method, format!("/v1/facts/{}", fact.replace("::", "/").replace('"', "")));
        }
        Asked::Publish { .. } => "/v1/pacts".to_owned(),
        Asked::Erase { .. } => "/v1/ledger/erasures".to_owned(),
        Asked::Halt { .. } => "/v1/halts".to_owned(),
        Asked::Resume { .. } => "/v1/halts/resume".to_owned(),
        Asked::Approve { review, .. } => format!("/v1/reviews/rev_{review}/approve"),
        Asked::Refuse { review } => format!("/v1/reviews/rev_{review}/refuse"),
        Asked::ConfirmClock => "/v1/clock/confirm".to_owned(),
        Asked::Rotate { .. } => "/v1/keys/log/rotate".to_owned(),
        Asked::Observe { .. } => "/v1/observe".to_owned(),
        Asked::Show { review } => format!("/v1/reviews/rev_{review}"),
    };
    ("POST", path)
}

/// What is sent with it.
fn request_body(asked: &Asked) -> String {
    let body = match asked {
        Asked::Act { body } => return body.clone(),
        Asked::Many { bodies, .. } => return format!("[{}]", bodies.join(",")),
        Asked::Publish { source, .. } => return source.clone(),
        Asked::Feed { value: Some(value), .. } => json!({"value": value}),
        Asked::Erase { entries } => json!({"entries": entries, "reason": reason(asked)}),
        Asked::Halt { scope } | Asked::Resume { scope } => json!({"scope": scope, "reason": reason(asked)}),
        Asked::Approve { shown_at_ms, until_ms, .. } => {
            json!({"shown": "sealed", "expires_in_ms": until_ms.saturating_sub(*shown_at_ms)})
        }
        Asked::Refuse { .. } | Asked::Rotate { .. } => json!({"reason": reason(asked)}),
        Asked::Feed { value: None, .. } | Asked::ConfirmClock | Asked::Observe { .. } | Asked::Show { .. } => json!({}),
    };
    body.to_string()
}

/// Why it is asked.
pub(super) fn reason(asked: &Asked) -> &'static str {
    match asked {
        Asked::Erase { .. } => "a customer asked",
        Asked::Halt { .. } => "something is wrong",
        Asked::Resume { .. } => "it is mended",
        Asked::Refuse { .. } => "not today",
        _ => "it is time",
    }
}

/// Why a review could not be decided, as the history has it.
pub(super) fn refused(refusal: &ReviewRefusal) -> Result<ReviewRefused, String> {
    Ok(match refusal {
        ReviewRefusal::NotFound(_) => ReviewRefused::NotFound,
        ReviewRefusal::Closed { .. } => ReviewRefused::Closed,
        ReviewRefusal::Expired(..) => ReviewRefused::Expired,
        ReviewRefusal::Void(..) => ReviewRefused::Void,
        ReviewRefusal::ApprovalExpired(..) => ReviewRefused::Late,
        ReviewRefusal::SelfApproval { .. } => ReviewRefused::Own,
        ReviewRefusal::Waits(_) | ReviewRefusal::Reason(_) => {
            return Err(format!("nobody should be told this: {refusal}"));
        }
    })
}
