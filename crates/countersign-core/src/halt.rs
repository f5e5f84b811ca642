//! Halts: what an operator has stopped, and since which entry.
//!
//! A halt is an entry, and that entry's index is its epoch: no action of the halted scope commits behind it until a `resume`
//! of the same scope does. Scopes do not imply each other: lifting the halt of one agent leaves that of its org in force.

use crate::ids::{AgentId, IdError, PactName};
use crate::limits::{HALTS_MAX, ID_BYTES_MAX, REASON_BYTES_MAX};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a halt stops. One text form everywhere: `all`, `agent:NAME`, `pact:NAME`, `org:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every action.
    All,
    /// The actions of an agent, and those it is a member of the acting chain of.
    Agent(AgentId),
    /// The actions under a pact.
    Pact(PactName),
    /// The actions of every agent that belongs to an org at that moment.
    Org(SmolStr),
}

/// Why a text is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Neither of the forms.
    #[error("`{0}` is not a scope; write `all`, `agent:NAME`, `pact:NAME` or `org:NAME`")]
    Form(String),
    /// The name in it is not acceptable.
    #[error("the scope names something that cannot be: {0}")]
    Name(#[from] IdError),
    /// The org in it is not acceptable.
    #[error("an org has 1 to {ID_BYTES_MAX} bytes and no control characters")]
    Org,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::Pact(pact) => write!(f, "pact:{pact}"),
            Self::Org(org) => write!(f, "org:{org}"),
        }
    }
}

crate::ids::serde_as_text!(Scope);

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("agent", name)) => Ok(Self::Agent(AgentId::new(name)?)),
            Some(("pact", name)) => Ok(Self::Pact(PactName::new(name)?)),
            Some(("org", name)) => {
                let fits = !name.is_empty() && name.len() <= ID_BYTES_MAX && !name.chars().any(char::is_control);
                if fits { Ok(Self::Org(name.into())) } else { Err(ScopeError::Org) }
            }
            _ => Err(ScopeError::Form(text.chars().take(ID_BYTES_MAX).collect())),
        }
    }
}

/// One halt in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// Its epoch: the entry that made it.
    pub entry: u64,
    /// Who halted.
    pub by: AgentId,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
}

/// What is halted now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Halts(BTreeMap<Scope, Halt>);

/// Why a halt or resume is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HaltError {
    /// There is no such halt to lift.
    #[error("`{0}` is not halted")]
    NotHalted(Scope),
    /// As many scopes are halted as are kept.
    #[error("{HALTS_MAX} scopes are halted already, which is the limit; halt something wider, such as `all`")]
    TooMany,
    /// The reason is empty or too long.
    #[error("the reason must be 1 to {REASON_BYTES_MAX} bytes long; this one is {0}")]
    Reason(usize),
}

impl Halts {
    /// Checks that a scope may be halted now. Everything can be halted, however much is halted already.
    pub fn check_halt(&self, scope: &Scope, reason: &str) -> Result<(), HaltError> {
        check_reason(reason)?;
        let is_full = self.0.len() >= HALTS_MAX && !self.0.contains_key(scope) && *scope != Scope::All;
        if is_full { Err(HaltError::TooMany) } else { Ok(()) }
    }

    /// Checks that the halt of a scope may be lifted now.
    pub fn check_resume(&self, scope: &Scope, reason: &str) -> Result<(), HaltError> {
        check_reason(reason)?;
        if self.0.contains_key(scope) { Ok(()) } else { Err(HaltError::NotHalted(scope.clone())) }
    }

    /// Takes in a halt; a second one of the same scope takes the place of the first.
    pub fn halt(&mut self, scope: Scope, halt: Halt) {
        self.0.insert(scope, halt);
    }

    /// Lifts the halt of a scope.
    pub fn resume(&mut self, scope: &Scope) {
        self.0.remove(scope);
    }

    /// The halt of exactly this scope.
    pub fn get(&self, scope: &Scope) -> Option<&Halt> {
        self.0.get(scope)
    }

    /// Every halt in force.
    pub fn iter(&self) -> impl Iterator<Item = (&Scope, &Halt)> {
        self.0.iter()
    }

    /// How many scopes are halted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn check_reason(reason: &str) -> Result<(), HaltError> {
    if (1..=REASON_BYTES_MAX).contains(&reason.len()) { Ok(()) } else { Err(HaltError::Reason(reason.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_one_text_form() {
        for text in ["all", "agent:refund-1", "pact:billing", "org:acme", "org:a:b"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
        for text in ["", "All", "agent", "agent:", "pact:", "org:", "org:a\nb", "team:x", ":x"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }

    #[test]
    fn everything_can_be_halted_even_when_the_list_is_full() {
        let mut halts = Halts::default();
        let halt = Halt { entry: 1, by: AgentId::new("op").unwrap(), at_ms: 1, reason: "r".into() };
        for at in 0..HALTS_MAX {
            halts.halt(Scope::Org(format!("{at}").into()), halt.clone());
        }
        assert_eq!(halts.check_halt(&Scope::Org("one-more".into()), "r"), Err(HaltError::TooMany));
        assert_eq!(halts.check_halt(&Scope::Org("7".into()), "r"), Ok(()));
        assert_eq!(halts.check_halt(&Scope::All, "r"), Ok(()));
        assert_eq!(halts.check_halt(&Scope::All, ""), Err(HaltError::Reason(0)));
        assert_eq!(halts.check_resume(&Scope::All, "r"), Err(HaltError::NotHalted(Scope::All)));
    }
}
