//! The judgement over what is on the disk: the walk that `countersign verify` takes, the independent checker, and the
//! state that readers would see.

use super::Simulation;
use crate::checker::{self, LogEntry, Model, stored};
use crate::disk::Faults;
use crate::folder;
use countersign_engine::audit::audit;
use countersign_engine::fold::walk_options;
use countersign_engine::gate::Parts;
use countersign_engine::storage::disk::Disk as _;
use countersign_engine::storage::walk;
use countersign_engine::view::Synced;
use countersign_ledger::{Checkpoint, Frontier};
use std::collections::BTreeMap;

/// One entry as it was read: the leaf, and the payload unless it was erased.
pub(super) type Read = (Vec<u8>, Option<Vec<u8>>);

impl Simulation<'_> {
    fn read_log(&self) -> Result<Vec<Read>, String> {
        let mut entries = Vec::new();
        let walked = walk(&self.disk, walk_options(&self.key), Frontier::new(), &mut |placed| {
            for entry in placed.entries() {
                entries.push((entry.leaf.to_vec(), entry.payload.map(<[u8]>::to_vec)));
            }
            Ok(())
        });
        walked.map_err(|error| format!("the log does not verify: {error}"))?;
        Ok(entries)
    }

    /// Reads the log, and remembers what it holds for judging what depended on it after it was erased.
    pub(super) fn note_payloads(&mut self) -> Result<Vec<Read>, String> {
        let entries = self.read_log()?;
        for (index, (_, payload)) in (0..).zip(&entries) {
            if let Some(payload) = payload {
                self.payloads.entry(index).or_insert_with(|| payload.clone());
            }
        }
        Ok(entries)
    }

    /// Judges a folder that was just opened.
    pub(super) fn judge(&mut self, parts: &Parts) -> Result<(), String> {
        let mut entries = Vec::new();
        for (index, (leaf, payload)) in (0u64..).zip(self.note_payloads()?) {
            let is_erased = payload.is_none();
            let payload = payload.or_else(|| self.payloads.get(&index).cloned());
            let payload = payload.ok_or_else(|| format!("entry {index} was erased before anybody saw it"))?;
            let leaf = stored::leaf(&leaf)?;
            entries.push(LogEntry { payload: stored::payload(&leaf, &payload)?, leaf, is_erased });
        }
        let judged = checker::check(&self.operations, &entries).map_err(|complaints| complaints.join("\n"))?;
        self.stats.entries = entries.len();
        (self.stats.committed, self.stats.blocked) = (judged.committed, judged.blocked);
        let count = |wanted: &dyn Fn(&LogEntry) -> bool| entries.iter().filter(|entry| wanted(entry)).count();
        self.stats.approved = count(&|entry| entry.leaf["kind"] == "approval" && entry.leaf["verdict"] != "rejected");
        self.stats.refused = count(&|entry| entry.leaf["kind"] == "refusal");
        self.stats.delegated =
            count(&|entry| entry.leaf["verdict"] == "committed" && entry.payload["chain"].is_object());
        self.stats.batched = count(&|entry| entry.leaf["batch"].is_u64());
        self.stats.groups = count(&|entry| entry.payload["atomic"] == true);
        self.stats.groups_rejected = count(&|entry| entry.leaf["kind"] == "group");
        self.stats.signed = count(&|entry| entry.leaf["auth"] == "signature");
        self.stats.signed_by_gateway = count(&|entry| entry.leaf["auth"] == "gateway");
        let view = parts.view();
        compare(&view, &judged.model, entries.len() as u64)?;
        self.entries = entries;
        let checkpoint =
            Checkpoint::open(&view.checkpoint, &parts.log_keys().public()).map_err(|error| error.to_string())?;
        if checkpoint.size != view.position {
            return Err(format!("{} entries are visible under a checkpoint of {}", view.position, checkpoint.size));
        }
        Ok(())
    }

    /// The folder after everything: it must open without faults, hold every receipt that was given, and nothing erased.
    pub(super) fn last_judgement(&mut self) -> Result<(), String> {
        self.disk.set_faults(Faults::default());
        let parts = self.open().map_err(|error| format!("the folder does not open at the end: {error}"))?;
        self.judge(&parts)?;
        self.audit()?;
        folder::verify(&self.disk, &self.key, &self.receipts)?;
        self.search_for_secrets()
    }

    /// Every entry decided again gives the same bytes, but for what an erasure leaves unknowable.
    fn audit(&self) -> Result<(), String> {
        let report = audit(&self.disk, &self.key, &mut |_| ()).map_err(|error| format!("the audit failed: {error}"))?;
        if let Some(differing) = report.differing.first() {
            return Err(format!("the audit of entry {} differs: {}", differing.entry, differing.what));
        }
        match report.unverifiable.first() {
            Some(first) if first.erased_by.is_none() => {
                Err(format!("the audit cannot judge entry {} and says not why", first.entry))
            }
            _ => Ok(()),
        }
    }

    /// What was erased must be in no file, unless a later entry holds it again.
    fn search_for_secrets(&mut self) -> Result<(), String> {
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for payload in self.payloads.values() {
            let text = std::str::from_utf8(payload).unwrap_or_default();
            for secret in self.secrets.iter().filter(|secret| text.contains(secret.as_str())) {
                *uses.entry(secret).or_default() += 1;
            }
        }
        for name in self.disk.list().map_err(|error| error.to_string())? {
            let bytes = self.disk.contents(&name).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            for (secret, _) in uses.iter().filter(|(_, count)| **count == 1) {
                if text.contains(secret) {
                    return Err(format!("{name} still holds {secret}, which was erased"));
                }
            }
        }
        Ok(())
    }
}

/// Compares what readers see with what the checker made of the log.
fn compare(view: &Synced<'_>, model: &Model, entries: u64) -> Result<(), String> {
    if view.position != entries {
        return Err(format!("{} entries are visible, the log has {entries}", view.position));
    }
    let mut count = 0;
    for (fact, version) in model.latest() {
        count += 1;
        let id = fact.parse().map_err(|error| format!("{fact}: {error}"))?;
        let held = view.whole_state().facts.get(&id).ok_or_else(|| format!("{fact} is not visible"))?;
        let value = held.value.as_ref().map(|value| value.to_json());
        if held.version() != version.version || value != version.value || held.written.entry != version.entry {
            return Err(format!("{fact} is seen as version {} {value:?}, not as {version:?}", held.version()));
        }
    }
    if view.whole_state().facts.len() != count {
        return Err(format!("{} facts are visible, the log made {count}", view.whole_state().facts.len()));
    }
    for (budget, held) in &view.whole_state().budgets {
        // What was charged in a window that has closed may be erased, and counts for nothing.
        let pact = view.whole_state().pacts.get(&budget.pact);
        let limit = pact.and_then(|pact| pact.limit(budget.action.as_ref(), &budget.id));
        if limit.is_some_and(|limit| (held.window + 1) * limit.per_ms <= view.time_ms) {
            continue;
        }
        let agent = budget.agent.as_ref().map(|agent| agent.as_str()).unwrap_or_default();
        let spent = model.spent_by(agent, held.window);
        if held.used != spent {
            return Err(format!("{agent} is charged {} in window {}, but spent {spent}", held.used, held.window));
        }
    }
    Ok(())
}
