//! Reductions that were made before, by the digest of the token.

use super::{DelegationError, reduce_for};
use countersign_core::delegation::Chain;
use countersign_core::ids::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How many chains one generation keeps: at a few kilobytes each, both stay below what one batch may hold.
const KEPT: usize = 4096;

/// Reduces tokens, and remembers those that verified. Refused ones are not remembered: no one can fill the memory with them.
///
/// Two generations: a chain is looked for in both and moves to the current one when it is used, and the older is dropped
/// whole when the current one is full. So memory is bounded and what is used stays.
#[derive(Debug, Default)]
pub struct Delegations {
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    current: HashMap<Digest, Arc<Chain>>,
    before: HashMap<Digest, Arc<Chain>>,
}

impl Generations {
    fn get(&mut self, token: Digest) -> Option<Arc<Chain>> {
        if let Some(chain) = self.current.get(&token) {
            return Some(Arc::clone(chain));
        }
        let chain = self.before.remove(&token)?;
        self.put(token, Arc::clone(&chain));
        Some(chain)
    }

    fn put(&mut self, token: Digest, chain: Arc<Chain>) {
        if self.current.len() >= KEPT {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.insert(token, chain);
    }
}

impl Delegations {
    /// Forgets all of them: they name facts, and one may have been erased. Those in use are verified again.
    pub fn clear(&self) {
        *self.generations.lock() = Generations::default();
    }

    /// The chain that a token for the gate of this origin stands for.
    pub fn reduce(&self, token: &str, origin: &str) -> Result<Arc<Chain>, DelegationError> {
        let digest = Digest::of(token.as_bytes());
        if let Some(chain) = self.generations.lock().get(digest) {
            return Ok(chain);
        }
        let chain = Arc::new(reduce_for(token, origin)?);
        self.generations.lock().put(digest, Arc::clone(&chain));
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::delegation::Scope;
    use countersign_core::identity::KeyName;
    use countersign_core::ids::AgentId;
    use std::collections::BTreeMap;

    fn chain(number: usize) -> (Digest, Arc<Chain>) {
        let token = Digest::of(&number.to_be_bytes());
        let scope = Scope {
            to: AgentId::new("b").unwrap(),
            key: KeyName::of([2; 32]),
            actions: None,
            limits: BTreeMap::new(),
            facts: None,
            expires_at_ms: None,
            depth: 0,
        };
        let chain =
            Chain::new("gate.test".into(), AgentId::new("a").unwrap(), KeyName::of([1; 32]), vec![scope], token)
                .unwrap();
        (token, Arc::new(chain))
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let mut kept = Generations::default();
        let (used, first) = chain(0);
        kept.put(used, first);
        for number in 1..=5 * KEPT {
            let (token, chain) = chain(number);
            kept.put(token, chain);
            assert!(kept.current.len() <= KEPT && kept.before.len() <= KEPT);
            if number % (KEPT / 2) == 0 {
                assert!(kept.get(used).is_some(), "after {number}");
            }
        }
        assert!(kept.get(chain(1).0).is_none());
    }
}
