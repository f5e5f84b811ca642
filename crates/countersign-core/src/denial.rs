//! Denials: requests refused at the door, before any work is done for them.
//!
//! A caller without a right must cost almost nothing, so a denial is no entry of its own. It is counted: at most once a second one
//! entry of kind `denials` says, for each agent and code, how many there were since the entry before, when the first and the last
//! came, and what the first one asked for. Counts are exact, except for at most the last second before a crash.
//!
//! A denial is a shortcut and never a verdict: what is admitted is asked the same again at its own place in the order.

use crate::action::Action;
use crate::canonical::Canonical;
use crate::code::Code;
use crate::decide::{Snapshot, rules_out};
use crate::identity::ACTIVE;
use crate::ids::{AgentId, FactId, PactName};
use crate::limits::{DENIAL_LINES_MAX, DENIAL_SAMPLE_BYTES_MAX};
use crate::reason::Reason;
use crate::value::Value;
use std::fmt;

/// Why a request was refused at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenialCode {
    /// The agent is registered, and not active.
    AgentNotActive,
    /// No pact lets the agent announce a change of the fact.
    ClaimNotAllowed,
    /// The delegation hands the agent nothing: it names another, has expired, or has a member that is not active.
    DelegationRefused,
    /// The pact does not let the agent do this, whatever the parameters and facts are.
    NotAllowed,
    /// No grant lets the agent observe the fact.
    NotObservable,
    /// A budget on observing has no room for what the agent asks for.
    ObservingExceeded,
    /// The agent sends more requests than it may.
    RateLimited,
    /// The agent has as many idempotency keys as are kept for one.
    TooManyKeys,
    /// The agent is trusted less than the pact asks for.
    TrustTooLow,
    /// The pact has no such action type.
    UnknownAction,
    /// The agent is not registered.
    UnknownAgent,
    /// No pact of this name has been published.
    UnknownPact,
}

impl DenialCode {
    /// All codes, in alphabetical order.
    pub const ALL: [Self; 12] = [
        Self::AgentNotActive,
        Self::ClaimNotAllowed,
        Self::DelegationRefused,
        Self::NotAllowed,
        Self::NotObservable,
        Self::ObservingExceeded,
        Self::RateLimited,
        Self::TooManyKeys,
        Self::TrustTooLow,
        Self::UnknownAction,
        Self::UnknownAgent,
        Self::UnknownPact,
    ];

    /// The code as it stands in records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentNotActive => "agent_not_active",
            Self::ClaimNotAllowed => "claim_not_allowed",
            Self::DelegationRefused => "delegation_refused",
            Self::NotAllowed => "not_allowed",
            Self::NotObservable => "not_observable",
            Self::ObservingExceeded => "observing_exceeded",
            Self::RateLimited => "rate_limited",
            Self::TooManyKeys => "too_many_keys",
            Self::TrustTooLow => "trust_too_low",
            Self::UnknownAction => "unknown_action",
            Self::UnknownAgent => "unknown_agent",
            Self::UnknownPact => "unknown_pact",
        }
    }

    /// The code that stands in a record.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for DenialCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often one agent was denied something for one reason, since the entry before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The agent; `None` for all that there was no room to name.
    pub agent: Option<AgentId>,
    /// Why.
    pub code: DenialCode,
    /// How often.
    pub count: u64,
    /// When the first came, in ledger milliseconds.
    pub first_ms: u64,
    /// When the last came, in ledger milliseconds.
    pub last_ms: u64,
    /// What the first one asked for, cut to [`DENIAL_SAMPLE_BYTES_MAX`].
    pub sample: String,
}

impl Denied {
    /// Writes a line of an entry.
    pub(crate) fn write(&self, out: &mut Canonical) {
        out.open('{');
        if let Some(agent) = &self.agent {
            out.key("agent");
            out.string(agent.as_str());
        }
        out.key("code");
        out.string(self.code.as_str());
        out.key("count");
        out.u64(self.count);
        out.key("first");
        out.u64(self.first_ms);
        out.key("last");
        out.u64(self.last_ms);
        out.key("sample");
        out.string(&self.sample);
        out.close('}');
    }
}

