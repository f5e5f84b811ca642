//! What entries replaced in the table of facts, oldest first, for those who read the table as of an earlier position.

use crate::fact::Fact;
use crate::ids::FactId;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// What was replaced since the last release. Short: it holds what is decided and not synced, some hundreds of facts, and what a snapshot
/// that is being taken has not seen yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Replaced {
    /// The entry that replaces now.
    entry: u64,
    records: VecDeque<Record>,
    /// The facts that entries took out of the table, which are few.
    gone: VecDeque<(u64, FactId)>,
}

/// What one entry replaced.
#[derive(Debug, Clone)]
struct Record {
    entry: u64,
    before: Before,
}

/// What there was before an entry.
#[derive(Debug, Clone)]
enum Before {
    /// Nothing: the entry made the first version.
    Nothing(FactId),
    /// This version.
    Version(Arc<Fact>),
}

impl Before {
    fn id(&self) -> &FactId {
        match self {
            Self::Nothing(id) => id,
            Self::Version(fact) => &fact.id,
        }
    }

    fn version(&self) -> Option<&Arc<Fact>> {
        match self {
            Self::Nothing(_) => None,
            Self::Version(fact) => Some(fact),
        }
    }
}

impl Replaced {
    pub(super) fn begin(&mut self, entry: u64) {
        self.entry = entry;
    }

    pub(super) fn push_old(&mut self, fact: Arc<Fact>) {
        self.records.push_back(Record { entry: self.entry, before: Before::Version(fact) });
    }

    pub(super) fn push_gone(&mut self, fact: Arc<Fact>) {
        self.gone.push_back((self.entry, fact.id.clone()));
        self.push_old(fact);
    }

    pub(super) fn push_new(&mut self, id: &FactId) {
        self.records.push_back(Record { entry: self.entry, before: Before::Nothing(id.clone()) });
    }

    /// What there was of a fact as of a position: what the first entry from there on replaced. `None` where none did.
    pub(super) fn as_of(&self, id: &FactId, position: u64) -> Option<Option<&Arc<Fact>>> {
        let first = self.since(position).find(|record| record.before.id() == id)?;
        Some(first.before.version())
    }

    /// What there was as of a position of the facts that were taken out from there on, each once.
    pub(super) fn gone_since(&self, position: u64) -> impl Iterator<Item = &Arc<Fact>> {
        let from = self.gone.partition_point(|(entry, _)| *entry < position);
        let mut seen = HashSet::new();
        let gone = self.gone.range(from..).filter(move |(_, id)| seen.insert(id));
        gone.filter_map(move |(_, id)| self.as_of(id, position).flatten())
    }

    /// The facts that were touched from a position on, each once, with what there was as of that position.
    pub(super) fn touched_since(&self, position: u64) -> impl Iterator<Item = (&FactId, Option<&Arc<Fact>>)> {
        let mut seen = HashSet::new();
        self.all_since(position).filter(move |(id, _)| seen.insert(*id))
    }

    /// The facts that entries replaced from a position on, oldest first, each with what it was before that entry.
    pub(super) fn all_since(&self, position: u64) -> impl Iterator<Item = (&FactId, Option<&Arc<Fact>>)> {
        self.since(position).map(|record| (record.before.id(), record.before.version()))
    }

    pub(super) fn release(&mut self, position: u64) {
        let kept = self.records.partition_point(|record| record.entry < position);
        self.records.drain(..kept);
        let kept = self.gone.partition_point(|(entry, _)| *entry < position);
        self.gone.drain(..kept);
    }

    fn since(&self, position: u64) -> impl Iterator<Item = &Record> {
        let from = self.records.partition_point(|record| record.entry < position);
        self.records.range(from..)
    }
}
