//! What an agent is told of its own calls: neither ids nor values that it may not see, no matter who says them.

use super::Said;
use countersign_api::{Effect, Evidence};
use countersign_core::call;
use countersign_core::disclose::Disclosure;
use countersign_core::ids::FactId;
use countersign_core::reason::Reason;
use countersign_core::record::Event;
use countersign_engine::gate::{Gate, LogError, StoredEntry};

/// Leaves out of what is known of an effect what its agent may not see, by its fences and by the entries that speak of it, that of its
/// intent first.
pub fn withhold_effect(
    gate: &Gate,
    effect: &mut Effect,
    fences: Vec<FactId>,
    entries: &[StoredEntry],
) -> Result<(), LogError> {
    // What was sent and what was read may hold more than its agent may see.
    (effect.call, effect.failed) = (None, Vec::new());
    let Some((intent, later)) = entries.split_first() else { return Ok(()) };
    let mut said = Said::read(intent)?;
    let mut settled = None;
    for entry in later {
        let event = entry.decode()?.event;
        said.later(&event);
        if let Event::Settle(settle) = event {
            settled = Some(settle.evidence);
        }
    }
    said.also_read(fences.iter().cloned());
    said.know_all_ids();
    let view = gate.view();
    let mut reason = said.blocked.take();
    let disclosure = said.disclosure(&view);
    if let Some(reason) = &mut reason {
        reason.withhold(&disclosure);
    }
    effect.message = reason.as_ref().map(Reason::message);
    effect.fences = fences.iter().map(|fence| disclosure.masked(fence).as_ref().unwrap_or(fence).to_string()).collect();
    if let Some(last) = &mut effect.last_try {
        let id = effect.effect.parse().ok();
        let found = id.and_then(|id| gate.tried().last(id)).map(|last| withheld_evidence(&disclosure, &last.found));
        last.found = found.map(|found| found.summary).unwrap_or_default();
    }
    effect.evidence = settled.map(|evidence| withheld_evidence(&disclosure, &evidence));
    Ok(())
}

/// Evidence in words, without what the other side may have repeated of what was sent to it where the agent may not see all of that.
pub(super) fn withheld_evidence(disclosure: &Disclosure<'_>, evidence: &call::Evidence) -> Evidence {
    let mut shown = evidence.clone();
    let mut withheld = shown.found.withhold(disclosure);
    if !disclosure.shows_sent() {
        let answered = [shown.result.take(), shown.receipt.take()];
        withheld |= answered.iter().any(Option::is_some);
    }
    Evidence { withheld, ..super::evidence(&shown) }
}
