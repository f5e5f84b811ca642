//! Admission: what can be done on the caller's thread before an action takes its place in the order.

use super::Gate;
use crate::delegation::DelegationError;
use crate::token::TokenError;
use countersign_core::action::{Action, ActionRequest, RequestError};
use countersign_core::decide::{decide, stranger};
use countersign_core::decision::Decision;
use countersign_core::denial::{DenialCode, at_the_door};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, PactName};
use std::sync::Arc;

/// Why a request was not admitted. It leaves no entry: there is nothing to hold anybody to.
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
    #[error("{}", told(.agent, *.code, .pact))]
    Denied {
        /// The agent.
        agent: AgentId,
        /// Why.
        code: DenialCode,
        /// The pact that it named.
        pact: PactName,
    },
    /// The delegation was refused.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
}

impl Gate {
    /// Parses an action, opens its observations, reduces its delegation and binds its parameters by the current pact. What no
    /// place in the order could let pass is refused before any of that, and leaves no entry of its own.
    pub fn admit(&self, agent: AgentId, auth: Auth, body: Arc<str>) -> Result<Action, AdmitError> {
        let request = ActionRequest::parse(&body)?;
        let (pact, denied) = {
            let view = self.view();
            (view.state.pacts.get(&request.pact).cloned(), at_the_door(&agent, &request.pact, &*view))
        };
        if let Some(code) = denied {
            self.deny(&agent, code, request.pact.as_str());
            return Err(AdmitError::Denied { agent, code, pact: request.pact });
        }
        let auth = auth.without_body(&body);
        let (mut observed, now_ms) = (Vec::new(), self.now_ms());
        for (at, token) in request.observations.iter().enumerate() {
            let opened = self.shared.sealer.open(token, &agent, now_ms);
            observed.extend(opened.map_err(|source| AdmitError::Token { at: at + 1, source })?.observed);
        }
        let reduce = |token: &str| self.shared.delegations.reduce(token, self.origin());
        let chain = request.delegation.as_deref().map(reduce).transpose()?;
        if let Some(agent) = chain.as_ref().and_then(|chain| stranger(chain, &*self.view(), now_ms).cloned()) {
            return Err(DelegationError::Stranger(agent).into());
        }
        let mut action = Action::new(agent, auth, body, request, observed);
        action.chain = chain;
        if let Some((pact, kind)) = pact.as_ref().and_then(|pact| Some((pact, pact.actions.get(&action.action)?))) {
            action.bind(pact.hash, kind);
        }
        Ok(action)
    }

    /// Decides an action on what is durable now, and does nothing else: the same function on the same facts.
    pub fn check(&self, action: &Action) -> Decision {
        let now_ms = self.now_ms();
        decide(action, &*self.view(), now_ms)
    }
}

fn told(agent: &AgentId, code: DenialCode, pact: &PactName) -> String {
    match code {
        DenialCode::UnknownAgent => format!("agent {agent} is not registered"),
        DenialCode::UnknownPact => format!("no pact named `{pact}` has been published"),
        _ => format!("agent {agent} is not active"),
    }
}
