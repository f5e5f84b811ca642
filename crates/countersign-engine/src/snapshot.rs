//! What a snapshot holds: facts, budgets, pacts, halts and the names of the runs of idempotency keys, one canonical record a line; and the
//! entries of what waits or is under way, which are applied again.
//!
//! It is taken while the gate goes on, piece by piece. All that an entry is applied on is as of the position that it is named for: the tail
//! is replayed over it from there, and must find what it found the first time. Only what budgets hold may be newer, and applying a charge
//! twice changes nothing. No lock that the commit loop needs is held for longer than it takes to copy a few thousand pointers.

mod facts;
mod open_work;
mod proved;

use self::facts::FactsAsOf;
use self::open_work::OpenWork;
use self::proved::Proved;
use crate::fold::Fold;
use crate::idempotency::{Count, Kept, Keys, NamedRun};
use crate::log_key::LogKeys;
use crate::storage::snapshot::{Snapshot, SnapshotWriter};
use crate::storage::{Log, StorageError};
use crate::view::{Pinned, Synced};
use countersign_core::canonical::Canonical;
use countersign_core::decision::BudgetKey;
use countersign_core::fact::{Fact, Written};
use countersign_core::hex;
use countersign_core::ids::{ActionName, AgentId, PactName};
use countersign_core::pact::Pact;
use countersign_core::pact::load::load;
use countersign_core::state::{BudgetUse, EntrySet, Parts, State};
use countersign_core::value::Attributes;
use ed25519_dalek::SigningKey;
use serde::Deserialize;
use smol_str::SmolStr;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes gathered before they are handed to the writer.
const CHUNK: usize = 256 * 1024;

/// Budgets that are copied under one lock.
const BUDGETS_AT_ONCE: usize = 4096;

/// Where a snapshot takes what it holds.
pub struct Source<'a> {
    /// The log, where it is kept too.
    pub log: &'a dyn Log,
    /// The log's origin.
    pub origin: &'a str,
    /// The keys that sign it.
    pub log_keys: &'a LogKeys,
    /// What readers see.
    pub view: &'a dyn Fn() -> Synced<'a>,
    /// Where it says which facts are still needed as they were.
    pub pinned: &'a Pinned,
    /// The idempotency keys.
    pub keys: &'a Keys,
}

/// Takes a snapshot of what readers see. Gives its position. Between its pieces no lock is held but `between` is called.
pub fn take(from: &Source<'_>, between: &mut dyn FnMut()) -> Result<u64, StorageError> {
    let Source { log, origin, log_keys, view, pinned, keys } = *from;
    // No key of an entry after the position may be in a run that it names: that entry may be lost in a crash.
    let held = keys.hold();
    let (position, time_ms, floor, erased, tree, pacts, open_work, key, pin) = {
        let view = view();
        // While the view is held: nothing from its position on was released yet.
        let pin = pinned.at(view.position);
        let Parts {
            version_floor,
            pacts,
            erased,
            halts,
            reviews,
            fences,
            effects,
            held,
            observing,
            // The log has them.
            origin: _,
            next_entry: _,
            // In sections of their own, a few at a time.
            facts: _,
            budgets: _,
            // They follow from pacts and facts.
            catalogue: _,
            keys: _,
        } = view.rest.parts();
        let open_work = OpenWork {
            halts: halts.clone(),
            reviews: reviews.clone(),
            fences: fences.clone(),
            effects: effects.clone(),
            held: held.clone(),
            observing: observing.clone(),
        };
        let pacts: Vec<_> = pacts.values().cloned().collect();
        let (erased, tree, key) = (erased.clone(), view.tree.clone(), log_keys.private());
        (view.position, view.time_ms, version_floor, erased, tree, pacts, open_work, key, pin)
    };
    let naming = keys.name(&held, position)?;
    drop(held);
    let mut lines =
        Lines { writer: SnapshotWriter::begin(Arc::clone(log.snapshots()), origin, &tree)?, buffer: String::new() };
    lines.section("head")?;
    lines.push(|out| {
        out.open('{');
        out.key("erased");
        write_ranges(out, &erased);
        out.key("facts_as_of");
        out.u64(position);
        out.key("floor");
        out.u64(floor);
        out.key("time");
        out.u64(time_ms);
        out.close('}');
    })?;
    lines.section("pacts")?;
    for pact in pacts {
        lines.push(|out| out.string(&pact.source))?;
    }
    open_work.write(&mut lines, &mut Proved::new(log, &tree))?;
    lines.section("facts")?;
    let mut facts = FactsAsOf::new(pin, position);
    while let Some(shard) = facts.next_shard(view()) {
        for fact in shard {
            lines.push(|out| write_fact(out, &fact))?;
        }
        between();
    }
    drop(facts);
    lines.section("budgets")?;
    let mut after = None;
    loop {
        between();
        let budgets = some_budgets(&view().rest, after.as_ref());
        for (budget, held) in &budgets {
            lines.push(|out| write_budget(out, budget, held))?;
        }
        let Some((last, _)) = budgets.into_iter().next_back() else { break };
        after = Some(last);
    }
    lines.section("key_runs")?;
    for run in &naming.runs {
        lines.push(|out| write_run(out, run))?;
    }
    lines.section("key_counts")?;
    for (agent, Count { day, current, before }) in keys.counts(time_ms) {
        lines.push(|out| {
            out.open('[');
            out.element();
            out.string(&agent);
            for number in [day, current.into(), before.into()] {
                out.element();
                out.u64(number);
            }
            out.close(']');
        })?;
    }
    lines.finish(&key)?;
    keys.named(&naming);
    Ok(position)
}

