//! Whether every answer that was given is borne out by the log, and every entry was asked for.

use super::authority::role_to_feed;
use super::deed::signer;
use super::history::{Answered, Asked, LogEntry, Operation, Shown};
use super::model::Model;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Judges all answers.
pub(super) fn check(operations: &[Operation], entries: &[LogEntry], model: &Model, complaints: &mut Vec<String>) {
    let operations = &one_by_one(operations);
    let judge = Judge { operations, entries, model };
    for (at, operation) in operations.iter().enumerate() {
        if let Err(complaint) = judge.operation(operation) {
            complaints.push(format!("operation {at} by {}: {complaint}", operation.by));
        }
    }
    complaints.extend(judge.real_time());
    complaints.extend(judge.asked_for());
    complaints.extend(judge.observations());
}

/// The actions of batches as operations of their own. A group that was rejected stays one, and so may one of which the outcome is unknown.
fn one_by_one(operations: &[Operation]) -> Vec<Operation> {
    let mut each = Vec::new();
    for operation in operations {
        let Asked::Many { bodies, atomic } = &operation.asked else {
            each.push(operation.clone());
            continue;
        };
        let answers = match &operation.answer {
            Some(Answered::Many(answers)) => answers.clone(),
            None => vec![None; bodies.len()],
            Some(_) => {
                each.push(operation.clone());
                continue;
            }
        };
        for (body, answer) in bodies.iter().zip(answers) {
            let (asked, ended) = (Asked::Act { body: body.clone() }, operation.ended.filter(|_| answer.is_some()));
            each.push(Operation { asked, ended, answer, ..operation.clone() });
        }
        if *atomic && operation.answer.is_none() {
            each.push(operation.clone());
        }
    }
    each
}

struct Judge<'a> {
    operations: &'a [Operation],
    entries: &'a [LogEntry],
    model: &'a Model,
}

/// The entry that an operation became, by its answer.
fn index_of(operation: &Operation) -> Option<u64> {
    match operation.answer {
        Some(Answered::Entered { index, .. }) => Some(index),
        _ => None,
    }
}

