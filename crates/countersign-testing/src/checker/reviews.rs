//! Actions that wait for a person, and what people made of them.

use super::deed::{Approved, Deed};
use super::history::{Answered, Asked, LogEntry, Operation, ReviewRefused};
use super::model::{Model, compare, items, number, text};
use super::rules::{Verdict, outcome};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// How long an action waits.
const WAITS_MS: u64 = 3_600_000;
/// How long an approval is good after the showing.
const APPROVAL_MS: u64 = 600_000;

/// The reviews, with their past.
#[derive(Debug, Default, Clone)]
pub(super) struct Reviews {
    parked: BTreeMap<u64, Parked>,
    /// For each review that ended: the entry that ended it, and whether a person did.
    ended: BTreeMap<u64, (u64, bool)>,
}

/// An action that waits.
#[derive(Debug, Clone)]
struct Parked {
    at_ms: u64,
    body: Json,
    entry: LogEntry,
}

impl Reviews {
    pub(super) fn park(&mut self, index: u64, at_ms: u64, entry: &LogEntry) -> Result<(), String> {
        let body = serde_json::from_str(text(&entry.payload, "body")?).map_err(|error| error.to_string())?;
        self.parked.insert(index, Parked { at_ms, body, entry: entry.clone() });
        Ok(())
    }

    /// An erasure of the parked action ends a review that has not ended.
    pub(super) fn erased(&mut self, review: u64, index: u64) {
        if self.parked.contains_key(&review) {
            self.ended.entry(review).or_insert((index, false));
        }
    }

    /// The entry in which a person ended a review, if before the entry at `position`.
    pub(super) fn decided_in(&self, review: u64, position: u64) -> Option<u64> {
        self.ended.get(&review).filter(|(entry, by_person)| *by_person && *entry < position).map(|(entry, _)| *entry)
    }

    /// The review that an entry ended.
    pub(super) fn ended_by(&self, index: u64) -> Option<u64> {
        self.ended.iter().find(|(_, (entry, by_person))| *by_person && *entry == index).map(|(review, _)| *review)
    }

    /// Whether a review waits at this place and time.
    pub(super) fn is_waiting(&self, review: u64, position: u64, now_ms: u64) -> bool {
        self.waiting(review, position, now_ms).is_ok()
    }

    /// The review, if it waits at this place and time.
    fn waiting(&self, review: u64, position: u64, now_ms: u64) -> Result<&Parked, String> {
        let parked = self.parked.get(&review).filter(|_| review < position);
        let parked = parked.ok_or_else(|| format!("entry {review} parked nothing"))?;
        if let Some((entry, _)) = self.ended.get(&review).filter(|(entry, _)| *entry < position) {
            return Err(format!("review {review} ended in entry {entry}"));
        }
        if now_ms > parked.at_ms + WAITS_MS {
            return Err(format!("review {review} had expired"));
        }
        Ok(parked)
    }
}

/// What was shown of a review, as an approval's entry or a showing has it.
struct Showing {
    at_ms: u64,
    facts: Vec<(String, u64)>,
    waives: Vec<String>,
    pact: u64,
}

impl Model {
    /// Whether an approval with this showing does the action at this place and time; with what, or why not.
    fn approve(
        &self,
        review: u64,
        by: &str,
        showing: &Showing,
        until_ms: u64,
        (position, now_ms): (u64, u64),
    ) -> Result<super::rules::Outcome, String> {
        let parked = self.reviews.waiting(review, position, now_ms)?;
        let deed = Deed::of_entry(&parked.entry, &parked.body)?;
        if deed.members().contains(&by) {
            return Err(format!("{by} acts in it"));
        }
        if now_ms > until_ms.min(showing.at_ms + APPROVAL_MS) {
            return Err("the approval came too late".to_owned());
        }
        if self.pact_at(position).is_none_or(|(version, _)| version != showing.pact) {
            return Err("the pact is another".to_owned());
        }
        let approved = Approved { shown_at_ms: showing.at_ms, facts: &showing.facts, waives: &showing.waives };
        let expected = outcome(self, position, &deed, Some(&approved), now_ms);
        if expected.verdict != Verdict::Committed {
            return Err(format!("it would be {:?} {:?}", expected.code, expected.failed));
        }
        self.check_drift(&deed, showing, position)?;
        Ok(expected)
    }

    /// What a refund's conditions and effects read must be as it was shown.
    fn check_drift(&self, deed: &Deed<'_>, showing: &Showing, position: u64) -> Result<(), String> {
        let account = format!("Account::\"{}\"", deed.body["params"]["account"].as_str().unwrap_or_default());
        let agents = deed.members().into_iter().map(|agent| (format!("Agent::\"{agent}\""), &["roles"][..]));
        let read = agents.chain([(account, &["status", "balance"][..])]);
        for (fact, attributes) in read {
            let shown = showing.facts.iter().find(|(shown, _)| *shown == fact);
            let (_, version) = shown.ok_or_else(|| format!("{fact} was not shown"))?;
            let was = self.version_of(&fact, *version).and_then(|version| version.value.as_ref());
            let is = self.value_at(&fact, position);
            let differs = |name: &&str| was.map(|was| &was[*name]) != is.map(|is| &is[*name]);
            if let Some(name) = attributes.iter().find(|name| differs(name)) {
                return Err(format!("{fact}.{name} is not as it was shown"));
            }
        }
        Ok(())
    }

