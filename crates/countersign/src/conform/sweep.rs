//! Every precondition of every action type of every example pact, broken alone (AG-097-8.1, 8.5, 8.6 and T).
//!
//! For each action type there are values under which it goes through, and for each of its preconditions a change of the facts that
//! breaks that one. An agent decides on the first, the facts are changed, and the agent acts. What must follow: a rejection that names
//! this precondition and no other, nothing written, nothing sent, and an entry with all five fields.

mod values;

use super::clauses::{account, refund};
use super::gate::{Agent, Entry, Subject, Unavailable, entry_of, failed, passed, refusal_code};
use crate::examples::{self, PactFile};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use countersign_api::{EffectState, Verdict, VerdictKind};
use countersign_core::ids::FactId;
use countersign_core::pact::load::load;
use countersign_core::pact::{ActionType, Pact};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use values::{Dice, Setting, Space};

/// What came of the sweep: one for each action type.
pub type Sweep = Vec<TypeSwept>;

/// One action type, swept.
#[derive(Debug, Serialize)]
pub struct TypeSwept {
    pub pact: String,
    /// Its name.
    pub action: String,
    pub preconditions: Vec<Swept>,
    /// Acting on facts that changed and changed back.
    pub changed_back: Found,
    /// Why it was not swept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// One precondition, swept.
#[derive(Debug, Serialize)]
pub struct Swept {
    pub id: String,
    /// Changed between observing and acting.
    pub changed: Found,
    /// Broken, and observed so.
    pub broken: Found,
    /// What the entries keep.
    pub recorded: Found,
}

/// The entry that shows it, or what is wrong.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Found {
    /// As it should be, in this entry.
    Entry(u64),
    /// Not as it should be.
    Problem(String),
}

impl Found {
    fn of(found: Result<u64>) -> Self {
        found.map_or_else(|error| Self::Problem(format!("{error:#}")), Self::Entry)
    }

    /// What is wrong.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Entry(_) => None,
            Self::Problem(problem) => Some(problem),
        }
    }
}

impl TypeSwept {
    /// The first thing that is wrong with it, of those that a view picks.
    pub fn problem<'a>(&'a self, view: impl Fn(&'a Swept) -> &'a Found) -> Option<String> {
        let found = self.preconditions.iter().find_map(|swept| Some((swept, view(swept).problem()?)));
        found.map(|(swept, problem)| format!("{} {} {}: {problem}", self.pact, self.action, swept.id))
    }

    /// The first thing that is wrong with it.
    pub fn first_problem(&self) -> Option<String> {
        let back = || self.changed_back.problem().map(str::to_owned);
        let views: [fn(&Swept) -> &Found; 3] = [|it| &it.changed, |it| &it.broken, |it| &it.recorded];
        views.into_iter().find_map(|view| self.problem(view)).or_else(back)
    }

    /// Whether it was swept and nothing is wrong, or was not swept for a reason.
    pub fn is_well(&self) -> bool {
        self.skipped.is_some() || self.first_problem().is_none()
    }

    /// The entries that a view picks.
    pub fn entries<'a>(&'a self, view: impl Fn(&'a Swept) -> &'a Found) -> Vec<u64> {
        let entry = |swept: &'a Swept| match view(swept) {
            Found::Entry(entry) => Some(*entry),
            Found::Problem(_) => None,
        };
        self.preconditions.iter().filter_map(entry).collect()
    }
}

/// Sweeps all examples.
pub fn run(subject: &Subject) -> Result<Sweep> {
    let mut swept = Vec::new();
    for file in examples::ALL {
        let pact = load(file.source).map_err(|problems| anyhow!("`{}` does not load: {problems:?}", file.name))?.pact;
        let roles = roles(&pact);
        let agent =
            subject.agent(&format!("sweep-{}", file.name), &roles.iter().map(String::as_str).collect::<Vec<_>>())?;
        subject.publish(file)?;
        for kind in pact.actions.values() {
            let mut one =
                TypeSweep { subject, file, kind, agent: Arc::clone(&agent), space: Space::new(&pact, kind, &roles) };
            swept.push(one.run()?);
        }
    }
    Ok(swept)
}

