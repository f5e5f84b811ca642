//! Reviews for those who decide them: what waits, and what a reviewer is shown, sealed so that an approval is bound to it (I8).

use super::{ExternalFacts, Gate};
use crate::token::TokenError;
use countersign_core::decide::{decide, show};
use countersign_core::decision::Decision;
use countersign_core::fact::Fact;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::review::{Parked, ReviewId, ReviewRefusal, Shown};
use countersign_core::session::Held;
use countersign_core::state::written;
use rand_chacha::rand_core::Rng as _;

/// A review as it is shown to a reviewer.
#[derive(Debug)]
pub struct ShownReview {
    /// The action that waits.
    pub parked: Parked,
    /// What was shown.
    pub shown: Shown,
    /// What would be decided now, if nothing were waived.
    pub decision: Decision,
    /// What was shown, sealed.
    pub token: String,
}

/// How many versions of a reading are gone through to find the one that an agent had.
const VERSIONS_MAX: usize = 64;

/// A reading that a parked action rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestedOn {
    /// As its agent had it when it asked; `None` where that is erased, or too many versions ago.
    pub had: Option<Held>,
    /// As it is now.
    pub now: Held,
}

impl Gate {
    /// The readings that a parked action rests on, as its agent had them and as they are now.
    pub fn readings_of(&self, parked: &Parked) -> Vec<RestedOn> {
        let now = |fact: &FactId| self.fact(fact);
        let rested_on = parked.rests_on.iter().filter_map(|(fact, version)| {
            let fact = now(fact)?;
            Some(RestedOn { had: self.held_at(&fact, *version), now: Held::of(&fact)? })
        });
        rested_on.collect()
    }

    /// A reading at an earlier version, where the ledger still has that.
    fn held_at(&self, fact: &Fact, version: u64) -> Option<Held> {
        let (mut held, mut entry) = (Held::of(fact)?, fact.written.entry);
        for _ in 0..VERSIONS_MAX {
            if held.version <= version {
                break;
            }
            let write_in = |entry: u64| {
                let decoded = self.read_log(entry).ok()?.decode().ok()?;
                let write = decoded.event.writes().iter().find(|write| write.fact == fact.id)?.clone();
                Some((write, decoded))
            };
            entry = write_in(entry)?.0.previous_entry?;
            let (write, decoded) = write_in(entry)?;
            held = Held::of(&written(&write, (decoded.index, decoded.time_ms), &decoded.by))?;
        }
        (held.version == version).then_some(held)
    }

    /// What waits for a person now.
    pub fn reviews(&self) -> Vec<(ReviewId, Parked)> {
        let now_ms = self.now_ms();
        let view = self.view();
        let waiting = view.rest.reviews.open().filter(|(_, parked)| now_ms <= parked.expires_at_ms);
        waiting.map(|(review, parked)| (review, parked.clone())).collect()
    }

    /// The external facts that a parked action reads: a reviewer is shown them as they are read for the purpose.
    pub fn external_of_review(&self, review: ReviewId) -> Result<Vec<FactId>, ReviewRefusal> {
        let now_ms = self.now_ms();
        let view = self.view();
        let parked = view.rest.reviews.waiting(review, now_ms)?;
        let reads = decide(&parked.action, &view, now_ms).reads.into_iter().map(|read| read.fact);
        Ok(reads.filter(|fact| view.rest.catalogue.source(fact.ty()).is_some()).collect())
    }

    /// Shows a parked action that reads no external facts to a reviewer.
    pub fn show_review(&self, review: ReviewId, to: &AgentId) -> Result<ShownReview, ReviewRefusal> {
        self.show_review_with(review, to, &ExternalFacts::default())
    }

    /// Shows a parked action to a reviewer: whole, with the facts as they are now, external ones as they were read right before.
    pub fn show_review_with(
        &self,
        review: ReviewId,
        to: &AgentId,
        outside: &ExternalFacts,
    ) -> Result<ShownReview, ReviewRefusal> {
        // Time is read before the facts: what is shown is never younger than it says.
        let now_ms = outside.began_ms().unwrap_or_else(|| self.now_ms());
        let (parked, shown) = {
            let view = self.view();
            let parked = view.rest.reviews.waiting(review, now_ms)?.clone();
            let shown = show(review, &parked, to, &view, &outside.values(), now_ms);
            (parked, shown)
        };
        let (shown, decision) = shown.ok_or_else(|| ReviewRefusal::NotFound(review.to_string()))?;
        let mut nonce = [0; 24];
        self.shared.nonces.lock().fill_bytes(&mut nonce);
        let token = self.shared.sealer.seal_shown(&shown, nonce);
        Ok(ShownReview { parked, shown, decision, token })
    }

    /// Opens the token that a reviewer was given.
    pub fn open_shown(&self, token: &str, by: &AgentId) -> Result<Shown, TokenError> {
        let (sealer, now_ms) = (&self.shared.sealer, self.now_ms());
        #[cfg(feature = "sabotage")]
        match self.shared.options.without {
            Some(crate::sabotage::Control::Observations) => return sealer.open_shown_for_anyone(token, now_ms),
            Some(crate::sabotage::Control::Seal) => return sealer.open_altered_shown(token, by, now_ms),
            _ => {}
        }
        sealer.open_shown(token, by, now_ms)
    }
}
