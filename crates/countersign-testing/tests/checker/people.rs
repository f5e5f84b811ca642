//! What can be wrong about people: who signed, on whose behalf, what a reviewer was shown and approved, what an agent saw.

use crate::checker::{Doctor, committed, find, index_of, tell};
use countersign_testing::checker::{Answered, Asked, LogEntry, Operation, ReviewRefused};
use countersign_testing::identities::key_name;
use countersign_testing::sim::History;
use serde_json::json;

/// Each doctors one place.
pub const DOCTORS: &[(&str, Doctor)] = &[
    ("an approval waives what was not shown", |history| {
        let at = find(history, is_approval)?;
        let payload = &mut history.entries[at].payload;
        payload["waives"].as_array_mut()?.push(json!("within-limit"));
        Some(())
    }),
    ("an approval says that it waived nothing", |history| {
        let at = find(history, is_approval)?;
        history.entries[at].payload["decision"]["waived_by"]["preconditions"] = json!([]);
        Some(())
    }),
    ("an approval rests on a showing that never was", |history| {
        let at = find(history, is_approval)?;
        let shown_at = history.entries[at].payload["shown_at"].as_u64()? + 1;
        history.entries[at].payload["shown_at"] = json!(shown_at);
        match &mut operation_of(history, at)?.asked {
            Asked::Approve { shown_at_ms, .. } => *shown_at_ms = shown_at,
            _ => return None,
        }
        Some(())
    }),
    ("an approval came after its time", |history| {
        let at = find(history, is_approval)?;
        history.entries[at].payload["until"] = json!(1);
        match &mut operation_of(history, at)?.asked {
            Asked::Approve { until_ms, .. } => *until_ms = 1,
            _ => return None,
        }
        Some(())
    }),
    ("the agent approved its own action", |history| {
        let at = find(history, is_approval)?;
        let entry = &mut history.entries[at];
        let agent = entry.payload["agent"].clone();
        entry.leaf["by"] = agent.clone();
        entry.payload["decision"]["waived_by"]["reviewer"] = agent.clone();
        operation_of(history, at)?.by = agent.as_str()?.to_owned();
        // As if it had been shown to the agent, so that only who approves speaks against it.
        for operation in &mut history.operations {
            if matches!(operation.answer, Some(Answered::ReviewShown { .. })) {
                operation.by = agent.as_str()?.to_owned();
            }
        }
        Some(())
    }),
    ("an approval does another action", |history| {
        let at = find(history, is_approval)?;
        let body = history.entries[at].payload["body"].as_str()?.replace("\"pact\"", " \"pact\"");
        history.entries[at].payload["body"] = json!(body);
        Some(())
    }),
    ("a parked action is decided twice", |history| {
        let ended: Vec<usize> = (0..history.entries.len()).filter(|at| is_ended(&history.entries[*at])).collect();
        let (first, second) = (*ended.first()?, *ended.get(1)?);
        let decided = history.entries[first].leaf["review"].clone();
        history.entries[second].leaf["review"] = decided.clone();
        match &mut operation_of(history, second)?.asked {
            Asked::Approve { review, .. } | Asked::Refuse { review } => *review = decided.as_u64()?,
            _ => return None,
        }
        Some(())
    }),
    ("a reviewer was shown another version", |history| {
        let mut shown = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let facts = shown.find_map(|answer| match answer {
            Answered::ReviewShown { facts, .. } => Some(facts),
            _ => None,
        })?;
        facts.last_mut()?.1 += 1;
        Some(())
    }),
    ("a reviewer was shown less than would be waived", |history| {
        let mut shown = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let waives = shown.find_map(|answer| match answer {
            Answered::ReviewShown { waives, .. } if !waives.is_empty() => Some(waives),
            _ => None,
        })?;
        waives.clear();
        Some(())
    }),
    ("a reviewer was told that it acts itself", |history| {
        let refused = history.operations.iter_mut().find(
            |operation| matches!(operation.answer, Some(Answered::ReviewRefused(why)) if why != ReviewRefused::Own),
        )?;
        refused.answer = Some(Answered::ReviewRefused(ReviewRefused::Own));
        Some(())
    }),
    ("a repeated action was told that it still waits", |history| {
        // Only what somebody was told of is known to have been decided before the repetition was sent.
        let known = history.operations.iter().filter_map(|operation| index_of(&operation.answer)).max()?;
        let known = history.entries.get(..=usize::try_from(known).ok()?)?;
        let decided = known.iter().find(|entry| is_ended(entry))?.leaf["review"].as_u64()?;
        let parked = history.entries.get(usize::try_from(decided).ok()?)?;
        let (by, body) = (parked.leaf["by"].as_str()?.to_owned(), parked.payload["body"].as_str()?.to_owned());
        let last = history.operations.iter().filter_map(|operation| operation.ended).max()?;
        history.operations.push(Operation {
            by,
            signed_with: None,
            asked: Asked::Act { body },
            started: last + 1,
            ended: Some(last + 2),
            answer: Some(Answered::Repeated { index: decided }),
        });
        Some(())
    }),
    ("an action beyond its delegation committed", |history| {
        let at = find(history, |entry| {
            let code = entry.payload["decision"]["blocked"]["code"].as_str().unwrap_or_default();
            code.starts_with("delegation_")
        })?;
        tell(history, at, "committed");
        Some(())
    }),
    ("a member of a chain is not charged", |history| {
        let charges = |entry: &LogEntry| entry.payload["charges"].as_array().map_or(0, Vec::len);
        let at = find(history, |entry| charges(entry) > 1)?;
        history.entries[at].payload["charges"].as_array_mut()?.pop();
        Some(())
    }),
    ("a chain has another root", |history| {
        let at = find(history, |entry| committed(entry) && entry.payload["chain"].is_object())?;
        history.entries[at].payload["chain"]["root"] = json!("nobody");
        Some(())
    }),
    ("a hop was made wider", |history| {
        let at = find(history, |entry| entry.payload["chain"]["hops"][0]["limits"].is_object())?;
        history.entries[at].payload["chain"]["hops"][0].as_object_mut()?.remove("limits");
        Some(())
    }),
    ("an action that nobody signed committed", |history| {
        let at = find(history, |entry| committed(entry) && is_signed(entry) && entry.leaf["kind"] == "action")?;
        unsign(history, at)
    }),
    ("an operator's entry is not signed", |history| {
        let at = find(history, |entry| is_signed(entry) && entry.leaf["kind"] == "feed")?;
        unsign(history, at)
    }),
    ("an agent signed with somebody else's key", |history| {
        let at = find(history, |entry| committed(entry) && is_signed(entry) && entry.leaf["kind"] == "action")?;
        sign_with(history, at, key_name("mallory", 0))
    }),
    ("an operator signed with somebody else's key", |history| {
        let at = find(history, |entry| is_signed(entry) && entry.leaf["kind"] == "pact")?;
        sign_with(history, at, key_name("mallory", 0))
    }),
    ("an operator did what takes a role that it does not have", |history| {
        let at = find(history, |entry| {
            is_signed(entry) && ["halt", "erasure"].iter().any(|kind| entry.leaf["kind"] == *kind)
        })?;
        history.entries[at].leaf["by"] = json!("vera");
        operation_of(history, at)?.by = "vera".to_owned();
        sign_with(history, at, key_name("vera", 0))
    }),
    ("an operator was refused what it may do", |history| {
        let operation = history.operations.iter_mut().find(|operation| {
            matches!((&operation.asked, &operation.answer), (Asked::ConfirmClock, Some(Answered::ClockSteady)))
                && (operation.by != "operator" || operation.signed_with == Some(key_name("operator", 0)))
        })?;
        operation.answer = Some(Answered::NotAuthorised);
        Some(())
    }),
    ("a withheld attribute was shown", |history| {
        let mut answers = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let shown = answers.find_map(|answer| match answer {
            Answered::Observed { facts, .. } => facts.iter_mut().find(|shown| !shown.withheld.is_empty()),
            _ => None,
        })?;
        shown.value.as_mut()?["owner"] = json!("owner-of-a");
        Some(())
    }),
    ("what is withheld was not said", |history| {
        let mut answers = history.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
        let shown = answers.find_map(|answer| match answer {
            Answered::Observed { facts, .. } => facts.iter_mut().find(|shown| !shown.withheld.is_empty()),
            _ => None,
        })?;
        shown.withheld.clear();
        Some(())
    }),
    ("a fact was shown to an agent without a grant", |history| {
        let operation = history.operations.iter_mut().find(|operation| {
            operation.by == "pay-1"
                && matches!(&operation.answer, Some(Answered::Observed { facts, .. })
                    if facts.iter().any(|shown| shown.fact.starts_with("Transfer")))
        })?;
        operation.by = "fraud-1".to_owned();
        Some(())
    }),
    ("an agent was refused a fact that it may see", |history| {
        let operation = history.operations.iter_mut().find(
            |operation| matches!(&operation.answer, Some(Answered::Observed { facts, .. }) if !facts.is_empty()),
        )?;
        let Asked::Observe { facts } = &operation.asked else { return None };
        operation.answer = Some(Answered::NotObservable { facts: facts.clone() });
        Some(())
    }),
];

/// An approval that did its action; a void one has an entry too.
fn is_approval(entry: &LogEntry) -> bool {
    entry.leaf["kind"] == "approval" && entry.leaf["verdict"] != "rejected"
}

fn is_ended(entry: &LogEntry) -> bool {
    is_approval(entry) || entry.leaf["kind"] == "refusal"
}

fn is_signed(entry: &LogEntry) -> bool {
    entry.leaf["auth"] == "signature"
}

/// The operation that was answered with an entry.
fn operation_of(history: &mut History, at: usize) -> Option<&mut Operation> {
    history.operations.iter_mut().find(|operation| index_of(&operation.answer) == Some(at as u64))
}

fn unsign(history: &mut History, at: usize) -> Option<()> {
    history.entries[at].leaf["auth"] = json!("none");
    history.entries[at].payload.as_object_mut()?.remove("signed");
    operation_of(history, at)?.signed_with = None;
    Some(())
}

fn sign_with(history: &mut History, at: usize, key: String) -> Option<()> {
    history.entries[at].payload["signed"]["key"] = json!(key);
    operation_of(history, at)?.signed_with = Some(key);
    Some(())
}
