//! What conditions see of readings: the latest of a tool in the session, as it is recorded. At the intent that is what the agent had
//! read; at the dispatch what the intent noted, which reads the same now, or the write does not go off.

use super::readings::has_arrived;
use super::{Deciding, Stage};
use crate::ids::FactId;
use crate::reason::{Reason, Unusable, UnusableReading};
use crate::session::Held;
use crate::value::Attributes;
use smol_str::SmolStr;

/// A reading of the session, with the entry that wrote it and the version that counts.
type Counted = (u64, Held, u64);

impl Deciding<'_> {
    /// The values of the readings that conditions mention, by name; or why there is none.
    pub(super) fn reading_values(&self) -> Vec<(SmolStr, Result<Attributes, Unusable>)> {
        if self.kind.readings.is_empty() {
            return Vec::new();
        }
        let held = self.held();
        let value = |(name, ty): &(SmolStr, std::sync::Arc<crate::pact::ReadingType>)| {
            let of_tool = |(_, held, _): &&Counted| {
                let place = &held.reading.place;
                place.upstream == ty.upstream && place.tool == ty.tool
            };
            let of_tool: Vec<&Counted> = held.iter().filter(of_tool).collect();
            let is_again = |(_, held, noted): &&Counted| held.version != *noted;
            let value = match of_tool.iter().max_by_key(|(entry, ..)| *entry) {
                None => Err(Unusable::NotRead),
                // Which of them was the latest is not known any more.
                Some(_) if of_tool.len() > 1 && of_tool.iter().any(is_again) => Err(Unusable::ReadMeanwhile),
                Some((_, held, noted)) if has_arrived(self.action, held, *noted) => ty.value(&held.reading),
                Some(it) if is_again(it) => Err(Unusable::ReadMeanwhile),
                Some(_) => Err(Unusable::NotArrived),
            };
            (name.clone(), value)
        };
        self.kind.readings.iter().map(value).collect()
    }

    fn held(&self) -> Vec<Counted> {
        let found = |fact: &FactId| -> Option<(u64, Held)> {
            let fact = self.snapshot.fact(fact)?;
            Some((fact.written.entry, Held::of(fact)?))
        };
        match self.stage {
            Stage::Intent(None) => {
                let readings = self.session().into_iter().flat_map(|session| session.readings().collect::<Vec<_>>());
                let found = readings.filter_map(|fact| found(&fact));
                found
                    .map(|(entry, held)| {
                        let noted = held.version;
                        (entry, held, noted)
                    })
                    .collect()
            }
            Stage::Intent(Some(rests_on)) | Stage::Dispatch(_, rests_on) => {
                let noted = rests_on.iter().filter_map(|(fact, version)| Some((found(fact)?, *version)));
                noted.map(|((entry, held), version)| (entry, held, version)).collect()
            }
            // External facts and readings are not decided on together: see the loader.
            Stage::Judgement(_) => Vec::new(),
        }
    }

    /// Whether everything that conditions ask of readings was read, and is there as the pact declares it.
    pub(super) fn check_reading_values(&self) -> Result<(), Reason> {
        let (mut missing, mut unusable) = (Vec::new(), Vec::new());
        for ((name, value), (_, ty)) in self.readings.iter().zip(&self.kind.readings) {
            match value {
                Ok(_) => {}
                Err(Unusable::NotRead) => missing.push(ty.tool.clone()),
                Err(why) => unusable.push(UnusableReading {
                    name: name.clone(),
                    upstream: ty.upstream.clone(),
                    tool: ty.tool.clone(),
                    why: *why,
                }),
            }
        }
        match (missing.is_empty(), unusable.is_empty()) {
            (false, _) => Err(Reason::ReadingRequired { tools: missing }),
            (true, false) => Err(Reason::ReadingUnusable { readings: unusable }),
            (true, true) => Ok(()),
        }
    }
}
