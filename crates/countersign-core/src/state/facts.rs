//! The facts by id, in shards that can be copied one at a time while the gate goes on.

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
}

impl Default for FactMap {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        Self { hasher: hashbrown::DefaultHashBuilder::default(), shards, deleted: BTreeMap::new(), count: 0 }
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

    /// Puts a version in the place of the one before, if `next` makes one of it.
    pub(super) fn advance(&mut self, id: &FactId, next: impl FnOnce(Option<&Arc<Fact>>) -> Option<Arc<Fact>>) {
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
            }
            Entry::Vacant(free) => {
                let Some(fact) = next(None) else { return };
                if fact.value.is_none() {
                    self.deleted.insert(fact.tag, fact.id.clone());
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
            held.remove();
            self.count -= 1;
        }
    }

    /// How many facts there are, deleted ones included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The facts of one shard.
    pub fn shard(&self, shard: usize) -> impl Iterator<Item = &Arc<Fact>> {
        self.shards.get(shard).into_iter().flatten()
    }

    /// All facts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Fact>> {
        self.shards.iter().flatten()
    }
}
