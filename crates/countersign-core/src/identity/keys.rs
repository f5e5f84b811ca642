//! Which key is whose: an index over the facts of agents and operators, kept by the fold.

use super::{ACTIVE, GATEWAY, KeyName, Role, STANDINGS, has_role, text};
use crate::fact::Fact;
use crate::ids::{AgentId, FactId};
use crate::pact::catalogue::{AGENT, OPERATOR};
use crate::value::{Attributes, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Whether a key is an agent's or an operator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderKind {
    Agent,
    Operator,
}

/// The one who holds a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Agent or operator.
    pub kind: HolderKind,
    pub name: AgentId,
}

impl Holder {
    /// The holder's own fact.
    pub fn fact(&self) -> FactId {
        match self.kind {
            HolderKind::Agent => FactId::of_agent(&self.name),
            HolderKind::Operator => FactId::of_operator(&self.name),
        }
    }

    fn of(fact: &FactId) -> Option<Self> {
        let kind = match fact.ty().as_str() {
            AGENT => HolderKind::Agent,
            OPERATOR => HolderKind::Operator,
            _ => return None,
        };
        Some(Self { kind, name: AgentId::new(fact.id()).ok()? })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            HolderKind::Agent => write!(f, "agent {}", self.name),
            HolderKind::Operator => write!(f, "operator {}", self.name),
        }
    }
}

/// Why the fact of an agent or operator must not become what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityRefusal {
    /// An attribute is not acceptable.
    #[error("{0}")]
    Invalid(String),
    /// The key has another holder.
    #[error("key {key} is in use by {holder}; every agent and operator has keys of its own")]
    KeyInUse {
        key: KeyName,
        /// Whose it is.
        holder: Holder,
    },
    /// No active admin would be left.
    #[error("no active operator with role `admin` would be left, and no one could ever name another")]
    LastAdmin,
}

/// Which key is whose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys {
    /// The holder of each key, and the entry that last said so.
    holders: BTreeMap<KeyName, (Holder, u64)>,
    /// Active operators with role `admin`.
    admins: BTreeSet<AgentId>,
    identified: bool,
}

impl Keys {
    /// Whether an operator was ever named: from then on nothing unsigned is accepted.
    pub fn is_identified(&self) -> bool {
        self.identified
    }

    /// The log began identified, whatever becomes of the entry that names its first admin.
    pub(crate) fn identify(&mut self) {
        self.identified = true;
    }

    /// Whose key it is. Says nothing about whether it is good at this time.
    pub fn holder(&self, key: &KeyName) -> Option<&Holder> {
        self.holders.get(key).map(|(holder, _)| holder)
    }

    /// The active operators with role `admin`.
    pub fn admins(&self) -> &BTreeSet<AgentId> {
        &self.admins
    }

    /// Takes in a new version of a fact. While a snapshot's tail is folded, two facts can name one key for a while: the
    /// later entry is right, because a key was free when it was given.
    pub(crate) fn put(&mut self, before: Option<&Fact>, after: &Fact) {
        let Some(holder) = Holder::of(&after.id) else { return };
        for key in before.and_then(|fact| fact.value.as_ref()).into_iter().flat_map(keys) {
            if self.holder(&key) == Some(&holder) {
                self.holders.remove(&key);
            }
        }
        let entry = after.written.entry;
        for key in after.value.as_ref().into_iter().flat_map(keys) {
            let later = self.holders.get(&key).is_none_or(|(_, held_since)| *held_since <= entry);
            if later {
                self.holders.insert(key, (holder.clone(), entry));
            }
        }
        if holder.kind == HolderKind::Operator {
            self.identified = true;
            if after.value.as_ref().is_some_and(is_active_admin) {
                self.admins.insert(holder.name);
            } else {
                self.admins.remove(&holder.name);
            }
        }
    }

    /// Checks what an operator is about to make of the fact of an agent or operator; `None` deletes it. Facts of other
    /// types pass.
    pub fn check(&self, fact: &FactId, value: Option<&Attributes>) -> Result<(), IdentityRefusal> {
        let Some(holder) = Holder::of(fact) else { return Ok(()) };
        if holder.name == AgentId::gate() {
            return Err(invalid(format!("`{}` is the name of the gate itself", holder.name)));
        }
        if let Some(value) = value {
            check_value(&holder, value)?;
            let taken = |key: &KeyName| self.holder(key).filter(|held| **held != holder).cloned();
            if let Some((key, holder)) = keys(value).find_map(|key| Some((key.clone(), taken(&key)?))) {
                return Err(IdentityRefusal::KeyInUse { key, holder });
            }
        }
        let others = self.admins.iter().any(|admin| *admin != holder.name);
        if holder.kind == HolderKind::Operator && !others && !value.is_some_and(is_active_admin) {
            return Err(IdentityRefusal::LastAdmin);
        }
        Ok(())
    }
}

fn invalid(what: String) -> IdentityRefusal {
    IdentityRefusal::Invalid(what)
}

/// The keys that a fact names, whether good at this time or not.
fn keys(value: &Attributes) -> impl Iterator<Item = KeyName> {
    ["key", "old_key"].into_iter().filter_map(|name| text(value, name)?.parse().ok())
}

fn is_active_admin(value: &Attributes) -> bool {
    text(value, "standing") == Some(ACTIVE) && has_role(value, Role::Admin.as_str())
}

fn check_value(holder: &Holder, value: &Attributes) -> Result<(), IdentityRefusal> {
    for name in ["key", "old_key"] {
        if let Some(key) = text(value, name) {
            key.parse::<KeyName>().map_err(|error| invalid(format!("`{name}`: {error}")))?;
        }
    }
    match (text(value, "key"), text(value, "old_key"), value.get("old_key_until")) {
        (_, None, None) => {}
        (Some(key), Some(old), Some(Value::Long(_))) if key != old => {}
        (Some(_), Some(_), Some(_)) => return Err(invalid("`key` and `old_key` are the same key".to_owned())),
        _ => return Err(invalid("`old_key` needs `key` and `old_key_until`, and the other way round".to_owned())),
    }
    let standing = text(value, "standing").unwrap_or_default();
    if !STANDINGS.contains(&standing) {
        return Err(invalid(format!("`standing` is one of {}, not `{standing}`", STANDINGS.join(", "))));
    }
    if let Some(held_by) = text(value, "held_by").filter(|held_by| *held_by != GATEWAY) {
        return Err(invalid(format!("`held_by` is `{GATEWAY}` or left out, not `{held_by}`")));
    }
    if let (HolderKind::Operator, Some(Value::Set(roles))) = (holder.kind, value.get("roles")) {
        let known =
            |held: &&Value| Role::ALL.iter().any(|role| matches!(held, Value::String(held) if held == role.as_str()));
        if let Some(unknown) = roles.iter().find(|held| !known(held)) {
            let known = Role::ALL.map(Role::as_str).join(", ");
            return Err(invalid(format!("operators have no role {unknown}; there are {known}")));
        }
    }
    Ok(())
}