    /// Gives the verdict: committed, or rejected where the approval was void.
    pub(super) fn replay_approval(
        &mut self,
        index: u64,
        time_ms: u64,
        entry: &LogEntry,
    ) -> Result<&'static str, String> {
        let (leaf, payload) = (&entry.leaf, &entry.payload);
        let review = number(leaf, "review")?;
        let fact = |shown: &Json| Some((shown["fact"].as_str()?.to_owned(), shown["version"].as_u64()?));
        let showing = Showing {
            at_ms: number(payload, "shown_at")?,
            facts: items(&payload["shown"]).filter_map(fact).collect(),
            waives: items(&payload["waives"]).filter_map(|id| Some(id.as_str()?.to_owned())).collect(),
            pact: number(&leaf["pact"], "version")?,
        };
        let (by, until_ms) = (text(leaf, "by")?, number(payload, "until")?);
        let parked = self.reviews.waiting(review, index, time_ms)?;
        let expected = match self.approve(review, by, &showing, until_ms, (index, time_ms)) {
            Ok(_) if leaf["verdict"] == "rejected" => return Err("it is void, and nothing was in its way".to_owned()),
            Err(_) if leaf["verdict"] == "rejected" && entry.payload.get("writes").is_none() => return Ok("rejected"),
            expected => expected?,
        };
        let is_same = payload["body"] == parked.entry.payload["body"] && payload["agent"] == parked.entry.leaf["by"];
        let compared =
            if is_same { compare(&expected, "approval", entry) } else { Err("it does another action".to_owned()) };
        self.reviews.ended.insert(review, (index, true));
        self.take(index, &expected, compared, entry).map(|()| "committed")
    }

    pub(super) fn replay_expiry(&mut self, index: u64, time_ms: u64, entry: &LogEntry) -> Result<(), String> {
        let review = number(&entry.leaf, "review")?;
        let at_ms = self.reviews.parked.get(&review).map(|parked| parked.at_ms);
        let at_ms = at_ms.ok_or_else(|| format!("entry {review} parked nothing"))?;
        if let Some((ended, _)) = self.reviews.ended.get(&review) {
            return Err(format!("review {review} ended in entry {ended}"));
        }
        if time_ms <= at_ms + WAITS_MS || text(&entry.leaf, "by")? != "countersign" {
            return Err(format!("review {review} had not expired"));
        }
        self.reviews.ended.insert(review, (index, true));
        Ok(())
    }

    pub(super) fn replay_refusal(&mut self, index: u64, time_ms: u64, entry: &LogEntry) -> Result<(), String> {
        let review = number(&entry.leaf, "review")?;
        self.reviews.waiting(review, index, time_ms)?;
        self.reviews.ended.insert(review, (index, true));
        Ok(())
    }

    /// Whether what a reviewer was shown is what was so.
    pub(super) fn check_shown(&self, review: u64, answer: &Answered) -> Result<(), String> {
        let Answered::ReviewShown { position, at_ms, facts, waives } = answer else { return Ok(()) };
        let parked = self.reviews.waiting(review, *position, *at_ms)?;
        if let Some((fact, version)) = facts.iter().find(|(fact, version)| self.version_at(fact, *position) != *version)
        {
            return Err(format!("it was shown version {version} of {fact}, which was another"));
        }
        let deed = Deed::of_entry(&parked.entry, &parked.body)?;
        let approved = Approved { shown_at_ms: *at_ms, facts, waives: &[] };
        let expected = outcome(self, *position, &deed, Some(&approved), *at_ms);
        let expected = if expected.verdict == Verdict::Review { expected.failed } else { Vec::new() };
        if expected == *waives {
            Ok(())
        } else {
            Err(format!("it was shown that {waives:?} would be waived, not {expected:?}"))
        }
    }

    /// Whether a review could rightly not be decided at this position.
    pub(super) fn is_refused(
        &self,
        operation: &Operation,
        why: ReviewRefused,
        showing: Option<&Answered>,
        position: u64,
    ) -> bool {
        let (review, until_ms) = match operation.asked {
            Asked::Approve { review, until_ms, .. } => (review, until_ms),
            Asked::Refuse { review } => (review, u64::MAX),
            _ => return false,
        };
        let parked = self.reviews.parked.get(&review).filter(|_| review < position);
        let [_, latest_ms] = self.times_at(position);
        let has_expired = |parked: &Parked| latest_ms > parked.at_ms + WAITS_MS;
        match why {
            ReviewRefused::NotFound => parked.is_none_or(has_expired),
            ReviewRefused::Expired => parked.is_some_and(has_expired),
            ReviewRefused::Closed => self.reviews.ended.get(&review).is_some_and(|(entry, _)| *entry < position),
            ReviewRefused::Own => parked.is_some_and(|parked| {
                let deed = Deed::of_entry(&parked.entry, &parked.body);
                deed.is_ok_and(|deed| deed.members().contains(&operation.by.as_str()))
            }),
            ReviewRefused::Late | ReviewRefused::Void => {
                let Some(Answered::ReviewShown { position: shown, at_ms, facts, waives }) = showing else {
                    return false;
                };
                let pact = self.pact_at(*shown).map_or(0, |(version, _)| version);
                let showing = Showing { at_ms: *at_ms, facts: facts.clone(), waives: waives.clone(), pact };
                if why == ReviewRefused::Late {
                    return latest_ms > until_ms.min(at_ms + APPROVAL_MS);
                }
                let void =
                    |now_ms: u64| self.approve(review, &operation.by, &showing, until_ms, (position, now_ms)).is_err();
                self.times_at(position).into_iter().any(void)
            }
        }
    }
}
