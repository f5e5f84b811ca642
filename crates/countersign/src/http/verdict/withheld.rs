//! What an agent is told of its own calls: neither ids nor values that it may not see, no matter who says them.

use super::Said;
use countersign_api::{Effect, Evidence};
use countersign_core::disclose::Disclosure;
use countersign_engine::gate::{Gate, StoredEntry};

/// Leaves out of what is known of an effect what its agent may not see, by the entry of its intent and that of its dispatch.
pub fn withhold_effect(gate: &Gate, effect: &mut Effect, entries: &[StoredEntry]) -> Result<(), String> {
    // What was sent and what was read may hold more than its agent may see.
    (effect.call, effect.failed) = (None, Vec::new());
    let Some((intent, later)) = entries.split_first() else { return Ok(()) };
    let mut said = Said::read(intent)?;
    for entry in later {
        said.later(&entry.decode().map_err(|error| error.to_string())?.event);
    }
    said.also_read(effect.fences.iter().filter_map(|fence| fence.parse().ok()));
    said.know_all_ids();
    let view = gate.view();
    let mut reason = said.blocked.take();
    let disclosure = said.disclosure(&view);
    if let Some(reason) = &mut reason {
        reason.withhold(&disclosure);
        effect.message = Some(reason.message());
    }
    let texts = effect.fences.iter_mut().chain(&mut effect.message);
    for text in texts {
        *text = disclosure.masked_text(text);
    }
    if let Some(last) = &mut effect.last_try {
        last.found = told(&disclosure, &last.found);
    }
    if let Some(evidence) = &mut effect.evidence {
        withhold_evidence(&disclosure, evidence);
    }
    Ok(())
}

/// Leaves out what the other side may have repeated of what was sent to it, where the agent may not see all of that.
pub(super) fn withhold_evidence(disclosure: &Disclosure<'_>, evidence: &mut Evidence) {
    if !disclosure.shows_sent() {
        let answered = [evidence.result.take(), evidence.receipt.take()];
        evidence.withheld = answered.iter().any(Option::is_some) || evidence.summary.contains(SAID);
    }
    evidence.summary = told(disclosure, &evidence.summary);
}

/// What stands between the gate's own words on a call and what the other side said.
const SAID: &str = ": ";

/// A line on what came of a call, as its agent is told.
fn told(disclosure: &Disclosure<'_>, summary: &str) -> String {
    match summary.split_once(SAID) {
        Some((ours, _)) if !disclosure.shows_sent() => disclosure.masked_text(&format!("{ours}{SAID}…")),
        _ => disclosure.masked_text(summary),
    }
}
