//! What payloads of many kinds have in common: facts, reads, writes, observations and charges, in either form.

use crate::action::Observed;
use crate::canonical::Canonical;
use crate::decision::{Charge, Decision, ReadVersion, Verdict, Write};
use crate::fact::Version;
use crate::ids::FactId;
use crate::observation::Seen;
use crate::observing::{Count, Sharer};
use crate::record::Event;

/// How a payload is written.
#[derive(Clone, Copy)]
pub(in crate::record) enum Form<'a> {
    /// As it is stored: facts by their place among these, bodies by their length, and what the leaf says left out.
    Stored(&'a [&'a FactId]),
    /// As it is shown: whole.
    Shown,
}

impl Form<'_> {
    pub(super) fn is_stored(self) -> bool {
        matches!(self, Self::Stored(_))
    }

    fn fact(self, out: &mut Canonical, fact: &FactId) {
        match self {
            Self::Stored(facts) => out.u64(place(facts, fact)),
            Self::Shown => out.fact(fact),
        }
    }

    pub(super) fn body(self, out: &mut Canonical, body: &str) {
        out.key("body");
        if self.is_stored() { out.u64(body.len() as u64) } else { out.string(body) }
    }
}

/// The place of a fact. Every fact that an entry reads, writes, or holds an observation of is in the list ([`facts_of`]): one that is not
/// would make an entry that cannot be read back.
fn place(facts: &[&FactId], fact: &FactId) -> u64 {
    let place = facts.iter().position(|named| *named == fact);
    debug_assert!(place.is_some(), "`facts_of` does not name {fact}");
    place.unwrap_or(facts.len()) as u64
}

/// The facts that an entry refers to by place: what it reads, then what else it writes, then what else was observed.
pub(super) fn facts_of(event: &Event) -> Vec<&FactId> {
    let mut facts: Vec<&FactId> = Vec::new();
    let mut name = |fact| {
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    };
    if let Some(decision) = event.decision() {
        decision.reads.iter().for_each(|read| name(&read.fact));
    }
    event.writes().iter().for_each(|write| name(&write.fact));
    match event {
        Event::Action(decided) => decided.action.observed.iter().for_each(|observed| name(&observed.fact)),
        Event::Approval(approved) => approved.shown.facts.iter().for_each(|shown| name(&shown.fact)),
        Event::Observation(observation) => {
            observation.facts.iter().for_each(|seen| name(&seen.fact));
            observation.counts.iter().flat_map(|count| &count.facts).for_each(name);
        }
        Event::Group(group) => {
            let observed = group.actions.iter().flat_map(|action| &action.observed);
            observed.for_each(|observed| name(&observed.fact));
        }
        Event::Genesis { .. }
        | Event::Pact(_)
        | Event::Feed { .. }
        | Event::Held { .. }
        | Event::Confirm { .. }
        | Event::Erasure { .. }
        | Event::Clock { .. }
        | Event::Refusal { .. }
        | Event::Expiry { .. }
        | Event::Halt { .. }
        | Event::Resume { .. }
        | Event::Dispatch(_)
        | Event::Settle(_)
        | Event::Claim { .. }
        | Event::Extension { .. }
        | Event::Withdrawal { .. }
        | Event::Session { .. }
        | Event::Reading { .. }
        | Event::Denials(_)
        | Event::Batch { .. }
        | Event::Rotation { .. }
        | Event::Done(_)
        | Event::Erased(_) => {}
    }
    facts
}

/// What counts to budgets on observing.
pub(super) fn write_counts(out: &mut Canonical, counts: &[Count], form: Form<'_>) {
    if counts.is_empty() {
        return;
    }
    out.key("counts");
    out.open('[');
    for Count { key, window, facts } in counts {
        out.element();
        out.open('{');
        if let Sharer::Agent(agent) = &key.sharer {
            out.key("agent");
            out.string(agent.as_str());
        }
        out.key("facts");
        out.open('[');
        for fact in facts {
            out.element();
            form.fact(out, fact);
        }
        out.close(']');
        if let Sharer::Org(org) = &key.sharer {
            out.key("org");
            out.string(org);
        }
        out.key("pact");
        out.string(key.pact.as_str());
        out.key("per");
        out.u64(key.per_ms);
        out.key("type");
        out.string(key.ty.as_str());
        out.key("window");
        out.u64(*window);
        out.close('}');
    }
    out.close(']');
}

/// What an agent was shown, with the versions, which the leaf has too.
pub(super) fn write_seen(out: &mut Canonical, facts: &[Seen], form: Form<'_>) {
    out.open('[');
    for seen in facts {
        out.element();
        out.open('{');
        seen.version.into_iter().for_each(|version| version.write_digest(out, "digest"));
        out.key("fact");
        form.fact(out, &seen.fact);
        if let Some(value) = &seen.value {
            out.key("value");
            value.write(out);
        }
        seen.version.into_iter().for_each(|version| version.write_number(out, "version"));
        if !seen.withheld.is_empty() {
            out.key("withheld");
            out.open('[');
            for name in &seen.withheld {
                out.element();
                out.string(name);
            }
            out.close(']');
        }
        out.close('}');
    }
    out.close(']');
}

