//! Writing entries. Keys are named in ascending order, so the bytes are canonical as they are written.
//!
//! A payload is one JSON object, and behind it the bodies of requests as they were sent, or what was read. What is shown to people and
//! programs has the same members with the ids, versions and bodies in their places, and the same code writes it ([`Form`]).

mod parts;

use self::parts::{
    facts_of, write_absent, write_charges, write_claimed, write_counts, write_facts, write_observation, write_observed,
    write_reads, write_seen, write_writes,
};
use super::call::{write_in_flight, write_send};
use super::leaf::Fields;
use super::{Approved, Decided, Dispatch, Entry, Event, Grouped, Settle};
use crate::canonical::Canonical;
use crate::decision::{Decision, Verdict};
use crate::erase::Forgotten;
use crate::identity::Auth;
use crate::session::{content_of, without_content, write_rereads};

pub(super) use self::parts::{Form, write_list};

/// Writes entries into buffers that are reused.
#[derive(Debug, Default)]
pub struct Encoder {
    payload: Canonical,
    leaf: Vec<u8>,
}

impl Encoder {
    /// Writes the payload of an entry.
    pub fn payload(&mut self, entry: &Entry) -> &str {
        let mut out = Canonical::with_buffer(std::mem::take(&mut self.payload).into_string());
        let facts = facts_of(&entry.event);
        write_payload(&mut out, entry, Form::Stored(&facts));
        self.payload = out;
        self.payload.as_str()
    }

    /// Writes the leaf of an entry, given the commitment to its payload.
    pub fn leaf(&mut self, entry: &Entry, commitment: &[u8; 32]) -> &[u8] {
        let mut out = std::mem::take(&mut self.leaf);
        out.clear();
        // Memory takes whatever is written.
        self.leaf = Fields::of_entry(entry, commitment).write(out).unwrap_or_default();
        &self.leaf
    }
}