/// The budgets after one, a few thousand at most: they are copied under the lock. Later ones may be of later entries: no entry is applied
/// on them, and each says which entry charged it last.
fn some_budgets(state: &State, after: Option<&BudgetKey>) -> Vec<(BudgetKey, BudgetUse)> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let budgets = state.budgets.range::<BudgetKey, _>((from, Bound::Unbounded));
    budgets.take(BUDGETS_AT_ONCE).map(|(budget, held)| (budget.clone(), *held)).collect()
}

/// Reads a verified snapshot of the log with this origin back.
pub fn restore(snapshot: &Snapshot, origin: &str) -> Result<(Fold, Kept), RestoreError> {
    let mut kept = Kept::default();
    let mut fold = Fold { tree: snapshot.tree().clone(), position: snapshot.size(), ..Fold::default() };
    // First of all: the keys of the effects that it holds are made of it.
    fold.state.origin = origin.into();
    fold.state.next_entry = fold.position;
    let mut rest: Vec<u8> = Vec::new();
    let mut section = String::new();
    let mut failed = None;
    snapshot.read(|name: &str, chunk: &[u8]| {
        if failed.is_some() {
            return Ok(());
        }
        if section != name {
            section = name.to_owned();
            rest.clear();
        }
        rest.extend_from_slice(chunk);
        let mut from = 0;
        while let Some(length) = rest.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
            let line = rest.get(from..from + length).unwrap_or_default();
            if let Err(error) = restore_line((&mut fold, &mut kept), name, line) {
                failed = Some(error);
                break;
            }
            from += length + 1;
        }
        rest.drain(..from);
        Ok(())
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok((fold, kept)),
    }
}

/// Why a snapshot could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// A record is not one of this version.
    #[error("a record of section `{section}` cannot be read: {why}")]
    Record { section: String, why: String },
}

struct Lines {
    writer: SnapshotWriter,
    buffer: String,
}

impl Lines {
    fn section(&mut self, name: &str) -> Result<(), StorageError> {
        self.flush()?;
        self.writer.section(name)
    }

