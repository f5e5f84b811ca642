//! Writing entries. Keys are named in ascending order, so the bytes are canonical as they are written.

mod leaf;

use self::leaf::write_leaf;
use super::call::{write_in_flight, write_send};
use super::{Approved, Decided, Dispatch, Entry, Event, Settle};
use crate::action::Observed;
use crate::canonical::Canonical;
use crate::decision::{Charge, Decision, ReadVersion, Verdict, Write};
use crate::erase::Forgotten;
use crate::fact::Version;

/// Writes entries into buffers that are reused.
#[derive(Debug, Default)]
pub struct Encoder {
    payload: Canonical,
    leaf: Canonical,
}

impl Encoder {
    /// Writes the payload of an entry.
    pub fn payload(&mut self, entry: &Entry) -> &str {
        let mut out = Canonical::with_buffer(std::mem::take(&mut self.payload).into_string());
        write_payload(&mut out, entry);
        self.payload = out;
        self.payload.as_str()
    }

    /// Writes the leaf of an entry, given the commitment to its payload.
    pub fn leaf(&mut self, entry: &Entry, commitment: &[u8; 32]) -> &str {
        let mut out = Canonical::with_buffer(std::mem::take(&mut self.leaf).into_string());
        write_leaf(&mut out, entry, commitment);
        self.leaf = out;
        self.leaf.as_str()
    }
}

fn write_payload(out: &mut Canonical, entry: &Entry) {
    out.open('{');
    match &entry.event {
        Event::Genesis { origin, .. } => {
            out.key("origin");
            out.string(origin);
        }
        Event::Pact(pact) => {
            write_signed(out, entry);
            out.key("source");
            out.string(&pact.source);
        }
        Event::Held { fact, value } => {
            out.key("fact");
            out.fact(fact);
            write_signed(out, entry);
            if let Some(value) = value {
                out.key("value");
                value.write(out);
            }
        }
        Event::Confirm { fact, .. } => {
            out.key("fact");
            out.fact(fact);
            write_signed(out, entry);
        }
        Event::Feed { write, .. } => {
            write_signed(out, entry);
            out.key("writes");
            write_writes(out, std::slice::from_ref(write));
        }
        Event::Action(decided) => write_decided(out, entry, decided),
        Event::Approval(approved) => write_approved(out, entry, approved),
        Event::Dispatch(dispatch) => {
            let Dispatch { decision, .. } = &**dispatch;
            write_outcome(out, decision);
            write_reads(out, decision);
        }
        Event::Settle(settle) => write_settle(out, entry, settle),
        Event::Claim { facts, expires_at_ms, until_ms, priority, reason } => {
            out.key("expires_at");
            out.u64(*expires_at_ms);
            out.key("facts");
            out.open('[');
            for fact in facts {
                out.element();
                out.fact(fact);
            }
            out.close(']');
            out.key("priority");
            out.i64(*priority);
            out.key("reason");
            out.string(reason);
            write_signed(out, entry);
            out.key("until");
            out.u64(*until_ms);
        }
        Event::Extension { expires_at_ms, .. } => {
            out.key("expires_at");
            out.u64(*expires_at_ms);
            write_signed(out, entry);
        }
        Event::Withdrawal { .. } | Event::Expiry { .. } => write_signed(out, entry),
        Event::Erasure { forgotten, reason, .. } => {
            write_forgotten(out, forgotten);
            out.key("reason");
            out.string(reason);
            write_signed(out, entry);
        }
        Event::Rotation { reason, .. } => {
            out.key("reason");
            out.string(reason);
            write_signed(out, entry);
        }
        Event::Halt { reason, .. } | Event::Resume { reason, .. } | Event::Refusal { reason, .. } => {
            out.key("reason");
            out.string(reason);
            write_signed(out, entry);
        }
        Event::Denials(denied) => {
            out.key("denied");
            out.open('[');
            for line in denied {
                out.element();
                line.write(out);
            }
            out.close(']');
        }
        Event::Clock { wall_ms, confirmed } => {
            out.key("confirmed");
            out.bool(*confirmed);
            write_signed(out, entry);
            out.key("wall");
            out.u64(*wall_ms);
        }
        // It is only read back: there is nothing left to write.
        Event::Erased(_) => {}
    }
    out.close('}');
}

/// The tags and last versions of the facts that an erasure forgets.
fn write_forgotten(out: &mut Canonical, forgotten: &[Forgotten]) {
    if forgotten.is_empty() {
        return;
    }
    out.key("forgotten");
    out.open('[');
    for Forgotten { tag, version } in forgotten {
        out.element();
        out.open('[');
        out.element();
        out.hex_string(&tag.0);
        out.element();
        out.u64(*version);
        out.close(']');
    }
    out.close(']');
}

/// The signed request, where there is one: its member comes after `reason` and before `source`.
fn write_signed(out: &mut Canonical, entry: &Entry) {
    if let Some(signed) = entry.auth.signed() {
        out.key("signed");
        signed.write(out);
    }
}

