//! The checker's own account of the state: every version of every fact, replayed from the entries one by one.

use super::batches::Batches;
use super::deed::Deed;
use super::history::LogEntry;
use super::reviews::Reviews;
use super::rules::{Outcome, Verdict, WINDOW_MS, outcome};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// How long a key is remembered.
const KEY_KEPT_MS: u64 = 86_400_000;

/// The state, with its past.
#[derive(Debug, Default, Clone)]
pub struct Model {
    facts: BTreeMap<String, Vec<Version>>,
    /// For each version of the pact: its entry, its number, the limit it sets.
    pacts: Vec<(u64, u64, i64)>,
    /// For each entry that charged budgets: the agents, the windows and the amounts.
    charged: BTreeMap<u64, Vec<Charge>>,
    keys: BTreeMap<(String, String), Vec<(u64, u64)>>,
    erased: BTreeMap<u64, u64>,
    /// For each scope, the entries that halted or resumed it, and which of the two.
    halts: BTreeMap<String, Vec<(u64, bool)>>,
    pub(super) reviews: Reviews,
    pub(super) batches: Batches,
    /// The time of each entry.
    times_ms: Vec<u64>,
}

/// What an agent is charged in a window.
pub(super) type Charge = (String, u64, i64);

/// One version of a fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The entry that made it.
    pub entry: u64,
    /// Its number.
    pub version: u64,
    /// Its value; `None` where it deleted the fact.
    pub value: Option<Json>,
}

pub(super) fn text<'a>(json: &'a Json, what: &str) -> Result<&'a str, String> {
    json[what].as_str().ok_or_else(|| format!("`{what}` is missing in {json}"))
}

pub(super) fn number(json: &Json, what: &str) -> Result<u64, String> {
    json[what].as_u64().ok_or_else(|| format!("`{what}` is missing in {json}"))
}

