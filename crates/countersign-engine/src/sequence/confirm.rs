//! Confirmations: the source of a fact says that it is still so.

use super::Sequencer;
use crate::request::Refusal;
use countersign_core::ids::{FactId, Tag};

impl Sequencer {
    /// A confirmation names the version that its source has looked at; of any other it would say what was not checked.
    pub(super) fn check_confirm(&self, fact: &FactId, version: u64) -> Result<Tag, Refusal> {
        if let Some(source) = self.state.catalogue.source(fact.ty()) {
            let problem = format!(
                "facts of this type are external, in `{}`, and are read again right before each call",
                source.adapter
            );
            return Err(Refusal::InvalidValue { fact: fact.clone(), problem });
        }
        let current = self.state.facts.get(fact).filter(|fact| fact.value.is_some()).map_or(0, |fact| fact.version());
        let mismatch = || Refusal::VersionMismatch { fact: fact.clone(), expected: version, current };
        self.state.confirmable(fact, version).ok_or_else(mismatch)
    }
}