/// Whether an entry of denials at this time can be one that a gate wrote: lines in order, each once, with counts and times that
/// can be.
///
/// # Errors
/// What is wrong with it.
pub fn check_denials(denied: &[Denied], time_ms: u64) -> Result<(), String> {
    if denied.is_empty() || denied.len() > DENIAL_LINES_MAX + DenialCode::ALL.len() {
        return Err(format!("it has {} lines of denials", denied.len()));
    }
    let key = |line: &Denied| (line.agent.clone(), line.code);
    if !denied.is_sorted_by(|one, next| key(one) < key(next)) {
        return Err("its lines of denials are not in order, each once".to_owned());
    }
    let is_off = |line: &&Denied| {
        line.count == 0
            || line.first_ms > line.last_ms
            || line.last_ms > time_ms
            || line.sample.len() > DENIAL_SAMPLE_BYTES_MAX
    };
    match denied.iter().find(is_off) {
        Some(line) => Err(format!("its count, times or sample for `{}` cannot be", line.code)),
        None => Ok(()),
    }
}

/// Text cut to what a sample holds, at the end of a character.
pub fn sample(text: &str) -> String {
    let mut end = text.len().min(DENIAL_SAMPLE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Whether an agent is refused whatever it asks for: it is not registered, or not active.
pub fn inactive(agent: &AgentId, snapshot: &dyn Snapshot) -> Option<DenialCode> {
    let fact = snapshot.fact(&FactId::of_agent(agent));
    let Some(value) = fact.and_then(|fact| fact.value.as_ref()) else { return Some(DenialCode::UnknownAgent) };
    match value.get("standing") {
        Some(Value::String(standing)) if standing == ACTIVE => None,
        _ => Some(DenialCode::AgentNotActive),
    }
}

/// Whether an action is refused before anything that it carries is looked at.
pub fn at_the_door(agent: &AgentId, pact: &PactName, snapshot: &dyn Snapshot) -> Option<DenialCode> {
    inactive(agent, snapshot).or_else(|| snapshot.pact(pact).is_none().then_some(DenialCode::UnknownPact))
}

/// Whether an action is refused because of whose right it uses: its pact has no such action type, or does not let these agents
/// use it, whatever the parameters and facts are; or its delegation hands the one who acts nothing now. Someone who may do this,
/// and asks for too much, gets a verdict.
pub fn without_right(action: &Action, snapshot: &dyn Snapshot, now_ms: u64) -> Option<(DenialCode, Reason)> {
    let blocked = rules_out(action, snapshot, now_ms)?;
    let code = match blocked.code() {
        Code::UnknownAction => DenialCode::UnknownAction,
        Code::NotAllowed => DenialCode::NotAllowed,
        Code::TrustTooLow => DenialCode::TrustTooLow,
        _ => DenialCode::DelegationRefused,
    };
    Some((code, blocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(agent: &str, code: DenialCode) -> Denied {
        let agent = AgentId::new(agent).ok();
        Denied { agent, code, count: 1, first_ms: 5, last_ms: 7, sample: String::new() }
    }

    #[test]
    fn only_what_a_gate_can_have_counted_is_taken() {
        let one = line("a", DenialCode::NotObservable);
        let two = line("b", DenialCode::AgentNotActive);
        assert_eq!(check_denials(&[one.clone(), two.clone()], 7), Ok(()));
        for wrong in [
            vec![],
            vec![two, one.clone()],
            vec![one.clone(), one.clone()],
            vec![Denied { count: 0, ..one.clone() }],
            vec![Denied { first_ms: 8, ..one.clone() }],
            vec![Denied { sample: "x".repeat(DENIAL_SAMPLE_BYTES_MAX + 1), ..one.clone() }],
        ] {
            assert!(check_denials(&wrong, 7).is_err(), "{wrong:?}");
        }
        assert!(check_denials(&[one], 6).is_err(), "from the future");
    }

    #[test]
    fn a_sample_ends_with_a_whole_character() {
        let long = "é".repeat(DENIAL_SAMPLE_BYTES_MAX);
        assert_eq!(sample(&long).len(), DENIAL_SAMPLE_BYTES_MAX);
        assert_eq!(sample(&format!("x{long}")).len(), DENIAL_SAMPLE_BYTES_MAX - 1);
        assert!(DenialCode::ALL.is_sorted_by_key(|code| code.as_str()));
    }
}