/// Every role that the pact speaks of.
fn roles(pact: &Pact) -> Vec<String> {
    let grants = pact.observe.values().flatten().map(|grant| grant.who.text());
    let texts = pact.actions.values().map(|kind| kind.allow.text()).chain(grants);
    texts.flat_map(|text| values::literals(text)).map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The sweep of one action type.
struct TypeSweep<'a> {
    subject: &'a Subject,
    file: &'a PactFile,
    kind: &'a ActionType,
    agent: Arc<Agent>,
    space: Space<'a>,
}

impl TypeSweep<'_> {
    fn run(&mut self) -> Result<TypeSwept> {
        let (pact, action) = (self.file.name.to_owned(), self.kind.name.to_string());
        if self.kind.call.is_some()
            && let Err(why) = self.subject.own()
        {
            let skipped = Some(why.root_cause().to_string());
            let changed_back = Found::Problem("not tried".to_owned());
            return Ok(TypeSwept { pact, action, preconditions: Vec::new(), changed_back, skipped });
        }
        let mut dice = Dice::new();
        let good = self.space.good(&mut dice);
        let good = good.with_context(|| format!("no values were found under which {pact} {action} goes through"))?;
        let mut preconditions = Vec::new();
        let mut first = None;
        for require in &self.kind.require {
            let id = require.id.to_string();
            let Some(broken) = self.space.broken(&good, &id, &mut dice) else {
                let none = Found::Problem("no change was found that breaks it alone: it may carry nothing".to_owned());
                preconditions.push(Swept { id, changed: none.clone(), broken: none.clone(), recorded: none });
                continue;
            };
            let changed = Found::of(self.changed(&good, &broken, &id));
            let recorded = match &changed {
                Found::Entry(entry) => Found::of(self.recorded(*entry, &id)),
                Found::Problem(problem) => Found::Problem(problem.clone()),
            };
            // A condition on what was observed cannot fail for an agent that has seen the facts as they are.
            let alone = self.space.failed(&broken, &broken).is_some_and(|failed| failed == [id.as_str()]);
            let broken_found = if alone { Found::of(self.broken(&broken, &id)) } else { changed.clone() };
            first.get_or_insert(broken);
            preconditions.push(Swept { id, changed, broken: broken_found, recorded });
        }
        let changed_back = match &first {
            Some(broken) => Found::of(self.changed_back(&good, broken)),
            None => Found::Problem("nothing could be broken".to_owned()),
        };
        Ok(TypeSwept { pact, action, preconditions, changed_back, skipped: None })
    }

    /// Observed, changed, acted on.
    fn changed(&self, good: &Setting, broken: &Setting, id: &str) -> Result<u64> {
        let calls = self.calls();
        self.set(good, broken)?;
        let token = self.observe(good)?;
        self.set(broken, good)?;
        let verdict = self.act(good, &[token])?;
        self.rejected(&verdict, id)?;
        ensure!(verdict.gap_ms.is_some(), "the rejection does not say how old the observation was");
        let told = verdict.failed.iter().flat_map(|failed| &failed.reads);
        ensure!(
            told.clone().any(|read| read.observed && read.expected != read.actual),
            "the rejection does not tell what was expected and what was found"
        );
        self.is_as(broken)?;
        ensure!(self.calls() == calls, "something was sent");
        entry_of(&verdict)
    }

    /// Broken before the agent looked.
    fn broken(&self, broken: &Setting, id: &str) -> Result<u64> {
        self.set(broken, broken)?;
        let token = self.observe(broken)?;
        let verdict = self.act(broken, &[token])?;
        self.rejected(&verdict, id)?;
        self.is_as(broken)?;
        entry_of(&verdict)
    }

    /// Changed and changed back: goes through, unless the pact asks for `unchanged`. Also shows that it goes through at all.
    fn changed_back(&self, good: &Setting, broken: &Setting) -> Result<u64> {
        let calls = self.calls();
        self.set(good, broken)?;
        let token = self.observe(good)?;
        self.set(broken, good)?;
        self.set(good, broken)?;
        let verdict = self.act(good, &[token])?;
        if self.kind.reads.iter().any(|read| read.unchanged) {
            ensure!(!passed(&verdict), "facts that changed and changed back passed for unchanged");
            return entry_of(&verdict);
        }
        ensure!(passed(&verdict), "what should go through did not: {:?} {:?}", verdict.code, failed(&verdict));
        if let Some(effect) = &verdict.effect {
            let ended = self.subject.ended(effect)?;
            ensure!(
                ended.state == EffectState::Settled,
                "a call that should be made ended as {}",
                ended.state.as_str()
            );
            ensure!(self.calls() == calls + 1, "the payment service was not called exactly once");
        }
        entry_of(&verdict)
    }

    /// All five fields of AG-097-4.5, in the entry.
    fn recorded(&self, index: u64, id: &str) -> Result<u64> {
        let entry = self.subject.entry(index)?;
        ensure!(entry.leaf("verdict") == "rejected", "entry {index} does not say `rejected`");
        ensure!(!entry.leaf("action").is_empty(), "entry {index} does not name the action");
        let text = |failed: &Json| failed.get("precondition").and_then(Json::as_str).map(str::to_owned);
        let named = entry.failed().iter().find(|failed| text(failed).as_deref() == Some(id));
        let named = named.with_context(|| format!("entry {index} does not name the precondition"))?;
        ensure!(named.get("gap_ms").is_some_and(Json::is_u64), "entry {index} does not have the gap");
        let reads = named.get("reads").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let differs = |read: &Json| {
            let expected = read.get("expected");
            expected.is_some() && expected.and_then(|expected| expected.get("value")) != read.get("actual")
        };
        ensure!(reads.iter().any(differs), "entry {index} does not have what was expected and what was found");
        Ok(index)
    }

    fn rejected(&self, verdict: &Verdict, id: &str) -> Result<()> {
        ensure!(
            verdict.verdict == VerdictKind::Rejected,
            "was not rejected: {:?} in entry {:?}",
            verdict.verdict,
            verdict.entry
        );
        let named: Vec<&str> = failed(verdict).into_iter().filter(|named| !self.is_version(named)).collect();
        ensure!(named == [id], "named {named:?} ({:?}) instead", verdict.code);
        Ok(())
    }

    /// Whether this is the name of a version that must be unchanged, which every change breaks.
    fn is_version(&self, named: &str) -> bool {
        self.kind.reads.iter().any(|read| read.unchanged && named == format!("{}-unchanged", read.name))
    }

    fn calls(&self) -> usize {
        self.subject.own().map_or(0, super::own::Own::calls)
    }

    /// Makes the facts as they are in one setting; those of the other that are not in it are deleted.
    fn set(&self, setting: &Setting, other: &Setting) -> Result<()> {
        let created = self.space.resolve(setting).unwrap_or_default();
        for fact in other.facts.keys().chain(&created).filter(|fact| !setting.facts.contains_key(*fact)) {
            self.subject.delete(&fact.to_string())?;
        }
        for (fact, value) in &setting.facts {
            self.subject.feed(&fact.to_string(), &value.to_json())?;
        }
        Ok(())
    }

    fn observe(&self, setting: &Setting) -> Result<String> {
        let facts = self.space.resolve(setting).context("the facts of the action are not all there")?;
        let facts: BTreeSet<String> = facts.iter().map(FactId::to_string).collect();
        self.agent.observe(facts.iter().map(String::as_str))
    }

    fn act(&self, setting: &Setting, tokens: &[String]) -> Result<Verdict> {
        let params = Json::Object(setting.params.clone());
        self.agent.act(self.file.name, self.kind.name.as_str(), &params, tokens)
    }

    /// Whether the facts are still as they were fed: nothing was written.
    fn is_as(&self, setting: &Setting) -> Result<()> {
        for (fact, value) in &setting.facts {
            let now = self.subject.fact(&fact.to_string())?.map(|found| found.value);
            ensure!(now.as_ref() == Some(&value.to_json()), "{fact} was written although the action was rejected");
        }
        Ok(())
    }
}

