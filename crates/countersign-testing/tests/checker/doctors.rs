//! What can be wrong with any history: entries, versions, answers, observations.

use crate::checker::{Doctor, body, committed, find, index_of, renumber, tell};
use countersign_testing::checker::{Answered, Asked, LogEntry, Operation};
use serde_json::json;

/// Each doctors one place.
pub const DOCTORS: &[(&str, Doctor)] = &[
    ("an acknowledged entry is cut off", |history| {
        let last = history.entries.len() as u64 - 1;
        history.operations.iter().find(|operation| index_of(&operation.answer) == Some(last))?;
        history.entries.pop();
        Some(())
    }),
    ("an entry is dropped and the rest moves up", |history| {
        let told =
            |at: usize| history.operations.iter().any(|operation| index_of(&operation.answer) == Some(at as u64));
        let at = (0..history.entries.len()).find(|at| committed(&history.entries[*at]) && told(*at))?;
        history.entries.remove(at);
        renumber(history, at);
        Some(())
    }),
    ("two entries are swapped", |history| {
        let at = (1..history.entries.len()).find(|at| {
            let facts = |entry: &LogEntry| entry.payload["writes"][0]["fact"].clone();
            committed(&history.entries[*at]) && facts(&history.entries[*at]) == facts(&history.entries[at - 1])
        })?;
        history.entries.swap(at - 1, at);
        for (index, entry) in history.entries.iter_mut().enumerate() {
            entry.leaf["index"] = json!(index);
        }
        Some(())
    }),
    ("a rejection becomes a commit", |history| {
        let at = find(history, |entry| entry.leaf["verdict"] == "rejected")?;
        tell(history, at, "committed");
        Some(())
    }),
    ("a commit becomes a rejection", |history| {
        let at = find(history, |entry| committed(entry) && entry.leaf["kind"] == "action")?;
        tell(history, at, "rejected");
        history.entries[at].payload["writes"] = json!([]);
        history.entries[at].leaf["writes"] = json!([]);
        Some(())
    }),
    ("a rejection names another reason", |history| {
        let at = find(history, |entry| entry.payload["decision"]["blocked"]["code"] == "precondition_failed")?;
        history.entries[at].payload["decision"]["blocked"]["code"] = json!("not_allowed");
        Some(())
    }),
    ("a failed precondition is left out", |history| {
        let at = find(history, |entry| entry.payload["decision"]["blocked"]["failed"].is_array())?;
        history.entries[at].payload["decision"]["blocked"]["failed"].as_array_mut()?.pop();
        Some(())
    }),
    ("a version is skipped", |history| {
        let at = find(history, |entry| committed(entry) && entry.payload["writes"].is_array())?;
        let entry = &mut history.entries[at];
        let version = entry.payload["writes"][0]["version"].as_u64()?;
        entry.payload["writes"][0]["version"] = json!(version + 1);
        entry.leaf["writes"][0][1] = json!(version + 1);
        Some(())
    }),
    ("another value is written", |history| {
        let at = find(history, |entry| committed(entry) && entry.payload["writes"][0]["value"]["balance"].is_i64())?;
        let balance = &mut history.entries[at].payload["writes"][0]["value"]["balance"];
        *balance = json!(balance.as_i64()? + 1);
        Some(())
    }),
    ("the fact had been frozen before the effect", |history| {
        let at = find(history, |entry| {
            committed(entry) && entry.leaf["kind"] == "action" && body(entry)["action"] == "refund"
        })?;
        let fact = history.entries[at].payload["writes"][0]["fact"].clone();
        let before = (0..at).rev().find(|before| history.entries[*before].payload["writes"][0]["fact"] == fact)?;
        let (entry, operations) = (&mut history.entries[before], &mut history.operations);
        if entry.leaf["kind"] != "feed" {
            return None;
        }
        entry.payload["writes"][0]["value"]["status"] = json!("frozen");
        for operation in operations {
            match (&mut operation.asked, index_of(&operation.answer)) {
                (Asked::Feed { value: Some(value), .. }, Some(index)) if index == before as u64 => {
                    value["status"] = json!("frozen");
                }
                _ => {}
            }
        }
        Some(())
    }),
    ("a gap is made smaller", |history| {
        let at = find(history, |entry| entry.payload["decision"]["gap_ms"].as_u64().is_some_and(|gap| gap > 0))?;
        history.entries[at].payload["decision"]["gap_ms"] = json!(0);
        Some(())
    }),
    ("a charge is left out", |history| {
        let at = find(history, |entry| entry.payload["charges"].is_array())?;
        history.entries[at].payload.as_object_mut()?.remove("charges");
        Some(())
    }),
    ("time goes back", |history| {
        let last = history.entries.get_mut(1..)?.last_mut()?;
        last.leaf["time"] = json!(1);
        Some(())
    }),
    ("an answer told another verdict", |history| {
        let told = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let mut verdicts = told.filter_map(|answer| match answer {
            Answered::Entered { verdict: Some(verdict), .. } => Some(verdict),
            _ => None,
        });
        let verdict = verdicts.next()?;
        *verdict = if verdict == "committed" { "rejected" } else { "committed" }.to_owned();
        Some(())
    }),
    ("an answer named another entry", |history| {
        let mut told = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let index = told.find_map(|answer| match answer {
            Answered::Entered { index, .. } => Some(index),
            _ => None,
        })?;
        *index += 1;
        Some(())
    }),
    ("an entry was asked for by nobody", |history| {
        // An action's body is its own. A halt like another that was never answered could have been that one.
        let is_action = |operation: &Operation| matches!(operation.asked, Asked::Act { .. });
        let answered = |operation: &Operation| is_action(operation) && index_of(&operation.answer).is_some();
        let at = history.operations.iter().position(answered)?;
        history.operations.remove(at);
        Some(())
    }),
    ("an action was decided twice", |history| {
        let at = find(history, |entry| entry.leaf["kind"] == "action")?;
        let (mut entry, time) = (history.entries[at].clone(), history.entries.last()?.leaf["time"].clone());
        entry.leaf["index"] = json!(history.entries.len());
        entry.leaf["time"] = time;
        history.entries.push(entry);
        Some(())
    }),
    ("an operation overtook one that had been answered", |history| {
        let end = history.operations.iter().filter_map(|operation| operation.ended).max()?;
        let largest = history.operations.iter().filter_map(|operation| index_of(&operation.answer)).max()?;
        let operation = history
            .operations
            .iter_mut()
            .find(|operation| index_of(&operation.answer).is_some_and(|index| index < largest))?;
        (operation.started, operation.ended) = (end + 1, Some(end + 2));
        Some(())
    }),
    ("an observation was never given", |history| {
        let at = find(history, |entry| entry.payload["observed"].is_array())?;
        let at_ms = history.entries[at].payload["observed"][0]["at"].as_u64()?;
        history.entries[at].payload["observed"][0]["at"] = json!(at_ms + 1);
        Some(())
    }),
    ("something not durable was shown", |history| {
        let size = history.entries.len() as u64;
        let mut shown = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let position = shown.find_map(|answer| match answer {
            Answered::Observed { position, .. } => Some(position),
            _ => None,
        })?;
        *position = size + 1;
        Some(())
    }),
    ("another value was shown", |history| {
        let mut shown = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let version = shown.find_map(|answer| match answer {
            Answered::Observed { facts, .. } => facts.first_mut().map(|fact| &mut fact.version),
            _ => None,
        })?;
        *version += 1;
        Some(())
    }),
    ("a payload is gone", |history| {
        let at = find(history, |entry| entry.leaf["kind"] == "feed" && !entry.is_erased)?;
        history.entries[at].is_erased = true;
        Some(())
    }),
    ("an erased payload is back", |history| {
        let at = find(history, |entry| entry.is_erased)?;
        history.entries[at].is_erased = false;
        Some(())
    }),
    ("a feed was refused without reason", |history| {
        let operation = history.operations.iter_mut().find(|operation| {
            matches!(
                (&operation.asked, &operation.answer),
                (Asked::Feed { if_match: Some(_), .. }, Some(Answered::Entered { .. }))
            )
        })?;
        operation.answer = Some(Answered::VersionMismatch { current: 9_999 });
        Some(())
    }),
    ("a repeat named an entry that is not its own", |history| {
        let mut told = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let index = told.find_map(|answer| match answer {
            Answered::Repeated { index } => Some(index),
            _ => None,
        })?;
        *index -= 1;
        Some(())
    }),
    ("a group failed at another action", |history| {
        let at = find(history, |entry| entry.payload["failed"].as_u64().is_some_and(|failed| failed > 0))?;
        history.entries[at].payload["failed"] = json!(0);
        Some(())
    }),
    ("an action came in a batch that does not list it", |history| {
        let at = find(history, |entry| committed(entry) && entry.leaf["batch"].is_null())?;
        let batch = find(history, |entry| entry.leaf["kind"] == "batch").filter(|batch| *batch < at)?;
        history.entries[at].leaf["batch"] = json!(batch);
        Some(())
    }),
    ("a part of a group is told as rejected", |history| {
        let batch = find(history, |entry| entry.payload["atomic"] == true)?;
        history.entries[batch + 1].leaf["verdict"] = json!("rejected");
        Some(())
    }),
    ("a pact version is skipped", |history| {
        let at = find(history, |entry| entry.leaf["kind"] == "pact")?;
        history.entries[at].leaf["pact"]["version"] = json!(7);
        Some(())
    }),
];