impl Judge<'_> {
    fn entry(&self, index: u64) -> Result<&LogEntry, String> {
        let entry = usize::try_from(index).ok().and_then(|at| self.entries.get(at));
        entry.ok_or_else(|| format!("it was told entry {index}, and the log has only {}", self.entries.len()))
    }

    fn operation(&self, operation: &Operation) -> Result<(), String> {
        let Some(answer) = &operation.answer else { return Ok(()) };
        match answer {
            Answered::Entered { index, .. } => {
                let entry = self.entry(*index)?;
                is_of(operation, entry)?;
                is_told(answer, entry)
            }
            Answered::Repeated { index } => self.repeated(operation, *index, true),
            Answered::KeyReused { index } => self.repeated(operation, *index, false),
            Answered::Observed { position, facts, .. } => self.shown(operation, *position, facts),
            Answered::ReviewShown { position, .. } => {
                self.is_durable(operation, *position)?;
                let Asked::Show { review } = operation.asked else { return Err("nobody asked for that".to_owned()) };
                self.model.check_shown(review, answer)
            }
            _ => self.refused(operation, answer),
        }
    }

    fn repeated(&self, operation: &Operation, index: u64, same: bool) -> Result<(), String> {
        let entry = self.entry(index)?;
        let body = match &operation.asked {
            Asked::Act { body } => body,
            // The first whose key was used in that entry is the one that is in the way.
            Asked::Many { bodies, .. } => {
                let uses = |body: &&String| {
                    let uses = self.model.entries_of_key(&operation.by, &key_of(body));
                    uses.iter().any(|(used, _)| *used == index)
                };
                bodies.iter().find(uses).ok_or("no action of the group was decided there")?
            }
            _ => return Err("only actions repeat".to_owned()),
        };
        let key = key_of(body);
        // Once a person has decided a parked action, its key answers with that.
        let (decided, reviews) = (self.model.reviews.ended_by(index).filter(|_| same), &self.model.reviews);
        let made = decided.unwrap_or(index);
        if !self.model.entries_of_key(&operation.by, &key).iter().any(|(used, _)| *used == made) {
            return Err(format!("entry {index} was not made under its key"));
        }
        let (earliest, _) = self.window(operation);
        if same && decided.is_none() && reviews.decided_in(index, earliest).is_some() {
            return Err(format!("it was told entry {index}, which a person had decided on by then"));
        }
        let entry = if decided.is_some() { self.entry(made)? } else { entry };
        let is_in_group = || {
            let grouped = entry.payload["actions"].as_array().into_iter().flatten();
            grouped.into_iter().any(|action| action["body"].as_str() == Some(body))
        };
        if (entry.payload["body"].as_str() == Some(body) || is_in_group()) != same {
            return Err(format!("whether entry {index} holds the same body was told wrongly"));
        }
        Ok(())
    }

    /// What was shown was durable, and no older than what had been answered before.
    fn is_durable(&self, operation: &Operation, position: u64) -> Result<(), String> {
        if position > self.entries.len() as u64 {
            return Err(format!("it was shown position {position}, which was not durable"));
        }
        let (earliest, _) = self.window(operation);
        if position < earliest {
            return Err(format!("it was shown position {position}, although {earliest} was known before"));
        }
        Ok(())
    }

    /// What was shown is what was so at the position shown, as far as the agent may see it.
    fn shown(&self, operation: &Operation, position: u64, facts: &[Shown]) -> Result<(), String> {
        self.is_durable(operation, position)?;
        for Shown { fact, version, value, withheld } in facts {
            let Some(granted) = self.model.granted(&operation.by, fact, position) else {
                return Err(format!("it was shown {fact}, which it may not see"));
            };
            let (expected, (seen, kept)) =
                (self.model.version_at(fact, position), self.model.seen(fact, granted, position));
            if *version != expected || *value != seen || *withheld != kept {
                return Err(format!("it was shown version {version} of {fact} at {position}, which was at {expected}"));
            }
        }
        Ok(())
    }

    /// The positions at which an operation without an entry may have been answered.
    fn window(&self, operation: &Operation) -> (u64, u64) {
        let before = self.operations.iter().filter(|other| other.ended.is_some_and(|ended| ended < operation.started));
        let earliest = before.filter_map(index_of).max().map_or(0, |index| index + 1);
        let ended = operation.ended.unwrap_or(u64::MAX);
        let after = self.operations.iter().filter(|other| other.started > ended);
        let latest = after.filter_map(index_of).min().unwrap_or(self.entries.len() as u64);
        (earliest, latest)
    }

    /// A refusal must have been right at some position at which it may have been given.
    fn refused(&self, operation: &Operation, answer: &Answered) -> Result<(), String> {
        let (earliest, latest) = self.window(operation);
        let model = self.model;
        let was_right = |position: u64| match (&operation.asked, answer) {
            (Asked::Feed { fact, if_match: Some(asked), .. }, Answered::VersionMismatch { current }) => {
                asked != current && model.version_at(fact, position) == *current
            }
            (Asked::Feed { fact, .. }, Answered::UnknownType) => {
                !fact.starts_with("Agent::") && model.pact_at(position).is_none()
            }
            (Asked::Publish { version, .. }, Answered::NotNextVersion) => {
                model.pact_at(position).map_or(0, |(current, _)| current) + 1 != *version
            }
            (Asked::Erase { entries }, Answered::CurrentValue { index, fact }) => {
                entries.contains(index) && model.at(fact, position).is_some_and(|version| version.entry == *index)
            }
            (Asked::Erase { entries }, Answered::InForce { index }) => {
                let is_right = |now_ms| model.is_in_force(*index, position, now_ms);
                entries.contains(index) && model.times_at(position).into_iter().any(is_right)
            }
            (Asked::Observe { facts }, Answered::NotObservable { facts: refused }) => {
                let is_hidden = |fact: &&String| model.granted(&operation.by, fact, position).is_none();
                !refused.is_empty() && facts.iter().filter(is_hidden).eq(refused)
            }
            (Asked::Many { bodies, .. }, Answered::GroupRepeats) => {
                let known = |now_ms| {
                    let is_known = |body: &&String| model.is_key_known(&operation.by, &key_of(body), position, now_ms);
                    bodies.iter().filter(is_known).count()
                };
                model.times_at(position).into_iter().any(|now_ms| (1..bodies.len()).contains(&known(now_ms)))
            }
            (asked, Answered::NotAuthorised) => {
                let may = |now_ms| {
                    model.may(&operation.by, role(asked), operation.signed_with.as_deref(), (position, now_ms))
                };
                model.times_at(position).into_iter().any(|now_ms| !may(now_ms))
            }
            (_, Answered::ReviewRefused(why)) => model.is_refused(operation, *why, self.showing(operation), position),
            (Asked::Resume { scope }, Answered::NotHalted) => !model.is_halted(scope, position),
            (Asked::ConfirmClock, Answered::ClockSteady) => true,
            _ => false,
        };
        if (earliest..=latest).any(was_right) {
            return Ok(());
        }
        Err(format!("it was refused ({answer:?}), which was right nowhere between {earliest} and {latest}"))
    }

    /// What was shown to the reviewer who approves.
    fn showing(&self, operation: &Operation) -> Option<&Answered> {
        let Asked::Approve { review, shown_at_ms, .. } = operation.asked else { return None };
        let answers = self.operations.iter().filter(|other| other.by == operation.by);
        let answers = answers.filter(|other| other.asked == Asked::Show { review });
        answers
            .filter_map(|other| other.answer.as_ref())
            .find(|answer| matches!(answer, Answered::ReviewShown { at_ms, .. } if *at_ms == shown_at_ms))
    }

    /// What began after an answer stands behind what was answered.
    fn real_time(&self) -> Vec<String> {
        let mut ended: Vec<(u64, u64)> =
            self.operations.iter().filter_map(|operation| Some((operation.ended?, index_of(operation)?))).collect();
        ended.sort_unstable();
        // The largest index answered up to each moment.
        let mut largest = 0;
        for (_, index) in &mut ended {
            largest = largest.max(*index);
            *index = largest;
        }
        let late = self.operations.iter().filter_map(|operation| {
            let index = index_of(operation)?;
            let known = ended.partition_point(|(moment, _)| *moment < operation.started).checked_sub(1);
            let (_, largest) = known.and_then(|at| ended.get(at))?;
            (index <= *largest).then(|| format!("entry {index} was asked for after entry {largest} had been answered"))
        });
        late.collect()
    }

    /// Every entry of a client was asked for, and no two answers name the same one.
    fn asked_for(&self) -> Vec<String> {
        let mut claimed: BTreeMap<u64, usize> = BTreeMap::new();
        for index in self.operations.iter().filter_map(index_of) {
            *claimed.entry(index).or_default() += 1;
        }
        let twice = claimed.iter().filter(|(_, count)| **count > 1);
        let mut complaints: Vec<String> = twice.map(|(index, _)| format!("entry {index} was answered twice")).collect();
        // What may have an entry that no answer names: what was never answered, and approvals that were void.
        let may_have_entry = |operation: &&Operation| {
            let is_void = matches!(operation.answer, Some(Answered::ReviewRefused(_)));
            operation.answer.is_none() || is_void && matches!(operation.asked, Asked::Approve { .. })
        };
        let mut open: Vec<&Operation> = self.operations.iter().filter(may_have_entry).collect();
        for (index, entry) in (0u64..).zip(self.entries).filter(|(index, _)| !claimed.contains_key(index)) {
            // What the gate enters by itself: the beginning, a step of the wall clock, reviews that ran out, and what it denied.
            let is_own = match entry.leaf["kind"].as_str() {
                Some("genesis") => index == 0,
                // The admin that a log begins with.
                Some("feed") => index == 1 && entry.leaf["by"] == "countersign",
                Some("clock") => entry.payload["confirmed"] == false,
                // An action of it was asked for, and says so.
                Some("batch") => self.entry(index + 1).is_ok_and(|next| next.leaf["batch"] == index),
                Some("expiry" | "denials") => entry.leaf["by"] == "countersign",
                _ => false,
            };
            if is_own {
                continue;
            }
            match open.iter().position(|operation| is_of(operation, entry).is_ok()) {
                Some(at) => drop(open.swap_remove(at)),
                None => complaints.push(format!("entry {index} was asked for by nobody: {}", entry.leaf["kind"])),
            }
        }
        complaints
    }

    /// No action rests on an observation that its agent was not given.
    fn observations(&self) -> Vec<String> {
        let was_given = |agent: &Json, observed: &Json| {
            self.operations.iter().any(|operation| match &operation.answer {
                Some(Answered::Observed { at_ms, facts, .. }) if *agent == operation.by.as_str() => {
                    observed["at"] == *at_ms
                        && facts.iter().any(|shown| {
                            observed["fact"] == shown.fact.as_str() && observed["version"] == shown.version
                        })
                }
                _ => false,
            })
        };
        let mut complaints = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let grouped = entry.payload["actions"].as_array().into_iter().flatten().map(|action| &action["observed"]);
            let lists = grouped.chain([&entry.payload["observed"]]);
            for observed in lists.filter_map(Json::as_array).flatten() {
                if entry.leaf["kind"] != "approval" && !was_given(&entry.leaf["by"], observed) {
                    complaints.push(format!("entry {index} rests on an observation that was never given: {observed}"));
                }
            }
        }
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.leaf["kind"] == "approval") {
            if !self.operations.iter().any(|operation| was_shown(self.model, operation, entry)) {
                complaints.push(format!("entry {index} approves what its reviewer was never shown"));
            }
        }
        complaints
    }
}