pub(super) fn items(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

impl Model {
    /// The latest version of every fact.
    pub fn latest(&self) -> impl Iterator<Item = (&String, &Version)> {
        self.facts.iter().filter_map(|(fact, versions)| Some((fact, versions.last()?)))
    }

    /// What an agent spent in a window.
    pub fn spent_by(&self, agent: &str, window: u64) -> i64 {
        self.spent_at(agent, window, u64::MAX)
    }

    /// The same, before the entry at `position`.
    pub(super) fn spent_at(&self, agent: &str, window: u64, position: u64) -> i64 {
        let charges = self.charged.range(..position).flat_map(|(_, charges)| charges);
        charges.filter(|(by, at, _)| by == agent && *at == window).map(|(.., amount)| amount).sum()
    }

    /// The version of a fact that was current before the entry at `position`.
    pub(super) fn at(&self, fact: &str, position: u64) -> Option<&Version> {
        let versions = self.facts.get(fact)?;
        versions.iter().rev().find(|version| version.entry < position)
    }

    /// One version of a fact.
    pub(super) fn version_of(&self, fact: &str, number: u64) -> Option<&Version> {
        self.facts.get(fact)?.iter().find(|version| version.version == number)
    }

    /// The number of a fact's version before the entry at `position`; 0 for none.
    pub(super) fn version_at(&self, fact: &str, position: u64) -> u64 {
        self.at(fact, position).map_or(0, |version| version.version)
    }

    /// The value that a fact had before the entry at `position`.
    pub(super) fn value_at(&self, fact: &str, position: u64) -> Option<&Json> {
        self.at(fact, position)?.value.as_ref()
    }

    /// Whether any operator had been named before the entry at `position`.
    pub(super) fn is_identified(&self, position: u64) -> bool {
        let operators = self.facts.iter().filter(|(fact, _)| fact.starts_with("Operator::"));
        operators.flat_map(|(_, versions)| versions).any(|version| version.entry < position)
    }

    /// Between which times something was decided that stands before the entry at `position` and behind the one before it.
    pub(super) fn times_at(&self, position: u64) -> [u64; 2] {
        let time = |at: Option<usize>| at.and_then(|at| self.times_ms.get(at)).copied();
        let at = usize::try_from(position).ok();
        [time(at.and_then(|at| at.checked_sub(1))).unwrap_or(0), time(at).unwrap_or(u64::MAX)]
    }

    /// The version of the pact, and the limit it sets, before the entry at `position`.
    pub(super) fn pact_at(&self, position: u64) -> Option<(u64, i64)> {
        let (_, version, limit) = self.pacts.iter().rev().find(|(entry, ..)| *entry < position)?;
        Some((*version, *limit))
    }

    /// Whether an entry cannot be erased at this place and time: what it charged still counts, or it waits for a person.
    pub(super) fn is_in_force(&self, entry: u64, position: u64, now_ms: u64) -> bool {
        self.is_window_open(entry, position, now_ms) || self.reviews.is_waiting(entry, position, now_ms)
    }

    fn is_window_open(&self, entry: u64, position: u64, now_ms: u64) -> bool {
        let Some(charges) = self.charged.get(&entry) else { return false };
        charges.iter().any(|(agent, window, _)| {
            let mut before = self.charged.range(..position).rev().flat_map(|(_, charges)| charges);
            before
                .find(|(by, ..)| by == agent)
                .is_some_and(|(_, last, _)| last == window && now_ms < (window + 1) * WINDOW_MS)
        })
    }

    /// Whether exactly this scope was halted before the entry at `position`.
    pub(super) fn is_halted(&self, scope: &str, position: u64) -> bool {
        let changes = self.halts.get(scope).map_or(&[] as &[_], Vec::as_slice);
        changes.iter().rev().find(|(entry, _)| *entry < position).is_some_and(|(_, on)| *on)
    }

    /// The entries made under an agent's key.
    pub(super) fn entries_of_key(&self, agent: &str, key: &str) -> &[(u64, u64)] {
        self.keys.get(&(agent.to_owned(), key.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Replays one entry and judges it; gives the verdict of an action.
    pub(super) fn replay(&mut self, index: u64, entry: &LogEntry) -> Result<Option<&'static str>, String> {
        let leaf = &entry.leaf;
        if number(leaf, "index")? != index {
            return Err(format!("it says that it is entry {}", leaf["index"]));
        }
        let time_ms = number(leaf, "time")?;
        let before_ms = self.times_ms.last().copied().unwrap_or(0);
        self.times_ms.push(time_ms);
        if time_ms < before_ms {
            return Err(format!("time goes back from {before_ms} to {time_ms}"));
        }
        self.check_authority(index, time_ms, entry)?;
        self.batches.check(index, entry)?;
        match text(leaf, "kind")? {
            "genesis" if index == 0 => Ok(None),
            "genesis" => Err("a second beginning".to_owned()),
            "pact" => self.replay_pact(index, entry).map(|()| None),
            "feed" => self.replay_writes(index, entry).map(|()| None),
            "erasure" => self.replay_erasure(index, entry).map(|()| None),
            "clock" | "rotation" | "denials" | "batch" => Ok(None),
            "group" => self.replay_group(index, time_ms, entry).map(Some),
            kind @ ("halt" | "resume") => {
                let (scope, on) = (text(leaf, "scope")?, kind == "halt");
                if !on && !self.is_halted(scope, index) {
                    return Err(format!("it resumes {scope}, which was not halted"));
                }
                self.halts.entry(scope.to_owned()).or_default().push((index, on));
                Ok(None)
            }
            "action" | "shadow" => self.replay_action(index, time_ms, entry).map(Some),
            "approval" => self.replay_approval(index, time_ms, entry).map(Some),
            "expiry" => self.replay_expiry(index, time_ms, entry).map(|()| None),
            "refusal" => self.replay_refusal(index, time_ms, entry).map(|()| None),
            kind => Err(format!("unknown kind {kind}")),
        }
    }

    fn replay_pact(&mut self, index: u64, entry: &LogEntry) -> Result<(), String> {
        let version = number(&entry.leaf["pact"], "version")?;
        let before = self.pacts.last().map_or(0, |(_, version, _)| *version);
        if version != before + 1 {
            return Err(format!("pact version {version} follows {before}"));
        }
        let source = text(&entry.payload, "source")?;
        let limit =
            source.split("context.amount <= ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let limit = limit.and_then(|digits| digits.parse().ok()).ok_or("the pact sets no limit")?;
        self.pacts.push((index, version, limit));
        Ok(())
    }

    /// Checks that each version follows the one before, and takes them.
    fn replay_writes(&mut self, index: u64, entry: &LogEntry) -> Result<(), String> {
        let in_leaf: Vec<u64> = items(&entry.leaf["writes"]).filter_map(|write| write[1].as_u64()).collect();
        let in_payload: Vec<u64> =
            items(&entry.payload["writes"]).filter_map(|write| write["version"].as_u64()).collect();
        if in_leaf != in_payload {
            return Err(format!("the leaf writes versions {in_leaf:?}, the payload {in_payload:?}"));
        }
        for write in items(&entry.payload["writes"]) {
            let (fact, version) = (text(write, "fact")?, number(write, "version")?);
            let before = self.at(fact, index);
            let (expected, previous) = before.map_or((1, None), |before| (before.version + 1, Some(before.entry)));
            if version != expected {
                return Err(format!("{fact} goes from version {} to {version}", expected - 1));
            }
            if write["previous"].as_u64() != previous {
                return Err(format!("{fact} was last written in {previous:?}, not in {}", write["previous"]));
            }
            let value = write.get("value").cloned();
            self.facts.entry(fact.to_owned()).or_default().push(Version { entry: index, version, value });
        }
        Ok(())
    }

    fn replay_erasure(&mut self, index: u64, entry: &LogEntry) -> Result<(), String> {
        let now_ms = number(&entry.leaf, "time")?;
        for erased in items(&entry.leaf["erased"]).filter_map(Json::as_u64) {
            let holds =
                self.facts.iter().find(|(_, versions)| versions.last().is_some_and(|last| last.entry == erased));
            if let Some((fact, _)) = holds {
                return Err(format!("it erases entry {erased}, which holds the current version of {fact}"));
            }
            let is_identity = |fact: &str| fact.starts_with("Agent::") || fact.starts_with("Operator::");
            let mut written = self.facts.iter().filter(|(_, versions)| versions.iter().any(|it| it.entry == erased));
            if let Some((fact, _)) = written.find(|(fact, _)| is_identity(fact)) {
                return Err(format!("it erases entry {erased}, which says who {fact} was"));
            }
            if self.is_in_force(erased, index, now_ms) {
                return Err(format!(
                    "it erases entry {erased}, which counts against an open window or waits for a person"
                ));
            }
            if erased >= index {
                return Err(format!("it erases entry {erased}, which is not before it"));
            }
            self.erased.entry(erased).or_insert(index);
            self.reviews.erased(erased, index);
        }
        Ok(())
    }

    fn replay_action(&mut self, index: u64, time_ms: u64, entry: &LogEntry) -> Result<&'static str, String> {
        let body: Json = serde_json::from_str(text(&entry.payload, "body")?).map_err(|error| error.to_string())?;
        self.use_key(index, time_ms, text(&entry.leaf, "by")?, &body)?;
        let deed = Deed::of_entry(entry, &body)?;
        let expected = outcome(self, index, &deed, None, time_ms);
        let kind = if expected.is_shadowed { "shadow" } else { "action" };
        let compared = compare(&expected, kind, entry);
        if expected.verdict == Verdict::Review {
            self.reviews.park(index, time_ms, entry)?;
        }
        self.take(index, &expected, compared, entry)?;
        Ok(expected.verdict.as_str())
    }

    pub(super) fn use_key(&mut self, index: u64, time_ms: u64, agent: &str, body: &Json) -> Result<(), String> {
        let key = (agent.to_owned(), text(body, "idempotency_key")?.to_owned());
        let uses = self.keys.entry(key).or_default();
        if let Some((first, _)) = uses.last().filter(|(_, at_ms)| time_ms - at_ms <= KEY_KEPT_MS) {
            return Err(format!("its key was used before, in entry {first}"));
        }
        uses.push((index, time_ms));
        Ok(())
    }

    /// Whether a key is known before the entry at `position`, at a time.
    pub(super) fn is_key_known(&self, agent: &str, key: &str, position: u64, now_ms: u64) -> bool {
        let mut uses = self.entries_of_key(agent, key).iter();
        uses.any(|(entry, at_ms)| *entry < position && now_ms.saturating_sub(*at_ms) <= KEY_KEPT_MS)
    }

    /// Goes on as if something that was never entered had been: for actions of a group that came before the one that failed.
    pub(super) fn assume(&mut self, index: u64, expected: &Outcome) {
        for (fact, value) in &expected.writes {
            let version = self.version_at(fact, index) + 1;
            self.facts.entry(fact.clone()).or_default().push(Version { entry: index, version, value: value.clone() });
        }
        if !expected.spent.is_empty() {
            self.charged.insert(index, expected.spent.clone());
        }
    }

    /// Takes what an entry writes and charges in any case, so that one wrong entry is not reported again for each that follows.
    pub(super) fn take(
        &mut self,
        index: u64,
        expected: &Outcome,
        compared: Result<(), String>,
        entry: &LogEntry,
    ) -> Result<(), String> {
        let replayed = self.replay_writes(index, entry);
        if !expected.spent.is_empty() {
            self.charged.insert(index, expected.spent.clone());
        }
        compared.and(replayed)
    }

    /// Payloads that are gone although no erasure names them, and the other way round.
    pub(super) fn unexplained_erasures(&self, entries: &[LogEntry]) -> Vec<String> {
        let gone = (0u64..).zip(entries).filter(|(_, entry)| entry.is_erased).map(|(index, _)| index);
        let gone: BTreeSet<u64> = gone.collect();
        let named: BTreeSet<u64> = self.erased.keys().copied().collect();
        let lost =
            gone.difference(&named).map(|index| format!("the payload of entry {index} is gone, and nobody erased it"));
        let kept =
            named.difference(&gone).map(|index| format!("entry {index} was erased, and its payload is still there"));
        lost.chain(kept).collect()
    }
}

/// Compares an entry with what it should say.
pub(super) fn compare(expected: &Outcome, kind: &str, entry: &LogEntry) -> Result<(), String> {
    let decision = &entry.payload["decision"];
    let verdict = text(decision, "verdict")?;
    let found_failed = |blocked: &Json| {
        let failed = items(&blocked["failed"]).filter_map(|failed| failed["precondition"].as_str());
        failed.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let say = |what: &str, expected: &dyn std::fmt::Debug, found: &dyn std::fmt::Debug| {
        Err(format!("{what} should be {expected:?}, but is {found:?}"))
    };
    if verdict != expected.verdict.as_str() || entry.leaf["verdict"] != verdict {
        let why = format!("{} {:?}", expected.verdict.as_str(), (expected.code, &expected.failed));
        return say("the verdict", &why, &decision.to_string());
    }
    let blocked = if expected.is_shadowed { &decision["shadowed"] } else { &decision["blocked"] };
    if blocked["code"].as_str() != expected.code {
        return say("the code", &expected.code, &blocked["code"]);
    }
    if found_failed(blocked) != expected.failed.iter().cloned().collect() {
        return say("the failed preconditions", &expected.failed, &found_failed(blocked));
    }
    if entry.leaf["kind"] != kind {
        return say("the kind", &kind, &entry.leaf["kind"]);
    }
    if decision["gap_ms"].as_u64() != expected.gap_ms {
        return say("the gap", &expected.gap_ms, &decision["gap_ms"]);
    }
    let writes: BTreeMap<&str, Option<&Json>> = items(&entry.payload["writes"])
        .filter_map(|write| Some((write["fact"].as_str()?, write.get("value"))))
        .collect();
    let expected_writes: BTreeMap<_, _> =
        expected.writes.iter().map(|(fact, value)| (fact.as_str(), value.as_ref())).collect();
    if writes != expected_writes {
        return say("what it writes", &expected_writes, &writes);
    }
    let charged: Vec<Charge> = items(&entry.payload["charges"])
        .filter_map(|charge| {
            Some((charge["agent"].as_str()?.to_owned(), charge["window"].as_u64()?, charge["amount"].as_i64()?))
        })
        .collect();
    if charged != expected.spent {
        return say("the charges", &expected.spent, &charged);
    }
    let waived = items(&decision["waived_by"]["preconditions"]).filter_map(Json::as_str).collect::<Vec<_>>();
    if waived != expected.waived {
        return say("what was waived", &expected.waived, &waived);
    }
    if expected.verdict != Verdict::Committed && !writes.is_empty() {
        return Err("it was blocked and writes all the same".to_owned());
    }
    Ok(())
}