pub(super) fn write_payload(out: &mut Canonical, entry: &Entry, form: Form<'_>) {
    out.open('{');
    match &entry.event {
        Event::Genesis { origin, .. } => {
            out.key("origin");
            out.string(origin);
        }
        Event::Pact(pact) => {
            write_signed(out, entry, form);
            out.key("source");
            out.string(&pact.source);
        }
        Event::Held { fact, value } => {
            out.key("fact");
            out.fact(fact);
            write_signed(out, entry, form);
            if let Some(value) = value {
                out.key("value");
                value.write(out);
            }
        }
        Event::Confirm { fact, .. } => {
            out.key("fact");
            out.fact(fact);
            write_signed(out, entry, form);
        }
        Event::Feed { write, .. } => {
            write_facts(out, form);
            write_signed(out, entry, form);
            write_writes(out, std::slice::from_ref(write), form);
        }
        Event::Action(decided) => write_decided(out, entry, decided, form),
        Event::Approval(approved) => write_approved(out, entry, approved, form),
        Event::Dispatch(dispatch) => {
            let Dispatch { decision, rereads, .. } = &**dispatch;
            write_absent(out, decision, form);
            write_outcome(out, decision, form);
            write_facts(out, form);
            write_reads(out, decision, form);
            if !rereads.is_empty() {
                out.key("rereads");
                write_rereads(out, rereads);
            }
        }
        Event::Session { writes } => {
            write_facts(out, form);
            write_writes(out, writes, form);
        }
        Event::Reading { writes, .. } => match content_of(writes).filter(|_| form.is_stored()) {
            Some(content) => {
                form.body(out, content);
                write_facts(out, form);
                write_writes(out, &without_content(writes), form);
            }
            None => {
                write_facts(out, form);
                write_writes(out, writes, form);
            }
        },
        Event::Observation(observation) => {
            if !observation.facts.is_empty() {
                out.key("attested");
                write_seen(out, &observation.facts, form);
            }
            if let Some(began_ms) = observation.began_ms {
                out.key("began");
                out.u64(began_ms);
            }
            write_counts(out, &observation.counts, form);
            write_facts(out, form);
            write_signed(out, entry, form);
        }
        Event::Settle(settle) => write_settle(out, entry, settle, form),
        Event::Claim { facts, expires_at_ms, until_ms, priority, reason } => {
            out.key("expires_at");
            out.u64(*expires_at_ms);
            write_claimed(out, facts, form);
            out.key("priority");
            out.i64(*priority);
            out.key("reason");
            out.string(reason);
            write_signed(out, entry, form);
            out.key("until");
            out.u64(*until_ms);
        }
        Event::Extension { expires_at_ms, .. } => {
            out.key("expires_at");
            out.u64(*expires_at_ms);
            write_signed(out, entry, form);
        }
        Event::Withdrawal { .. } | Event::Expiry { .. } => write_signed(out, entry, form),
        Event::Erasure { forgotten, reason, .. } => {
            write_forgotten(out, forgotten);
            out.key("reason");
            out.string(reason);
            write_signed(out, entry, form);
        }
        Event::Rotation { reason, .. } => {
            out.key("reason");
            out.string(reason);
            write_signed(out, entry, form);
        }
        Event::Halt { reason, .. } | Event::Resume { reason, .. } | Event::Refusal { reason, .. } => {
            out.key("reason");
            out.string(reason);
            write_signed(out, entry, form);
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
            write_signed(out, entry, form);
            out.key("wall");
            out.u64(*wall_ms);
        }
        Event::Batch { is_atomic, .. } => {
            if *is_atomic {
                out.key("atomic");
                out.bool(true);
            }
            write_signed(out, entry, form);
        }
        Event::Group(group) => write_group(out, entry, group, form),
        // They are only read back: there is nothing left to write.
        Event::Done(_) | Event::Erased(_) => {}
    }
    out.close('}');
    if form.is_stored() {
        match &entry.event {
            Event::Action(decided) => out.raw(&decided.action.body),
            Event::Approval(approved) => out.raw(&approved.action.body),
            Event::Group(group) => group.actions.iter().for_each(|action| out.raw(&action.body)),
            Event::Reading { writes, .. } => content_of(writes).into_iter().for_each(|content| out.raw(content)),
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
            | Event::Observation(_)
            | Event::Denials(_)
            | Event::Batch { .. }
            | Event::Rotation { .. }
            | Event::Done(_)
            | Event::Erased(_) => {}
        }
        let signed = entry.auth.signed().and_then(|signed| signed.body.as_ref());
        signed.into_iter().for_each(|body| out.raw(body));
    }
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

/// The signed request, where there is one, or the key that signed the batch: its member comes after `reason` and before `source`.
fn write_signed(out: &mut Canonical, entry: &Entry, form: Form<'_>) {
    if let Some(signed) = entry.auth.signed() {
        out.key("signed");
        signed.write(out, |out, body| form.body(out, body));
    } else if let Auth::Batch { key, .. } = &entry.auth {
        out.key("signer");
        out.string(key.as_str());
    }
}

fn write_decided(out: &mut Canonical, entry: &Entry, decided: &Decided, form: Form<'_>) {
    let Decided { action, decision } = decided;
    write_absent(out, decision, form);
    form.body(out, &action.body);
    if let Some(chain) = &action.chain {
        out.key("chain");
        chain.write(out);
    }
    write_outcome(out, decision, form);
    write_facts(out, form);
    if !action.observed.is_empty() {
        out.key("observed");
        write_observed(out, &action.observed, decision, form);
    }
    write_reads(out, decision, form);
    write_signed(out, entry, form);
    write_writes(out, &decision.writes, form);
}

/// A rejected group: what every action of it said and rested on, which of them failed, and why.
fn write_group(out: &mut Canonical, entry: &Entry, group: &Grouped, form: Form<'_>) {
    let Grouped { actions, failed, decision } = group;
    write_absent(out, decision, form);
    out.key("actions");
    out.open('[');
    for action in actions {
        out.element();
        out.open('{');
        form.body(out, &action.body);
        if let Some(chain) = &action.chain {
            out.key("chain");
            chain.write(out);
        }
        if !action.observed.is_empty() {
            out.key("observed");
            out.open('[');
            for observed in &action.observed {
                out.element();
                write_observation(out, observed, true, form);
            }
            out.close(']');
        }
        out.close('}');
    }
    out.close(']');
    write_outcome(out, decision, form);
    write_facts(out, form);
    out.key("failed");
    out.u64(*failed as u64);
    write_reads(out, decision, form);
    write_signed(out, entry, form);
}

/// An approval: who acted and with which body, what was decided, and what the reviewer was shown.
fn write_approved(out: &mut Canonical, entry: &Entry, approved: &Approved, form: Form<'_>) {
    let Approved { action, shown, until_ms, decision } = approved;
    write_absent(out, decision, form);
    out.key("agent");
    out.string(action.agent.as_str());
    form.body(out, &action.body);
    write_outcome(out, decision, form);
    write_facts(out, form);
    write_reads(out, decision, form);
    out.key("shown");
    out.open('[');
    for fact in &shown.facts {
        out.element();
        // With its value even where it is current: a call that cools is compared with it later, when the fact may have changed.
        write_observation(out, fact, true, form);
    }
    out.close(']');
    out.key("shown_at");
    out.u64(shown.at_ms);
    write_signed(out, entry, form);
    out.key("until");
    out.u64(*until_ms);
    out.key("waives");
    out.open('[');
    for precondition in &shown.waives {
        out.element();
        out.string(precondition);
    }
    out.close(']');
    write_writes(out, &decision.writes, form);
}

fn write_outcome(out: &mut Canonical, decision: &Decision, form: Form<'_>) {
    write_charges(out, &decision.charges);
    // The verdict is in the leaf.
    if !form.is_stored() || decision.has_more_than_verdict() {
        out.key("decision");
        decision.write_verdict(out, !form.is_stored());
    }
    if let Verdict::InFlight(in_flight) = &decision.verdict {
        out.key("effect");
        write_in_flight(out, in_flight);
    }
}

/// A settlement: its outcome is in the leaf; here is what speaks for it, and what it rests on.
fn write_settle(out: &mut Canonical, entry: &Entry, settle: &Settle, form: Form<'_>) {
    let judged = settle.judged.as_ref();
    out.key("agent");
    out.string(settle.agent.as_str());
    if !settle.beside.is_empty() {
        out.key("beside");
        out.open('[');
        for effect in &settle.beside {
            out.element();
            out.u64(effect.0);
        }
        out.close(']');
    }
    if let Some(blocked) = judged.and_then(|judged| judged.blocked.as_ref()).or(settle.stopped.as_ref()) {
        out.key("blocked");
        blocked.write(out);
    }
    write_charges(out, &settle.charges);
    out.key("evidence");
    settle.evidence.write(out);
    if let Some(judged) = judged {
        out.key("external");
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
    }
    write_facts(out, form);
    if let Some(judged) = judged {
        out.key("judged_at");
        out.u64(judged.at_ms);
        if let Some(send) = &judged.send {
            out.key("send");
            write_send(out, send);
        }
        if let Some(shadowed) = &judged.shadowed {
            out.key("shadowed");
            shadowed.write(out);
        }
    }
    write_signed(out, entry, form);
    write_writes(out, &settle.writes, form);
}
