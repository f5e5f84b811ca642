//! The facts that a block may hold, and what they mean (docs/formats/delegation.md).

use super::DelegationError;
use biscuit_auth::builder::{Fact, Term, fact, int, string};
use countersign_core::delegation::{Limit, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, FactId, FactType, PactName, check_identifier};
use countersign_core::limits::{ID_BYTES_MAX, INTEGER_MAX};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// One term of a fact.
#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    Number(i64),
}

/// One hop, read.
#[derive(Debug)]
pub(super) struct Hop {
    /// In the first hop, the root delegator.
    pub(super) from: Option<(AgentId, KeyName)>,
    /// In the first hop, the origin of the gate that it is for.
    pub(super) gate: Option<SmolStr>,
    pub(super) scope: Scope,
}

/// What a block said so far.
#[derive(Default)]
struct Draft {
    from: Option<(AgentId, KeyName)>,
    gate: Option<SmolStr>,
    to: Option<(AgentId, KeyName)>,
    actions: Option<BTreeSet<(PactName, ActionName)>>,
    limits: BTreeMap<SmolStr, Limit>,
    facts: Option<BTreeSet<FactId>>,
    expires_at_ms: Option<u64>,
    depth: Option<u32>,
}

impl Hop {
    /// Reads the facts of hop `number`; only the first names the root.
    pub(super) fn read(number: usize, facts: Vec<(String, Vec<Said>)>) -> Result<Self, DelegationError> {
        let refused = |what: String| DelegationError::Vocabulary { hop: number, what };
        let mut draft = Draft::default();
        for (name, terms) in facts {
            let known = draft.take(&name, terms).map_err(refused)?;
            if !known {
                return Err(DelegationError::Foreign { hop: number, what: format!("the fact `{name}`") });
            }
        }
        for (name, is_there) in [("from", draft.from.is_some()), ("gate", draft.gate.is_some())] {
            match (number, is_there) {
                (1, false) => return Err(refused(format!("`{name}` is missing"))),
                (2.., true) => return Err(refused(format!("`{name}` belongs in the first hop only"))),
                _ => {}
            }
        }
        let (to, key) = draft.to.ok_or_else(|| refused("`to` is missing".to_owned()))?;
        let scope = Scope {
            to,
            key,
            actions: draft.actions,
            limits: draft.limits,
            facts: draft.facts,
            expires_at_ms: draft.expires_at_ms,
            depth: draft.depth.unwrap_or(0),
        };
        Ok(Self { from: draft.from, gate: draft.gate, scope })
    }
}

impl Draft {
    /// Takes one fact; `false` where its name is not of the vocabulary.
    fn take(&mut self, name: &str, terms: Vec<Said>) -> Result<bool, String> {
        let mut terms = terms.into_iter();
        match (name, terms.next(), terms.next(), terms.next()) {
            ("from", Some(Said::Text(agent)), Some(Said::Text(key)), None) => {
                once(name, &mut self.from, member(agent, &key)?)?;
            }
            ("to", Some(Said::Text(agent)), Some(Said::Text(key)), None) => {
                once(name, &mut self.to, member(agent, &key)?)?;
            }
            ("gate", Some(Said::Text(origin)), None, None) => {
                if origin.is_empty() || origin.len() > ID_BYTES_MAX {
                    return Err(format!("`gate` has 1 to {ID_BYTES_MAX} bytes"));
                }
                once(name, &mut self.gate, origin.into())?;
            }
            ("action", Some(Said::Text(pact)), Some(Said::Text(action)), None) => {
                let pact = PactName::new(pact).map_err(|error| error.to_string())?;
                let action = ActionName::new(action).map_err(|error| error.to_string())?;
                self.actions.get_or_insert_default().insert((pact, action));
            }
            ("max", Some(Said::Text(param)), Some(Said::Number(max)), None) => {
                if !(-INTEGER_MAX..=INTEGER_MAX).contains(&max) {
                    return Err(format!("{max} is beyond 2^53-1"));
                }
                once(name, &mut self.limit(param)?.max, max)?;
            }
            ("one_of", Some(Said::Text(param)), Some(Said::Text(value)), None) => {
                if value.len() > ID_BYTES_MAX {
                    return Err(format!("a value of `{param}` has more than {ID_BYTES_MAX} bytes"));
                }
                self.limit(param)?.one_of.get_or_insert_default().insert(value.into());
            }
            ("fact", Some(Said::Text(ty)), Some(Said::Text(id)), None) => {
                let ty = FactType::new(ty).map_err(|error| error.to_string())?;
                let fact = FactId::new(ty, id).map_err(|error| error.to_string())?;
                self.facts.get_or_insert_default().insert(fact);
            }
            ("expires", Some(Said::Number(at_ms)), None, None) => {
                let at_ms = u64::try_from(at_ms).ok().filter(|_| at_ms <= INTEGER_MAX);
                once(name, &mut self.expires_at_ms, at_ms.ok_or("`expires` is not a time")?)?;
            }
            ("depth", Some(Said::Number(depth)), None, None) => {
                let depth = u32::try_from(depth).map_err(|_| "`depth` is not a count")?;
                once(name, &mut self.depth, depth)?;
            }
            ("from" | "gate" | "to" | "action" | "max" | "one_of" | "fact" | "expires" | "depth", ..) => {
                return Err(format!("`{name}` has other terms than it should"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn limit(&mut self, param: String) -> Result<&mut Limit, String> {
        check_identifier(&param).map_err(|error| error.to_string())?;
        Ok(self.limits.entry(param.into()).or_default())
    }
}

fn once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{name}` appears twice")),
    }
}

fn member(agent: String, key: &str) -> Result<(AgentId, KeyName), String> {
    let agent = AgentId::new(agent).map_err(|error| error.to_string())?;
    Ok((agent, key.parse::<KeyName>().map_err(|error| error.to_string())?))
}

/// The facts that name the root delegator, and the gate.
pub(super) fn root_facts(from: &AgentId, key: &KeyName, gate: &str) -> Vec<Fact> {
    vec![fact("from", &[string(from.as_str()), string(key.as_str())]), fact("gate", &[string(gate)])]
}

pub(super) fn scope_facts(scope: &Scope) -> Vec<Fact> {
    let two = |name: &str, a: Term, b: Term| fact(name, &[a, b]);
    let mut facts = vec![two("to", string(scope.to.as_str()), string(scope.key.as_str()))];
    for (pact, action) in scope.actions.iter().flatten() {
        facts.push(two("action", string(pact.as_str()), string(action.as_str())));
    }
    for (param, limit) in &scope.limits {
        facts.extend(limit.max.map(|max| two("max", string(param), int(max))));
        facts.extend(limit.one_of.iter().flatten().map(|value| two("one_of", string(param), string(value))));
    }
    for id in scope.facts.iter().flatten() {
        facts.push(two("fact", string(id.ty().as_str()), string(id.id())));
    }
    let expires = scope.expires_at_ms.and_then(|at_ms| i64::try_from(at_ms).ok());
    facts.extend(expires.map(|at_ms| fact("expires", &[int(at_ms)])));
    facts.push(fact("depth", &[int(i64::from(scope.depth))]));
    facts
}