/// AG-097-8.5: each precondition carries something by itself, and what no pact names is refused.
pub fn load_bearing(subject: &Subject, sweep: &Sweep) -> Result<Json> {
    let entries = judged(sweep, |swept| &swept.broken)?;
    let file = examples::BILLING;
    subject.publish(&file)?;
    must_not_be_done(subject, &file)?;
    Ok(json!({"preconditions": entries.len(), "entries": span(&entries), "unknown_type": "unknown_action"}))
}

/// An action type that the pact does not have, with parameters that one of its own would take: nothing comes of it.
fn must_not_be_done(subject: &Subject, file: &PactFile) -> Result<()> {
    let agent = subject.agent("refunder", &["refunder"])?;
    let id = format!("unknown-{}", subject.run());
    let fact = format!("Account::\"{id}\"");
    let fed = subject.feed(&fact, &account("active", 1_000))?;
    let given = agent.act(file.name, "give-away", &refund(&id, 10), &[]);
    let balance = subject.attribute(&fact, "balance")?;
    ensure!(balance == json!(1_000), "an action type that no pact has took {fact} from 1000 to {balance}");
    must_be_unknown(given)?;
    let entries = subject.entries_from(fed.entry + 1)?;
    let is_done = |entry: &&Entry| entry.leaf("by") == agent.name && entry.leaf("verdict") != "rejected";
    let done = entries.iter().find(is_done).map(|entry| entry.index);
    ensure!(done.is_none(), "an action type that no pact has was carried out in entry {done:?}");
    Ok(())
}

