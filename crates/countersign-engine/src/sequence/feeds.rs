//! What is asked of a feed, a confirmation or an erasure at its place in the order.

use super::Sequencer;
use crate::request::Refusal;
use countersign_core::erase::{EraseTarget, Eraser, Forgotten};
use countersign_core::identity::IdentityRefusal;
use countersign_core::ids::{FactId, Tag};
use countersign_core::labels::unknown_label;
use countersign_core::limits::{ERASED_MAX, FACT_BYTES_MAX, HELD_FEEDS_MAX};
use countersign_core::state::State;
use countersign_core::value::Attributes;

impl Sequencer {
    pub(super) fn check_feed(
        &self,
        fact: &FactId,
        value: Option<&Attributes>,
        if_match: Option<u64>,
    ) -> Result<(), Refusal> {
        let schema = self.state.catalogue.types().get(fact.ty());
        let schema = schema.ok_or_else(|| Refusal::UnknownType(fact.ty().to_string()))?;
        if let Some(value) = value {
            let fits = value.check(schema);
            let invalid = |problem: String| Refusal::InvalidValue { fact: fact.clone(), problem };
            fits.map_err(|problem| invalid(problem.to_string()))?;
            let bytes = if value.bytes_bound() > FACT_BYTES_MAX { value.bytes() } else { 0 };
            if bytes > FACT_BYTES_MAX {
                return Err(invalid(format!("it has {bytes} bytes; at most {FACT_BYTES_MAX} are kept")));
            }
        }
        check_labels(&self.state, fact, value)?;
        self.state.keys().check(fact, value).map_err(|refusal| match refusal {
            IdentityRefusal::Invalid(problem) => Refusal::InvalidValue { fact: fact.clone(), problem },
            IdentityRefusal::KeyInUse { key, holder } => Refusal::KeyInUse { key, holder },
            IdentityRefusal::LastAdmin => Refusal::LastAdmin(fact.clone()),
        })?;
        let current = self.state.facts.get(fact).map_or(0, |fact| fact.version());
        if let Some(expected) = if_match.filter(|expected| *expected != current) {
            return Err(Refusal::VersionMismatch { fact: fact.clone(), expected, current });
        }
        if let Some(source) = self.state.catalogue.source(fact.ty()) {
            let problem = format!("facts of this type are external, in `{}`, and are not fed", source.adapter);
            return Err(Refusal::InvalidValue { fact: fact.clone(), problem });
        }
        let fenced = |why| Err(Refusal::Fenced { fact: fact.clone(), why });
        match self.state.must_hold(fact) {
            true if if_match.is_some() => fenced("its version may change meanwhile; feed without If-Match"),
            true if self.state.held.len() >= HELD_FEEDS_MAX => fenced("too many feeds are held already; feed it later"),
            _ => Ok(()),
        }
    }

    pub(super) fn check_erase(
        &self,
        targets: &[EraseTarget],
        now_ms: u64,
    ) -> Result<(Vec<u64>, Vec<Forgotten>), Refusal> {
        // A leaf that erases nothing could not be read back.
        if targets.is_empty() {
            return Err(Refusal::NotErasable(0, "the request names no entry"));
        }
        if targets.len() > ERASED_MAX {
            return Err(Refusal::TooManyErased(targets.len()));
        }
        let eraser = Eraser::new(&self.state, &*self.state, now_ms);
        let mut forgotten = Vec::new();
        for target in targets {
            if target.entry >= self.state.next_entry {
                return Err(Refusal::NotErasable(target.entry, "there is no such entry"));
            }
            let checked = eraser.check(target).map_err(|what| Refusal::InForce { entry: target.entry, what })?;
            forgotten.extend(checked);
        }
        // A held deletion and the feed that it became both speak of the same version.
        forgotten.dedup();
        let mut entries: Vec<u64> = targets.iter().map(|target| target.entry).collect();
        entries.sort_unstable();
        entries.dedup();
        Ok((entries, forgotten))
    }

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

/// The terms on which a tool is approved name only labels that there are.
fn check_labels(state: &State, fact: &FactId, value: Option<&Attributes>) -> Result<(), Refusal> {
    let unknown = value.and_then(|value| unknown_label(fact, value, &state.labels));
    unknown.map_or(Ok(()), |name| {
        let known: Vec<&str> = state.labels.names().iter().map(AsRef::as_ref).collect();
        let problem = format!("no pact declares the label `{name}`; there are {}", known.join(", "));
        Err(Refusal::InvalidValue { fact: fact.clone(), problem })
    })
}
