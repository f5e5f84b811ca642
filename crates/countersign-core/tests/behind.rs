//! One table of facts, written ahead and read behind: as of every position that was not released, it shows what a state had there that
//! went no further.

use countersign_core::erase::Forgotten;
use countersign_core::fact::Fact;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId, Tag};
use countersign_core::record::{Context, Entry, Event};
use countersign_core::state::{SHARDS, State};
use countersign_core::value::Attributes;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const FACTS: u8 = 5;

/// What the next entry does to which fact.
#[derive(Debug, Clone, Copy)]
enum Step {
    Feed(u8, u8),
    Delete(u8),
    Confirm(u8),
    Forget(u8),
    /// Readers have come to a position so far in front of the newest entry.
    Sync(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..FACTS, any::<u8>()).prop_map(|(fact, value)| Step::Feed(fact, value)),
        2 => (0..FACTS).prop_map(Step::Delete),
        1 => (0..FACTS).prop_map(Step::Confirm),
        2 => (0..FACTS).prop_map(Step::Forget),
        1 => (0..4u8).prop_map(Step::Sync),
    ]
}

/// Agents are kept by readers themselves, so the first of the facts is one.
fn id(fact: u8) -> FactId {
    let ty = if fact == 0 { "Agent" } else { "Note" };
    format!("{ty}::\"{fact}\"").parse().unwrap()
}

fn event(state: &State, step: Step) -> Option<Event> {
    let feed = |fact: u8, value: Option<Attributes>| {
        let mut write = state.feed(&id(fact), value);
        write.tag.get_or_insert(Tag([fact + 1; 12]));
        Event::Feed { write, held: None }
    };
    match step {
        Step::Feed(fact, value) => {
            let value = json!({ "text": value });
            Some(feed(fact, Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap())))
        }
        Step::Delete(fact) => state.facts.get(&id(fact)).map(|_| feed(fact, None)),
        Step::Confirm(fact) => {
            let held = state.facts.get(&id(fact))?;
            Some(Event::Confirm { fact: held.id.clone(), tag: held.tag, version: held.version() })
        }
        Step::Forget(fact) => {
            let held = state.facts.get(&id(fact)).filter(|held| held.value.is_none())?;
            let forgotten = vec![Forgotten { tag: held.tag, version: held.version() }];
            Some(Event::Erasure { entries: Vec::new(), forgotten, reason: "a test".to_owned() })
        }
        Step::Sync(_) => None,
    }
}

fn by_id<'a>(facts: impl Iterator<Item = &'a Arc<Fact>>) -> BTreeMap<String, Arc<Fact>> {
    facts.map(|fact| (fact.id.to_string(), Arc::clone(fact))).collect()
}

fn compare(ahead: &State, behind: &State, position: u64) {
    for fact in (0..FACTS).map(id) {
        assert_eq!(ahead.facts.get_as_of(&fact, position), behind.facts.get(&fact), "{fact} as of {position}");
    }
    assert_eq!(ahead.facts.len_as_of(position), behind.facts.len(), "as of {position}");
    let whole = behind.with_facts_of(ahead, position);
    assert!(whole == *behind, "as of {position}");
    // In the shards, from which snapshots are made, each is there once, also what was forgotten since.
    let shards: Vec<&Arc<Fact>> = (0..SHARDS).flat_map(|shard| ahead.facts.shard_as_of(shard, position)).collect();
    assert_eq!(shards.len(), behind.facts.len(), "as of {position}");
    assert_eq!(by_id(shards.into_iter()), by_id(behind.facts.iter()), "as of {position}");
}

proptest! {
    #[test]
    fn what_is_read_behind_the_writer_is_what_was_there(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut ahead = State::default();
        ahead.facts.keep_replaced();
        // The readers' own part, and what a state had at each position that no one went past.
        let mut own = ahead.without_facts();
        // Entry 0 begins a log and writes no fact.
        let mut positions = vec![State::default(); 2];
        let (mut released, mut next) = (1u64, 1u64);
        for step in steps {
            if let Step::Sync(behind) = step {
                released = released.max(next.saturating_sub(behind.into()));
                ahead.facts.release(released);
            }
            if let Some(event) = event(&ahead, step) {
                let (by, context) = (AgentId::gate(), Context::default());
                let entry = Entry { index: next, time_ms: next, by, auth: Auth::None, context, event };
                let mut state = positions.last().unwrap().clone();
                state.apply(&entry);
                positions.push(state);
                ahead.apply(&entry);
                own.apply(&entry);
                next += 1;
            }
            for position in released..=next {
                compare(&ahead, &positions[usize::try_from(position).unwrap()], position);
            }
            prop_assert!(own.facts.iter().all(|fact| fact.id.ty().as_str() == "Agent"));
            prop_assert_eq!(own.facts.get(&id(0)), ahead.facts.get(&id(0)));
        }
    }
}
