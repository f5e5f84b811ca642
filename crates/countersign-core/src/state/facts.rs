//! The facts by id, in shards that can be copied one at a time while the gate goes on.
//!
//! One table serves the sequencer, which is ahead, and readers, who see synced positions only: what each entry replaced is kept until
//! the entry is synced, so that the table can be read as of any position from there on.

mod replaced;

use self::replaced::Replaced;
use super::apply::is_identity;
use crate::fact::Fact;
use crate::ids::{FactId, Tag};
use hashbrown::hash_table::{Entry, HashTable};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// How many shards there are. A background snapshot holds up writers for the copy of one shard only: with a million facts,
/// a thousand pointers.
pub const SHARDS: usize = 1024;

/// Facts by id. Each fact is its own key, so a fact costs one pointer here.
#[derive(Debug, Clone)]
pub struct FactMap {
    hasher: hashbrown::DefaultHashBuilder,
    shards: Box<[HashTable<Arc<Fact>>]>,
    /// The deleted facts by tag: an erasure names them so.
    deleted: BTreeMap<Tag, FactId>,
    count: usize,
    /// Whether only the facts of agents and operators are kept.
    is_of_identities: bool,
    /// What entries replaced that may not be synced yet; `None` where no one reads behind the writer.
    replaced: Option<Replaced>,
}

impl Default for FactMap {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        Self {
            hasher: hashbrown::DefaultHashBuilder::default(),
            shards,
            deleted: BTreeMap::new(),
            count: 0,
            is_of_identities: false,
            replaced: None,
        }
    }
}

impl PartialEq for FactMap {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
            && self.deleted == other.deleted
            && self.iter().all(|fact| other.get(&fact.id) == Some(fact))
    }
}

impl FactMap {
    fn shard_of(hash: u64) -> usize {
        // The table uses the low bits and the top seven; these are in between.
        usize::try_from((hash >> 40) % (SHARDS as u64)).unwrap_or(0)
    }

    /// The current version of a fact.
    pub fn get(&self, id: &FactId) -> Option<&Arc<Fact>> {
        let hash = self.hasher.hash_one(id);
        self.shards.get(Self::shard_of(hash))?.find(hash, |fact| fact.id == *id)
    }

    /// The version of a fact as of a position that is not further back than what was last released.
    pub fn get_as_of(&self, id: &FactId, position: u64) -> Option<&Arc<Fact>> {
        self.older(id, self.get(id), position)
    }

    /// What there was as of a position, given the current version.
    fn older<'a>(&'a self, id: &FactId, now: Option<&'a Arc<Fact>>, position: u64) -> Option<&'a Arc<Fact>> {
        let is_settled = now.is_some_and(|fact| fact.latest_entry() < position);
        match &self.replaced {
            Some(replaced) if !is_settled => replaced.as_of(id, position).unwrap_or(now),
            _ => now,
        }
    }

    /// From now on keeps what entries replace, until it is released.
    pub fn keep_replaced(&mut self) {
        self.replaced.get_or_insert_default();
    }

    /// Drops what was replaced by entries in front of a position: no one reads further back any more.
    pub fn release(&mut self, position: u64) {
        if let Some(replaced) = &mut self.replaced {
            replaced.release(position);
        }
    }

    /// The entry that changes facts from now on.
    pub(super) fn begin(&mut self, entry: u64) {
        if let Some(replaced) = &mut self.replaced {
            replaced.begin(entry);
        }
    }

    /// Puts a version in the place of the one before, if `next` makes one of it.
    pub(super) fn advance(&mut self, id: &FactId, next: impl FnOnce(Option<&Arc<Fact>>) -> Option<Arc<Fact>>) {
        if !self.keeps(id) {
            return;
        }
        let hash = self.hasher.hash_one(id);
        let hasher = &self.hasher;
        let Some(shard) = self.shards.get_mut(Self::shard_of(hash)) else { return };
        match shard.entry(hash, |held| held.id == *id, |held| hasher.hash_one(&held.id)) {
            Entry::Occupied(mut held) => {
                let Some(fact) = next(Some(held.get())) else { return };
                let is_back = held.get().value.is_none() && fact.value.is_some();
                if fact.value.is_none() {
                    self.deleted.insert(fact.tag, fact.id.clone());
                }
                let before = std::mem::replace(held.get_mut(), fact);
                if is_back {
                    self.deleted.remove(&before.tag);
                }
                if let Some(replaced) = &mut self.replaced {
                    replaced.push_old(before);
                }
            }
            Entry::Vacant(free) => {
                let Some(fact) = next(None) else { return };
                if fact.value.is_none() {
                    self.deleted.insert(fact.tag, fact.id.clone());
                }
                if let Some(replaced) = &mut self.replaced {
                    replaced.push_new(&fact.id);
                }
                free.insert(fact);
                self.count += 1;
            }
        }
    }