pub(super) fn write_charges(out: &mut Canonical, charges: &[Charge]) {
    if charges.is_empty() {
        return;
    }
    out.key("charges");
    out.open('[');
    for charge in charges {
        out.element();
        write_charge(out, charge);
    }
    out.close(']');
}

pub(super) fn write_observed(out: &mut Canonical, facts: &[Observed], decision: &Decision, form: Form<'_>) {
    let is_undone = matches!(decision.verdict, Verdict::Review { .. } | Verdict::InFlight(_));
    out.open('[');
    for observed in facts {
        out.element();
        let read = decision.reads.iter().find(|read| read.fact == observed.fact);
        // What the action did not read had no part in the decision, and what is still at the version observed is in the ledger:
        // their values are not kept. An external value is nowhere else, and what is decided again later is decided on what was
        // observed now.
        let is_kept = read.is_some_and(|read| is_undone || observed.version != Version::Number(read.version));
        write_observation(out, observed, is_kept, form);
    }
    out.close(']');
}

pub(super) fn write_observation(out: &mut Canonical, observed: &Observed, with_value: bool, form: Form<'_>) {
    observed.write_with(out, with_value, |out, fact| form.fact(out, fact));
}

/// The places of the facts that were read and not there: the leaf says nothing of them.
pub(super) fn write_absent(out: &mut Canonical, decision: &Decision, form: Form<'_>) {
    let Form::Stored(facts) = form else { return };
    let is_absent =
        |fact: &FactId| decision.reads.iter().any(|ReadVersion { fact: read, tag, .. }| tag.is_none() && read == fact);
    let mut absent = (0u64..).zip(facts).filter(|(_, fact)| is_absent(fact)).peekable();
    if absent.peek().is_none() {
        return;
    }
    out.key("absent");
    out.open('[');
    for (place, _) in absent {
        out.element();
        out.u64(place);
    }
    out.close(']');
}

/// The facts that a claim names, all of them and in its order.
pub(super) fn write_claimed(out: &mut Canonical, facts: &[FactId], form: Form<'_>) {
    if form.is_stored() {
        let facts: Vec<&FactId> = facts.iter().collect();
        return write_facts(out, Form::Stored(&facts));
    }
    out.key("facts");
    out.open('[');
    for fact in facts {
        out.element();
        out.fact(fact);
    }
    out.close(']');
}

/// Each fact once: types and ids by turns.
pub(super) fn write_facts(out: &mut Canonical, form: Form<'_>) {
    let Form::Stored(facts) = form else { return };
    if facts.is_empty() {
        return;
    }
    out.key("facts");
    out.open('[');
    for fact in facts {
        out.element();
        out.string(fact.ty().as_str());
        out.element();
        out.string(fact.id());
    }
    out.close(']');
}

pub(super) fn write_reads(out: &mut Canonical, decision: &Decision, form: Form<'_>) {
    if decision.reads.is_empty() {
        return;
    }
    out.key("reads");
    out.open('[');
    for ReadVersion { fact, version, .. } in &decision.reads {
        out.element();
        if form.is_stored() {
            form.fact(out, fact);
            continue;
        }
        out.open('[');
        out.element();
        out.fact(fact);
        out.element();
        out.u64(*version);
        out.close(']');
    }
    out.close(']');
}

fn write_charge(out: &mut Canonical, charge: &Charge) {
    out.open('{');
    if let Some(action) = &charge.budget.action {
        out.key("action");
        out.string(action.as_str());
    }
    if let Some(agent) = &charge.budget.agent {
        out.key("agent");
        out.string(agent.as_str());
    }
    out.key("amount");
    out.i64(charge.amount);
    out.key("budget");
    out.string(&charge.budget.id);
    out.key("pact");
    out.string(charge.budget.pact.as_str());
    out.key("window");
    out.u64(charge.window);
    out.close('}');
}

/// What an entry writes. The leaf of a stored one has the tags and versions.
pub(super) fn write_writes(out: &mut Canonical, writes: &[Write], form: Form<'_>) {
    if writes.is_empty() {
        return;
    }
    out.key("writes");
    write_list(out, writes, form);
}

pub(in crate::record) fn write_list(out: &mut Canonical, writes: &[Write], form: Form<'_>) {
    out.open('[');
    for write in writes {
        out.element();
        out.open('{');
        out.key("fact");
        form.fact(out, &write.fact);
        if let Some(previous) = write.previous_entry {
            out.key("previous");
            out.u64(previous);
        }
        if let Some(tag) = write.tag.filter(|_| !form.is_stored()) {
            out.key("tag");
            out.hex_string(&tag.0);
        }
        if let Some(value) = &write.value {
            out.key("value");
            value.write(out);
        }
        if !form.is_stored() {
            out.key("version");
            out.u64(write.version);
        }
        out.close('}');
    }
    out.close(']');
}
