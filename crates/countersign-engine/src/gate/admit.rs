//! Admission: what can be done on the caller's thread before an action takes its place in the order.

use super::Gate;
use crate::delegation::DelegationError;
use crate::idempotency::{Lookup, Seen};
use crate::request::Refusal;
use crate::storage::StorageError;
use crate::token::TokenError;
use countersign_core::action::{Action, ActionRequest, KeyDigest, RequestError};
use countersign_core::body::RawBody;
use countersign_core::decide::{decide, stranger};
use countersign_core::decision::Decision;
use countersign_core::denial::{DenialCode, at_the_door, without_right};
use countersign_core::disclose::Disclosure;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, PactName};
use std::convert::Infallible;

/// Why a request was not admitted. It leaves no entry: there is nothing to record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// The body is not an action.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An observation token was refused.
    #[error("observation {at}: {source}")]
    Token {
        /// Which one, counted from 1.
        at: usize,
        /// Why.
        source: TokenError,
    },
    /// It is refused at the door, and counted there.
    #[error("{message}")]
    Denied {
        /// Why.
        code: DenialCode,
        /// The same in words.
        message: String,
        /// What to do about it, where the pact says more than the code does.
        hint: Option<String>,
    },
    /// The delegation was refused.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
}

/// Why an admission ends early.
enum Stop<W> {
    /// It is refused.
    Refused(AdmitError),
    /// It would wait.
    Waits(W),
}

impl<W> From<AdmitError> for Stop<W> {
    fn from(error: AdmitError) -> Self {
        Self::Refused(error)
    }
}

impl Gate {
    /// Parses an action, reduces its delegation, opens its observations and binds its parameters by the current pact. What no
    /// place in the order could let pass is refused before most of that, and leaves no entry of its own.
    ///
    /// Where its agent has no right to it, this waits for the disk: whether it was decided before they lost the right stands there.
    ///
    /// # Errors
    /// If it is not admitted.
    pub fn admit(&self, agent: AgentId, auth: Auth, body: RawBody) -> Result<Action, AdmitError> {
        let seen = |key: &KeyDigest| Ok::<_, Infallible>(self.shared.keys.find(key));
        match self.admit_by(agent, auth, body, seen) {
            Ok(action) => Ok(action),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Waits(never)) => match never {},
        }
    }

    /// The same for callers that must not wait: `None` where it would, and then nothing was done.
    pub fn admit_now(&self, agent: AgentId, auth: Auth, body: RawBody) -> Option<Result<Action, AdmitError>> {
        let seen = |key: &KeyDigest| self.shared.keys.find_now(key).map(Ok).ok_or(());
        match self.admit_by(agent, auth, body, seen) {
            Ok(action) => Some(Ok(action)),
            Err(Stop::Refused(error)) => Some(Err(error)),
            Err(Stop::Waits(())) => None,
        }
    }

    /// The same with what says which action was seen under a key, or that it cannot.
    fn admit_by<W>(
        &self,
        agent: AgentId,
        auth: Auth,
        body: RawBody,
        seen: impl FnOnce(&KeyDigest) -> Result<Result<Option<Seen>, StorageError>, W>,
    ) -> Result<Action, Stop<W>> {
        let mut request = ActionRequest::parse(&body).map_err(AdmitError::from)?;
        let (pact, denied) = {
            let view = self.view();
            (view.rest.pacts.get(&request.pact).cloned(), at_the_door(&agent, &request.pact, &view))
        };
        if let Some(code) = denied {
            self.deny(&agent, code, request.pact.as_str());
            return Err(AdmitError::Denied { code, message: told(&agent, code, &request.pact), hint: None }.into());
        }
        let auth = auth.without_body(&body);
        let now_ms = self.now_ms();
        let reduce = |token: &str| self.shared.delegations.reduce(token, self.origin());
        let chain = request.delegation.as_deref().map(reduce).transpose().map_err(AdmitError::from)?;
        let (tokens, params) = (std::mem::take(&mut request.observations), std::mem::take(&mut request.params));
        let mut action = Action::from_body(agent, auth, &body, request, Vec::new());
        action.chain = chain;
        self.check_right(&action, now_ms, seen)?;
        let mut observed = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let opened = self.shared.sealer.open(token, &action.agent, now_ms);
            #[cfg(feature = "sabotage")]
            let opened = match self.shared.options.without {
                Some(crate::sabotage::Control::Observations) => self.shared.sealer.open_for_anyone(token, now_ms),
                Some(crate::sabotage::Control::Seal) => self.shared.sealer.open_altered(token, &action.agent, now_ms),
                _ => opened,
            };
            observed.extend(opened.map_err(|source| AdmitError::Token { at: at + 1, source })?.observed);
        }
        action.observe(observed);
        let kind = pact.as_ref().and_then(|pact| Some((pact, pact.actions.get(&action.action)?)));
        if let Some((pact, kind)) = kind {
            action.bind_params(&params, pact.hash, kind);
        }
        action.tainted = self.tainted(&action, &params, kind.map(|(_, kind)| kind), now_ms);
        if let Some(session) = action.session {
            self.shared.session_uses.used(&action.agent, session.id, now_ms);
            self.shared.session_uses.served(&action.agent, session.id);
        }
        Ok(action)
    }

    /// Refuses what its agents may not do, unless it was decided before they lost the right: then its key tells what came of it.
    fn check_right<W>(
        &self,
        action: &Action,
        now_ms: u64,
        seen: impl FnOnce(&KeyDigest) -> Result<Result<Option<Seen>, StorageError>, W>,
    ) -> Result<(), Stop<W>> {
        let denied = {
            let view = self.view();
            if let Some(agent) = action.chain.as_ref().and_then(|chain| stranger(chain, &view, now_ms)) {
                return Err(AdmitError::from(DelegationError::Stranger(agent.clone())).into());
            }
            without_right(action, &view, now_ms).map(|(code, mut reason)| {
                reason.withhold(&Disclosure::new(&view, &action.agent, None, &[]));
                (code, reason)
            })
        };
        #[cfg(feature = "sabotage")]
        let denied = denied.filter(|(code, _)| {
            *code != DenialCode::UnknownAction || !self.is_without(crate::sabotage::Control::UnknownType)
        });
        let Some((code, blocked)) = denied else { return Ok(()) };
        // Where no one can say, it goes on: it is refused when it is sent, without a word about its rights.
        let seen = seen(&action.key).map_err(Stop::Waits)?;
        if seen.map_or(true, |seen| Lookup::of(seen, &action.id, now_ms) != Lookup::New) {
            return Ok(());
        }
        self.deny(&action.agent, code, &format!("{}.{}", action.pact, action.action));
        Err(AdmitError::Denied { code, message: blocked.message(), hint: Some(blocked.hint()) }.into())
    }

    /// Decides an action on what is durable now, and does nothing else: the same function on the same facts. An entry follows only where
    /// the answer shows its agent something with labels that it did not have.
    ///
    /// # Errors
    /// If that cannot be entered; then nothing must be told.
    pub fn check(&self, action: &Action) -> Result<Decision, Refusal> {
        let now_ms = self.now_ms();
        let decision = decide(action, &self.view(), now_ms);
        self.show_checked(action, &decision)?;
        Ok(decision)
    }
}

fn told(agent: &AgentId, code: DenialCode, pact: &PactName) -> String {
    match code {
        DenialCode::UnknownAgent => format!("agent {agent} is not registered"),
        DenialCode::UnknownPact => format!("no pact named `{pact}` has been published"),
        _ => format!("agent {agent} is not active"),
    }
}
