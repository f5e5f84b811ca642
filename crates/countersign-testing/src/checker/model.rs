//! The checker's own account of the state: every version of every fact, replayed from the entries one by one.

use super::history::LogEntry;
use super::rules::{Outcome, Verdict, outcome};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// How long a key is remembered.
const KEY_KEPT_MS: u64 = 86_400_000;

/// The state, with its past.
#[derive(Debug, Default)]
pub struct Model {
    facts: BTreeMap<String, Vec<Version>>,
    /// For each version of the pact: its entry, its number, the limit it sets.
    pacts: Vec<(u64, u64, i64)>,
    /// What each agent spent, by window.
    pub(super) spent: BTreeMap<(String, u64), i64>,
    /// For each entry that charged a budget: the agent and the window.
    charged: BTreeMap<u64, (String, u64)>,
    keys: BTreeMap<(String, String), Vec<(u64, u64)>>,
    erased: BTreeMap<u64, u64>,
    /// For each scope, the entries that halted or resumed it, and which of the two.
    halts: BTreeMap<String, Vec<(u64, bool)>>,
    time_ms: u64,
}

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

fn text<'a>(json: &'a Json, what: &str) -> Result<&'a str, String> {
    json[what].as_str().ok_or_else(|| format!("`{what}` is missing in {json}"))
}

fn number(json: &Json, what: &str) -> Result<u64, String> {
    json[what].as_u64().ok_or_else(|| format!("`{what}` is missing in {json}"))
}

fn items(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

impl Model {
    /// The latest version of every fact.
    pub fn latest(&self) -> impl Iterator<Item = (&String, &Version)> {
        self.facts.iter().filter_map(|(fact, versions)| Some((fact, versions.last()?)))
    }

    /// What an agent spent in a window.
    pub fn spent_by(&self, agent: &str, window: u64) -> i64 {
        self.spent.get(&(agent.to_owned(), window)).copied().unwrap_or(0)
    }

    /// The version of a fact that was current before the entry at `position`.
    pub(super) fn at(&self, fact: &str, position: u64) -> Option<&Version> {
        let versions = self.facts.get(fact)?;
        versions.iter().rev().find(|version| version.entry < position)
    }

    /// The number of a fact's version before the entry at `position`; 0 for none.
    pub(super) fn version_at(&self, fact: &str, position: u64) -> u64 {
        self.at(fact, position).map_or(0, |version| version.version)
    }

    /// The value that a fact has now.
    pub(super) fn value(&self, fact: &str) -> Option<&Json> {
        self.facts.get(fact)?.last()?.value.as_ref()
    }

    /// The version of the pact, and the limit it sets, before the entry at `position`.
    pub(super) fn pact_at(&self, position: u64) -> Option<(u64, i64)> {
        let (_, version, limit) = self.pacts.iter().rev().find(|(entry, ..)| *entry < position)?;
        Some((*version, *limit))
    }

    /// Whether what an entry charged still counted before the entry at `position`.
    pub(super) fn is_window_open(&self, entry: u64, position: u64) -> bool {
        let Some((agent, window)) = self.charged.get(&entry) else { return false };
        let last = self.charged.range(..position).rev().find(|(_, (by, _))| by == agent);
        last.is_some_and(|(_, (_, last))| last == window)
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
        if time_ms < self.time_ms {
            return Err(format!("time goes back from {} to {time_ms}", self.time_ms));
        }
        self.time_ms = time_ms;
        match text(leaf, "kind")? {
            "genesis" if index == 0 => Ok(None),
            "genesis" => Err("a second beginning".to_owned()),
            "pact" => self.replay_pact(index, entry).map(|()| None),
            "feed" => self.replay_writes(index, entry).map(|()| None),
            "erasure" => self.replay_erasure(index, entry).map(|()| None),
            "clock" | "rotation" => Ok(None),
            kind @ ("halt" | "resume") => {
                let (scope, on) = (text(leaf, "scope")?, kind == "halt");
                if !on && !self.is_halted(scope, index) {
                    return Err(format!("it resumes {scope}, which was not halted"));
                }
                self.halts.entry(scope.to_owned()).or_default().push((index, on));
                Ok(None)
            }
            "action" | "shadow" => self.replay_action(index, time_ms, entry).map(Some),
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
        for erased in items(&entry.leaf["erased"]).filter_map(Json::as_u64) {
            let holds =
                self.facts.iter().find(|(_, versions)| versions.last().is_some_and(|last| last.entry == erased));
            if let Some((fact, _)) = holds {
                return Err(format!("it erases entry {erased}, which holds the current version of {fact}"));
            }
            if self.is_window_open(erased, index) {
                return Err(format!("it erases entry {erased}, which counts against an open window"));
            }
            if erased >= index {
                return Err(format!("it erases entry {erased}, which is not before it"));
            }
            self.erased.entry(erased).or_insert(index);
        }
        Ok(())
    }

    fn replay_action(&mut self, index: u64, time_ms: u64, entry: &LogEntry) -> Result<&'static str, String> {
        let body: Json = serde_json::from_str(text(&entry.payload, "body")?).map_err(|error| error.to_string())?;
        let agent = text(&entry.leaf, "by")?;
        let key = (agent.to_owned(), text(&body, "idempotency_key")?.to_owned());
        let uses = self.keys.entry(key).or_default();
        if let Some((first, _)) = uses.last().filter(|(_, at_ms)| time_ms - at_ms <= KEY_KEPT_MS) {
            return Err(format!("its key was used before, in entry {first}"));
        }
        uses.push((index, time_ms));
        let expected = outcome(self, agent, &body, &entry.payload["observed"], time_ms);
        let compared = compare(&expected, entry);
        // The writes are taken in any case, so that one wrong entry is not reported again for each that follows.
        let replayed = self.replay_writes(index, entry);
        if let Some((window, amount)) = expected.spent {
            self.charged.insert(index, (agent.to_owned(), window));
            *self.spent.entry((agent.to_owned(), window)).or_default() += amount;
        }
        compared.and(replayed)?;
        Ok(expected.verdict.as_str())
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
fn compare(expected: &Outcome, entry: &LogEntry) -> Result<(), String> {
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
    let kind = if expected.is_shadowed { "shadow" } else { "action" };
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
    let charged = items(&entry.payload["charges"])
        .next()
        .and_then(|charge| Some((charge["window"].as_u64()?, charge["amount"].as_i64()?)));
    if charged != expected.spent {
        return say("the charge", &expected.spent, &charged);
    }
    if expected.verdict != Verdict::Committed && !writes.is_empty() {
        return Err("it was blocked and writes all the same".to_owned());
    }
    Ok(())
}