    fn push(&mut self, write: impl FnOnce(&mut Canonical)) -> Result<(), StorageError> {
        let mut out = Canonical::new();
        write(&mut out);
        self.buffer.push_str(out.as_str());
        self.buffer.push('\n');
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        if !self.buffer.is_empty() {
            self.writer.write(self.buffer.as_bytes())?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self, key: &SigningKey) -> Result<(), StorageError> {
        self.flush()?;
        self.writer.finish(key)
    }
}

fn write_written(out: &mut Canonical, written: &Written) {
    out.open('[');
    out.element();
    out.u64(written.entry);
    out.element();
    out.u64(written.version);
    out.element();
    out.u64(written.at_ms);
    out.element();
    out.string(written.by.as_str());
    out.close(']');
}

fn write_fact(out: &mut Canonical, fact: &Fact) {
    out.open('{');
    out.key("changed");
    out.open('[');
    for at in 0..fact.value.as_ref().map_or(0, Attributes::len) {
        out.element();
        match fact.changed_earlier(at) {
            None => out.u64(0),
            Some(earlier) => write_written(out, earlier),
        }
    }
    out.close(']');
    if let Some(confirmed) = &fact.confirmed {
        out.key("confirmed");
        if **confirmed == fact.written {
            out.u64(0);
        } else {
            write_written(out, confirmed);
        }
    }
    out.key("fact");
    out.fact(&fact.id);
    if let Some(previous) = fact.previous_entry {
        out.key("previous");
        out.u64(previous);
    }
    out.key("tag");
    out.hex_string(&fact.tag.0);
    if let Some(value) = &fact.value {
        out.key("value");
        value.write(out);
    }
    out.key("written");
    write_written(out, &fact.written);
    out.close('}');
}

fn write_budget(out: &mut Canonical, budget: &BudgetKey, held: &BudgetUse) {
    out.open('{');
    if let Some(action) = &budget.action {
        out.key("action");
        out.string(action.as_str());
    }
    if let Some(agent) = &budget.agent {
        out.key("agent");
        out.string(agent.as_str());
    }
    out.key("entry");
    out.u64(held.entry);
    out.key("id");
    out.string(&budget.id);
    out.key("pact");
    out.string(budget.pact.as_str());
    out.key("used");
    out.i64(held.used);
    out.key("window");
    out.u64(held.window);
    out.close('}');
}

fn write_run(out: &mut Canonical, run: &NamedRun) {
    out.open('[');
    out.element();
    out.string(&run.name);
    out.element();
    out.u64(run.tail_bytes);
    out.element();
    out.hex_string(&run.digest);
    out.close(']');
}

#[derive(Deserialize)]
struct Head {
    /// The entries whose payloads an erasure names, as ranges. A snapshot that does not say is not used.
    erased: Vec<(u64, u64)>,
    /// The position that all facts are as of, which is the snapshot's. One that does not say may hold later ones, and is not used.
    facts_as_of: u64,
    floor: u64,
    time: u64,
}

type StoredWritten = (u64, u64, u64, String);

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredChanged {
    #[expect(dead_code, reason = "the number only marks the place")]
    Last(u64),
    Written(StoredWritten),
}

#[derive(Deserialize)]
struct StoredFact {
    changed: Vec<StoredChanged>,
    confirmed: Option<StoredChanged>,
    fact: String,
    previous: Option<u64>,
    tag: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
    written: StoredWritten,
}

#[derive(Deserialize)]
struct StoredBudget {
    action: Option<String>,
    agent: Option<String>,
    entry: u64,
    id: String,
    pact: String,
    used: i64,
    window: u64,
}

fn restore_line((fold, kept): (&mut Fold, &mut Kept), section: &str, line: &[u8]) -> Result<(), RestoreError> {
    let bad = |why: String| RestoreError::Record { section: section.to_owned(), why };
    let json = |error: serde_json::Error| bad(error.to_string());
    match section {
        "head" => {
            let Head { erased, facts_as_of, floor, time } = serde_json::from_slice(line).map_err(json)?;
            if facts_as_of != fold.position {
                return Err(bad(format!("its facts are as of {facts_as_of}, not {}", fold.position)));
            }
            erased.into_iter().for_each(|(first, end)| fold.state.erased.insert_range(first, end));
            (fold.time_ms, fold.state.version_floor) = (time, floor);
        }
        "pacts" => {
            let pact = restore_pact(&serde_json::from_slice::<String>(line).map_err(json)?).map_err(bad)?;
            fold.state.restore_pact(&pact).map_err(|problems| bad(problems.join("; ")))?;
        }
        "facts" => {
            let stored: StoredFact = serde_json::from_slice(line).map_err(json)?;
            let fact = restore_fact(stored).map_err(bad)?;
            fold.state.restore_fact(fact);
        }
        "budgets" => {
            let stored: StoredBudget = serde_json::from_slice(line).map_err(json)?;
            let (budget, held) = restore_budget(stored).map_err(bad)?;
            fold.state.restore_budget(budget, held);
        }
        "key_runs" => {
            let (name, tail_bytes, digest): (String, u64, String) = serde_json::from_slice(line).map_err(json)?;
            let digest = hex::array(&digest).ok_or_else(|| bad("not the digest of a run".to_owned()))?;
            kept.runs.push(NamedRun { name, digest, tail_bytes });
        }
        "key_counts" => {
            let (agent, day, current, before): (SmolStr, u64, u32, u32) = serde_json::from_slice(line).map_err(json)?;
            kept.counts.push((agent, Count { day, current, before }));
        }
        _ if open_work::restore(fold, section, line).map_err(bad)? => {}
        _ => return Err(bad("this version does not know the section".to_owned())),
    }
    Ok(())
}

/// Entries as ranges, `[[first, end], …]`: `end` is the first that is not in it.
fn write_ranges(out: &mut Canonical, entries: &EntrySet) {
    out.open('[');
    for (first, end) in entries.ranges() {
        out.element();
        out.open('[');
        for number in [first, end] {
            out.element();
            out.u64(number);
        }
        out.close(']');
    }
    out.close(']');
}

fn restore_pact(source: &str) -> Result<Arc<Pact>, String> {
    let loaded = load(source).map_err(|_| "a pact does not load".to_owned())?;
    Ok(Arc::new(loaded.pact))
}

fn restore_written((entry, version, at_ms, by): StoredWritten) -> Result<Written, String> {
    let by = AgentId::new(by).map_err(|error| error.to_string())?;
    Ok(Written { entry, version, at_ms, by })
}

fn restore_fact(stored: StoredFact) -> Result<Fact, String> {
    let written = restore_written(stored.written)?;
    let earlier = |changed: StoredChanged| match changed {
        StoredChanged::Last(_) => Ok(None),
        StoredChanged::Written(written) => restore_written(written).map(Some),
    };
    let confirmed = stored.confirmed.map(earlier).transpose()?;
    let confirmed = confirmed.map(|confirmed| Arc::new(confirmed.unwrap_or_else(|| written.clone())));
    let earlier = stored.changed.into_iter().map(earlier).collect::<Result<_, String>>()?;
    let value = stored.value.as_ref().map(Attributes::from_untyped_json).transpose();
    let refused = |error: countersign_core::ids::IdError| error.to_string();
    let (id, tag) = (stored.fact.parse().map_err(refused)?, stored.tag.parse().map_err(refused)?);
    let mut fact = Fact::after(None, id, tag, value.map_err(|error| error.to_string())?, written).with_earlier(earlier);
    (fact.confirmed, fact.previous_entry) = (confirmed, stored.previous);
    Ok(fact)
}

fn restore_budget(stored: StoredBudget) -> Result<(BudgetKey, BudgetUse), String> {
    let refused = |error: countersign_core::ids::IdError| error.to_string();
    let key = BudgetKey {
        pact: PactName::new(stored.pact).map_err(refused)?,
        action: stored.action.map(ActionName::new).transpose().map_err(refused)?,
        id: stored.id.into(),
        agent: stored.agent.map(AgentId::new).transpose().map_err(refused)?,
    };
    Ok((key, BudgetUse { window: stored.window, used: stored.used, entry: stored.entry }))
}
