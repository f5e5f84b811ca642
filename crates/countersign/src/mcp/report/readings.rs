//! What was read: how often, whether writes rested on it, and where it differs whenever it is read.

use super::Read;
use countersign_core::difference::paths;
use countersign_core::fact::Fact;
use countersign_core::ids::{Digest, FactId};
use countersign_core::reason::Reason;
use countersign_core::session::{Held, called};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many paths are looked at where two readings differ.
const PATHS_MAX: usize = 64;

/// The readings of a ledger.
#[derive(Default)]
pub(super) struct Readings {
    tools: BTreeMap<String, Tool>,
    /// What each reading was called as, by its fact.
    called: HashMap<FactId, (String, String)>,
    /// The latest reading of each place, in any session.
    latest: HashMap<Digest, Latest>,
}

struct Latest {
    digest: Digest,
    projection: SmolStr,
    content: Option<SmolStr>,
}

/// What is known of one tool.
#[derive(Default)]
pub(super) struct Tool {
    read: Read,
    sessions: BTreeSet<String>,
    /// Whether an admin has it guarded, as far as the ledger says.
    pub(super) is_guarded: bool,
    /// How often it was read after it had been read from the same place.
    pub(super) compared: u64,
    /// The paths at which all of these differed; none where one read the same, or could not be compared.
    pub(super) differing: Option<BTreeSet<String>>,
    /// The paths at which it differed when it was read twice in a row.
    pub(super) volatile: BTreeSet<String>,
    /// How often it did.
    pub(super) volatile_count: u64,
    /// Whether it is called with arguments: then what one call answers says little of the others.
    pub(super) takes_arguments: bool,
}

impl Readings {
    /// A tool was approved, guarded or not. Where it differed before says nothing of how it is compared from now on.
    pub(super) fn guarded(&mut self, tool: &str, is_guarded: bool) {
        let before = self.tools.remove(tool).unwrap_or_default();
        let Tool { read, sessions, .. } = before;
        self.tools.insert(tool.to_owned(), Tool { read, sessions, is_guarded, ..Tool::default() });
    }

    /// Something was read; for an effect, where its change is what a refusal or an own write told.
    pub(super) fn read(&mut self, fact: &Fact, is_told: bool) {
        let Some(held) = Held::of(fact) else { return };
        let place = &held.reading.place;
        let tool = self.tools.entry(place.tool_name()).or_default();
        let name = (place.tool_name(), called(&place.tool_name(), &place.arguments));
        self.called.insert(held.fact.clone(), name);
        let (digest, projection) = (held.digest, held.reading.projection.clone());
        let latest = Latest { digest, projection, content: held.reading.content.clone() };
        let before = self.latest.insert(place.name(), latest);
        tool.takes_arguments |= !["", "{}"].contains(&place.arguments.trim());
        if is_told {
            return;
        }
        tool.read.readings = tool.read.readings.saturating_add(1);
        tool.sessions.extend(Held::session(&held.fact).map(|session| session.to_string()));
        let Some(before) = before.filter(|before| before.projection == held.reading.projection) else { return };
        let differing: BTreeSet<String> = match (&before.content, &held.reading.content) {
            _ if before.digest == held.digest => BTreeSet::new(),
            (Some(one), Some(other)) => paths(one, other, PATHS_MAX).into_iter().collect(),
            // Of what is kept by its digest alone, it is not known where it differs.
            _ => return,
        };
        tool.compared = tool.compared.saturating_add(1);
        tool.differing = Some(match tool.differing.take() {
            Some(known) => known.intersection(&differing).cloned().collect(),
            None => differing,
        });
    }

    /// A write rested on a version of a reading.
    pub(super) fn rested_on(&mut self, (fact, _): (&FactId, u64), is_changed: bool) {
        let Some((name, _)) = self.called.get(fact) else { return };
        let Some(tool) = self.tools.get_mut(name) else { return };
        tool.read.rested_on = tool.read.rested_on.saturating_add(1);
        tool.read.changed = tool.read.changed.saturating_add(u64::from(is_changed));
    }

    /// A reading differed when it was read twice in a row.
    pub(super) fn differed_twice(&mut self, fact: &FactId, paths: &[SmolStr]) {
        let Some((name, _)) = self.called.get(fact) else { return };
        let Some(tool) = self.tools.get_mut(name) else { return };
        tool.volatile.extend(paths.iter().map(ToString::to_string));
        tool.volatile_count = tool.volatile_count.saturating_add(1);
    }

    /// A reason in a sentence, with readings as they were called.
    pub(super) fn said(&self, reason: &Reason) -> String {
        let Reason::ReadingChanged { readings } = reason else { return reason.message() };
        let name = |fact: &FactId| self.called.get(fact).map(|(_, called)| called.clone());
        let mut names: Vec<String> = readings.iter().filter_map(|it| name(&it.reading.fact)).collect();
        names.sort_unstable();
        names.dedup();
        format!("{} read differently right before the call", names.join(", "))
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = (&String, &Tool)> {
        self.tools.iter()
    }

    /// What was read, by tool.
    pub(super) fn report(&self) -> BTreeMap<String, Read> {
        let read = |(name, tool): (&String, &Tool)| {
            let Read { readings, rested_on, changed, .. } = tool.read;
            let sessions = u64::try_from(tool.sessions.len()).unwrap_or(u64::MAX);
            (readings > 0).then(|| (name.clone(), Read { readings, sessions, rested_on, changed }))
        };
        self.tools.iter().filter_map(read).collect()
    }
}