/// Whether an operation showed a reviewer what an approval says it was shown.
fn was_shown(model: &Model, operation: &Operation, entry: &LogEntry) -> bool {
    let (leaf, payload) = (&entry.leaf, &entry.payload);
    let Some(Answered::ReviewShown { position, at_ms, facts, waives }) = &operation.answer else { return false };
    let shown = payload["shown"].as_array().into_iter().flatten();
    let shown: Vec<(&str, u64)> =
        shown.filter_map(|shown| Some((shown["fact"].as_str()?, shown["version"].as_u64()?))).collect();
    let waived = payload["waives"].as_array().into_iter().flatten().filter_map(Json::as_str);
    leaf["by"] == operation.by.as_str()
        && matches!(operation.asked, Asked::Show { review } if leaf["review"] == review)
        && model.pact_at(*position).is_some_and(|(version, _)| leaf["pact"]["version"] == version)
        && payload["shown_at"] == *at_ms
        && facts.iter().map(|(fact, version)| (fact.as_str(), *version)).eq(shown)
        && waives.iter().map(String::as_str).eq(waived)
}

/// The role that it takes to ask for something.
fn role(asked: &Asked) -> &'static str {
    match asked {
        Asked::Feed { fact, .. } => role_to_feed(fact),
        Asked::Publish { .. } => "publisher",
        Asked::Approve { .. } | Asked::Refuse { .. } | Asked::Show { .. } => "reviewer",
        _ => "admin",
    }
}

