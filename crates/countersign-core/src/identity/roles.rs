//! What operators may do.

use super::{ACTIVE, Auth, KeyName, has_role, holds_key, text};
use crate::decide::Snapshot;
use crate::ids::{AgentId, FactId};
use crate::pact::catalogue::{AGENT, APPROVED, OPERATOR};
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::fmt;
use std::sync::Arc;

/// A role of an operator. None implies another: an admin that is to publish is given that role too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Publishes pacts.
    Publisher,
    /// Feeds facts, but neither agents nor operators, nor what is approved of MCP servers.
    Feeder,
    /// Decides reviews.
    Reviewer,
    /// Reads payloads.
    Auditor,
    /// Opens sessions for agents, and attaches the user's own words and the task to them. A program between users and agents has it.
    FrontEnd,
    /// Registers agents and operators, approves tools and their guards, halts, erases, confirms the clock.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 6] =
        [Self::Publisher, Self::Feeder, Self::Reviewer, Self::Auditor, Self::FrontEnd, Self::Admin];
    /// Those that the first operator of a gate has.
    const FIRST: [Self; 5] = [Self::Publisher, Self::Feeder, Self::Reviewer, Self::Auditor, Self::Admin];

    /// As it stands in an operator's `roles`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Feeder => "feeder",
            Self::Reviewer => "reviewer",
            Self::Auditor => "auditor",
            Self::FrontEnd => "front_end",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Someone may not do what only an operator with a role may do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{by} may not do this; it requires an active operator with role `{role}`: {why}")]
pub struct NoAuthority {
    /// Who asked.
    pub by: AgentId,
    /// The role it takes.
    pub role: Role,
    /// Why it is not there.
    pub why: WhyNot,
}

/// Why someone has no authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// The request is not signed, and this gate takes nothing unsigned.
    #[error("the request is not signed")]
    Unsigned,
    /// There is no such operator.
    #[error("there is no operator of this name")]
    NotAnOperator,
    /// The operator is not active.
    #[error("the operator is {0}, not active")]
    NotActive(String),
    /// The key that signed is not the operator's, or no longer.
    #[error("the key that signed is not a current key of this operator")]
    KeyNotCurrent,
    /// The operator does not have the role.
    #[error("the operator does not have the role")]
    RoleMissing,
}

/// The role that it takes to feed a fact: who agents and operators are, and how tools are guarded, is for admins alone.
pub fn role_to_feed(fact: &FactId) -> Role {
    match fact.ty().as_str() {
        AGENT | OPERATOR => Role::Admin,
        ty if APPROVED.contains(&ty) => Role::Admin,
        _ => Role::Feeder,
    }
}

/// The first operator of a gate, with every role of people: someone must be able to name the others.
pub fn first_operator(key: &KeyName) -> (FactId, Attributes) {
    let roles = Role::FIRST.iter().map(|role| Value::String(role.as_str().into()));
    let fields = vec![
        (SmolStr::new_static("key"), Value::String(key.as_str().into())),
        (SmolStr::new_static("roles"), Value::Set(Arc::new(roles.collect()))),
        (SmolStr::new_static("standing"), Value::String(ACTIVE.into())),
    ];
    (FactId::of_operator(&AgentId::first_admin()), Attributes::from_fields(fields))
}

/// Whether someone may do what takes a role, at this place in the order. An open gate asks no one.
pub fn authorise(
    snapshot: &dyn Snapshot,
    by: &AgentId,
    auth: &Auth,
    role: Role,
    now_ms: u64,
) -> Result<(), NoAuthority> {
    authorise_key(snapshot, by, auth.key(), role, now_ms)
}

/// The same by the key that signed.
pub fn authorise_key(
    snapshot: &dyn Snapshot,
    by: &AgentId,
    key: Option<&KeyName>,
    role: Role,
    now_ms: u64,
) -> Result<(), NoAuthority> {
    if !snapshot.is_identified() {
        return Ok(());
    }
    let refused = |why| Err(NoAuthority { by: by.clone(), role, why });
    let Some(key) = key else { return refused(WhyNot::Unsigned) };
    let operator = snapshot.fact(&FactId::of_operator(by));
    let Some((fact, value)) = operator.and_then(|fact| Some((fact, fact.value.as_ref()?))) else {
        return refused(WhyNot::NotAnOperator);
    };
    match text(value, "standing") {
        Some(ACTIVE) => {}
        standing => return refused(WhyNot::NotActive(standing.unwrap_or("without standing").to_owned())),
    }
    if !holds_key(fact, key, now_ms) {
        return refused(WhyNot::KeyNotCurrent);
    }
    if !has_role(value, role.as_str()) {
        return refused(WhyNot::RoleMissing);
    }
    Ok(())
}

/// Whether someone who had a role when they decided is still active and still has it. An open gate asks no one.
pub fn still_has(snapshot: &dyn Snapshot, by: &AgentId, role: Role) -> bool {
    let operator = snapshot.fact(&FactId::of_operator(by)).and_then(|fact| fact.value.as_ref());
    let has = |value: &Attributes| text(value, "standing") == Some(ACTIVE) && has_role(value, role.as_str());
    !snapshot.is_identified() || operator.is_some_and(has)
}
