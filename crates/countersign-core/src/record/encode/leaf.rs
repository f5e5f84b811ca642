//! Writing leaves: what of an entry is public.

use crate::canonical::Canonical;
use crate::decision::PactRef;
use crate::ids::Digest;
use crate::record::{Entry, Event, FORMAT};
use crate::review::ReviewId;

pub(super) fn write_leaf(out: &mut Canonical, entry: &Entry, commitment: &[u8; 32]) {
    out.open('{');
    let action = match &entry.event {
        Event::Action(decided) => Some(&decided.action.id),
        Event::Approval(approved) => Some(&approved.action.id),
        _ => None,
    };
    if let Some(id) = action {
        out.key("action");
        out.hex_string(&id.0);
    }
    out.key("auth");
    out.string(entry.auth.as_str());
    out.key("by");
    out.string(entry.by.as_str());
    if let Event::Extension { claim, .. } | Event::Withdrawal { claim } = &entry.event {
        out.key("claim");
        out.u64(claim.0);
    }
    out.key("commitment");
    out.hex_string(commitment);
    if let Some(effect) = entry.event.effect() {
        out.key("effect");
        out.u64(effect.0);
    }
    if let Event::Erasure { entries, .. } = &entry.event {
        out.key("erased");
        write_indices(out, entries);
    }
    if let Event::Feed { held: Some(held), .. } = &entry.event {
        out.key("held");
        out.u64(*held);
    }
    out.key("index");
    out.u64(entry.index);
    if let Event::Action(decided) = &entry.event {
        out.key("key");
        out.hex_string(&decided.action.key);
    }
    out.key("kind");
    out.string(entry.event.kind().as_str());
    if let Event::Genesis { log_key, .. } | Event::Rotation { log_key, .. } = &entry.event {
        out.key("log_key");
        out.string(log_key);
    }
    if let Some(decision) = entry.event.decision() {
        if let Some(PactRef { name, version, hash }) = &decision.pact {
            write_pact_ref(out, name.as_str(), *version, hash);
        }
        out.key("reads");
        write_versions(out, decision.reads.iter().filter_map(|read| Some((read.tag?, read.version))));
    }
    if let Event::Confirm { tag, version, .. } = &entry.event {
        out.key("reads");
        write_versions(out, std::iter::once((*tag, *version)));
    }
    match &entry.event {
        Event::Pact(pact) => write_pact_ref(out, pact.name.as_str(), pact.version, &pact.hash),
        Event::Approval(approved) => write_review(out, approved.shown.review),
        Event::Refusal { review, .. } | Event::Expiry { review } => write_review(out, *review),
        _ => {}
    }
    if let Event::Halt { scope, .. } | Event::Resume { scope, .. } = &entry.event {
        out.key("scope");
        out.string(&scope.to_string());
    }
    out.key("time");
    out.u64(entry.time_ms);
    out.key("v");
    out.u64(FORMAT);
    if let Some(verdict) = entry.event.verdict() {
        out.key("verdict");
        out.string(verdict.as_str());
    }
    if !entry.event.writes().is_empty() {
        out.key("writes");
        write_versions(out, entry.event.writes().iter().filter_map(|write| Some((write.tag?, write.version))));
    }
    out.close('}');
}

fn write_review(out: &mut Canonical, review: ReviewId) {
    out.key("review");
    out.u64(review.0);
}

fn write_pact_ref(out: &mut Canonical, name: &str, version: u64, hash: &Digest) {
    out.key("pact");
    out.open('{');
    out.key("hash");
    out.hex_string(&hash.0);
    out.key("name");
    out.string(name);
    out.key("version");
    out.u64(version);
    out.close('}');
}

fn write_versions(out: &mut Canonical, versions: impl Iterator<Item = (crate::ids::Tag, u64)>) {
    out.open('[');
    for (tag, version) in versions {
        out.element();
        out.open('[');
        out.element();
        out.hex_string(&tag.0);
        out.element();
        out.u64(version);
        out.close(']');
    }
    out.close(']');
}

fn write_indices(out: &mut Canonical, indices: &[u64]) {
    out.open('[');
    for index in indices {
        out.element();
        out.u64(*index);
    }
    out.close(']');
}