fn key_of(body: &str) -> String {
    let body: Json = serde_json::from_str(body).unwrap_or_default();
    body["idempotency_key"].as_str().unwrap_or_default().to_owned()
}

/// Whether an entry is the one that an operation asked for.
fn is_of(operation: &Operation, entry: &LogEntry) -> Result<(), String> {
    let (leaf, payload) = (&entry.leaf, &entry.payload);
    let is_same = match &operation.asked {
        Asked::Act { body } => payload["body"].as_str() == Some(body),
        Asked::Many { bodies, .. } => {
            let grouped = payload["actions"].as_array().into_iter().flatten().map(|action| action["body"].as_str());
            leaf["kind"] == "group" && grouped.eq(bodies.iter().map(|body| Some(body.as_str())))
        }
        Asked::Feed { fact, value, if_match } => {
            let write = &payload["writes"][0];
            let fits = if_match.is_none_or(|version| write["version"] == version + 1);
            leaf["kind"] == "feed" && write["fact"] == fact.as_str() && write.get("value") == value.as_ref() && fits
        }
        Asked::Publish { version, source } => {
            leaf["pact"]["version"] == *version && payload["source"] == source.as_str()
        }
        Asked::Erase { entries } => leaf["erased"] == Json::from(entries.clone()),
        Asked::Halt { scope } => leaf["kind"] == "halt" && leaf["scope"] == scope.as_str(),
        Asked::Resume { scope } => leaf["kind"] == "resume" && leaf["scope"] == scope.as_str(),
        Asked::ConfirmClock => leaf["kind"] == "clock" && payload["confirmed"] == true,
        Asked::Rotate { log_key } => leaf["kind"] == "rotation" && leaf["log_key"] == log_key.as_str(),
        Asked::Approve { review, shown_at_ms, until_ms } => {
            leaf["kind"] == "approval"
                && leaf["review"] == *review
                && payload["shown_at"] == *shown_at_ms
                && payload["until"] == *until_ms
        }
        Asked::Refuse { review } => leaf["kind"] == "refusal" && leaf["review"] == *review,
        Asked::Show { .. } | Asked::Observe { .. } => false,
    };
    let is_same = is_same && signer(payload) == operation.signed_with.as_deref();
    if is_same && leaf["by"] == operation.by.as_str() {
        return Ok(());
    }
    Err(format!("entry {} is not what it asked for, but {leaf}", leaf["index"]))
}

/// Whether an answer says what the entry says.
fn is_told(answer: &Answered, entry: &LogEntry) -> Result<(), String> {
    let Answered::Entered { index, verdict, code, failed, wrote } = answer else { return Ok(()) };
    let decision = &entry.payload["decision"];
    let strings = |list: &Json, member: &str| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten().filter_map(|item| item[member].as_str());
        texts.map(str::to_owned).collect()
    };
    let written = entry.payload["writes"].as_array().into_iter().flatten();
    let written: Vec<(String, u64)> =
        written.filter_map(|write| Some((write["fact"].as_str()?.to_owned(), write["version"].as_u64()?))).collect();
    let is_same = decision["verdict"].as_str() == verdict.as_deref()
        && decision["blocked"]["code"].as_str() == code.as_deref()
        && strings(&decision["blocked"]["failed"], "precondition") == *failed
        && written == *wrote;
    if is_same {
        return Ok(());
    }
    Err(format!("entry {index} says {} and writes {written:?}, but it was told {answer:?}", decision))
}