    /// Removes a deleted fact.
    pub(super) fn forget(&mut self, tag: Tag) {
        let Some(id) = self.deleted.remove(&tag) else { return };
        let hash = self.hasher.hash_one(&id);
        let shard = self.shards.get_mut(Self::shard_of(hash));
        if let Some(held) = shard.and_then(|shard| shard.find_entry(hash, |fact| fact.id == id).ok()) {
            let (before, _) = held.remove();
            self.count -= 1;
            if let Some(replaced) = &mut self.replaced {
                replaced.push_gone(before);
            }
        }
    }

    /// Whether a fact of this id would be in this table.
    pub fn keeps(&self, id: &FactId) -> bool {
        !self.is_of_identities || is_identity(id)
    }

    /// How many facts there are, deleted ones included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// How many there were as of a position.
    pub fn len_as_of(&self, position: u64) -> usize {
        let touched = self.replaced.iter().flat_map(|replaced| replaced.touched_since(position));
        let more = |count: usize, (id, before): (&FactId, Option<&Arc<Fact>>)| match (before, self.get(id)) {
            (Some(_), None) => count + 1,
            (None, Some(_)) => count.saturating_sub(1),
            _ => count,
        };
        touched.fold(self.count, more)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All facts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Fact>> {
        self.shards.iter().flatten()
    }

    /// The facts of one shard as of a position, also those that were forgotten since: a snapshot without them would make an erasure
    /// last that was never synced.
    pub fn shard_as_of(&self, shard: usize, position: u64) -> impl Iterator<Item = &Arc<Fact>> {
        let now = self.shards.get(shard).into_iter().flatten();
        let now = now.filter_map(move |fact| self.older(&fact.id, Some(fact), position));
        let is_here = move |fact: &&Arc<Fact>| Self::shard_of(self.hasher.hash_one(&fact.id)) == shard;
        now.chain(self.gone_since(position).filter(is_here))
    }

    /// The facts of one shard, as they are now.
    pub fn shard(&self, shard: usize) -> impl Iterator<Item = &Arc<Fact>> {
        self.shards.get(shard).into_iter().flatten()
    }

    /// What entries replaced from a position on, oldest first: the shard, the fact, and what it was before; `None` where there was none.
    /// Nothing from there on may have been released.
    pub fn replaced_since(&self, position: u64) -> impl Iterator<Item = (usize, &FactId, Option<&Arc<Fact>>)> {
        let replaced = self.replaced.iter().flat_map(move |replaced| replaced.all_since(position));
        replaced.map(|(id, before)| (Self::shard_of(self.hasher.hash_one(id)), id, before))
    }

    /// The facts as of a position that are not in the table any more.
    fn gone_since(&self, position: u64) -> impl Iterator<Item = &Arc<Fact>> {
        let gone = self.replaced.iter().flat_map(move |replaced| replaced.gone_since(position));
        gone.filter(|fact| self.get(&fact.id).is_none())
    }

    /// A copy of the table as of a position.
    pub(super) fn as_of(&self, position: u64) -> Self {
        let mut copy = Self::default();
        let now = self.iter().filter_map(|fact| self.older(&fact.id, Some(fact), position));
        for fact in now.chain(self.gone_since(position)) {
            copy.advance(&fact.id, |_| Some(Arc::clone(fact)));
        }
        copy
    }

    /// A table that keeps only the facts of agents and operators.
    pub(super) fn of_identities(&self) -> Self {
        let mut copy = Self { is_of_identities: true, ..Self::default() };
        for fact in self.iter() {
            copy.advance(&fact.id, |_| Some(Arc::clone(fact)));
        }
        copy
    }
}