fn write_decided(out: &mut Canonical, entry: &Entry, decided: &Decided) {
    let Decided { action, decision } = decided;
    out.key("body");
    out.string(&action.body);
    if let Some(chain) = &action.chain {
        out.key("chain");
        chain.write(out);
    }
    write_outcome(out, decision);
    if !action.observed.is_empty() {
        out.key("observed");
        write_observed(out, &action.observed, decision);
    }
    write_reads(out, decision);
    write_signed(out, entry);
    if !decision.writes.is_empty() {
        out.key("writes");
        write_writes(out, &decision.writes);
    }
}

/// An approval: who acted and with which body, what was decided, and what the reviewer was shown.
fn write_approved(out: &mut Canonical, entry: &Entry, approved: &Approved) {
    let Approved { action, shown, until_ms, decision } = approved;
    out.key("agent");
    out.string(action.agent.as_str());
    out.key("body");
    out.string(&action.body);
    write_outcome(out, decision);
    write_reads(out, decision);
    out.key("shown");
    out.open('[');
    for fact in &shown.facts {
        out.element();
        // With its value even where it is current: a call that cools is compared with it later, when the fact may have changed.
        fact.write(out, true);
    }
    out.close(']');
    out.key("shown_at");
    out.u64(shown.at_ms);
    write_signed(out, entry);
    out.key("until");
    out.u64(*until_ms);
    out.key("waives");
    out.open('[');
    for precondition in &shown.waives {
        out.element();
        out.string(precondition);
    }
    out.close(']');
    if !decision.writes.is_empty() {
        out.key("writes");
        write_writes(out, &decision.writes);
    }
}

fn write_outcome(out: &mut Canonical, decision: &Decision) {
    write_charges(out, &decision.charges);
    out.key("decision");
    decision.write_verdict(out);
    if let Verdict::InFlight(in_flight) = &decision.verdict {
        out.key("effect");
        write_in_flight(out, in_flight);
    }
}

/// A settlement: its outcome is in the leaf; here is what speaks for it, and what it rests on.
fn write_settle(out: &mut Canonical, entry: &Entry, settle: &Settle) {
    let judged = settle.judged.as_ref();
    out.key("agent");
    out.string(settle.agent.as_str());
    if let Some(blocked) = judged.and_then(|judged| judged.blocked.as_ref()).or(settle.stopped.as_ref()) {
        out.key("blocked");
        blocked.write(out);
    }
    write_charges(out, &settle.charges);
    out.key("evidence");
    settle.evidence.write(out);
    if let Some(judged) = judged {
        out.key("judged_at");
        out.u64(judged.at_ms);
        out.key("outside");
        out.open('[');
        for (fact, value) in &judged.facts {
            out.element();
            out.open('{');
            out.key("fact");
            out.fact(fact);
            if let Some(value) = value {
                out.key("value");
                value.write(out);
            }
            out.close('}');
        }
        out.close(']');
        if let Some(send) = &judged.send {
            out.key("send");
            write_send(out, send);
        }
        if let Some(shadowed) = &judged.shadowed {
            out.key("shadowed");
            shadowed.write(out);
        }
    }
    write_signed(out, entry);
    if !settle.writes.is_empty() {
        out.key("writes");
        write_writes(out, &settle.writes);
    }
}

fn write_charges(out: &mut Canonical, charges: &[Charge]) {
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

fn write_observed(out: &mut Canonical, facts: &[Observed], decision: &Decision) {
    let is_undone = matches!(decision.verdict, Verdict::Review { .. } | Verdict::InFlight(_));
    out.open('[');
    for observed in facts {
        out.element();
        let read = decision.reads.iter().find(|read| read.fact == observed.fact);
        // What the action did not read had no part in the decision, and what is still at the version observed is in the ledger:
        // their values are not kept. An external value is nowhere else, and what is decided again later is decided on what was
        // observed now.
        observed.write(out, read.is_some_and(|read| is_undone || observed.version != Version::Number(read.version)));
    }
    out.close(']');
}

fn write_reads(out: &mut Canonical, decision: &Decision) {
    if decision.reads.is_empty() {
        return;
    }
    out.key("reads");
    out.open('[');
    for ReadVersion { fact, version, .. } in &decision.reads {
        out.element();
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
    out.key("action");
    out.string(charge.budget.action.as_str());
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

pub(super) fn write_writes(out: &mut Canonical, writes: &[Write]) {
    out.open('[');
    for write in writes {
        out.element();
        out.open('{');
        out.key("fact");
        out.fact(&write.fact);
        if let Some(previous) = write.previous_entry {
            out.key("previous");
            out.u64(previous);
        }
        if let Some(tag) = &write.tag {
            out.key("tag");
            out.hex_string(&tag.0);
        }
        if let Some(value) = &write.value {
            out.key("value");
            value.write(out);
        }
        out.key("version");
        out.u64(write.version);
        out.close('}');
    }
    out.close(']');
}
