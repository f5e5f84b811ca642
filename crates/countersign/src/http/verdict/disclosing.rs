//! Leaving out of a verdict what its agent may not see.
//!
//! One place for every way in which a verdict is answered: decided just now, only checked, or read from its entry. What is
//! granted is what the pacts, the agent and the facts say at this moment, also for values of the past.

use countersign_api::{FailedPrecondition, FailedRead, Verdict};
use countersign_core::disclose::{DecidedBy, Disclosure};
use countersign_core::ids::{AgentId, FactId};
use countersign_engine::gate::Gate;

/// Who asked for what, and which facts that read.
pub(super) struct Asked<'a> {
    /// The agent that is answered.
    pub(super) agent: &'a AgentId,
    /// The action type.
    pub(super) action: &'a str,
    /// The facts read: the agent's own first, then those of the action type in its order.
    pub(super) reads: &'a [FactId],
}

/// Leaves out what the agent may not see.
pub(super) fn disclose(gate: &Gate, verdict: &mut Verdict, asked: &Asked<'_>) {
    // Most verdicts speak of nothing but the fact that the agent named itself, and need no look at the grants.
    let named_only = asked.reads.len() <= 2;
    if named_only && verdict.failed.is_empty() && verdict.shadowed.is_none() {
        return;
    }
    let view = gate.view();
    let by = verdict.pact.as_ref().map(|pact| DecidedBy { pact: &pact.name, hash: &pact.hash, action: asked.action });
    let disclosure = Disclosure::new(&view.state, asked.agent, by, asked.reads);
    let told = |text: &mut String| *text = disclosure.tell(std::mem::take(text));
    verdict.message.iter_mut().for_each(told);
    verdict.hint.iter_mut().for_each(told);
    verdict.wrote.iter_mut().for_each(|wrote| told(&mut wrote.fact));
    verdict.failed.iter_mut().for_each(|failed| precondition(failed, &disclosure));
    if let Some(shadowed) = &mut verdict.shadowed {
        told(&mut shadowed.message);
        told(&mut shadowed.hint);
        shadowed.failed.iter_mut().for_each(|failed| precondition(failed, &disclosure));
    }
}

fn precondition(failed: &mut FailedPrecondition, disclosure: &Disclosure<'_>) {
    for text in [&mut failed.that, &mut failed.hint] {
        *text = disclosure.tell(std::mem::take(text));
    }
    for read in &mut failed.reads {
        if is_withheld(read, disclosure) {
            read.withheld = true;
            read.expected = None;
            read.actual = None;
        }
        if !is_shown_whole(read, disclosure) {
            (read.digest, read.observed_digest) = (None, None);
        }
        read.attribute = disclosure.tell(std::mem::take(&mut read.attribute));
    }
}

/// Whether the agent may see all of the fact: a digest of it would let an agent guess what is withheld.
fn is_shown_whole(read: &FailedRead, disclosure: &Disclosure<'_>) -> bool {
    let fact = if read.attribute.ends_with('"') { Some(read.attribute.as_str()) } else { None };
    let fact = fact.or_else(|| read.attribute.rsplit_once('.').map(|(fact, _)| fact));
    fact.and_then(|fact| fact.parse::<FactId>().ok()).is_some_and(|fact| disclosure.shows_whole(&fact))
}

/// Whether the attribute must not be shown; what cannot be understood is not shown either (I4).
fn is_withheld(read: &FailedRead, disclosure: &Disclosure<'_>) -> bool {
    // A fact as a whole ends with the quote of its id; then there are no values.
    if read.attribute.ends_with('"') {
        return false;
    }
    let split = read.attribute.rsplit_once('.').and_then(|(fact, name)| Some((fact.parse::<FactId>().ok()?, name)));
    split.is_none_or(|(fact, name)| !disclosure.shows(&fact, name))
}
