//! Batches of a log that is read from its start: which actions each of them vouches for.
//!
//! The signature of a batch is in its own entry, and its actions refer to that. So anyone who reads a log must ask whether the batch
//! lists the action, whether the same agent sent it with the same key, and whether the action was recorded before.

use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionId, AgentId};
use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use countersign_core::record::{Entry, Event, LeafVerdict};
use std::collections::HashMap;

/// The batches so far.
#[derive(Debug, Default)]
pub struct Batches {
    listed: HashMap<u64, Listed>,
    /// The atomic group whose entries must come next.
    group: Option<Following>,
}

/// A batch, and which of its actions have no entry yet.
#[derive(Debug)]
struct Listed {
    by: AgentId,
    key: Option<KeyName>,
    at_ms: u64,
    left: Vec<ActionId>,
}

/// An atomic group that is being read.
#[derive(Debug)]
struct Following {
    batch: u64,
    /// Its actions, from the next on.
    left: std::vec::IntoIter<ActionId>,
}

impl Batches {
    /// Checks that the next entry is one that its batch vouches for, if it refers to one, and the next of its group, if one has begun.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn check(&mut self, entry: &Entry) -> Result<(), String> {
        self.check_group(entry)?;
        if let Event::Batch { actions, is_atomic } = &entry.event {
            let (by, key) = (entry.by.clone(), entry.auth.key().cloned());
            self.listed.insert(entry.index, Listed { by, key, at_ms: entry.time_ms, left: actions.clone() });
            if *is_atomic {
                self.group = Some(Following { batch: entry.index, left: actions.clone().into_iter() });
            }
        }
        let Some(batch) = entry.event.batch() else { return Ok(()) };
        let Some(action) = entry.event.keys().next().map(|(_, action)| action) else { return Ok(()) };
        let not_vouched = |why: &str| Err(format!("it refers to the batch of entry {batch}, {why}"));
        let Some(listed) = self.listed.get_mut(&batch) else {
            return not_vouched("which is no batch before it, or has brought in all of its actions");
        };
        if listed.by != entry.by {
            return not_vouched("which another agent sent");
        }
        // Of an action whose payload is erased, the leaf no longer says with which key its batch was signed.
        let is_erased = matches!(entry.event, Event::Erased(_));
        if !is_erased && listed.key.as_ref() != entry.auth.key() {
            return not_vouched("which was not signed with the key that it names");
        }
        if entry.time_ms.saturating_sub(listed.at_ms) > IDEMPOTENCY_KEPT_MS {
            return not_vouched("which was sent more than a day before");
        }
        let Some(at) = listed.left.iter().position(|listed| *listed == action) else {
            return not_vouched("which does not list this action, or has brought it in before");
        };
        listed.left.remove(at);
        if listed.left.is_empty() {
            self.listed.remove(&batch);
        }
        Ok(())
    }

    /// Whether the next entry is the next action of an atomic group that has begun, and committed.
    fn check_group(&mut self, entry: &Entry) -> Result<(), String> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let batch = group.batch;
        let expected = group.left.next();
        let is_last = group.left.as_slice().is_empty();
        let id = entry.event.keys().next().map(|(_, action)| action);
        let is_next = id.is_some() && id == expected && entry.event.batch() == Some(batch);
        if !is_next || entry.event.verdict() != Some(LeafVerdict::Committed) {
            self.group = None;
            return Err(format!("the atomic group of entry {batch} is not whole: its next action did not commit here"));
        }
        if is_last {
            self.group = None;
        }
        Ok(())
    }

    /// The atomic group that an action belongs to, while its entries are read.
    pub fn is_in_group(&self, entry: &Entry) -> bool {
        self.group.as_ref().is_some_and(|group| entry.event.batch() == Some(group.batch))
    }

    /// The atomic group that the log ends in the middle of.
    pub fn unfinished(&self) -> Option<u64> {
        self.group.as_ref().map(|group| group.batch)
    }
}