/// An action type that no pact has is refused at the door or rejected in an entry, by the same code.
fn must_be_unknown(answer: Result<Verdict>) -> Result<()> {
    let code = match answer {
        Ok(verdict) if passed(&verdict) => bail!("an action type that no pact has was carried out"),
        Ok(verdict) => verdict.code,
        Err(error) => refusal_code(&error).map(str::to_owned),
    };
    ensure!(code.as_deref() == Some("unknown_action"), "an action type that no pact has is told {code:?}");
    Ok(())
}

/// AG-097-T: no action type has a window.
pub fn no_window(sweep: &Sweep) -> Result<Json> {
    let entries = judged(sweep, |swept| &swept.changed)?;
    let is_whole = sweep.iter().all(|swept| swept.skipped.is_none());
    ensure!(
        is_whole,
        Unavailable("action types with external calls need a gate of their own: run it without --target")
    );
    Ok(json!({"action_types": sweep.len(), "preconditions": entries.len(), "entries": span(&entries)}))
}

/// The entries of what a view picks, if nothing is wrong with any of it.
pub fn judged<'a>(sweep: &'a Sweep, view: impl Fn(&'a Swept) -> &'a Found + Copy) -> Result<Vec<u64>> {
    let mut entries = Vec::new();
    for swept in sweep.iter().filter(|swept| swept.skipped.is_none()) {
        if let Some(problem) = swept.problem(view) {
            return Err(anyhow!(problem));
        }
        if let Some(problem) = swept.changed_back.problem() {
            return Err(anyhow!("{} {}, changed and changed back: {problem}", swept.pact, swept.action));
        }
        entries.extend(swept.entries(view));
    }
    ensure!(!entries.is_empty(), "nothing was swept");
    Ok(entries)
}

/// First and last of some entries.
pub fn span(entries: &[u64]) -> Json {
    json!([entries.iter().min(), entries.iter().max()])
}
