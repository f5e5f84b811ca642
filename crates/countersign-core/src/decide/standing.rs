//! Whether those who act may still act: asked when an action is decided, and again right before each attempt of its call.

use super::delegation::{check_bearer, check_standing};
use super::halted::halt_on;
use super::{Deciding, Snapshot, Stage};
use crate::action::{Action, ActionRequest};
use crate::effect::Approved;
use crate::expression::{Base, Mention};
use crate::fact::Fact;
use crate::identity::{ACTIVE, Auth, Role, holds_key, still_has};
use crate::ids::{ActionName, AgentId, FactId};
use crate::limits::IDEMPOTENCY_KEY_CHARS_MIN;
use crate::pact::{ActionType, Mode, Pact};
use crate::reason::{Drift, Reason, Since};
use crate::value::{Attributes, Value};
use std::sync::Arc;

/// Why the call of an action must not leave now, although it was decided: its scope is halted; its agent, or a member of its
/// chain, is no longer active or no longer holds the key; a hop has expired; or what is known of the agents alone rules out that
/// they may do it; or the person who approved it is no longer a reviewer. Other facts and conditions are not asked: fences keep those
/// as they were, but no fence keeps an agent.
pub fn stop_on(action: &Action, approval: Option<&Approved>, snapshot: &dyn Snapshot, now_ms: u64) -> Option<Reason> {
    let revoked = || {
        let by = approval.map(|approved| &approved.by).filter(|by| !still_has(snapshot, by, Role::Reviewer))?;
        Some(Reason::ApprovalOutdated { drift: Box::new(Drift::Reviewer { by: by.clone() }) })
    };
    let standing = || {
        let actor = snapshot.fact(&FactId::of_agent(&action.agent)).filter(|fact| fact.value.is_some());
        check_actor(action, actor, snapshot.is_identified(), now_ms)?;
        action.chain.as_ref().map_or(Ok(()), |chain| check_standing(chain, snapshot, now_ms))?;
        check_rights(action, snapshot, now_ms)
    };
    halt_on(action, snapshot).or_else(|| standing().err()).or_else(revoked)
}

/// Why an action would be refused whatever its parameters and the facts are, by what is known of its agents alone: their roles and
/// trust, under the pact as it is now, and whether their delegation still hands the one who acts anything. Asked at the door, where
/// the standing and the key of the one who acts are asked before.
pub fn rules_out(action: &Action, snapshot: &dyn Snapshot, now_ms: u64) -> Option<Reason> {
    let pact = snapshot.pact(&action.pact)?;
    let is_of_agents = |mention: &Mention| {
        let (Mention::Entity(base) | Mention::Attribute(base, _)) = mention else { return false };
        matches!(base, Base::Principal | Base::Actor)
    };
    let check = || {
        let kind = described(action, pact)?;
        if let Some(chain) = &action.chain {
            check_bearer(chain, &action.agent)?;
            check_standing(chain, snapshot, now_ms)?;
        }
        match kind.mode {
            Mode::Shadow => Ok(()),
            Mode::Enforce => check_agents(action, kind, &Attributes::default(), snapshot, now_ms, &is_of_agents),
        }
    };
    check().err()
}

/// The action types of a pact that an agent could do, by what is known of it alone: those that its roles and its trust do not rule out,
/// whatever the parameters and the facts are.
pub fn rights<'a>(agent: &AgentId, pact: &'a Pact, snapshot: &dyn Snapshot, now_ms: u64) -> Vec<&'a ActionName> {
    let is_of_agents = |mention: &Mention| {
        let (Mention::Entity(base) | Mention::Attribute(base, _)) = mention else { return false };
        matches!(base, Base::Principal | Base::Actor)
    };
    let has = |kind: &ActionType| {
        // Nothing of it but who asks, and for which action type, is looked at.
        let key = "0".repeat(IDEMPOTENCY_KEY_CHARS_MIN);
        let body = format!(r#"{{"pact":"{}","action":"{}","idempotency_key":"{key}"}}"#, pact.name, kind.name);
        let Ok(request) = ActionRequest::parse(&body) else { return false };
        let action = Action::new(agent.clone(), Auth::None, body.as_str().into(), request, Vec::new());
        check_agents(&action, kind, &Attributes::default(), snapshot, now_ms, &is_of_agents).is_ok()
    };
    pact.actions.values().filter(|kind| has(kind)).map(|kind| &kind.name).collect()
}

/// The action type that an action names.
pub(super) fn described<'a>(action: &Action, pact: &'a Pact) -> Result<&'a ActionType, Reason> {
    let unknown = || Reason::UnknownAction {
        pact: pact.name.clone(),
        version: pact.version,
        action: action.action.clone(),
        known: pact.actions.keys().cloned().collect(),
    };
    pact.actions.get(&action.action).ok_or_else(unknown)
}

/// Whether the agents could still do this, by their roles and trust as they are now, under the pact as it is now. What the pact no
/// longer describes was decided when it did.
fn check_rights(action: &Action, snapshot: &dyn Snapshot, now_ms: u64) -> Result<(), Reason> {
    let described = snapshot.pact(&action.pact).and_then(|pact| Some((pact, pact.actions.get(&action.action)?)));
    let Some((pact, kind)) = described.filter(|(_, kind)| kind.mode == Mode::Enforce) else { return Ok(()) };
    let binding = action.binding(&pact.hash, kind);
    let Ok(params) = &*binding else { return Ok(()) };
    check_agents(action, kind, params, snapshot, now_ms, &|mention| mention.read().is_none())
}

/// Asks for the right and the trust, and for nothing that takes a fact other than the agents' own.
fn check_agents(
    action: &Action,
    kind: &ActionType,
    params: &Attributes,
    snapshot: &dyn Snapshot,
    now_ms: u64,
    is_known: &dyn Fn(&Mention) -> bool,
) -> Result<(), Reason> {
    let mut deciding = Deciding::new(Stage::Intent(None), None, (action, kind, params), snapshot, now_ms);
    deciding.resolve_members();
    deciding.check_right(is_known)?;
    deciding.check_trust()
}

/// Whether the one who acts is known, active and the holder of the key that signed.
pub(super) fn check_actor(
    action: &Action,
    actor: Option<&Arc<Fact>>,
    is_identified: bool,
    now_ms: u64,
) -> Result<(), Reason> {
    let agent = &action.agent;
    if action.auth == Auth::None && is_identified {
        return Err(Reason::NotAuthenticated { agent: agent.clone() });
    }
    let Some(actor) = actor else {
        return Err(Reason::UnknownAgent { agent: agent.clone() });
    };
    match actor.value.as_ref().and_then(|value| value.get("standing")) {
        Some(Value::String(standing)) if standing == ACTIVE => check_key(action, actor, now_ms),
        standing => Err(Reason::AgentNotActive {
            agent: agent.clone(),
            standing: standing.cloned(),
            since: standing.map(|_| Since::from(actor.changed("standing"))),
        }),
    }
}

/// The key must be the agent's at this very instant, not only when the signature was verified.
fn check_key(action: &Action, actor: &Fact, now_ms: u64) -> Result<(), Reason> {
    let Some(key) = action.auth.key() else { return Ok(()) };
    if holds_key(actor, key, now_ms) {
        return Ok(());
    }
    let (agent, key) = (action.agent.clone(), key.clone());
    let since = Box::new(Since::from(actor.changed("key")));
    Err(Reason::KeyNotCurrent { agent, key, at: now_ms, since })
}
